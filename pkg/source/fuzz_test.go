package source

import (
	"encoding/json"
	"regexp"
	"strconv"
	"testing"
	"time"
)

var canonicalID = regexp.MustCompile(`^(0|[1-9a-f][0-9a-f]{0,15})$`)

// FuzzHolder reads what may be in a member Lease: whatever is there, what is taken out of it can be written and read again.
func FuzzHolder(f *testing.F) {
	for _, s := range []string{
		"f7f5d9529d3cd56e:5b06ae484af45933:Leader", "761d9b4e541d771:1f83ed336f6c7ef5:Member", "9b07d41409fb93:1f83ed336f6c7ef5:Member",
		"f7f5d9529d3cd56e:Leader", "27d063c7b338a8bd:Member", "", ":", "::", ":::", "0:0:", "31", "etcd-main-0_7d9c", "0xF7F5:0x5b06:Learner",
		"12099287729638567580:6559121532830112051:Leader", "f7f5d9529d3cd56e:5b06ae484af45933:Leader\x1b[31m", "-1:1:Leader", "1_0:1:Leader",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHolder(s)
		if err != nil {
			if h != (holder{}) {
				t.Errorf("%q is refused, and yet read as %+v", s, h)
			}
			return
		}
		if !canonicalID.MatchString(h.id) || (h.clusterID != "" && !canonicalID.MatchString(h.clusterID)) || h.role == "" {
			t.Errorf("%q is read as %+v", s, h)
		}
		text := h.id + ":" + h.role
		if h.clusterID != "" {
			text = h.id + ":" + h.clusterID + ":" + h.role
		}
		if again, err := parseHolder(text); err != nil || again != h {
			t.Errorf("%q is read as %+v, and %q as %+v, %v", s, h, text, again, err)
		}
	})
}

// FuzzEtcdID reads an ID as it may be in JSON: a number is decimal, and what is read is read the same again.
func FuzzEtcdID(f *testing.F) {
	for _, s := range []string{
		`"f7f5d9529d3cd56e"`, `"761d9b4e541d771"`, `"9b07d41409fb93"`, `"8e9e05c52164694d"`, `17867426045510866286`, `12099287729638567580`,
		`"17867426045510866286"`, `"0xF7F5D9529D3CD56E"`, `"00ff"`, `1`, `0`, `"0"`, `-1`, `1.5`, `1e3`, `"1e3"`, `18446744073709551615`,
		`18446744073709551616`, `null`, `true`, `{}`, `[]`, `""`, `"\u0000"`, `"` + "\u202e" + `"`, `" 1 "`, `"0x"`, `"+1"`, `"1_0"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var l lax[etcdID]
		if json.Unmarshal(b, &l) != nil || !l.OK { // it is no JSON, or no ID
			return
		}
		if !canonicalID.MatchString(string(l.Value)) {
			t.Errorf("%s is read as %q", b, l.Value)
		}
		var again lax[etcdID]
		if err := json.Unmarshal([]byte(strconv.Quote(string(l.Value))), &again); err != nil || again.Value != l.Value {
			t.Errorf("%s is read as %q, and that as %q", b, l.Value, again.Value)
		}
		if n, err := strconv.ParseUint(string(b), 10, 64); err == nil && strconv.FormatUint(n, 16) != string(l.Value) {
			t.Errorf("number %s is read as %q", b, l.Value)
		}
	})
}

// FuzzNumbers reads sizes, whole numbers and times as they may be in JSON. None is ever negative, and what can't be understood
// is kept to be told.
func FuzzNumbers(f *testing.F) {
	for _, s := range []string{
		`"16Mi"`, `"1Gi"`, `"256Mi"`, `"8Gi"`, `16777216`, `"16777216"`, `"1.5Gi"`, `"100m"`, `"1e3"`, `"1E"`, `"9223372036854775807"`, `"9223372036854775808"`,
		`"-1Gi"`, `-0`, `0`, `3`, `"3"`, `"+3"`, `1e2`, `1.0`, `99999999999999999999999999`, `"NaN"`, `"2026-12-01T03:35:41.398365Z"`,
		`"2026-12-01T03:35:41Z"`, `"2026-12-01T03:35:41+05:30"`, `"0000-01-01T00:00:00Z"`, `"9999-12-31T23:59:60Z"`, `"yesterday"`, `null`, `[]`, `{}`, `""`, `true`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var all struct {
			s lax[size]
			n lax[number]
			i lax[instant]
		}
		if json.Unmarshal(b, &all.s) != nil { // it is no JSON
			return
		}
		for _, err := range []error{json.Unmarshal(b, &all.n), json.Unmarshal(b, &all.i)} {
			if err != nil {
				t.Errorf("%s hides the fields beside it: %v", b, err)
			}
		}
		if all.s.Value < 0 || all.n.Value < 0 {
			t.Errorf("%s is read as size %d and number %d", b, all.s.Value, all.n.Value)
		}
		// What is not there is no value, and what is there is a value or is told of.
		for name, got := range map[string]struct{ ok, zero, told bool }{
			"size":   {all.s.OK, all.s.Value == 0, all.s.Bad != ""},
			"number": {all.n.OK, all.n.Value == 0, all.n.Bad != ""},
			"time":   {all.i.OK, time.Time(all.i.Value).IsZero(), all.i.Bad != ""},
		} {
			if null := isNull(b); (null && (got.ok || got.told)) || (!null && got.ok == got.told) {
				t.Errorf("%s as a %s: ok %v, told of %v", b, name, got.ok, got.told)
			}
			if !got.ok && !got.zero {
				t.Errorf("%s as a %s is refused, and yet read", b, name)
			}
		}
	})
}

func isNull(b []byte) bool {
	var v any
	return json.Unmarshal(b, &v) == nil && v == nil
}
