package agent

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
)

// verdict is what condition Ready says.
type verdict struct {
	status  metav1.ConditionStatus
	reason  string
	message string
	// passing is for troubles that a busy member or an election also has for a moment: they are believed when they last.
	passing bool
}

// same says whether two verdicts differ in no more than words.
func (v verdict) same(o verdict) bool { return v.status == o.status && v.reason == o.reason }

// judge is the verdict on one look alone.
func judge(o *observation) verdict {
	switch err := o.statusErr; {
	case etcd.IsPermissionDenied(err):
		return verdict{metav1.ConditionUnknown, v1alpha1.ReadyReasonPermissionDenied,
			"etcd answers, but does not let the agent's user ask for its status: " + err.Error(), false}
	case err != nil:
		return verdict{metav1.ConditionFalse, v1alpha1.ReadyReasonNotAnswering, err.Error(), true}
	}
	alarms := etcd.OwnAlarms(o.status.Alarms, o.status.MemberID)
	switch {
	case o.status.Learner:
		return verdict{metav1.ConditionFalse, v1alpha1.ReadyReasonLearner, "the member is a learner: it does not vote yet", false}
	case len(alarms) > 0:
		return verdict{metav1.ConditionFalse, v1alpha1.ReadyReasonAlarm, "the member raises " + strings.Join(alarms, ", "), false}
	case o.status.Leader == 0 || etcd.IsNoLeader(o.readErr):
		return verdict{metav1.ConditionFalse, v1alpha1.ReadyReasonNoLeader, "the member answers, and knows no leader: its cluster may have lost its quorum, or can't be reached from here", true}
	case o.readErr != nil:
		return verdict{metav1.ConditionFalse, v1alpha1.ReadyReasonReadFailed, o.readErr.Error(), true}
	default:
		return verdict{metav1.ConditionTrue, v1alpha1.ReadyReasonServing, "the member votes and answers linearizable reads", false}
	}
}

// believeAfter is how many looks in a row must show a passing trouble. One slow answer is no outage.
const believeAfter = 2

// readiness turns verdicts on single looks into one that does not flap.
type readiness struct {
	// believed is what is published; its reason is empty until there is enough to say anything.
	believed verdict
	// troubles counts looks in a row with a passing trouble, and alike those among them with the last one's reason.
	troubles, alike int
	lastTrouble     string
	// answered is when etcd last gave its status. Zero: not since the agent started.
	answered time.Time
}

// consider takes one look into account. Good news is believed at once, as are facts that do not pass by themselves;
// a passing trouble when it has lasted for two looks; and another passing trouble instead when that has.
func (r *readiness) consider(o *observation) {
	if o.status != nil {
		r.answered = o.at
	}
	v := judge(o)
	if !v.passing {
		r.believed, r.troubles, r.alike, r.lastTrouble = v, 0, 0, ""
		return
	}
	r.troubles++
	if v.reason != r.lastTrouble {
		r.lastTrouble, r.alike = v.reason, 0
	}
	r.alike++
	inTrouble := r.believed.passing
	if (!inTrouble && r.troubles >= believeAfter) || (inTrouble && (r.alike >= believeAfter || v.same(r.believed))) {
		r.believed = v
	}
}

// message adds to the verdict since when all else that is published of the member is old. knownFrom is when an earlier
// agent published it, for an agent that has not had an answer itself.
func (r *readiness) message(knownFrom time.Time) string {
	if r.believed.reason != v1alpha1.ReadyReasonNotAnswering {
		return r.believed.message
	}
	since := r.answered
	if since.IsZero() {
		since = knownFrom
	}
	if since.IsZero() {
		return r.believed.message + "; it has never answered this agent"
	}
	return fmt.Sprintf("%s; all else that is published of it is as of %s", r.believed.message, since.UTC().Format(time.RFC3339))
}
