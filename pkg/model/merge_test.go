package model

import (
	"testing"
	"time"
)

func TestMerge(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		a, b Fact[string]
		want Source
	}{
		"nothing known":                                  {Fact[string]{}, Fact[string]{}, ""},
		"one known":                                      {Fact[string]{}, Known("x", SourcePod, now), SourcePod},
		"the nearer of two of the same time":             {Known("x", SourceMemberLease, now), Known("y", SourceAgent, now), SourceAgent},
		"the nearer although a little older":             {Known("x", SourceAgent, ago(time.Minute)), Known("y", SourceMemberLease, now), SourceAgent},
		"the farther where the nearer is of another age": {Known("x", SourceAgent, ago(time.Minute+1)), Known("y", SourceMemberLease, now), SourceMemberLease},
		"a time that is not told is never newer":         {Known("x", SourceAgent, ago(time.Hour)), Known("y", SourceMemberLease, time.Time{}), SourceAgent},
		"live before all":                                {Known("x", SourceAgent, now), Known("y", SourceLive, ago(time.Second)), SourceLive},
		"nearer without a time":                          {Known("x", SourceAgent, time.Time{}), Known("y", SourceMemberLease, now), SourceAgent},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Merge(c.a, c.b); got.Source != c.want {
				t.Errorf("got %s, want %s", got.Source, c.want)
			}
			if got := Merge(c.b, c.a); got.Source != c.want {
				t.Errorf("the other way round: got %s, want %s", got.Source, c.want)
			}
		})
	}
}
