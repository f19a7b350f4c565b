package model

import (
	"cmp"
	"slices"
	"time"
)

// Kind is the kind of object that runs a cluster's pods.
type Kind string

const (
	// KindEtcd is druid's Etcd.
	KindEtcd Kind = "Etcd"
	// KindStatefulSet is a StatefulSet.
	KindStatefulSet Kind = "StatefulSet"
)

// Key names a cluster.
type Key struct {
	Namespace string
	// Kind may be empty where an object does not say what its cluster is.
	Kind Kind
	Name string
}

// Compare orders keys by namespace, name and kind, as people read them.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name), cmp.Compare(k.Kind, o.Kind))
}

// Argument is how a cluster is named on the command line: etcd/NAME or sts/NAME.
func (k Key) Argument() string {
	switch k.Kind {
	case KindEtcd:
		return "etcd/" + k.Name
	case KindStatefulSet:
		return "sts/" + k.Name
	default:
		return k.Name
	}
}

// Resource is how kubectl names the object that runs a cluster.
func (k Key) Resource() string {
	switch k.Kind {
	case KindEtcd:
		return "etcd.druid.gardener.cloud/" + k.Name
	case KindStatefulSet:
		return "statefulset.apps/" + k.Name
	default:
		return k.Name
	}
}

// Cluster is what is known of one etcd cluster.
type Cluster struct {
	Key Key
	// Wanted is how many members the cluster is to have: spec.replicas of the Etcd or the StatefulSet.
	Wanted Fact[int]
	// FirstOrdinal is the number in the name of the first pod: spec.ordinals.start of the StatefulSet.
	FirstOrdinal int
	// Members are all members that anything is known of, sorted by name with numbers in their natural order.
	Members []Member
	// Etcd is druid's Etcd.
	Etcd Fact[Etcd]
	// Set is the StatefulSet that runs the pods. NoSet says that there is none, which is not the same as not having been
	// able to read it.
	Set   Fact[StatefulSet]
	NoSet bool
	// PodsRead says that a member of which there is no pod has none.
	PodsRead bool
	// Access is how clients reach the members.
	Access Access
	// PeerTLSWanted says whether the members are to use TLS among themselves.
	PeerTLSWanted Fact[bool]
	// Backups is what is known of the backups. Not known where none are wanted.
	Backups Fact[Backups]
	// LooseClaims are claims of the cluster's that no member uses.
	LooseClaims []Claim
	// Tasks are druid's operations on the cluster that are not finished.
	Tasks []Task
	// Problems are what could not be read.
	Problems []Problem
}

// Problem is something that could not be read. It makes facts missing; it is never a fact itself.
type Problem struct {
	// Subject is the object or the list that could not be read.
	Subject string
	// Err says why.
	Err error
}

// Member is what is known of one member of an etcd cluster.
type Member struct {
	// Name is the member's name.
	Name string
	// Pod is the name of the pod that it runs in.
	Pod string
	// Labels are its EtcdMember's labels.
	Labels map[string]string
	// HasEtcdMember says that there is an EtcdMember of it.
	HasEtcdMember bool
	// Created is when its EtcdMember was created, or where there is none its pod. Zero: not known.
	Created time.Time

	// ID and ClusterID are lower-case hexadecimal without padding.
	ID, ClusterID Fact[string]
	// State and SubState are DEP-04's; a value that this version does not know is kept as it is.
	State, SubState Fact[string]
	// Ready is condition Ready.
	Ready Fact[Condition]
	// PeerTLS says whether all peer URLs that the running etcd advertises are https.
	PeerTLS Fact[bool]
	// DBSize, DBSizeInUse and DBSizeQuota are in bytes.
	DBSize, DBSizeInUse, DBSizeQuota Fact[int64]
	// Revision is the store's revision.
	Revision Fact[int64]
	// RaftTerm, RaftIndex and RaftAppliedIndex are the member's own view of the raft log.
	RaftTerm, RaftIndex, RaftAppliedIndex Fact[int64]
	// Version is the version of the running etcd.
	Version Fact[string]
	// Alarms are the alarms that the member raises itself. Known and empty: none.
	Alarms Fact[[]string]
	// Volume is the volume that the data is on.
	Volume Fact[Volume]
	// VolumeReadOnly and DataCorrupt are the conditions of those names.
	VolumeReadOnly, DataCorrupt Fact[Condition]
	// VolumeMismatch is the latest wrong volume that is not yet fixed.
	VolumeMismatch Fact[string]
	// Transitions are the last changes of state, oldest first.
	Transitions []Transition

	// Heartbeat is the last sign of life of whoever publishes for the member. Known and zero: there has never been one.
	Heartbeat Fact[time.Time]
	// NoHeartbeat says that there is no heartbeat Lease, which is not the same as not having been able to read it.
	NoHeartbeat bool
	// Published is when the status was last published.
	Published Fact[time.Time]

	// Lease is when druid's backup sidecar last renewed the member's Lease. Known and zero: never, or it can't be told.
	Lease Fact[time.Time]
	// NoLease says that there is no such Lease although druid runs the member.
	NoLease bool
	// LeaseRole is the role in the Lease: Leader or Member. A learner, and a member that knows no leader, are Member, too.
	LeaseRole Fact[string]
	// EtcdStatus is the member's entry in Etcd.status.members. NotInEtcdStatus says that the list was read and has none.
	EtcdStatus      Fact[EtcdStatusMember]
	NotInEtcdStatus bool
	// PeerTLSConfigured says whether the member's mounted configuration has TLS for peers, which the running etcd may not
	// have read yet.
	PeerTLSConfigured Fact[bool]
	// PodState is the pod. NoPod says that there is none.
	PodState Fact[Pod]
	NoPod    bool
	// Claim is the claim of the member's data, as the API server has it. NoClaim says that there is none.
	Claim   Fact[Claim]
	NoClaim bool
	// OtherClaims are the claims of what else the member keeps, for example of its WAL: all are lost together.
	OtherClaims []Claim
	// Live is what the member itself has answered.
	Live Fact[Live]
	// LastFull and LastDelta are the last snapshots, as the member tells of them.
	LastFull, LastDelta Fact[time.Time]
}

// Condition is a condition of an object.
type Condition struct {
	// Type names it. May be empty where the field that holds the condition is of one type.
	Type string
	// Status is True, False or Unknown.
	Status string
	// Reason is a word in CamelCase.
	Reason string
	// Message says it for people.
	Message string
	// Since is when Status last changed.
	Since time.Time
}

// Volume is the volume that a member's data is on.
type Volume struct {
	Claim, ClaimUID, Name, Handle, StorageClass string
	// Capacity is the size of the file system in bytes; zero is not known.
	Capacity int64
	// Available is the space left in bytes. Zero may be a full volume: it is known only where AvailableKnown is set.
	Available      int64
	AvailableKnown bool
}

// Transition is one change of a member's state.
type Transition struct {
	State, SubState, Reason, Message string
	Time                             time.Time
}

// SortMembers puts members in their natural order: main-2 before main-10.
func SortMembers(ms []Member) {
	slices.SortStableFunc(ms, func(a, b Member) int { return CompareNatural(a.Name, b.Name) })
}

// CompareNatural compares names with the numbers in them compared as numbers.
func CompareNatural(a, b string) int {
	for a != "" && b != "" {
		if isDigit(a[0]) && isDigit(b[0]) {
			x, restA := number(a)
			y, restB := number(b)
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
				return c
			}
			a, b = restA, restB
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// number splits s after its leading digits and drops their leading zeros.
func number(s string) (digits, rest string) {
	i := 0
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	digits, rest = s[:i], s[i:]
	for len(digits) > 1 && digits[0] == '0' {
		digits = digits[1:]
	}
	return digits, rest
}
