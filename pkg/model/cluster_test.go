package model

import (
	"strings"
	"testing"
)

func TestNaturalOrder(t *testing.T) {
	ms := []Member{{Name: "main-10"}, {Name: "main-2"}, {Name: "a-1"}, {Name: "main-02"}, {Name: "main"}}
	SortMembers(ms)
	var got []string
	for _, m := range ms {
		got = append(got, m.Name)
	}
	if want := "a-1 main main-2 main-02 main-10"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
