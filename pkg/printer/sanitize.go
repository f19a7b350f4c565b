// Package printer makes what people and scripts read: tables, and the documents behind -o. Nothing else writes what came
// from a cluster to a terminal, because here is where it is made safe.
package printer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sanitize makes a string from a cluster safe and fit for one cell of a terminal's table: whatever could move the cursor,
// change the terminal or split the line becomes visible. Names in Kubernetes are harmless, but messages, labels, etcd's
// own member names and foreign objects are anybody's.
func Sanitize(s string) string { return sanitize(s, false) }

// SanitizeMultiline is Sanitize for text that may have lines and tabs.
func SanitizeMultiline(s string) string { return sanitize(s, true) }

func sanitize(s string, lines bool) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case (r == '\n' || r == '\t') && lines:
			b.WriteRune(r)
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case r == utf8.RuneError && size <= 1:
			b.WriteRune(utf8.RuneError)
		case r == 0x1b:
			b.WriteString("^[")
		case !printable(r):
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// clean says whether s needs no change: nearly all strings do not.
func clean(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// printable excludes, besides control characters, those that turn the direction of text or hide in it.
func printable(r rune) bool {
	switch {
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r), r == 0x2028, r == 0x2029:
		return false
	default:
		return unicode.IsPrint(r)
	}
}
