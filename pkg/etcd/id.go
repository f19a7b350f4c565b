package etcd

import (
	"fmt"
	"strconv"
	"strings"
)

// ID is the ID of a member or of a cluster. 0 is never a valid one: etcd uses it for "none".
type ID uint64

// String is the ID as etcdctl prints it: lower-case hexadecimal without padding, for example 8e9e05c52164694d.
func (id ID) String() string { return FormatID(uint64(id)) }

// MarshalText makes IDs strings in JSON and YAML: JSON readers lose the last digits of a 64-bit number.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what ParseID reads.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// FormatID is the ID as etcdctl prints it: lower-case hexadecimal without padding.
func FormatID(id uint64) string { return strconv.FormatUint(id, 16) }

// maxHexDigits is the length of the longest 64-bit number in hexadecimal. All-digit strings that are longer can only be
// decimal, as etcd's JSON and its logs of version 3.4 have them.
const maxHexDigits = 16

// ParseID reads an ID in hexadecimal, with or without 0x, padding or capitals, and in decimal where that is unambiguous,
// which is from 17 digits on. Fewer digits are hexadecimal: that is how etcd's own tools print IDs.
func ParseID(s string) (ID, error) {
	trimmed := strings.TrimSpace(s)
	hex, prefixed := strings.CutPrefix(strings.ToLower(trimmed), "0x")
	base := 16
	if !prefixed && len(hex) > maxHexDigits && strings.Trim(hex, "0123456789") == "" {
		base = 10
	}
	if strings.HasPrefix(hex, "+") || strings.HasPrefix(hex, "_") {
		return 0, fmt.Errorf("reading etcd ID %q: want a hexadecimal number of at most %d digits", s, maxHexDigits)
	}
	id, err := strconv.ParseUint(hex, base, 64)
	if err != nil {
		return 0, fmt.Errorf("reading etcd ID %q: want a hexadecimal number of at most %d digits: %w", s, maxHexDigits, err)
	}
	return ID(id), nil
}
