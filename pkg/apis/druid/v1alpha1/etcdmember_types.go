package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdMember is the published state of one member of an etcd cluster, and what is asked of that member now.
//
// Its name is the member's name, which is its pod's name unless the cluster has a member name prefix. It owns
// nothing: deleting it loses no data and stops no etcd.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=kubectl-etcdmember"
// +kubebuilder:metadata:annotations="etcdmember.github.io/schema-version=1"
// +kubebuilder:resource:path=etcdmembers,singular=etcdmember,shortName=edm,scope=Namespaced
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterRef.name`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.status.subState`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="ID",type=string,JSONPath=`.status.id`
// +kubebuilder:printcolumn:name="DB",type=string,JSONPath=`.status.dbSize`
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.revision`
// +kubebuilder:printcolumn:name="Peer-TLS",type=boolean,JSONPath=`.status.peerTLSEnabled`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`,priority=1
// +kubebuilder:printcolumn:name="Cluster-ID",type=string,JSONPath=`.status.clusterID`,priority=1
// +kubebuilder:printcolumn:name="Volume",type=string,JSONPath=`.status.volume.volume`,priority=1
// +kubebuilder:printcolumn:name="Published",type=date,JSONPath=`.status.publishedAt`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must be no longer than 63 characters: it is a pod's name and the value of a label"
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.podName || self.metadata.name.endsWith('-' + self.spec.podName)",message="metadata.name must be spec.podName, or a member name prefix, a hyphen and spec.podName"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.action) || !has(self.spec.action) || self.spec.action.id == oldSelf.spec.action.id || (has(oldSelf.status) && has(oldSelf.status.action) && oldSelf.status.action.id == oldSelf.spec.action.id && oldSelf.status.action.state in ['Succeeded', 'Failed'])",message="spec.action may be replaced only after it has finished, see status.action; remove it first to withdraw it"
type EtcdMember struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which member this is, and what is asked of it.
	// +required
	Spec EtcdMemberSpec `json:"spec,omitzero"`
	// status is what the member publishes of itself. Absent until it first has.
	// +optional
	Status EtcdMemberStatus `json:"status,omitzero"`
}

// EtcdMemberList is a list of EtcdMembers.
//
// +kubebuilder:object:root=true
type EtcdMemberList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdMember `json:"items"`
}

// EtcdMemberSpec says which member this is, and what is asked of it.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.bootstrap) || !has(self.bootstrap) || self.bootstrap == oldSelf.bootstrap",message="bootstrap may be added or removed, not changed: a permit is for one founding of one cluster"
type EtcdMemberSpec struct {
	// clusterRef names the object in the same namespace that runs the cluster's pods. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterRef is immutable: a member does not change its cluster"
	ClusterRef ClusterReference `json:"clusterRef,omitzero"`
	// podName is the name of the pod that the member runs in, and the identity that may publish its status. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="podName is immutable: it is the identity that may publish the member's status"
	PodName string `json:"podName,omitempty"`
	// bootstrap permits the member to start with an empty data directory as a founder of a new cluster. Without it an
	// empty member only ever joins an existing cluster, as a learner: it never founds a second one.
	// +optional
	Bootstrap *BootstrapPermit `json:"bootstrap,omitempty"`
	// action is the one thing that is asked of this member now; its agent carries it out and answers in status.action.
	// +optional
	Action *MemberAction `json:"action,omitempty"`
}

// ClusterKind is the kind of object that runs a cluster's pods.
// +kubebuilder:validation:Enum=Etcd;StatefulSet
type ClusterKind string

const (
	// ClusterKindEtcd is druid's Etcd, apiVersion druid.gardener.cloud/v1alpha1.
	ClusterKindEtcd ClusterKind = "Etcd"
	// ClusterKindStatefulSet is a StatefulSet of apps/v1 that no druid manages.
	ClusterKindStatefulSet ClusterKind = "StatefulSet"
)

// ClusterReference names a cluster in the namespace of the object that refers to it.
type ClusterReference struct {
	// kind is Etcd, for a cluster of etcd-druid, or StatefulSet.
	// +required
	Kind ClusterKind `json:"kind,omitempty"`
	// name is the name of the Etcd or StatefulSet.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
}

// BootstrapPermit permits one founding of one cluster.
type BootstrapPermit struct {
	// permit is the UID of the ConfigMap etcdmember-KIND-CLUSTER that records the founding. A member uses a permit at
	// most once and records that in status.bootstrapPermitUsed before its first start.
	// +required
	Permit UID `json:"permit,omitempty"`
	// initialCluster are the members that found the cluster together, by name.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=15
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	InitialCluster []string `json:"initialCluster,omitempty"`
}

// MemberActionType is what can be asked of one member.
// +kubebuilder:validation:Enum=Hold;Archive;Verify;StepDown;Defragment
type MemberActionType string

const (
	// MemberActionHold asks the member not to start etcd, and to stop it if it runs. It lasts until it is removed.
	MemberActionHold MemberActionType = "Hold"
	// MemberActionArchive asks for a copy of the member's data to be kept aside and verified.
	MemberActionArchive MemberActionType = "Archive"
	// MemberActionVerify asks for a check of the database: a full one if it is stopped, a hash of it if it runs.
	MemberActionVerify MemberActionType = "Verify"
	// MemberActionStepDown asks the member, if it leads, to hand leadership to another voter.
	MemberActionStepDown MemberActionType = "StepDown"
	// MemberActionDefragment asks for a defragmentation of the member's own database.
	MemberActionDefragment MemberActionType = "Defragment"
)

// MemberAction is one thing asked of one member. The member carries out an id once, however often it restarts.
//
// +kubebuilder:validation:XValidation:rule="has(self.archive) == (self.type == 'Archive')",message="archive must be set if, and only if, type is Archive"
// +kubebuilder:validation:XValidation:rule="!has(self.stepDown) || self.type == 'StepDown'",message="stepDown may be set only if type is StepDown"
// +kubebuilder:validation:XValidation:rule="self.id != oldSelf.id || self == oldSelf",message="an action is immutable: ask for another one under a new id"
type MemberAction struct {
	// id tells this request from every other of this member, for example the UID of the task that it is a part of and the step's number.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	ID string `json:"id,omitempty"`
	// type is what is asked.
	// +required
	Type MemberActionType `json:"type,omitempty"`
	// notAfter is the time after which the action may no longer be begun: the answer is then Failed with reason Expired.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
	// archive says how to keep the data aside, for type Archive.
	// +optional
	Archive *MemberArchive `json:"archive,omitempty"`
	// stepDown narrows who takes over, for type StepDown.
	// +optional
	StepDown *MemberStepDown `json:"stepDown,omitempty"`
}

// MemberArchiveMode is how an agent keeps data aside.
// +kubebuilder:validation:Enum=KeepAside;Store
type MemberArchiveMode string

const (
	// MemberArchiveKeepAside renames the data directory to a sibling on the same volume: instant, and no second copy.
	MemberArchiveKeepAside MemberArchiveMode = "KeepAside"
	// MemberArchiveStore copies the data to a store that an administrator has defined.
	MemberArchiveStore MemberArchiveMode = "Store"
)

// MemberArchive says how one member's data is kept aside.
//
// +kubebuilder:validation:XValidation:rule="has(self.storeName) == (self.mode == 'Store')",message="storeName must be set if, and only if, mode is Store"
type MemberArchive struct {
	// mode is how the data is kept aside.
	// +required
	Mode MemberArchiveMode `json:"mode,omitempty"`
	// storeName names a store that an administrator has defined. It is never a URL: who may ask for an archive does not choose where it goes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	StoreName string `json:"storeName,omitempty"`
}

// MemberStepDown narrows who takes over leadership.
type MemberStepDown struct {
	// to is the name of the member that takes over. Absent: the most caught-up other voter.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	To string `json:"to,omitempty"`
}

// MemberState is the stage of a member's life (DEP-04, "States and Sub-States").
// +kubebuilder:validation:Enum=New;Initializing;Starting;Started
type MemberState string

const (
	// StateNew is the first state of every member, and that of one that may not start.
	StateNew MemberState = "New"
	// StateInitializing is the state of a member whose data is being validated or restored.
	StateInitializing MemberState = "Initializing"
	// StateStarting is the state of a member that joins as a learner.
	StateStarting MemberState = "Starting"
	// StateStarted is the state of a voting member.
	StateStarted MemberState = "Started"
)

// MemberSubState tells the steps of a MemberState apart (DEP-04, "States and Sub-States"). State New has none.
// +kubebuilder:validation:Enum=DBValidationSanity;DBValidationFull;Restoration;PendingLearner;Learner;Follower;Leader
type MemberSubState string

const (
	// SubStateDBValidationSanity (Initializing): a quick check after a clean exit.
	SubStateDBValidationSanity MemberSubState = "DBValidationSanity"
	// SubStateDBValidationFull (Initializing): a full check after an unclean exit.
	SubStateDBValidationFull MemberSubState = "DBValidationFull"
	// SubStateRestoration (Initializing): a single member's data is restored from a backup.
	SubStateRestoration MemberSubState = "Restoration"
	// SubStatePendingLearner (Starting): the member waits to be added as a learner; there is one at a time.
	SubStatePendingLearner MemberSubState = "PendingLearner"
	// SubStateLearner (Starting): the member copies the leader's data and does not vote.
	SubStateLearner MemberSubState = "Learner"
	// SubStateFollower (Started): the member votes and does not lead.
	SubStateFollower MemberSubState = "Follower"
	// SubStateLeader (Started): the member leads.
	SubStateLeader MemberSubState = "Leader"
)

// Reasons of transitions. The first block is DEP-04's "Reason Codes"; RestorationSucceeded is its illegal
// "Initializing (Restoration)Succeeded", and DBCorruptionDetected is in its example only.
const (
	ReasonClusterScaledUp             = "ClusterScaledUp"
	ReasonNewSingleNodeClusterCreated = "NewSingleNodeClusterCreated"
	ReasonDetectedPreviousCleanExit   = "DetectedPreviousCleanExit"
	ReasonDetectedPreviousUncleanExit = "DetectedPreviousUncleanExit"
	ReasonDBValidationFailed          = "DBValidationFailed"
	ReasonDBValidationSucceeded       = "DBValidationSucceeded"
	ReasonRestorationSucceeded        = "RestorationSucceeded"
	ReasonWaitingToJoinAsLearner      = "WaitingToJoinAsLearner"
	ReasonJoinedAsLearner             = "JoinedAsLearner"
	ReasonPromotedAsVotingMember      = "PromotedAsVotingMember"
	ReasonGainedClusterLeadership     = "GainedClusterLeadership"
	ReasonLostClusterLeadership       = "LostClusterLeadership"
	ReasonDBCorruptionDetected        = "DBCorruptionDetected"

	// What DEP-04 forgot: why a member stays New, how a cluster is founded, and a first look at a member that runs already.

	// ReasonHeld: an action of type Hold keeps the member from starting.
	ReasonHeld = "Held"
	// ReasonNoPermit: the data directory is empty, there is no cluster to join, and no permit to found one.
	ReasonNoPermit = "NoPermit"
	// ReasonVolumeMismatch: the volume carries the marker of another member or cluster.
	ReasonVolumeMismatch = "VolumeMismatch"
	// ReasonClusterFounded: the member founded a new cluster with a permit.
	ReasonClusterFounded = "ClusterFounded"
	// ReasonMemberObserved: whoever publishes first saw the member in this state; how it got there is not known.
	ReasonMemberObserved = "MemberObserved"
	// ReasonMemberRestarted: the member's etcd started again.
	ReasonMemberRestarted = "MemberRestarted"
)

// Condition types of an EtcdMember.
const (
	// ConditionReady: the member is a voter, its etcd answers a linearizable read, and it raises no alarm that stops it
	// from serving. Unknown with reason PublisherLost when the heartbeat is gone. Written by the agent or the observer,
	// and by the controller for PublisherLost.
	ConditionReady = "Ready"
	// ConditionDataVolumeReadOnly: the data volume's file system is read-only.
	ConditionDataVolumeReadOnly = "DataVolumeReadOnly"
	// ConditionDataCorrupt: the member's own data is known to be corrupt.
	ConditionDataCorrupt = "DataCorrupt"
	// ConditionReconciling: the controller has not yet done what the object asks for.
	ConditionReconciling = "Reconciling"
	// ConditionStalled: what the object asks for can't be done without help.
	ConditionStalled = "Stalled"
	// ConditionClusterReady: the member's cluster has a quorum of healthy voters.
	ConditionClusterReady = "ClusterReady"
	// ConditionClusterAllMembersReady: all wanted members of the member's cluster are Ready.
	ConditionClusterAllMembersReady = "ClusterAllMembersReady"
)

// Reasons of condition Ready.
const (
	// ReadyReasonServing: the member votes and answers linearizable reads.
	ReadyReasonServing = "Serving"
	// ReadyReasonNotAnswering: the member's etcd does not answer at all.
	ReadyReasonNotAnswering = "NotAnswering"
	// ReadyReasonNoLeader: the member answers, and knows no leader.
	ReadyReasonNoLeader = "NoLeader"
	// ReadyReasonReadFailed: the member knows a leader, and a linearizable read failed.
	ReadyReasonReadFailed = "ReadFailed"
	// ReadyReasonLearner: the member does not vote.
	ReadyReasonLearner = "Learner"
	// ReadyReasonAlarm: the member raises an alarm.
	ReadyReasonAlarm = "Alarm"
	// ReadyReasonNotStarted: the member's etcd has not been started.
	ReadyReasonNotStarted = "NotStarted"
	// ReadyReasonPermissionDenied (Ready is Unknown): the member answers, but does not let its publisher ask what Ready needs.
	ReadyReasonPermissionDenied = "PermissionDenied"
	// ReadyReasonPublisherLost: nobody has published for the member for longer than a minute.
	ReadyReasonPublisherLost = "PublisherLost"
)

// EtcdMemberStatus is what a member publishes of itself. A field that is absent is not known.
type EtcdMemberStatus struct {
	// conditions are Ready, DataVolumeReadOnly and DataCorrupt, which are the publisher's, and Reconciling, Stalled,
	// ClusterReady and ClusterAllMembersReady, which are the controller's, as is Ready=Unknown with reason PublisherLost.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that the publisher last acted on.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// id is the member's ID, in lower-case hexadecimal without padding, as etcdctl prints it.
	// +optional
	ID EtcdID `json:"id,omitempty"`
	// clusterID is the ID of the cluster that the member belongs to by its own word, in lower-case hexadecimal. Members
	// of one cluster have the same; the reverse does not hold (etcd derives it from peer URLs and token).
	// +optional
	ClusterID EtcdID `json:"clusterID,omitempty"`
	// state is the stage of the member's life.
	// +optional
	State MemberState `json:"state,omitempty"`
	// subState tells the steps of a state apart; the role of a member that has started.
	// +optional
	SubState MemberSubState `json:"subState,omitempty"`
	// peerTLSEnabled says whether every peer URL that the running etcd advertises is https. It is not what is configured.
	// +optional
	PeerTLSEnabled *bool `json:"peerTLSEnabled,omitempty"`
	// dbSize is the size of the database file.
	// +optional
	DBSize *resource.Quantity `json:"dbSize,omitempty"`
	// dbSizeInUse is dbSize without the pages that defragmentation would free.
	// +optional
	DBSizeInUse *resource.Quantity `json:"dbSizeInUse,omitempty"`
	// dbSizeQuota is the size at which etcd raises NOSPACE.
	// +optional
	DBSizeQuota *resource.Quantity `json:"dbSizeQuota,omitempty"`
	// revision is the store's revision when the member published. It is not published for its own sake, so it may be
	// minutes old: see publishedAt.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Revision int64 `json:"revision,omitempty"`
	// raft is the member's own view of the raft log when it published.
	// +optional
	Raft *RaftStatus `json:"raft,omitempty"`
	// version is the version of the running etcd, for example 3.7.3.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// alarms are the alarms that this member raises itself, for example NOSPACE or CORRUPT.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=64
	Alarms []string `json:"alarms,omitempty"`
	// snapshots are the backups that this member has taken, where it takes any.
	// +optional
	Snapshots *Snapshots `json:"snapshots,omitempty"`
	// lastRestoration is the last time that the member's data was brought back.
	// +optional
	LastRestoration *Restoration `json:"lastRestoration,omitempty"`
	// lastDefragmentation is the last defragmentation of the member's database.
	// +optional
	LastDefragmentation *Defragmentation `json:"lastDefragmentation,omitempty"`
	// volume is the volume that the member's data is on.
	// +optional
	Volume *Volume `json:"volume,omitempty"`
	// volumeMismatches are the wrong volumes that the member has found mounted, and did not start on.
	// +optional
	// +listType=map
	// +listMapKey=volumeID
	// +kubebuilder:validation:MaxItems=20
	VolumeMismatches []VolumeMismatch `json:"volumeMismatches,omitempty"`
	// transitions are the last 20 changes of state and subState, oldest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Transitions []Transition `json:"transitions,omitempty"`
	// bootstrapPermitUsed is the permit that the member has used to found a cluster. It never uses it again.
	// +optional
	BootstrapPermitUsed UID `json:"bootstrapPermitUsed,omitempty"`
	// action is the progress and the result of spec.action.
	// +optional
	Action *MemberActionStatus `json:"action,omitempty"`
	// publishedAt is when the status was last published. Whether the publisher still lives is told by the Lease etcdmember-NAME.
	// +optional
	PublishedAt *metav1.MicroTime `json:"publishedAt,omitempty"`
	// publishedBy is who published it.
	// +optional
	PublishedBy *Publisher `json:"publishedBy,omitempty"`
}

// MaxTransitions is how many transitions are kept.
const MaxTransitions = 20

// EtcdID is an ID of etcd's in lower-case hexadecimal without padding. It is a string because JSON readers lose the
// last digits of a 64-bit number.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:Pattern=`^[0-9a-f]{1,16}$`
type EtcdID string

// UID is the UID of an object of Kubernetes.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
type UID string

// RaftStatus is a member's own view of the raft log. On a member that is cut off all three stand still together.
type RaftStatus struct {
	// term is the raft term.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Term int64 `json:"term,omitempty"`
	// index is the index of the last log entry that the member knows to be committed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Index int64 `json:"index,omitempty"`
	// appliedIndex is the index of the last log entry that the member has applied to its store.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AppliedIndex int64 `json:"appliedIndex,omitempty"`
}

// Snapshots are the backups that a member has taken (DEP-04, "Monitoring Backup Health").
type Snapshots struct {
	// lastFull is the last full snapshot.
	// +optional
	LastFull *Snapshot `json:"lastFull,omitempty"`
	// lastDelta is the last delta snapshot.
	// +optional
	LastDelta *Snapshot `json:"lastDelta,omitempty"`
	// accumulatedDeltaSize is the size of all delta snapshots since lastFull.
	// +optional
	AccumulatedDeltaSize *resource.Quantity `json:"accumulatedDeltaSize,omitempty"`
}

// Snapshot is one backup.
type Snapshot struct {
	// timestamp is when it was taken.
	// +optional
	Timestamp *metav1.Time `json:"timestamp,omitempty"`
	// name is the name of the uploaded file.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name,omitempty"`
	// size is the size of the uncompressed file.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
	// startRevision is the first revision in it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	StartRevision *int64 `json:"startRevision,omitempty"`
	// endRevision is the last revision in it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	EndRevision int64 `json:"endRevision,omitempty"`
}

// Outcome is how something went.
// +kubebuilder:validation:Enum=InProgress;Succeeded;Failed
type Outcome string

const (
	OutcomeInProgress Outcome = "InProgress"
	OutcomeSucceeded  Outcome = "Succeeded"
	OutcomeFailed     Outcome = "Failed"
)

// RestorationType is where restored data came from.
// +kubebuilder:validation:Enum=FromSnapshot;FromLeader
type RestorationType string

const (
	// RestorationFromSnapshot: from a backup, which only a single member does.
	RestorationFromSnapshot RestorationType = "FromSnapshot"
	// RestorationFromLeader: copied from the leader, as a learner.
	RestorationFromLeader RestorationType = "FromLeader"
)

// Restoration is one time that a member's data was brought back.
type Restoration struct {
	// type is where the data came from.
	// +optional
	Type RestorationType `json:"type,omitempty"`
	// status is how it went.
	// +optional
	Status Outcome `json:"status,omitempty"`
	// reason is a word for why, in CamelCase.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
	// message says it for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// startTime is when it began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// endTime is when it ended.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
}

// Defragmentation is one defragmentation of a member's database.
type Defragmentation struct {
	// status is how it went.
	// +optional
	Status Outcome `json:"status,omitempty"`
	// reason is a word for why, in CamelCase.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
	// message says it for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// startTime is when it began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// endTime is when it ended.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// initialDBSize is the size of the database file before.
	// +optional
	InitialDBSize *resource.Quantity `json:"initialDBSize,omitempty"`
	// finalDBSize is the size of the database file after.
	// +optional
	FinalDBSize *resource.Quantity `json:"finalDBSize,omitempty"`
}

// Volume is the volume that a member's data is on.
type Volume struct {
	// claim is the name of the PersistentVolumeClaim.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Claim string `json:"claim,omitempty"`
	// claimUID is the UID of the claim: a claim of the same name with another UID is another volume.
	// +optional
	ClaimUID UID `json:"claimUID,omitempty"`
	// volume is the name of the PersistentVolume.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Volume string `json:"volume,omitempty"`
	// volumeHandle is what the storage system calls the volume.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	VolumeHandle string `json:"volumeHandle,omitempty"`
	// storageClass is the claim's storage class.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClass string `json:"storageClass,omitempty"`
	// capacity is the size of the file system, as the member sees it.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty"`
	// available is the space that is left on the file system for the member, as of publishedAt.
	// +optional
	Available *resource.Quantity `json:"available,omitempty"`
	// readOnly says whether the file system is mounted read-only.
	// +optional
	ReadOnly *bool `json:"readOnly,omitempty"`
}

// VolumeMismatch is a wrong volume that a member has found mounted (DEP-04, "Monitoring Volume Mismatches").
type VolumeMismatch struct {
	// volumeID is what the storage system calls the wrong volume.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	VolumeID string `json:"volumeID,omitempty"`
	// identifiedAt is when it was found.
	// +optional
	IdentifiedAt *metav1.Time `json:"identifiedAt,omitempty"`
	// fixedAt is when the right volume was there again.
	// +optional
	FixedAt *metav1.Time `json:"fixedAt,omitempty"`
	// numRestarts is how often the member was restarted on it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NumRestarts *int32 `json:"numRestarts,omitempty"`
}

// Transition is one change of state and subState.
type Transition struct {
	// state is the state that the member went to.
	// +required
	State MemberState `json:"state,omitempty"`
	// subState is the sub-state that the member went to. State New has none.
	// +optional
	SubState MemberSubState `json:"subState,omitempty"`
	// reason is a word for why, in CamelCase.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
	// transitionTime is when.
	// +required
	TransitionTime metav1.MicroTime `json:"transitionTime,omitzero"`
	// message says it for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// MemberActionStatus is the progress and the result of an action.
type MemberActionStatus struct {
	// id is the id of the action that this is about.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id,omitempty"`
	// type is the type of that action.
	// +required
	Type MemberActionType `json:"type,omitempty"`
	// state is how far it is.
	// +required
	State Outcome `json:"state,omitempty"`
	// reason is a word for why, in CamelCase.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
	// message says it for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// startedAt is when the member began it.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// finishedAt is when it ended.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// location is where the data was kept, for type Archive: a directory on the volume, or a path in the store.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Location string `json:"location,omitempty"`
	// hash is the hash of the database up to revision, in lower-case hexadecimal, for type Verify.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`
	// revision is the revision up to which the data was hashed or archived.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Revision int64 `json:"revision,omitempty"`
	// compactRevision is the revision that the hashed data is compacted at: hashes compare only where it is equal. It is
	// -1, as etcd has it, where nothing has been compacted yet.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	CompactRevision *int64 `json:"compactRevision,omitempty"`
}

// PublisherType is who can publish a member's status.
// +kubebuilder:validation:Enum=Agent;Observer
type PublisherType string

const (
	// PublisherAgent runs in the member's own pod and reads the member itself.
	PublisherAgent PublisherType = "Agent"
	// PublisherObserver runs elsewhere: it can't know all, and only samples.
	PublisherObserver PublisherType = "Observer"
)

// Publisher is who published a status.
type Publisher struct {
	// type is Agent or Observer.
	// +required
	Type PublisherType `json:"type,omitempty"`
	// version is the publisher's version.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// samplingInterval is how often an observer looks: shorter states than that are not seen.
	// +optional
	SamplingInterval *metav1.Duration `json:"samplingInterval,omitempty"`
}
