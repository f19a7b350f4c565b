package printer

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/etcdmember/kubectl-etcdmember/pkg/health"
)

// WriteMember prints all that is known of one member, with who has told it and when, and what was found.
func WriteMember(w io.Writer, r health.Report, m health.MemberReport, o StatusOptions) error {
	d := description{}
	d.line("Name", m.Name)
	d.line("Namespace", r.Key.Namespace)
	d.line("Cluster", r.Key.Argument())
	d.line("Pod", m.Pod)
	word := string(m.Health)
	if o.Color {
		word = paint(word)
	}
	d.styled("Health", word)
	if m.Reason != "" {
		d.line("Reason", m.Reason)
		d.line("Message", m.Message)
	}
	d.line("Role", orUnknown(m.Role))
	d.line("State", m.State.Or(unknown))
	d.line("Sub-State", m.SubState.Or("<none>"))
	d.line("ID", m.ID.Or(unknown))
	d.line("Cluster ID", m.ClusterID.Or(unknown))
	d.line("Version", m.Version.Or(unknown))
	d.line("Peer TLS", onOff(m.PeerTLS))
	d.line("Alarms", alarms(m, r.At))
	d.section("Database")
	d.line("  Size", size(m.DBSize))
	d.line("  In Use", size(m.DBSizeInUse))
	d.line("  Quota", size(m.DBSizeQuota)+" ("+share(m.DBSize, m.DBSizeQuota)+" used)")
	d.line("  Revision", whole(m.Revision))
	d.section("Raft")
	d.line("  Term", whole(m.RaftTerm))
	d.line("  Index", whole(m.RaftIndex))
	d.line("  Applied", whole(m.RaftAppliedIndex))
	d.section("Volume")
	if v, ok := m.Volume.Get(); ok {
		d.line("  Claim", orUnknown(v.Claim))
		d.line("  Claim UID", orUnknown(v.ClaimUID))
		d.line("  Volume", orUnknown(v.Name))
		d.line("  Handle", orUnknown(v.Handle))
		d.line("  Storage Class", orUnknown(v.StorageClass))
		d.line("  Capacity", Bytes(v.Capacity))
		if v.AvailableKnown {
			d.line("  Available", Bytes(v.Available))
		}
	} else {
		d.line("  Claim", unknown)
	}
	d.section("Published")
	d.line("  By", orUnknown(string(source(m.Member))))
	if at, ok := m.Published.Get(); ok {
		d.line("  At", at.UTC().Format("2006-01-02T15:04:05Z")+" ("+since(at, r.At)+" ago)")
	}
	d.line("  Last Seen", ago(seen(m.Heartbeat, r.At)))
	if c, ok := m.Ready.Get(); ok {
		ready := fmt.Sprintf("%s (%s), for %s", c.Status, c.Reason, since(c.Since, r.At))
		if c.Message != "" {
			ready += ": " + c.Message
		}
		d.line("Ready", ready)
	}
	if _, err := io.WriteString(w, d.String()); err != nil {
		return err
	}

	findings := slices.DeleteFunc(slices.Clone(r.Findings), func(f health.Finding) bool { return f.Subject != m.Name })
	if _, err := fmt.Fprintf(w, "Findings:%s\n", noneIf(len(findings) == 0)); err != nil {
		return err
	}
	for _, f := range findings {
		if _, err := fmt.Fprintf(w, "  %s %s: %s\n", strings.ToUpper(string(f.Severity)), f.Code, Sanitize(f.Message)); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(w, "Transitions:%s\n", noneIf(len(m.Transitions) == 0)); err != nil {
		return err
	}
	if len(m.Transitions) == 0 {
		return nil
	}
	only := r
	only.Members = []health.MemberReport{m}
	var table strings.Builder
	if err := WriteTimeline(&table, Timeline([]health.Report{only}), r.At, StatusOptions{}); err != nil {
		return err
	}
	_, err := io.WriteString(w, indent(table.String()))
	return err
}

func noneIf(none bool) string {
	if none {
		return "  <none>"
	}
	return ""
}

// ago makes an age a sentence's end, and leaves what is none.
func ago(age string) string {
	if age == "never" || age == unknown {
		return age
	}
	return age + " ago"
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

// description is lines of a name and a value, below each other.
type description struct{ strings.Builder }

func (d *description) line(name, value string) { d.styled(name, Sanitize(value)) }

// styled is line for a value that is already safe.
func (d *description) styled(name, value string) {
	fmt.Fprintf(d, "%-18s %s\n", name+":", value)
}

func (d *description) section(name string) { fmt.Fprintf(d, "%s:\n", name) }
