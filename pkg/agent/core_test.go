package agent

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
)

// apply is what the API server makes of a draft: the agent's fields replaced, those of others kept, read back from JSON.
func apply(t *testing.T, c *core, to *v1alpha1.EtcdMember, now time.Time) *v1alpha1.EtcdMember {
	t.Helper()
	draft, ok := c.draft(now)
	if !ok {
		t.Fatal("there is nothing to publish")
	}
	body, err := applyBody(draft)
	if err != nil {
		t.Fatal(err)
	}
	applied := &v1alpha1.EtcdMember{}
	if err := json.Unmarshal(body, applied); err != nil {
		t.Fatal(err)
	}
	result := to.DeepCopy()
	for _, others := range to.Status.Conditions {
		if meta.FindStatusCondition(applied.Status.Conditions, others.Type) == nil {
			applied.Status.Conditions = append(applied.Status.Conditions, others)
		}
	}
	result.Status = applied.Status
	result.ResourceVersion = next(to.ResourceVersion)
	return result
}

// publish applies, and notes that.
func publish(t *testing.T, c *core, to *v1alpha1.EtcdMember, now time.Time) *v1alpha1.EtcdMember {
	t.Helper()
	result := apply(t, c, to, now)
	draft, _ := c.draft(now)
	if lost := c.published(draft, result, now); lost != "" {
		t.Errorf("%s is lost", lost)
	}
	return result
}

func next(version string) string {
	n := 0
	for _, d := range version {
		n = n*10 + int(d-'0')
	}
	return strconv.Itoa(n + 1)
}

// publishing is a core with an object that it has published to.
func publishing(t *testing.T, role stage) (*core, *v1alpha1.EtcdMember) {
	t.Helper()
	c := &core{version: "v1"}
	c.observe(with(answers(t0, role), func(o *observation) { tls := true; o.peerTLS = &tls }))
	o := object("uid-1")
	c.see(o, t0)
	o = publish(t, c, o, t0)
	return c, o
}

func wantPlan(t *testing.T, c *core, now time.Time, want string) {
	t.Helper()
	if why, _ := c.plan(now); why != want {
		t.Errorf("plan is %q: want %q", why, want)
	}
}

func TestPublishesNothingWithoutObjectOrLook(t *testing.T) {
	c := &core{}
	wantPlan(t, c, t0, "")
	c.see(object("uid-1"), t0)
	wantPlan(t, c, t0, "")
	c.observe(frozen(t0))
	wantPlan(t, c, t0, "") // One look without an answer says nothing yet.
	c.observe(frozen(t0))
	wantPlan(t, c, t0, "first publication")
	c.see(nil, t0)
	wantPlan(t, c, t0, "")
}

func TestFirstStatus(t *testing.T) {
	c, o := publishing(t, stageLeader)
	s := o.Status
	if s.ID != "a1" || s.ClusterID != "c1" || s.State != v1alpha1.StateStarted || s.SubState != v1alpha1.SubStateLeader ||
		s.PeerTLSEnabled == nil || !*s.PeerTLSEnabled || s.DBSize.String() != "20Ki" || s.DBSizeInUse.String() != "16Ki" || s.DBSizeQuota.String() != "2Gi" ||
		s.Revision != 7 || *s.Raft != (v1alpha1.RaftStatus{Term: 3, Index: 11, AppliedIndex: 11}) || s.Version != "3.7.3" || s.ObservedGeneration != 1 ||
		s.PublishedBy.Type != v1alpha1.PublisherAgent || s.PublishedBy.Version != "v1" || !s.PublishedAt.Time.Equal(t0) {
		t.Errorf("status is %+v", s)
	}
	ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.Reason != "Serving" || ready.ObservedGeneration != 1 || !ready.LastTransitionTime.Time.Equal(t0) {
		t.Errorf("Ready is %+v", ready)
	}
	if len(s.Transitions) != 1 || s.Transitions[0].Reason != v1alpha1.ReasonMemberObserved {
		t.Errorf("transitions are %+v", s.Transitions)
	}
	wantPlan(t, c, t0, "")
	if _, before := c.plan(t0); before.Before(t0.Add(270*time.Second)) || before.After(t0.Add(330*time.Second)) {
		t.Errorf("refreshes at %s: want five minutes, give or take a tenth", before)
	}
	wantPlan(t, c, t0.Add(331*time.Second), "refresh")
}

func TestWhatIsWorthAWrite(t *testing.T) {
	tls := false
	for name, tc := range map[string]struct {
		look func(*observation)
		want string
	}{
		"nothing":          {func(*observation) {}, ""},
		"revision":         {func(o *observation) { o.status.Revision = 99 }, ""},
		"raft":             {func(o *observation) { o.status.RaftTerm, o.status.RaftIndex = 9, 99 }, ""},
		"sizes":            {func(o *observation) { o.status.DBSize, o.status.DBSizeInUse = 1<<30, 1<<29 }, ""},
		"free space":       {func(o *observation) { o.volume = &fileSystem{capacity: 100, available: 1} }, "condition DataVolumeReadOnly"}, // First known.
		"another's alarm":  {func(o *observation) { o.status.Alarms = []etcd.Alarm{{Member: 0xb2, Type: "NOSPACE"}} }, ""},
		"own alarm":        {func(o *observation) { o.status.Alarms = []etcd.Alarm{{Member: ownID, Type: "NOSPACE"}} }, "alarms"},
		"role":             {func(o *observation) { o.status.Leader = ownID }, "state"},
		"learner":          {func(o *observation) { o.status.Learner = true }, "state"},
		"id":               {func(o *observation) { o.status.MemberID = 0xa2 }, "id"},
		"cluster":          {func(o *observation) { o.status.ClusterID = 0xc2 }, "clusterID"},
		"peer TLS":         {func(o *observation) { o.peerTLS = &tls }, "peerTLSEnabled"},
		"version":          {func(o *observation) { o.status.Version = "3.7.4" }, "version"},
		"quota":            {func(o *observation) { o.status.DBSizeQuota = 8 << 30 }, "dbSizeQuota"},
		"read-only volume": {func(o *observation) { o.volume = &fileSystem{readOnly: true} }, "volume"},
		"one bad read":     {func(o *observation) { o.readErr = errRead }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := publishing(t, stageFollower)
			now := t0.Add(2 * time.Second)
			c.observe(with(answers(now, stageFollower), tc.look))
			wantPlan(t, c, now, tc.want)
		})
	}
}

// TestVolume: another claim is worth a write, a restarted agent does not take the old one away before it knows, and what an earlier
// agent has published of a volume is never published of this one.
func TestVolume(t *testing.T) {
	c, o := publishing(t, stageFollower)
	mount := &v1alpha1.Volume{Claim: "data-main-0", ClaimUID: "u1"}
	c.identify(mount, t0)
	wantPlan(t, c, t0, "volume")
	o = publish(t, c, o, t0)
	wantPlan(t, c, t0, "")

	restarted := &core{version: "v1", identifying: true}
	restarted.observe(answers(t0, stageFollower))
	restarted.see(o, t0)
	wantPlan(t, restarted, t0, "")
	restarted.identify(mount, t0)
	wantPlan(t, restarted, t0, "")
	restarted.identify(&v1alpha1.Volume{Claim: "data-main-0", ClaimUID: "u2"}, t0)
	wantPlan(t, restarted, t0, "volume")
	restarted.identify(nil, t0) // It may not ask any more.
	if s := apply(t, restarted, o, t0).Status; s.Volume != nil {
		t.Errorf("publishes %+v, which it does not know", s.Volume)
	}
}

// TestOthersWrites: what somebody else has written over is put right, and what is not ours is left alone.
func TestOthersWrites(t *testing.T) {
	c, o := publishing(t, stageFollower)
	later := t0.Add(time.Hour)
	o = o.DeepCopy()
	o.ResourceVersion = next(o.ResourceVersion)
	meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionFalse, Reason: "X"})
	c.see(o, later)
	if why := c.urgent(later); why != "" {
		t.Errorf("a condition of the controller's is written over because of %s", why)
	}

	lost := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReadyReasonPublisherLost, LastTransitionTime: metav1.NewTime(later)}
	o = o.DeepCopy()
	o.ResourceVersion = next(o.ResourceVersion)
	for i := range o.Status.Conditions {
		if o.Status.Conditions[i].Type == v1alpha1.ConditionReady {
			o.Status.Conditions[i] = lost
		}
	}
	c.see(o, later)
	wantPlan(t, c, later, "condition Ready")
	o = apply(t, c, o, later.Add(time.Second))
	ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
	if ready.Status != metav1.ConditionTrue || !ready.LastTransitionTime.Time.Equal(later.Add(time.Second)) {
		t.Errorf("Ready is %+v: want True since now, as it was Unknown in between", ready)
	}
	if len(o.Status.Conditions) != 2 {
		t.Errorf("conditions are %+v", o.Status.Conditions)
	}
}

// TestLaggingWatch: an event from before our own write does not make us write again.
func TestLaggingWatch(t *testing.T) {
	c, o := publishing(t, stageFollower)
	c.see(object("uid-1"), t0) // As it was before the first publication.
	wantPlan(t, c, t0, "")
	if c.object.ResourceVersion != o.ResourceVersion {
		t.Error("went back to an older object")
	}
}

func TestSpecChangeIsAcknowledged(t *testing.T) {
	c, o := publishing(t, stageFollower)
	o = o.DeepCopy()
	o.Generation, o.ResourceVersion = 2, next(o.ResourceVersion)
	c.see(o, t0)
	wantPlan(t, c, t0, "observedGeneration")
	if o = apply(t, c, o, t0); o.Status.ObservedGeneration != 2 || o.Status.Conditions[0].ObservedGeneration != 2 {
		t.Errorf("status is %+v", o.Status)
	}
}

// TestNotAnsweringKeepsWhatWasKnown: what a frozen member does not say stays as it was, and Ready says since when.
func TestNotAnsweringKeepsWhatWasKnown(t *testing.T) {
	c, o := publishing(t, stageLeader)
	c.observe(frozen(t0.Add(4 * time.Second)))
	wantPlan(t, c, t0.Add(4*time.Second), "")
	now := t0.Add(6 * time.Second)
	c.observe(frozen(now))
	wantPlan(t, c, now, "condition Ready")
	before := o.Status
	o = apply(t, c, o, now)
	ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
	if ready.Status != metav1.ConditionFalse || ready.Reason != v1alpha1.ReadyReasonNotAnswering || !strings.Contains(ready.Message, "as of 2026-12-01T06:00:00Z") {
		t.Errorf("Ready is %+v", ready)
	}
	s := o.Status
	if s.ID != before.ID || s.SubState != before.SubState || s.Revision != before.Revision || s.Version != before.Version || *s.PeerTLSEnabled != *before.PeerTLSEnabled {
		t.Errorf("status is %+v: want what was known before, %+v", s, before)
	}
	if len(s.Transitions) != 1 {
		t.Errorf("not answering is no change of state: %+v", s.Transitions)
	}
}

// TestAgentRestart: an agent that is started beside a member that has not changed writes nothing; beside one that does not
// answer it keeps what the last agent knew.
func TestAgentRestart(t *testing.T) {
	_, o := publishing(t, stageFollower)
	o.Status.Snapshots = &v1alpha1.Snapshots{LastFull: &v1alpha1.Snapshot{Name: "full"}}
	now := t0.Add(time.Minute)
	t.Run("member unchanged", func(t *testing.T) {
		for name, order := range map[string]bool{"object first": true, "member first": false} {
			t.Run(name, func(t *testing.T) {
				c := &core{version: "v1"}
				if order {
					c.see(o, now)
				}
				c.observe(with(answers(now, stageFollower), func(o *observation) { tls := true; o.peerTLS = &tls }))
				c.see(o, now)
				wantPlan(t, c, now, "")
				if _, at := c.plan(now); at.After(t0.Add(331 * time.Second)) {
					t.Errorf("refreshes at %s: want five minutes after the last agent's publication", at)
				}
				if again := apply(t, c, o, now); len(again.Status.Transitions) != 1 || again.Status.Snapshots == nil {
					t.Errorf("status is %+v", again.Status)
				}
			})
		}
	})
	t.Run("member leads now", func(t *testing.T) {
		c := &core{version: "v1"}
		c.observe(answers(now, stageLeader))
		c.see(o, now)
		wantPlan(t, c, now, "state")
		again := apply(t, c, o, now)
		if tr := again.Status.Transitions; len(tr) != 2 || tr[1].Reason != v1alpha1.ReasonGainedClusterLeadership {
			t.Errorf("transitions are %+v", tr)
		}
		if again.Status.PeerTLSEnabled == nil {
			t.Error("peerTLSEnabled is lost, which this agent has not found out yet")
		}
	})
	t.Run("member frozen", func(t *testing.T) {
		c := &core{version: "v1"}
		c.observe(frozen(now))
		c.observe(frozen(now))
		c.see(o, now)
		wantPlan(t, c, now, "condition Ready")
		again := apply(t, c, o, now)
		if again.Status.ID != "a1" || again.Status.Revision != 7 || again.Status.SubState != v1alpha1.SubStateFollower {
			t.Errorf("status is %+v", again.Status)
		}
		if ready := meta.FindStatusCondition(again.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(ready.Message, "as of 2026-12-01T06:00:00Z") {
			t.Errorf("Ready is %+v", ready)
		}
	})
	t.Run("new agent version", func(t *testing.T) {
		c := &core{version: "v2"}
		c.observe(answers(now, stageFollower))
		c.see(o, now)
		wantPlan(t, c, now, "publishedBy")
	})
	t.Run("after an observer", func(t *testing.T) {
		o := o.DeepCopy()
		o.Status.PublishedBy.Type = v1alpha1.PublisherObserver
		c := &core{version: "v1"}
		c.observe(answers(now, stageFollower))
		c.see(o, now)
		wantPlan(t, c, now, "publishedBy")
		if again := apply(t, c, o, now); again.Status.Snapshots != nil {
			t.Error("took over what an observer published")
		}
	})
}

// TestRecreatedObject: another UID gets all again, with the history.
func TestRecreatedObject(t *testing.T) {
	c, _ := publishing(t, stageFollower)
	now := t0.Add(time.Minute)
	c.observe(answers(now, stageLeader))
	c.see(nil, now)
	o := object("uid-2")
	o.ResourceVersion = "5" // Even if it were older by number.
	c.see(o, now)
	wantPlan(t, c, now, "first publication")
	draft, _ := c.draft(now)
	if draft.UID != "uid-2" {
		t.Errorf("publishes to UID %s", draft.UID)
	}
	if o = apply(t, c, o, now); len(o.Status.Transitions) != 2 {
		t.Errorf("transitions are %+v", o.Status.Transitions)
	}
}

// TestAnotherID: what was known of the old member is not published of the new one.
func TestAnotherID(t *testing.T) {
	c, o := publishing(t, stageFollower)
	now := t0.Add(time.Minute)
	c.observe(with(answers(now, stageLearner), func(o *observation) { o.status.MemberID, o.status.DBSizeQuota = 0xa2, 0 }))
	s := apply(t, c, o, now).Status
	if s.ID != "a2" || s.PeerTLSEnabled != nil || s.DBSizeQuota != nil || s.State != v1alpha1.StateStarting {
		t.Errorf("status is %+v", s)
	}
	if err := CheckTransitions(s.Transitions); err != nil || len(s.Transitions) != 3 {
		t.Errorf("transitions are %+v: %v", s.Transitions, err)
	}
}

func TestVouches(t *testing.T) {
	c, o := publishing(t, stageFollower)
	now := t0
	step := func(d time.Duration) { now = now.Add(d); c.observe(answers(now, stageLeader)) }
	if !c.vouches(now) {
		t.Error("does not vouch for what it has just published")
	}
	step(time.Second) // A change that is not published.
	step(30 * time.Second)
	if !c.vouches(now) {
		t.Error("does not allow for the rate limit")
	}
	step(time.Second)
	if c.vouches(now) {
		t.Error("vouches for a status that has been out of date for 31 s")
	}
	publish(t, c, o, now)
	if !c.vouches(now) {
		t.Error("does not vouch after it was published")
	}
	if c.vouches(now.Add(61 * time.Second)) {
		t.Error("vouches although nobody looks any more")
	}
	if c.see(nil, now); c.vouches(now) {
		t.Error("vouches without an object")
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	c, o := publishing(t, stageFollower)
	bad := with(answers(t0, stageFollower), func(o *observation) { o.readErr = &etcd.CallError{Op: strings.Repeat("ü", 2000), Err: errRead} })
	c.observe(bad)
	c.observe(bad)
	for _, condition := range apply(t, c, o, t0).Status.Conditions {
		if len(condition.Message) > maxMessageLength || strings.ContainsRune(condition.Message, '\uFFFD') {
			t.Errorf("message has %d bytes, or half a character at its end", len(condition.Message))
		}
	}
}

// TestForeignDefinition: a server that does not keep what is published is not written to again and again, but at once when
// something changes.
func TestForeignDefinition(t *testing.T) {
	c, o := publishing(t, stageFollower)
	now := t0.Add(time.Second)
	prune := func(role stage) string {
		c.observe(answers(now, role))
		draft, _ := c.draft(now)
		o = apply(t, c, o, now)
		o.Status.ClusterID, o.Status.Transitions = "", nil
		return c.published(draft, o, now)
	}
	if lost := prune(stageLeader); lost != "clusterID" {
		t.Errorf("lost is %q", lost)
	}
	wantPlan(t, c, now, "")
	if !c.vouches(now.Add(50 * time.Second)) {
		t.Error("does not vouch for the rest")
	}
	c.observe(answers(now, stageFollower))
	wantPlan(t, c, now, "clusterID")
	prune(stageFollower)
	wantPlan(t, c, now, "")
	o = o.DeepCopy()
	o.ResourceVersion = next(o.ResourceVersion) // Somebody has changed the object, or its definition.
	c.see(o, now)
	wantPlan(t, c, now, "clusterID")
}
