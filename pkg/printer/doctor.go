package printer

import (
	"fmt"
	"io"
	"strings"

	"github.com/etcdmember/kubectl-etcdmember/pkg/health"
)

// WriteFindings prints for each cluster the glance and below it its findings, worst first, each with what to do next.
func WriteFindings(w io.Writer, reports []health.Report, o StatusOptions) error {
	var b strings.Builder
	for i, r := range reports {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(&b, Glance(r, o))
		for _, f := range r.Findings {
			severity := strings.ToUpper(string(f.Severity))
			if o.Color {
				severity = paintSeverity(f.Severity, severity)
			}
			message := f.Message
			if f.Subject != "" {
				message = f.Subject + ": " + message
			}
			fmt.Fprintf(&b, "  %s %s: %s\n", severity, f.Code, Sanitize(message))
			if f.Advice != "" {
				fmt.Fprintf(&b, "      next: %s\n", Sanitize(f.Advice))
			}
		}
	}
	return trimLines(w, strings.NewReader(b.String()))
}

func paintSeverity(s health.Severity, word string) string {
	switch s {
	case health.Critical:
		return styleRed + word + styleReset
	case health.Warning:
		return styleYellow + word + styleReset
	default:
		return word
	}
}
