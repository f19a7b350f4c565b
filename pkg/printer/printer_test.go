package printer

import (
	"fmt"
	"strings"
	"testing"
)

func TestSanitize(t *testing.T) {
	for in, want := range map[string]string{
		"main-0":                "main-0",
		"größe 大":               "größe 大",
		"a\x1b[31mred":          "a^[[31mred",
		"a\x1b]0;title\x07b":    "a^[]0;title\ufffdb",
		"a\rb\nc\td":            "a b c d",
		"a\u202eb\u2066c\ufeff": "a\ufffdb\ufffdc\ufffd",
		"a\x9b31mb":             "a\ufffd31mb", // an 8-bit CSI is no UTF-8
		"a\u009b31mb":           "a\ufffd31mb",
		"a\x00b\x7fc":           "a\ufffdb\ufffdc",
		"\xff\xfe":              "\ufffd\ufffd",
		"":                      "",
	} {
		if got := Sanitize(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got, want := SanitizeMultiline("a\n\tb\x1b[2J"), "a\n\tb^[[2J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzSanitize(f *testing.F) {
	f.Add("a\x1b[31mb\u202e\n")
	f.Fuzz(func(t *testing.T, s string) {
		once := Sanitize(s)
		for _, r := range once {
			if r < ' ' || (r >= 0x7f && r < 0xa0) {
				t.Errorf("%q became %q, which still has a control character", s, once)
			}
		}
		if Sanitize(once) != once {
			t.Errorf("%q is not safe after once", s)
		}
	})
}

// TestTableSizes: what a table looks like does not depend on which of the two libraries prints it.
func TestTableSizes(t *testing.T) {
	lines := func(rows int) []string {
		table := Table{Header: []string{"NAME", "VALUE"}}
		for i := range rows {
			table.Rows = append(table.Rows, []string{fmt.Sprintf("name-%06d", i), "x\x1b[1m"})
		}
		var b strings.Builder
		if err := table.Write(&b); err != nil {
			t.Fatal(err)
		}
		return strings.Split(b.String(), "\n")
	}
	small, large := lines(manyRows), lines(manyRows+1)
	for i := range manyRows + 1 {
		if small[i] != large[i] {
			t.Errorf("line %d: %q in a small table, %q in a large one", i, small[i], large[i])
		}
		if strings.TrimRight(small[i], " ") != small[i] {
			t.Errorf("line %d ends in a space: %q", i, small[i])
		}
	}
}

func TestColouredTable(t *testing.T) {
	table := Table{Header: []string{"A", "B"}, Rows: [][]string{{"Healthy", "x"}, {"Unhealthy", "Healthy"}}}
	var plain, coloured strings.Builder
	if err := table.Write(&plain); err != nil {
		t.Fatal(err)
	}
	table.Style = func(_, _ int, cell string) string { return paint(cell) }
	if err := table.Write(&coloured); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(coloured.String(), styleGreen+"Healthy"+styleReset) {
		t.Errorf("not coloured: %q", coloured.String())
	}
	if got := StripStyle(coloured.String()); got != plain.String() {
		t.Errorf("colour changes more than the colour: %q, want %q", got, plain.String())
	}
}

func TestBytes(t *testing.T) {
	for in, want := range map[int64]string{0: "0", 1023: "1023", 1024: "1Ki", 1536: "1.5Ki", 20 << 20: "20Mi", 1<<30 + 1<<29: "1.5Gi", 1 << 40: "1Ti"} {
		if got := Bytes(in); got != want {
			t.Errorf("%d: got %s, want %s", in, got, want)
		}
	}
}
