package model

import "time"

// Source is where a fact comes from.
type Source string

const (
	// SourceAgent is EtcdMember.status as the agent beside the member has published it.
	SourceAgent Source = "Agent"
	// SourceObserver is EtcdMember.status as the controller has published it for a member that has no agent.
	SourceObserver Source = "Observer"
	// SourceEtcdMember is EtcdMember.status that does not say who published it.
	SourceEtcdMember Source = "EtcdMember"
	// SourceHeartbeat is the Lease that a member's agent renews.
	SourceHeartbeat Source = "Heartbeat"
	// SourceWorkload is the object that runs the pods: a StatefulSet, or druid's Etcd.
	SourceWorkload Source = "Workload"
	// SourceMemberLease is the Lease that druid's backup sidecar renews for its member.
	SourceMemberLease Source = "MemberLease"
	// SourceSnapshotLease are the Leases in which druid's backup sidecar tells of its last snapshots.
	SourceSnapshotLease Source = "SnapshotLease"
	// SourceEtcdStatus is Etcd.status, which druid writes from Leases and pods, up to a minute late.
	SourceEtcdStatus Source = "EtcdStatus"
	// SourcePod is the pod, as its kubelet has last reported it.
	SourcePod Source = "Pod"
	// SourceClaim is the PersistentVolumeClaim of the member's data, and the volume that it is bound to.
	SourceClaim Source = "Claim"
	// SourceLive is the member itself, which has just been asked.
	SourceLive Source = "Live"
)

// Fact is a value that somebody has observed. The zero Fact is not known.
type Fact[T any] struct {
	// Value is what was observed. It means nothing unless Source is set.
	Value T
	// Source is who observed it.
	Source Source
	// Time is when it was observed. Zero: not told.
	Time time.Time
}

// Known makes a Fact.
func Known[T any](v T, s Source, at time.Time) Fact[T] { return Fact[T]{Value: v, Source: s, Time: at} }

// Known says whether anybody has observed the value.
func (f Fact[T]) Known() bool { return f.Source != "" }

// Get returns the value, and whether it is known.
func (f Fact[T]) Get() (T, bool) { return f.Value, f.Known() }

// Or returns the value, or def where it is not known.
func (f Fact[T]) Or(def T) T {
	if f.Known() {
		return f.Value
	}
	return def
}
