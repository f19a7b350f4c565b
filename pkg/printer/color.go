package printer

import (
	"io"
	"os"
	"regexp"

	"k8s.io/cli-runtime/pkg/printers"
)

const (
	styleGreen  = "\x1b[32m"
	styleYellow = "\x1b[33m"
	styleRed    = "\x1b[31m"
	styleReset  = "\x1b[0m"
)

var style = regexp.MustCompile("\x1b\\[[0-9;]*m")

// StripStyle takes colours out of text that was sanitised before they were put in.
func StripStyle(s string) string { return style.ReplaceAllString(s, "") }

// Color says whether to colour what is written to w: only a terminal, and not where NO_COLOR is set. A colour never tells
// anything that the words do not.
func Color(w io.Writer) bool {
	if os.Getenv("TERM") == "dumb" {
		return false
	}
	return printers.AllowsColorOutput(w)
}

// paint colours a word of health.
func paint(word string) string {
	switch word {
	case "Healthy":
		return styleGreen + word + styleReset
	case "Degraded", "Unknown", "Syncing":
		return styleYellow + word + styleReset
	case "Unhealthy", "Missing":
		return styleRed + word + styleReset
	default:
		return word
	}
}
