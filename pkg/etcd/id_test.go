package etcd

import (
	"encoding/json"
	"math"
	"testing"
)

func TestParseID(t *testing.T) {
	for text, want := range map[string]ID{
		"8e9e05c52164694d":     0x8e9e05c52164694d,
		"8E9E05C52164694D":     0x8e9e05c52164694d,
		"0x8e9e05c52164694d":   0x8e9e05c52164694d,
		"0X8e9e05c52164694d":   0x8e9e05c52164694d,
		" cdf818194e3a8c32\n":  0xcdf818194e3a8c32,
		"10276657743932975437": 10276657743932975437, // 20 digits can only be decimal.
		"18446744073709551615": math.MaxUint64,
		"12345678901234567":    12345678901234567,  // 17 digits, likewise.
		"1234567890123456":     0x1234567890123456, // 16 digits can be both: hexadecimal, as etcdctl prints them.
		"10":                   0x10,
		"a":                    0xa,
		"0":                    0,
		"000000000000000a":     0xa,
	} {
		if got, err := ParseID(text); err != nil || got != want {
			t.Errorf("ParseID(%q) is %d, %v: want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0x", "xyz", "-1", "+1", "1_0", "_1", "0x_1", "8e9e05c52164694d0", "18446744073709551616", "1.5", "0x0x1"} {
		if got, err := ParseID(text); err == nil {
			t.Errorf("ParseID(%q) is %s: want an error", text, got)
		}
	}
}

func TestIDIsAStringInJSON(t *testing.T) {
	text, err := json.Marshal(map[string]ID{"id": math.MaxUint64 - 1})
	if err != nil || string(text) != `{"id":"fffffffffffffffe"}` {
		t.Errorf("%s, %v", text, err)
	}
	var back map[string]ID
	if err := json.Unmarshal(text, &back); err != nil || back["id"] != math.MaxUint64-1 {
		t.Errorf("%v, %v", back, err)
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("8e9e05c52164694d")
	f.Add("10276657743932975437")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseID(text)
		if err != nil {
			return
		}
		if again, err := ParseID(id.String()); err != nil || again != id {
			t.Errorf("%q is %s, which reads back as %s, %v", text, id, again, err)
		}
	})
}
