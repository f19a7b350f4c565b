package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdMemberTask is one operation on one cluster. A cluster has at most one unfinished task; a second one is Rejected.
//
//	Pending ──▶ Running ◀──▶ Waiting ──▶ Succeeded | Failed | Aborted
//	   │          ▲ └─▶ Paused ─┘
//	   └────────▶ Rejected
//
// Only spec.desired may be changed. A missed progress deadline sets condition Stalled and ends nothing: an end would
// unlock a half-done cluster.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=kubectl-etcdmember"
// +kubebuilder:metadata:annotations="etcdmember.github.io/schema-version=1"
// +kubebuilder:resource:path=etcdmembertasks,singular=etcdmembertask,shortName=edmt,scope=Namespaced
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterRef.name`
// +kubebuilder:printcolumn:name="Desired",type=string,JSONPath=`.spec.desired`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Started",type=date,JSONPath=`.status.startedAt`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || !(oldSelf.status.phase in ['Succeeded', 'Failed', 'Aborted', 'Rejected']) || (has(self.status) && has(self.status.phase) && self.status.phase == oldSelf.status.phase)",message="a finished task stays as it ended"
type EtcdMemberTask struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked. Immutable but for desired.
	// +required
	Spec EtcdMemberTaskSpec `json:"spec,omitzero"`
	// status is how far it is. Written by the one executor that holds the cluster's Lease.
	// +optional
	Status EtcdMemberTaskStatus `json:"status,omitzero"`
}

// EtcdMemberTaskList is a list of EtcdMemberTasks.
//
// +kubebuilder:object:root=true
type EtcdMemberTaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdMemberTask `json:"items"`
}

// EtcdMemberTaskSpec is what is asked.
//
// +kubebuilder:validation:XValidation:rule="self.clusterRef == oldSelf.clusterRef && self.members == oldSelf.members && self.config == oldSelf.config && has(self.notAfter) == has(oldSelf.notAfter) && (!has(self.notAfter) || self.notAfter == oldSelf.notAfter) && has(self.progressDeadline) == has(oldSelf.progressDeadline) && (!has(self.progressDeadline) || self.progressDeadline == oldSelf.progressDeadline) && has(self.ttlAfterFinished) == has(oldSelf.ttlAfterFinished) && (!has(self.ttlAfterFinished) || self.ttlAfterFinished == oldSelf.ttlAfterFinished) && has(self.allowDowntime) == has(oldSelf.allowDowntime) && (!has(self.allowDowntime) || self.allowDowntime == oldSelf.allowDowntime)",message="spec is immutable but for desired: create another task"
type EtcdMemberTaskSpec struct {
	// clusterRef names the cluster, in the task's namespace.
	// +required
	ClusterRef ClusterReference `json:"clusterRef,omitzero"`
	// members are all members that the task is to work on, as they were seen when it was asked for. A member with
	// another UID by now makes the task Rejected: a task from a restored backup replays nothing.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=15
	Members []TaskMember `json:"members,omitempty"`
	// notAfter is the time after which the task may no longer be begun: it is then Rejected.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
	// config is the operation: exactly one field, which is the task's type.
	// +required
	Config TaskConfig `json:"config,omitzero"`
	// desired is what is to become of the task: Run, Paused or Aborted. Pause and abort act before a member's point of
	// no return or after it votes again, never in between. Aborted is for good.
	// +optional
	// +kubebuilder:default=Run
	// +kubebuilder:validation:XValidation:rule="oldSelf != 'Aborted' || self == 'Aborted'",message="an aborted task can't be resumed: create another one"
	Desired TaskDesired `json:"desired,omitempty"`
	// progressDeadline is how long the task may go without progress before it is Stalled. Default 30m.
	// +optional
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s')",message="progressDeadline must be at least 10s"
	ProgressDeadline *metav1.Duration `json:"progressDeadline,omitempty"`
	// ttlAfterFinished is how long a finished task is kept. Default 168h, one week.
	// +optional
	// +kubebuilder:default="168h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="ttlAfterFinished must not be negative"
	TTLAfterFinished *metav1.Duration `json:"ttlAfterFinished,omitempty"`
	// allowDowntime permits what stops the service for a while, such as any roll of a single member.
	// +optional
	AllowDowntime *bool `json:"allowDowntime,omitempty"`
}

// TaskDesired is what is to become of a task.
// +kubebuilder:validation:Enum=Run;Paused;Aborted
type TaskDesired string

const (
	DesiredRun     TaskDesired = "Run"
	DesiredPaused  TaskDesired = "Paused"
	DesiredAborted TaskDesired = "Aborted"
)

// TaskMember is a member as it was seen when a task was asked for.
type TaskMember struct {
	// name is the EtcdMember's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// uid is the EtcdMember's UID.
	// +required
	UID UID `json:"uid,omitempty"`
}

// TaskConfig is the operation: exactly one of its fields.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type TaskConfig struct {
	// rollPods replaces the pods that are not of the newest revision, one at a time, leader last.
	// +optional
	RollPods *RollPods `json:"rollPods,omitempty"`
	// rollVolumes replaces the members' volumes, one at a time, leader last.
	// +optional
	RollVolumes *RollVolumes `json:"rollVolumes,omitempty"`
	// archive keeps the members' data aside.
	// +optional
	Archive *Archive `json:"archive,omitempty"`
	// restore brings back a cluster that has lost its quorum for good.
	// +optional
	Restore *Restore `json:"restore,omitempty"`
	// defragment defragments the members' databases, one at a time, leader last.
	// +optional
	Defragment *Defragment `json:"defragment,omitempty"`
	// moveLeader hands leadership to another voter.
	// +optional
	MoveLeader *MoveLeader `json:"moveLeader,omitempty"`
	// snapshot takes a backup through the cluster's backup sidecar.
	// +optional
	Snapshot *TakeSnapshot `json:"snapshot,omitempty"`
}

// RollPods replaces pods.
type RollPods struct {
	// soak is how long to wait after a member votes again before the next one. Default 30s.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="soak must be between 0s and 24h"
	Soak *metav1.Duration `json:"soak,omitempty"`
}

// RollVolumes replaces volumes, or grows them in place where only the size grows and the class can expand.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) || has(self.size) || has(self.volumeAttributesClassName) || (has(self.renew) && self.renew)",message="at least one of storageClassName, size, volumeAttributesClassName or renew must be given: there is nothing to change"
type RollVolumes struct {
	// storageClassName is the new volumes' class. Absent: the class that the claims have.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName,omitempty"`
	// size is the new volumes' size. Absent: the size that the claims have.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
	// volumeAttributesClassName is the new volumes' attributes class. Absent: the one that the claims have.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VolumeAttributesClassName string `json:"volumeAttributesClassName,omitempty"`
	// renew replaces the volumes although nothing about the claim template changes, for example because the class's parameters did.
	// +optional
	Renew *bool `json:"renew,omitempty"`
	// archive says how the old data is kept. Absent: the old volumes are retained.
	// +optional
	Archive *Archive `json:"archive,omitempty"`
	// soak is how long to wait after a member votes again before the next one. Default 30s.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="soak must be between 0s and 24h"
	Soak *metav1.Duration `json:"soak,omitempty"`
}

// ArchiveMode is how data is kept aside.
// +kubebuilder:validation:Enum=RetainVolume;KeepAside;VolumeSnapshot;Store
type ArchiveMode string

const (
	// ArchiveRetainVolume sets the volume's reclaim policy to Retain and reads it back.
	ArchiveRetainVolume ArchiveMode = "RetainVolume"
	// ArchiveKeepAside renames the data directory to a sibling on the same volume.
	ArchiveKeepAside ArchiveMode = "KeepAside"
	// ArchiveVolumeSnapshot takes a CSI VolumeSnapshot of the claim.
	ArchiveVolumeSnapshot ArchiveMode = "VolumeSnapshot"
	// ArchiveStore copies the data to a store that an administrator has defined.
	ArchiveStore ArchiveMode = "Store"
)

// Archive says how data is kept aside.
//
// +kubebuilder:validation:XValidation:rule="has(self.storeName) == (self.mode == 'Store')",message="storeName must be set if, and only if, mode is Store"
// +kubebuilder:validation:XValidation:rule="!has(self.volumeSnapshotClassName) || self.mode == 'VolumeSnapshot'",message="volumeSnapshotClassName may be set only if mode is VolumeSnapshot"
type Archive struct {
	// mode is how the data is kept aside.
	// +required
	Mode ArchiveMode `json:"mode,omitempty"`
	// storeName names a store that an administrator has defined. It is never a URL.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	StoreName string `json:"storeName,omitempty"`
	// volumeSnapshotClassName is the class of the VolumeSnapshots. Absent: the cluster's default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VolumeSnapshotClassName string `json:"volumeSnapshotClassName,omitempty"`
}

// RestoreSource is what a cluster is restored from.
// +kubebuilder:validation:Enum=Survivor;Archive;Backup
type RestoreSource string

const (
	// RestoreFromSurvivor: the data of the most advanced member that is left.
	RestoreFromSurvivor RestoreSource = "Survivor"
	// RestoreFromArchive: an archive that an earlier task has made.
	RestoreFromArchive RestoreSource = "Archive"
	// RestoreFromBackup: a backup in the cluster's store.
	RestoreFromBackup RestoreSource = "Backup"
)

// Restore brings back a cluster that has lost its quorum for good.
//
// +kubebuilder:validation:XValidation:rule="has(self.archiveName) == (self.source == 'Archive')",message="archiveName must be set if, and only if, source is Archive"
type Restore struct {
	// source is what to restore from.
	// +required
	Source RestoreSource `json:"source,omitempty"`
	// archiveName names an archive in another task's status, for source Archive.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ArchiveName string `json:"archiveName,omitempty"`
	// fenced are the members of which a person says that their etcd does not run and can't start again.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=15
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Fenced []string `json:"fenced,omitempty"`
	// archive says how every old member's data is kept first.
	// +required
	Archive Archive `json:"archive,omitzero"`
}

// Defragment defragments databases.
type Defragment struct {
	// minimumFreePercent is how much of a database defragmentation must free to be worth its short stop. Default 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MinimumFreePercent *int32 `json:"minimumFreePercent,omitempty"`
}

// MoveLeader hands leadership over.
type MoveLeader struct {
	// to is the name of the member that is to lead. Absent: the most caught-up other voter.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	To string `json:"to,omitempty"`
}

// SnapshotType is how much a backup holds.
// +kubebuilder:validation:Enum=Full;Delta
type SnapshotType string

const (
	SnapshotFull  SnapshotType = "Full"
	SnapshotDelta SnapshotType = "Delta"
)

// TakeSnapshot takes a backup.
type TakeSnapshot struct {
	// type is Full or Delta.
	// +required
	Type SnapshotType `json:"type,omitempty"`
}

// TaskPhase is how far a task is.
// +kubebuilder:validation:Enum=Pending;Running;Waiting;Paused;Succeeded;Failed;Aborted;Rejected
type TaskPhase string

const (
	// TaskPending: no executor has looked at it yet.
	TaskPending TaskPhase = "Pending"
	// TaskRunning: a step is being taken.
	TaskRunning TaskPhase = "Running"
	// TaskWaiting: the next step is not safe now, see reason.
	TaskWaiting TaskPhase = "Waiting"
	// TaskPaused: by spec.desired.
	TaskPaused TaskPhase = "Paused"
	// TaskSucceeded: done, and seen to be done.
	TaskSucceeded TaskPhase = "Succeeded"
	// TaskFailed: ended without being done.
	TaskFailed TaskPhase = "Failed"
	// TaskAborted: ended by spec.desired.
	TaskAborted TaskPhase = "Aborted"
	// TaskRejected: never begun, see reason.
	TaskRejected TaskPhase = "Rejected"
)

// Finished says whether a task in this phase is over.
func (p TaskPhase) Finished() bool {
	switch p {
	case TaskSucceeded, TaskFailed, TaskAborted, TaskRejected:
		return true
	default:
		return false
	}
}

// EtcdMemberTaskStatus is how far a task is.
type EtcdMemberTaskStatus struct {
	// conditions are Stalled when the progress deadline is missed, Reconciling while the task is unfinished, and Ready when it has succeeded.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that the executor last acted on.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is how far the task is.
	// +optional
	Phase TaskPhase `json:"phase,omitempty"`
	// step is what is being done now, or is waited for.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Step string `json:"step,omitempty"`
	// reason is a word for why the task is in its phase, in CamelCase.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
	// message says it for people.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
	// startedAt is when the first step was taken.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// finishedAt is when the task ended.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// members is what has become of each member.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=15
	Members []TaskMemberStatus `json:"members,omitempty"`
	// steps are the steps in the order in which they were taken, each recorded before it was. The oldest go first when there are too many.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Steps []TaskStep `json:"steps,omitempty"`
	// archives are the data that the task has kept aside.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Archives []TaskArchive `json:"archives,omitempty"`
	// evidence is what an observer of the cluster saw while the task ran.
	// +optional
	Evidence *TaskEvidence `json:"evidence,omitempty"`
}

// TaskMemberPhase is how far a task is with one member.
// +kubebuilder:validation:Enum=Pending;InProgress;Done;Skipped
type TaskMemberPhase string

const (
	TaskMemberPending    TaskMemberPhase = "Pending"
	TaskMemberInProgress TaskMemberPhase = "InProgress"
	TaskMemberDone       TaskMemberPhase = "Done"
	TaskMemberSkipped    TaskMemberPhase = "Skipped"
)

// TaskMemberStatus is what has become of one member.
type TaskMemberStatus struct {
	// name is the EtcdMember's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// phase is how far the task is with this member.
	// +optional
	Phase TaskMemberPhase `json:"phase,omitempty"`
	// oldID is the member's ID before.
	// +optional
	OldID EtcdID `json:"oldID,omitempty"`
	// newID is the member's ID after: a member that lost its data comes back with a new one.
	// +optional
	NewID EtcdID `json:"newID,omitempty"`
	// oldPodUID is the UID of the pod before.
	// +optional
	OldPodUID UID `json:"oldPodUID,omitempty"`
	// newPodUID is the UID of the pod after.
	// +optional
	NewPodUID UID `json:"newPodUID,omitempty"`
	// oldClaimUID is the UID of the claim before.
	// +optional
	OldClaimUID UID `json:"oldClaimUID,omitempty"`
	// newClaimUID is the UID of the claim after.
	// +optional
	NewClaimUID UID `json:"newClaimUID,omitempty"`
	// oldVolume is the name of the PersistentVolume before.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	OldVolume string `json:"oldVolume,omitempty"`
	// newVolume is the name of the PersistentVolume after.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	NewVolume string `json:"newVolume,omitempty"`
	// startedAt is when the first step on this member was taken.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// finishedAt is when the task was done with this member.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}

// TaskStep is one step, recorded before it was taken.
type TaskStep struct {
	// number counts the task's steps from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number,omitempty"`
	// name is what the step does, in CamelCase.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`
	// member is the member that it is about, if it is about one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Member string `json:"member,omitempty"`
	// recordedAt is when the step was recorded, which is before it was taken.
	// +required
	RecordedAt metav1.MicroTime `json:"recordedAt,omitzero"`
	// doneAt is when its effect was seen. Absent: it may or may not have been taken.
	// +optional
	DoneAt *metav1.MicroTime `json:"doneAt,omitempty"`
	// message says it for people.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// TaskArchive is data that a task has kept aside.
type TaskArchive struct {
	// name tells the archive from others of the task.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// member is the member whose data it is.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Member string `json:"member,omitempty"`
	// mode is how it was kept.
	// +required
	Mode ArchiveMode `json:"mode,omitempty"`
	// location is where it is: a volume, a directory on one, a snapshot or a path in a store.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Location string `json:"location,omitempty"`
	// size is how large it is.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
	// sha256 is the archive's checksum in lower-case hexadecimal, where it is one file.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256,omitempty"`
	// createdAt is when it was made.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`
	// verifiedAt is when it was last read back and found to be whole.
	// +optional
	VerifiedAt *metav1.Time `json:"verifiedAt,omitempty"`
}

// TaskEvidence is what an observer of the cluster saw while a task ran. Times in which it did not look are counted, not glossed over.
type TaskEvidence struct {
	// samples is how many linearizable reads were tried.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Samples *int64 `json:"samples,omitempty"`
	// failures is how many of them failed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failures *int64 `json:"failures,omitempty"`
	// longestGap is the longest time between two reads that succeeded.
	// +optional
	LongestGap *metav1.Duration `json:"longestGap,omitempty"`
	// longestUnobserved is the longest time in which the observer itself did not look.
	// +optional
	LongestUnobserved *metav1.Duration `json:"longestUnobserved,omitempty"`
	// minimumVoters is the least number of healthy voters that was seen.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinimumVoters *int32 `json:"minimumVoters,omitempty"`
	// quorum is the quorum at that time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Quorum *int32 `json:"quorum,omitempty"`
	// leaderChanges is how often leadership changed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	LeaderChanges *int32 `json:"leaderChanges,omitempty"`
	// hashRevision is the revision at which all members' hashes were compared at the end.
	// +optional
	// +kubebuilder:validation:Minimum=0
	HashRevision int64 `json:"hashRevision,omitempty"`
	// hash is the hash that all members had at hashRevision, in lower-case hexadecimal.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`
}
