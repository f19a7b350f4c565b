package cli

import (
	"fmt"
	"strings"
)

// resourceName is kubectl's name of an object of a Kind.group: in lower case, a slash, and the object's name.
func resourceName(groupKind, name string) string { return strings.ToLower(groupKind) + "/" + name }

// plural is a count with its noun.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// enumerate joins words as a sentence does: a, b and c.
func enumerate(words []string) string {
	switch n := len(words); n {
	case 0:
		return ""
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
}
