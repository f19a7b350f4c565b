package agent

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
)

var t0 = time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)

// graph is the transition graph written out by hand, from DEP-04's table "Reason Codes" and the design's additions. The
// code builds it by rule; here it is a table, so that an edge that appears or disappears by mistake is seen.
// Columns are the stage gone to; a letter is the first reason (see letters), a dot no edge.
const graph = `
from              New  San  Full Rest Pend Lear Foll Lead
unknown           U    o    o    o    o    o    o    o
New               H    c    u    .    w    .    f    f
Sanity            V    c    u    v    w    .    s    s
Full              V    c    u    v    w    .    s    s
Restoration       V    c    u    .    w    .    o    r
PendingLearner    H    c    u    .    w    j    .    .
Learner           H    c    u    .    w    .    p    .
Follower          H    c    u    .    w    .    .    g
Leader            H    c    u    .    w    .    l    .
`

var letters = map[string]string{
	"U": v1alpha1.ReasonClusterScaledUp, "o": v1alpha1.ReasonMemberObserved, "H": v1alpha1.ReasonHeld,
	"c": v1alpha1.ReasonDetectedPreviousCleanExit, "u": v1alpha1.ReasonDetectedPreviousUncleanExit,
	"w": v1alpha1.ReasonWaitingToJoinAsLearner, "f": v1alpha1.ReasonClusterFounded,
	"V": v1alpha1.ReasonDBValidationFailed, "v": v1alpha1.ReasonDBValidationFailed, "s": v1alpha1.ReasonDBValidationSucceeded,
	"r": v1alpha1.ReasonRestorationSucceeded, "j": v1alpha1.ReasonJoinedAsLearner, "p": v1alpha1.ReasonPromotedAsVotingMember,
	"g": v1alpha1.ReasonGainedClusterLeadership, "l": v1alpha1.ReasonLostClusterLeadership,
}

func TestGraph(t *testing.T) {
	rows := append([]stage{unknown}, stages...)
	var cells [][]string
	for line := range lines(graph) {
		cells = append(cells, line[1:])
	}
	cells = cells[1:]
	if len(cells) != len(rows) {
		t.Fatalf("the table has %d rows: want %d", len(cells), len(rows))
	}
	for i, from := range rows {
		for j, to := range stages {
			t.Run(fmt.Sprintf("%s to %s", from, to), func(t *testing.T) {
				first := ""
				for _, e := range edges {
					if e.from == from && e.to == to && first == "" {
						first = e.reasons[0]
					}
				}
				if want := letters[cells[i][j]]; first != want {
					t.Errorf("first reason is %q: want %q", first, want)
				}
			})
		}
	}
}

func TestReasonsOfDEP04(t *testing.T) {
	// Each row of DEP-04's table, with every from and to that it names.
	for _, row := range []struct {
		reason   string
		from, to []stage
	}{
		{"ClusterScaledUp", []stage{unknown}, []stage{stageNew}},
		{"NewSingleNodeClusterCreated", []stage{unknown}, []stage{stageNew}},
		{"DetectedPreviousCleanExit", []stage{stageNew, stageLeader, stageFollower}, []stage{stageSanity}},
		{"DetectedPreviousUncleanExit", []stage{stageNew, stageLeader, stageFollower}, []stage{stageFull}},
		{"DBValidationFailed", []stage{stageSanity, stageFull}, []stage{stageRestoration, stageNew}},
		{"DBValidationSucceeded", []stage{stageSanity, stageFull}, []stage{stageLeader, stageFollower}},
		{"RestorationSucceeded", []stage{stageRestoration}, []stage{stageLeader}},
		{"WaitingToJoinAsLearner", []stage{stageNew}, []stage{stagePending}},
		{"JoinedAsLearner", []stage{stagePending}, []stage{stageLearner}},
		{"PromotedAsVotingMember", []stage{stageLearner}, []stage{stageFollower}},
		{"GainedClusterLeadership", []stage{stageFollower}, []stage{stageLeader}},
		{"LostClusterLeadership", []stage{stageLeader}, []stage{stageFollower}},
		{"DBCorruptionDetected", []stage{stageFull}, []stage{stageNew}}, // In its example.
	} {
		for _, from := range row.from {
			for _, to := range row.to {
				if !allowed(from, to, row.reason) {
					t.Errorf("%s from %s to %s is not in the graph", row.reason, from, to)
				}
			}
		}
	}
}

// TestAdvance goes from every stage to every stage that a sidecar can see.
func TestAdvance(t *testing.T) {
	for _, tc := range []struct {
		to   stage
		want map[stage]string // by where it comes from: reasons, in order
	}{
		{stageLeader, map[stage]string{
			unknown: "MemberObserved", stageNew: "ClusterFounded", stageSanity: "DBValidationSucceeded", stageFull: "DBValidationSucceeded",
			stageRestoration: "RestorationSucceeded", stagePending: "JoinedAsLearner PromotedAsVotingMember GainedClusterLeadership",
			stageLearner: "PromotedAsVotingMember GainedClusterLeadership", stageFollower: "GainedClusterLeadership", stageLeader: "",
		}},
		{stageFollower, map[stage]string{
			unknown: "MemberObserved", stageNew: "ClusterFounded", stageSanity: "DBValidationSucceeded", stageFull: "DBValidationSucceeded",
			stageRestoration: "MemberObserved", stagePending: "JoinedAsLearner PromotedAsVotingMember",
			stageLearner: "PromotedAsVotingMember", stageFollower: "", stageLeader: "LostClusterLeadership",
		}},
		{stageLearner, map[stage]string{
			unknown: "MemberObserved", stageNew: "WaitingToJoinAsLearner JoinedAsLearner", stageSanity: "WaitingToJoinAsLearner JoinedAsLearner",
			stageFull: "WaitingToJoinAsLearner JoinedAsLearner", stageRestoration: "WaitingToJoinAsLearner JoinedAsLearner",
			stagePending: "JoinedAsLearner", stageLearner: "", stageFollower: "WaitingToJoinAsLearner JoinedAsLearner",
			stageLeader: "WaitingToJoinAsLearner JoinedAsLearner",
		}},
	} {
		for _, from := range append([]stage{unknown}, stages...) {
			t.Run(fmt.Sprintf("%s to %s", from, tc.to), func(t *testing.T) {
				h := history(nil)
				if from != unknown {
					h = h.advance(from, t0)
				}
				before := len(h)
				h = h.advance(tc.to, t0.Add(time.Second))
				got := ""
				for i, tr := range h[before:] {
					got += tr.Reason + " "
					if seen := i == len(h)-before-1; seen != (tr.Message == "") {
						t.Errorf("%s: message is %q: want one only on what was not seen", tr.Reason, tr.Message)
					}
				}
				want := tc.want[from]
				if want != "" {
					want += " "
				}
				if got != want {
					t.Errorf("reasons are %q: want %q", got, want)
				}
				if h.last() != tc.to {
					t.Errorf("ends in %s", h.last())
				}
				if err := CheckTransitions(h); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestAdvanceFromForeignStage(t *testing.T) {
	h := history{{State: "Zombie", Reason: "Whatever", TransitionTime: metav1.NewMicroTime(t0)}}
	h = h.advance(stageFollower, t0.Add(time.Second))
	if len(h) != 2 || h[1].Reason != v1alpha1.ReasonMemberObserved {
		t.Errorf("got %+v: want the foreign stage kept and the new one observed", h)
	}
}

// TestRandomWalk: whatever is seen in whatever order, with a clock that jumps, across agents that come and go and objects
// that lag behind, what is published is legal, complete and without duplicates.
func TestRandomWalk(t *testing.T) {
	seen := []stage{stageLearner, stageFollower, stageLeader}
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 4))
		var mine history
		var published []v1alpha1.Transition
		now := t0
		for step := range 60 {
			now = now.Add(time.Duration(r.IntN(4000)-500) * time.Millisecond)
			switch r.IntN(8) {
			case 0: // Published, read back from JSON.
				text, err := json.Marshal(mine)
				if err != nil {
					t.Fatal(err)
				}
				published = nil
				if err := json.Unmarshal(text, &published); err != nil {
					t.Fatal(err)
				}
			case 1: // The agent restarts, and sees the member before it sees the object.
				restarted := history(nil).advance(seen[r.IntN(3)], now)
				mine = restarted.resume(published)
			case 2: // It reads the object again.
				before := slices.Clone(mine)
				mine = mine.resume(published)
				if len(mine) < v1alpha1.MaxTransitions && len(mine) < len(before) {
					t.Fatalf("seed %d step %d: resuming lost some of %d transitions", seed, step, len(before))
				}
			default:
				to := seen[r.IntN(3)]
				mine = mine.advance(to, now)
				if mine.last() != to {
					t.Fatalf("seed %d step %d: seen in %s, published as %s", seed, step, to, mine.last())
				}
			}
			if err := CheckTransitions(mine); err != nil {
				t.Fatalf("seed %d step %d: %v\n%v", seed, step, err, mine)
			}
			for i := 1; i < len(mine); i++ {
				if stageOf(mine[i]) == stageOf(mine[i-1]) {
					t.Fatalf("seed %d step %d: %s is there twice in a row", seed, step, stageOf(mine[i]))
				}
			}
		}
	}
}

func TestResume(t *testing.T) {
	at := func(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }
	published := history(nil).advance(stageFollower, at(0)).advance(stageLeader, at(10))
	for name, tc := range map[string]struct {
		mine history
		want string
	}{
		"nothing seen yet": {nil, "MemberObserved GainedClusterLeadership"},
		"seen as it was":   {history(nil).advance(stageLeader, at(20)), "MemberObserved GainedClusterLeadership"},
		"another role":     {history(nil).advance(stageFollower, at(20)), "MemberObserved GainedClusterLeadership LostClusterLeadership"},
		"several changes":  {history(nil).advance(stageFollower, at(20)).advance(stageLeader, at(30)), "MemberObserved GainedClusterLeadership LostClusterLeadership GainedClusterLeadership"},
		"its own, continued": {published.advance(stageFollower, at(20)).advance(stageLeader, at(30)),
			"MemberObserved GainedClusterLeadership LostClusterLeadership GainedClusterLeadership"},
		"its own":                  {published, "MemberObserved GainedClusterLeadership"},
		"a clock that is set back": {history(nil).advance(stageFollower, at(-50)), "MemberObserved GainedClusterLeadership LostClusterLeadership"},
		"came back as a learner":   {history(nil).advance(stageLearner, at(20)), "MemberObserved GainedClusterLeadership WaitingToJoinAsLearner JoinedAsLearner"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			merged := tc.mine.resume(published)
			for i, tr := range merged {
				if i > 0 {
					got += " "
				}
				got += tr.Reason
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if err := CheckTransitions(merged); err != nil {
				t.Error(err)
			}
		})
	}
	if got := published.resume(nil); !slices.EqualFunc(got, published, sameTransition) {
		t.Errorf("an empty object loses the history: %v", got)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	var h history
	for i := range 50 {
		h = h.advance([]stage{stageFollower, stageLeader}[i%2], t0.Add(time.Duration(i)*time.Second))
	}
	if len(h) != v1alpha1.MaxTransitions || h.last() != stageLeader {
		t.Errorf("%d transitions, last %s", len(h), h.last())
	}
	if err := CheckTransitions(h); err != nil {
		t.Error(err)
	}
}

func TestCheckTransitions(t *testing.T) {
	good := history(nil).advance(stageLearner, t0).advance(stageFollower, t0.Add(time.Second))
	for name, tc := range map[string]struct {
		change func(history) history
		want   string
	}{
		"no edge":      {func(h history) history { h[1].SubState = v1alpha1.SubStateLeader; return h }, "from Starting/Learner to Started/Leader"},
		"wrong reason": {func(h history) history { h[1].Reason = v1alpha1.ReasonHeld; return h }, "with reason Held"},
		"wrong start":  {func(h history) history { return h[1:] }, "from unknown to Started/Follower"},
		"time":         {func(h history) history { h[1].TransitionTime = metav1.NewMicroTime(t0.Add(-1)); return h }, "is before its predecessor"},
		"too many":     {func(h history) history { return slices.Repeat(h, 11) }, "22 transitions"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := CheckTransitions(tc.change(slices.Clone(good))); err == nil || !containsText(err.Error(), tc.want) {
				t.Errorf("got %v: want an error with %q", err, tc.want)
			}
		})
	}
}
