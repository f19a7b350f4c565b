package agent

import (
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
)

// Reasons of condition DataVolumeReadOnly.
const (
	reasonWritable = "Writable"
	reasonReadOnly = "ReadOnlyFileSystem"
)

// core is what the agent knows: of its member by looking, and of the EtcdMember by reading. It decides what to publish
// and whether that is urgent, and does no I/O. It is safe for concurrent use.
type core struct {
	// version is the agent's own.
	version string

	mu sync.Mutex
	// known is the last known value of every fact, without conditions, transitions and the like.
	known v1alpha1.EtcdMemberStatus
	// knownFrom is when an earlier agent published what known was begun with. Zero: nothing was taken over.
	knownFrom time.Time
	ready     readiness
	history   history
	// mount is which volume the data is on, and files what its file system says. Nil: not known.
	mount *v1alpha1.Volume
	files *fileSystem
	// identifying is true until the first try to find out mount has ended.
	identifying bool
	// looked is when the observer last finished a look.
	looked time.Time

	// object is the EtcdMember as last seen. Nil: there is none, or it is not known yet.
	object *v1alpha1.EtcdMember
	// ours is the UID of the object that the history was last joined with.
	ours types.UID
	// staleSince is since when the object differs significantly from what is known. Zero: it does not.
	staleSince time.Time
	// refreshAt is when to publish even without a change.
	refreshAt time.Time
	// applied is the status that was last applied, and appliedVersion the object's resource version after that.
	applied        *v1alpha1.EtcdMemberStatus
	appliedVersion string
}

// observe takes a look into account.
func (c *core) observe(o *observation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked = o.at
	c.ready.consider(o)
	if s := o.status; s != nil {
		// Another ID is another etcd: what it does not say is not known. All else is overwritten below.
		if id := v1alpha1.EtcdID(s.MemberID.String()); c.known.ID != id {
			k := &c.known
			k.PeerTLSEnabled, k.DBSizeQuota = nil, nil
			k.ID = id
		}
		c.known.ClusterID = v1alpha1.EtcdID(s.ClusterID.String())
		stage := o.stage()
		c.known.State, c.known.SubState = stage.State, stage.SubState
		c.known.DBSize, c.known.DBSizeInUse = quantity(s.DBSize), quantity(s.DBSizeInUse)
		if quota := max(s.DBSizeQuota, o.quota); quota > 0 {
			c.known.DBSizeQuota = quantity(quota)
		}
		c.known.Revision = s.Revision
		c.known.Raft = &v1alpha1.RaftStatus{Term: signed(s.RaftTerm), Index: signed(s.RaftIndex), AppliedIndex: signed(s.RaftAppliedIndex)}
		c.known.Version = s.Version
		c.known.Alarms = etcd.OwnAlarms(s.Alarms, s.MemberID)
		c.history = c.history.advance(stage, o.at)
	}
	if o.peerTLS != nil {
		c.known.PeerTLSEnabled = o.peerTLS
	}
	if o.volume != nil {
		c.files = o.volume
	}
	c.noteStale(o.at)
}

// identify takes into account which volume the data is on, or nil if it is on none or can't be said.
func (c *core) identify(mount *v1alpha1.Volume, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mount, c.identifying = mount, false
	c.noteStale(now)
}

// volume is what is known of the volume: its identity by the API, its sizes by the file system. Never what an earlier
// agent has published: a claim of the same name may be another one now.
func (c *core) volume() *v1alpha1.Volume {
	if c.mount == nil && c.files == nil {
		return nil
	}
	v := &v1alpha1.Volume{}
	if c.mount != nil {
		v = c.mount.DeepCopy()
	}
	if c.files != nil {
		readOnly := c.files.readOnly
		v.Capacity, v.Available, v.ReadOnly = quantity(c.files.capacity), quantity(c.files.available), &readOnly
	}
	return v
}

// settled says whether enough is known to publish anything: two looks without an answer, or one with; and the first try to
// identify the volume has ended, so that an agent that restarts does not take its claim away and bring it back.
func (c *core) settled() bool {
	return c.object != nil && c.ready.believed.reason != "" && !c.identifying
}

// quantity is a size for people: a power of two where it is exact.
func quantity(n int64) *resource.Quantity {
	q := resource.NewQuantity(n, resource.BinarySI)
	_ = q.String() // A Quantity caches its text when it is first printed, which would be a race between readers.
	return q
}

// signed clamps: the API has no unsigned numbers, and raft's never get there.
func signed(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// see takes the object into account as it was just read, or nil if there is none. An older one than that which is known
// (a watch lags behind our own writes) is ignored.
func (c *core) see(object *v1alpha1.EtcdMember, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if object == nil {
		c.object, c.staleSince = nil, time.Time{}
		return
	}
	if c.object != nil && c.object.UID == object.UID && older(object.ResourceVersion, c.object.ResourceVersion) {
		return
	}
	c.object = object
	if c.ours != object.UID {
		c.ours = object.UID
		c.history = c.history.resume(object.Status.Transitions)
		c.takeOver(&object.Status)
		c.refreshAt = time.Time{}
	}
	c.noteStale(now)
}

// takeOver continues what an earlier agent of this member has published: server-side apply removes each field that its
// owner leaves out. Of a member that has not answered since, that is everything; of one that has, what it did not say.
func (c *core) takeOver(published *v1alpha1.EtcdMemberStatus) {
	if published.PublishedBy == nil || published.PublishedBy.Type != v1alpha1.PublisherAgent {
		return
	}
	p := published.DeepCopy()
	if c.known.ID == "" {
		c.known = *p
		c.known.Conditions, c.known.Transitions, c.known.Volume = nil, nil, nil
		if p.PublishedAt != nil {
			c.knownFrom = p.PublishedAt.Time
		}
		return
	}
	if c.known.ID == p.ID {
		if c.known.PeerTLSEnabled == nil {
			c.known.PeerTLSEnabled = p.PeerTLSEnabled
		}
		if c.known.DBSizeQuota == nil {
			c.known.DBSizeQuota = p.DBSizeQuota
		}
	}
	c.known.Snapshots, c.known.LastRestoration, c.known.LastDefragmentation = p.Snapshots, p.LastRestoration, p.LastDefragmentation
	c.known.VolumeMismatches, c.known.BootstrapPermitUsed, c.known.Action = p.VolumeMismatches, p.BootstrapPermitUsed, p.Action
}

// noteStale keeps track of since when the object tells something else than what is known.
func (c *core) noteStale(now time.Time) {
	switch {
	case c.object == nil || c.urgent(now) == "":
		c.staleSince = time.Time{}
	case c.staleSince.IsZero():
		c.staleSince = now
	}
}

// urgent names what of the object is significantly different from what is known. Empty: nothing, or nothing can be said
// yet, or nothing can be done about it.
func (c *core) urgent(now time.Time) string {
	if !c.settled() {
		return ""
	}
	want := c.status(now)
	why := significant(want, &c.object.Status)
	if why != "" && c.applied != nil && c.object.ResourceVersion == c.appliedVersion && significant(want, c.applied) == "" {
		return "" // Just that was applied, and this is what the server has made of it: see published.
	}
	return why
}

// plan says what to do: why is empty if nothing is to be published before the time.
func (c *core) plan(now time.Time) (why string, before time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.settled() {
		return "", time.Time{}
	}
	if why := c.urgent(now); why != "" {
		return why, now
	}
	if c.refreshAt.IsZero() {
		c.refreshAt = now.Add(jitter(refreshInterval))
		if p := c.object.Status.PublishedAt; p != nil && p.Time.Before(now) {
			c.refreshAt = p.Time.Add(jitter(refreshInterval))
		}
	}
	if !now.Before(c.refreshAt) {
		return "refresh", now
	}
	return "", c.refreshAt
}

// draft is what to publish now, and to which object.
func (c *core) draft(now time.Time) (*v1alpha1.EtcdMember, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.settled() {
		return nil, false
	}
	m := &v1alpha1.EtcdMember{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.EtcdMemberKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: c.object.Name, Namespace: c.object.Namespace, UID: c.object.UID},
		Status:     *c.status(now),
	}
	return m, true
}

// published notes that a write of a draft has succeeded, when, and with what result. It names what the server has not
// kept, if anything: a CustomResourceDefinition that is not ours prunes what it does not know, and applying the same
// again and again would not help.
func (c *core) published(draft, result *v1alpha1.EtcdMember, now time.Time) (lost string) {
	c.see(result, now)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied, c.appliedVersion = &draft.Status, result.ResourceVersion
	c.refreshAt = now.Add(jitter(refreshInterval))
	c.staleSince = time.Time{}
	c.noteStale(now)
	return significant(&draft.Status, &result.Status)
}

// status is all that the agent publishes. What it does not know it leaves out, and so does not own.
func (c *core) status(now time.Time) *v1alpha1.EtcdMemberStatus {
	s := c.known.DeepCopy()
	s.Volume = c.volume()
	s.Transitions = slices.Clone(c.history)
	s.ObservedGeneration = c.object.Generation
	s.PublishedAt = &metav1.MicroTime{Time: now.UTC().Truncate(time.Microsecond)}
	s.PublishedBy = &v1alpha1.Publisher{Type: v1alpha1.PublisherAgent, Version: c.version}
	s.Conditions = []metav1.Condition{c.condition(v1alpha1.ConditionReady, c.ready.believed.status, c.ready.believed.reason, c.ready.message(c.knownFrom), now)}
	if c.files != nil {
		status, reason, message := metav1.ConditionFalse, reasonWritable, "the data volume's file system can be written to"
		if c.files.readOnly {
			status, reason = metav1.ConditionTrue, reasonReadOnly
			message = "the data volume's file system is read-only: etcd can't write its log and will stop"
		}
		s.Conditions = append(s.Conditions, c.condition(v1alpha1.ConditionDataVolumeReadOnly, status, reason, message, now))
	}
	return s
}

// maxMessageLength is far below what metav1.Condition allows: errors can be long, and their start is what tells.
const maxMessageLength = 1024

func (c *core) condition(kind string, status metav1.ConditionStatus, reason, message string, now time.Time) metav1.Condition {
	message = strings.ToValidUTF8(message[:min(len(message), maxMessageLength)], "")
	condition := metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: c.object.Generation}
	condition.LastTransitionTime = c.transitionTime(condition, now)
	return condition
}

// transitionTime stays as it is published as long as the status does, whoever published it: also the controller writes Ready.
func (c *core) transitionTime(condition metav1.Condition, now time.Time) metav1.Time {
	if seen := meta.FindStatusCondition(c.object.Status.Conditions, condition.Type); seen != nil && seen.Status == condition.Status {
		return seen.LastTransitionTime
	}
	return metav1.NewTime(now.UTC().Truncate(time.Second))
}

// Times after which the agent itself counts as broken.
const (
	// vouchWithin is how long a change may stay unpublished until the heartbeat stops. The rate limit delays one for
	// publishEvery at most.
	vouchWithin = 30 * time.Second
	// lookWithin is how long a look may take until the agent counts as stuck: all that it does has timeouts far below.
	lookWithin = 60 * time.Second
)

// vouches says whether what is published is what is known, so that the heartbeat may say that the publisher lives.
func (c *core) vouches(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.object == nil || c.object.Status.PublishedAt == nil || now.Sub(c.looked) > lookWithin {
		return false
	}
	return c.staleSince.IsZero() || now.Sub(c.staleSince) <= vouchWithin
}

// looksRecently says whether the observer is alive.
func (c *core) looksRecently(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.looked) <= lookWithin
}

// member is the name of the EtcdMember, or empty.
func (c *core) member() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.object == nil {
		return ""
	}
	return c.object.Name
}

// isPublished says whether there is an EtcdMember that holds a status of ours.
func (c *core) isPublished() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.object != nil && c.object.Status.PublishedBy != nil && c.object.Status.PublishedBy.Type == v1alpha1.PublisherAgent
}

// verdict is what is believed of the member, and the stage that it was last seen in.
func (c *core) verdict() (verdict, stage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready.believed, stage{c.known.State, c.known.SubState}
}
