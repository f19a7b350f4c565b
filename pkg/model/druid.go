package model

import "time"

// Etcd is what druid's Etcd says of itself and of its cluster.
type Etcd struct {
	// UID is the object's.
	UID string
	// Generation is of the spec, and ObservedGeneration is the one that druid has last carried out.
	Generation, ObservedGeneration int64
	// Suspended says that druid does not reconcile the spec, ProtectionDisabled that its webhook lets others change what
	// druid manages (annotations druid.gardener.cloud/suspend-etcd-spec-reconcile and disable-etcd-component-protection).
	Suspended, ProtectionDisabled bool
	// ReconcileAsked says that somebody has asked druid to reconcile, and it has not yet done so.
	ReconcileAsked bool
	// Deleting is when deletion was asked for. Zero: it was not.
	Deleting time.Time
	// LastOperation is what druid has last done.
	LastOperation Operation
	// LastErrors are druid's last errors.
	LastErrors []Error
	// Conditions are druid's. They can lag behind by a minute: they are shown, and never judged by.
	Conditions []Condition
	// StatusMembers is the length of status.members. druid recreates a missing StatefulSet with as many replicas.
	StatusMembers int
	// StorageClass and StorageCapacity (bytes; 0: not told) are wanted for the members' volumes.
	StorageClass    string
	StorageCapacity int64
}

// Condition returns the condition of a type.
func (e Etcd) Condition(typ string) (Condition, bool) {
	for _, c := range e.Conditions {
		if c.Type == typ {
			return c, true
		}
	}
	return Condition{}, false
}

// Operation is one thing that druid has done to a cluster.
type Operation struct {
	// Type is Create, Reconcile or Delete; State is Processing, Succeeded, Error or Requeue.
	Type, State, Description string
	Time                     time.Time
}

// Error is one of druid's errors.
type Error struct {
	Code, Description string
	Time              time.Time
}

// EtcdStatusMember is an entry in Etcd.status.members.
type EtcdStatusMember struct {
	// ID is lower-case hexadecimal. Role is Leader, Member or empty. Status is Ready, NotReady or Unknown.
	ID, Role, Status, Reason string
	// Since is when Status last changed. It does not change with the role or the ID.
	Since time.Time
}

// Task is an EtcdOpsTask.
type Task struct {
	Name string
	// Type is the field that its spec.config has, for example onDemandSnapshot. State is Pending or InProgress, or empty.
	Type, State string
	Created     time.Time
}

// Backups are the backups of a cluster.
type Backups struct {
	// Full and Delta are the last snapshots.
	Full, Delta Snapshot
	// FullSchedule is when full snapshots are taken, in cron's format. FullInterval is the time between them; 0: not known.
	FullSchedule string
	FullInterval time.Duration
	// DeltaPeriod is the time between delta snapshots. 0: none are taken, or it is not known.
	DeltaPeriod time.Duration
}

// Snapshot is one snapshot.
type Snapshot struct {
	// Time is when it was taken. Of delta snapshots it is when the sidecar last looked whether one is due: it renews the
	// Lease also where nothing was written. Zero: none is known.
	Time time.Time
	// Revision is the last that is in it.
	Revision int64
	// Unreadable says why the Lease that tells of it can't be understood.
	Unreadable string
}

// StatefulSet is the set that runs a cluster's pods.
type StatefulSet struct {
	UID string
	// Replicas are wanted, ReadyReplicas are ready.
	Replicas, ReadyReplicas int
	// CurrentRevision and UpdateRevision are the hashes of pod templates: pods are replaced until all have the latter.
	CurrentRevision, UpdateRevision string
	// UpdateStrategy is RollingUpdate or OnDelete. PodManagement is OrderedReady or Parallel.
	UpdateStrategy, PodManagement string
	// Generation and ObservedGeneration say whether its controller has seen the spec.
	Generation, ObservedGeneration int64
	// Deleting is when deletion was asked for. Zero: it was not.
	Deleting time.Time
}

// Pod is a member's pod.
type Pod struct {
	UID string
	// Phase is Pending, Running, Succeeded, Failed or Unknown. Reason and Message say why; of a pending pod, why it can't be
	// scheduled.
	Phase, Reason, Message string
	// Node is where it runs.
	Node    string
	Created time.Time
	// Deleting is when it is to be gone by. Zero: nobody has asked for that.
	Deleting time.Time
	// ContainersReady and Ready are its conditions: True, False, Unknown or empty. ReadyReason says why Ready is what it is.
	ContainersReady, Ready, ReadyReason string
	// Etcd is the container that runs etcd. Its Name is empty where none is known to.
	Etcd Container
	// RevisionHash is label controller-revision-hash: the template that it was made from.
	RevisionHash string
	// OwnerUID is its StatefulSet's UID. Empty: it belongs to none.
	OwnerUID string
}

// Container is a container in a pod.
type Container struct {
	Name  string
	Ready bool
	// State is Running, Waiting, Terminated, or empty where the kubelet has told of none. Reason and Message say why, and
	// Since is when it was started or has ended.
	State, Reason, Message string
	Since                  time.Time
	Restarts               int
}

// Claim is a PersistentVolumeClaim, with what is known of the volume that it is bound to.
type Claim struct {
	Name, UID string
	// Phase is Pending, Bound or Lost.
	Phase string
	// Volume is the name of the PersistentVolume; Handle is its CSI volume's, where it was read.
	Volume, Handle string
	StorageClass   string
	// Requested and Capacity are bytes; 0: not told.
	Requested, Capacity int64
	// ReclaimPolicy is what becomes of the volume without the claim: Retain or Delete. Empty: the volume was not read.
	ReclaimPolicy string
	Created       time.Time
	// Deleting is when deletion was asked for. Zero: it was not. A claim in use stays until its pod is gone.
	Deleting time.Time
}
