package source

import (
	"fmt"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// member takes the facts out of one EtcdMember. Fields that can't be understood are problems, and not known.
func member(o *memberObject) (model.Member, []model.Problem) {
	r := reader{subject: fmt.Sprintf("EtcdMember %s/%s", o.Metadata.Namespace.Value, o.Metadata.Name.Value)}
	m := model.Member{
		Name:    o.Metadata.Name.Value,
		Pod:     o.Spec.Value.PodName.Value,
		Labels:  o.Metadata.Labels.Value,
		Created: time.Time(o.Metadata.CreationTimestamp.Value),

		HasEtcdMember: true,
	}
	if m.Pod == "" {
		m.Pod = m.Name
	}
	bad(&r, "spec", o.Spec)
	bad(&r, "spec.clusterRef", o.Spec.Value.ClusterRef)
	bad(&r, "spec.podName", o.Spec.Value.PodName)
	bad(&r, "status", o.Status)

	st := o.Status.Value
	r.source, r.at = publisher(st), time.Time(st.PublishedAt.Value)
	bad(&r, "status.publishedAt", st.PublishedAt)
	if st.PublishedAt.OK {
		m.Published = model.Known(r.at, r.source, r.at)
	}
	m.ID = text(&r, "status.id", st.ID)
	m.ClusterID = text(&r, "status.clusterID", st.ClusterID)
	m.State = text(&r, "status.state", st.State)
	m.SubState = text(&r, "status.subState", st.SubState)
	m.PeerTLS = fact(&r, "status.peerTLSEnabled", st.PeerTLSEnabled, func(v bool) bool { return v })
	m.DBSize = whole(&r, "status.dbSize", st.DBSize)
	m.DBSizeInUse = whole(&r, "status.dbSizeInUse", st.DBSizeInUse)
	m.DBSizeQuota = whole(&r, "status.dbSizeQuota", st.DBSizeQuota)
	m.Revision = whole(&r, "status.revision", st.Revision)
	bad(&r, "status.raft", st.Raft)
	m.RaftTerm = whole(&r, "status.raft.term", st.Raft.Value.Term)
	m.RaftIndex = whole(&r, "status.raft.index", st.Raft.Value.Index)
	m.RaftAppliedIndex = whole(&r, "status.raft.appliedIndex", st.Raft.Value.AppliedIndex)
	m.Version = text(&r, "status.version", st.Version)
	m.Alarms = r.alarms(st)
	m.Volume = r.volume(st)
	r.conditions(&m, st)
	r.transitions(&m, st)
	bad(&r, "status.snapshots", st.Snapshots)
	m.LastFull = r.snapshot("status.snapshots.lastFull", st.Snapshots.Value.LastFull)
	m.LastDelta = r.snapshot("status.snapshots.lastDelta", st.Snapshots.Value.LastDelta)
	bad(&r, "status.volumeMismatches", st.VolumeMismatches)
	for _, v := range st.VolumeMismatches.Value {
		if v.OK && v.Value.VolumeID.OK && !v.Value.FixedAt.OK {
			m.VolumeMismatch = model.Known(v.Value.VolumeID.Value, r.source, r.at)
		}
	}
	return m, r.problems
}

// publisher says who has written a status. One that does not say so was written by somebody else's software.
func publisher(st memberStatus) model.Source {
	switch v1alpha1.PublisherType(st.PublishedBy.Value.Type.Value) {
	case v1alpha1.PublisherAgent:
		return model.SourceAgent
	case v1alpha1.PublisherObserver:
		return model.SourceObserver
	default:
		return model.SourceEtcdMember
	}
}

// reader collects what one object's facts have in common.
type reader struct {
	subject  string
	source   model.Source
	at       time.Time
	problems []model.Problem
}

func bad[T any](r *reader, field string, l lax[T]) bool {
	if l.Bad == "" {
		return false
	}
	r.problems = append(r.problems, model.Problem{Subject: r.subject, Err: fmt.Errorf("%s is %.80s, which can't be understood", field, l.Bad)})
	return true
}

func fact[T, V any](r *reader, field string, l lax[T], convert func(T) V) model.Fact[V] {
	if bad(r, field, l) || !l.OK {
		return model.Fact[V]{}
	}
	return model.Known(convert(l.Value), r.source, r.at)
}

// text is a string; an empty one tells nothing.
func text[T ~string](r *reader, field string, l lax[T]) model.Fact[string] {
	f := fact(r, field, l, func(v T) string { return string(v) })
	if f.Value == "" {
		return model.Fact[string]{}
	}
	return f
}

func whole[T ~int64](r *reader, field string, l lax[T]) model.Fact[int64] {
	return fact(r, field, l, func(v T) int64 { return int64(v) })
}

// alarms: a publisher that has read etcd at all knows its alarms, and writes none where there is none.
func (r *reader) alarms(st memberStatus) model.Fact[[]string] {
	if bad(r, "status.alarms", st.Alarms) || (!st.Alarms.OK && !st.Revision.OK) {
		return model.Fact[[]string]{}
	}
	return model.Known(st.Alarms.Value, r.source, r.at)
}

func (r *reader) volume(st memberStatus) model.Fact[model.Volume] {
	if bad(r, "status.volume", st.Volume) || !st.Volume.OK {
		return model.Fact[model.Volume]{}
	}
	v := st.Volume.Value
	bad(r, "status.volume.capacity", v.Capacity)
	bad(r, "status.volume.available", v.Available)
	return model.Known(model.Volume{
		Claim: v.Claim.Value, ClaimUID: v.ClaimUID.Value, Name: v.Volume.Value, Handle: v.VolumeHandle.Value,
		StorageClass: v.StorageClass.Value, Capacity: int64(v.Capacity.Value), Available: int64(v.Available.Value),
		AvailableKnown: v.Available.OK,
	}, r.source, r.at)
}

func (r *reader) conditions(m *model.Member, st memberStatus) {
	bad(r, "status.conditions", st.Conditions)
	for _, l := range st.Conditions.Value {
		if bad(r, "a condition", l) {
			continue
		}
		f := model.Known(l.Value.model(), r.source, r.at)
		switch l.Value.Type {
		case v1alpha1.ConditionReady:
			m.Ready = f
		case v1alpha1.ConditionDataVolumeReadOnly:
			m.VolumeReadOnly = f
		case v1alpha1.ConditionDataCorrupt:
			m.DataCorrupt = f
		}
	}
}

func (r *reader) transitions(m *model.Member, st memberStatus) {
	bad(r, "status.transitions", st.Transitions)
	for _, l := range st.Transitions.Value {
		if bad(r, "a transition", l) {
			continue
		}
		t := l.Value
		m.Transitions = append(m.Transitions, model.Transition{
			State: t.State.Value, SubState: t.SubState.Value, Reason: t.Reason.Value, Message: t.Message.Value,
			Time: time.Time(t.TransitionTime.Value),
		})
	}
}

func (r *reader) snapshot(field string, l lax[snapshotObject]) model.Fact[time.Time] {
	bad(r, field, l)
	return fact(r, field+".timestamp", l.Value.Timestamp, func(t instant) time.Time { return time.Time(t) })
}
