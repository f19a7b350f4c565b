package agent

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
)

// stage is a state with its sub-state: a node of the transition graph.
type stage struct {
	State    v1alpha1.MemberState
	SubState v1alpha1.MemberSubState
}

// The stages of a member's life. unknown is before anybody has seen the member.
var (
	unknown          = stage{}
	stageNew         = stage{State: v1alpha1.StateNew}
	stageSanity      = stage{v1alpha1.StateInitializing, v1alpha1.SubStateDBValidationSanity}
	stageFull        = stage{v1alpha1.StateInitializing, v1alpha1.SubStateDBValidationFull}
	stageRestoration = stage{v1alpha1.StateInitializing, v1alpha1.SubStateRestoration}
	stagePending     = stage{v1alpha1.StateStarting, v1alpha1.SubStatePendingLearner}
	stageLearner     = stage{v1alpha1.StateStarting, v1alpha1.SubStateLearner}
	stageFollower    = stage{v1alpha1.StateStarted, v1alpha1.SubStateFollower}
	stageLeader      = stage{v1alpha1.StateStarted, v1alpha1.SubStateLeader}
	stages           = []stage{stageNew, stageSanity, stageFull, stageRestoration, stagePending, stageLearner, stageFollower, stageLeader}
	// passable are the stages that a member can have passed unseen between two looks at its running etcd.
	passable = []stage{stagePending, stageLearner, stageFollower}
)

func (s stage) String() string {
	switch {
	case s == unknown:
		return "unknown"
	case s.SubState == "":
		return string(s.State)
	default:
		return string(s.State) + "/" + string(s.SubState)
	}
}

// edge is a change of stage and the reasons that it may have. The first is the one that is given when a change is
// observed without knowing why.
type edge struct {
	from, to stage
	reasons  []string
}

// edges is the transition graph: the table of DEP-04 ("Reason Codes"), and what that forgot.
var edges = buildEdges()

func buildEdges() []edge {
	e := []edge{
		// DEP-04.
		{unknown, stageNew, []string{v1alpha1.ReasonClusterScaledUp, v1alpha1.ReasonNewSingleNodeClusterCreated}},
		{stageSanity, stageRestoration, []string{v1alpha1.ReasonDBValidationFailed}},
		{stageFull, stageRestoration, []string{v1alpha1.ReasonDBValidationFailed}},
		{stageSanity, stageNew, []string{v1alpha1.ReasonDBValidationFailed, v1alpha1.ReasonDBCorruptionDetected}},
		{stageFull, stageNew, []string{v1alpha1.ReasonDBValidationFailed, v1alpha1.ReasonDBCorruptionDetected}},
		{stageSanity, stageFollower, []string{v1alpha1.ReasonDBValidationSucceeded}},
		{stageSanity, stageLeader, []string{v1alpha1.ReasonDBValidationSucceeded}},
		{stageFull, stageFollower, []string{v1alpha1.ReasonDBValidationSucceeded}},
		{stageFull, stageLeader, []string{v1alpha1.ReasonDBValidationSucceeded}},
		{stageRestoration, stageLeader, []string{v1alpha1.ReasonRestorationSucceeded}},
		{stagePending, stageLearner, []string{v1alpha1.ReasonJoinedAsLearner}},
		{stageLearner, stageFollower, []string{v1alpha1.ReasonPromotedAsVotingMember}},
		{stageFollower, stageLeader, []string{v1alpha1.ReasonGainedClusterLeadership}},
		{stageLeader, stageFollower, []string{v1alpha1.ReasonLostClusterLeadership}},

		// A cluster is founded.
		{stageNew, stageFollower, []string{v1alpha1.ReasonClusterFounded}},
		{stageNew, stageLeader, []string{v1alpha1.ReasonClusterFounded}},
		// A sidecar sees a member serve without having seen it start, which is all that it can say.
		{stageNew, stageFollower, []string{v1alpha1.ReasonMemberObserved}},
		{stageNew, stageLeader, []string{v1alpha1.ReasonMemberObserved}},
		{stageRestoration, stageFollower, []string{v1alpha1.ReasonMemberObserved}},
		// A restoration that failed leaves an empty member; one that was interrupted validates what it finds.
		{stageRestoration, stageNew, []string{v1alpha1.ReasonDBValidationFailed, v1alpha1.ReasonDBCorruptionDetected}},
	}
	for _, s := range stages {
		// Whoever publishes first takes the member as it is.
		e = append(e, edge{unknown, s, []string{v1alpha1.ReasonMemberObserved}})
		// A restart can happen at any time. What follows depends on what it finds: DEP-04 has this for New and Started only.
		e = append(e,
			edge{s, stageSanity, []string{v1alpha1.ReasonDetectedPreviousCleanExit, v1alpha1.ReasonMemberRestarted}},
			edge{s, stageFull, []string{v1alpha1.ReasonDetectedPreviousUncleanExit, v1alpha1.ReasonMemberRestarted}},
			edge{s, stagePending, []string{v1alpha1.ReasonWaitingToJoinAsLearner, v1alpha1.ReasonMemberRestarted}},
			// A member that may not start is New, also if it was more before.
			edge{s, stageNew, []string{v1alpha1.ReasonHeld, v1alpha1.ReasonNoPermit, v1alpha1.ReasonVolumeMismatch}},
		)
	}
	return e
}

// allowed says whether the graph has the change for that reason.
func allowed(from, to stage, reason string) bool {
	return slices.ContainsFunc(edges, func(e edge) bool {
		return e.from == from && e.to == to && slices.Contains(e.reasons, reason)
	})
}

// path is the shortest way through the graph by stages that can be passed unseen. It is nil if there is none, or if from
// and to are equal. To every stage of a running etcd (Learner, Follower, Leader) there is one from everywhere.
func path(from, to stage) []edge {
	type step struct {
		at  stage
		via []edge
	}
	if from == to {
		return nil
	}
	visited := map[stage]bool{from: true}
	for queue := []step{{at: from}}; len(queue) > 0; queue = queue[1:] {
		for _, e := range edges {
			if e.from != queue[0].at || visited[e.to] {
				continue
			}
			via := append(slices.Clone(queue[0].via), e)
			if e.to == to {
				return via
			}
			if slices.Contains(passable, e.to) {
				visited[e.to] = true
				queue = append(queue, step{at: e.to, via: via})
			}
		}
	}
	return nil
}

// notObserved is the message of a transition that must have happened between two looks.
const notObserved = "not seen itself: it lies between two observations"

// history is a member's transitions, oldest first, at most v1alpha1.MaxTransitions. All its methods return a new one.
type history []v1alpha1.Transition

// last is the stage that the member is in.
func (h history) last() stage {
	if len(h) == 0 {
		return unknown
	}
	return stageOf(h[len(h)-1])
}

func stageOf(t v1alpha1.Transition) stage { return stage{t.State, t.SubState} }

// advance records that the member was seen in a stage. Nothing is added if it was there already. If the graph has no
// direct way, the stages that it must have passed are added too, and marked as not seen: a member that was a voter and is
// a learner has waited to be added, a learner that leads was a follower first. Times only ever grow.
func (h history) advance(to stage, at time.Time) history {
	if to == unknown || h.last() == to {
		return h
	}
	from := h.last()
	if !slices.Contains(stages, from) {
		from = unknown // Written by somebody whose stages are not ours: what came before is not known.
	}
	steps := path(from, to)
	for i, e := range steps {
		t := v1alpha1.Transition{State: e.to.State, SubState: e.to.SubState, Reason: e.reasons[0], TransitionTime: h.after(at)}
		if i < len(steps)-1 {
			t.Message = notObserved
		}
		h = h.add(t)
	}
	return h
}

// add appends, and drops the oldest beyond the limit.
func (h history) add(t v1alpha1.Transition) history {
	h = append(slices.Clone(h), t)
	return h[max(0, len(h)-v1alpha1.MaxTransitions):]
}

// after is the time, or the least one after the last transition if a clock was set back or nothing lies between: no two
// transitions of a history have the same time, which tells them apart. MicroTime's precision is what survives JSON, so
// that what is read back equals what was written.
func (h history) after(at time.Time) metav1.MicroTime {
	at = at.UTC().Truncate(time.Microsecond)
	if len(h) > 0 {
		if least := h[len(h)-1].TransitionTime.Add(time.Microsecond); at.Before(least) {
			at = least.UTC()
		}
	}
	return metav1.NewMicroTime(at)
}

// resume continues what an earlier agent, or this one before it lost the object, has published. What this agent has seen
// meanwhile follows, without what is published already: nothing is lost and nothing is there twice. The reasons of what
// was seen first are found anew, because it was "observed" only as long as nothing was known to have come before.
func (h history) resume(published []v1alpha1.Transition) history {
	merged := history(slices.Clone(published))
	merged = merged[max(0, len(merged)-v1alpha1.MaxTransitions):]
	if len(merged) == 0 {
		return h
	}
	newest := merged[len(merged)-1].TransitionTime.Time
	for _, t := range h {
		if slices.ContainsFunc(published, func(p v1alpha1.Transition) bool { return sameTransition(p, t) }) {
			continue
		}
		switch {
		case t.TransitionTime.Time.Before(newest):
			// Somebody published over it. The present is all that counts then, and that comes last.
		case t.Reason != v1alpha1.ReasonMemberObserved && allowed(merged.last(), stageOf(t), t.Reason):
			merged = merged.add(t)
		default:
			merged = merged.advance(stageOf(t), t.TransitionTime.Time)
		}
	}
	if len(h) > 0 {
		merged = merged.advance(h.last(), h[len(h)-1].TransitionTime.Time)
	}
	return merged
}

func sameTransition(a, b v1alpha1.Transition) bool {
	return stageOf(a) == stageOf(b) && a.Reason == b.Reason && a.TransitionTime.Equal(&b.TransitionTime)
}

// CheckTransitions returns the first pair of neighbours that the graph does not have, as an error, or nil. It is for
// tests and for those who show a history: publishing never stops at it.
func CheckTransitions(transitions []v1alpha1.Transition) error {
	if len(transitions) > v1alpha1.MaxTransitions {
		return fmt.Errorf("%d transitions: at most %d are kept", len(transitions), v1alpha1.MaxTransitions)
	}
	from := unknown
	for i, t := range transitions {
		// The first of a full list follows one that is no longer kept.
		truncated := i == 0 && len(transitions) == v1alpha1.MaxTransitions
		if !truncated && !allowed(from, stageOf(t), t.Reason) {
			return fmt.Errorf("transition %d: from %s to %s with reason %s is not in the graph", i, from, stageOf(t), t.Reason)
		}
		if i > 0 && t.TransitionTime.Time.Before(transitions[i-1].TransitionTime.Time) {
			return fmt.Errorf("transition %d: %s is before its predecessor", i, t.TransitionTime.UTC().Format(time.RFC3339Nano))
		}
		from = stageOf(t)
	}
	return nil
}
