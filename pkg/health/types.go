package health

import (
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// Verdict is the one word about a cluster.
type Verdict string

const (
	// Healthy: all wanted members are voters, fresh and serving, and nothing is worse than a notice.
	Healthy Verdict = "Healthy"
	// Degraded: quorum surely holds, but something is wrong, or a member can't be judged.
	Degraded Verdict = "Degraded"
	// Unhealthy: quorum is surely lost, or the cluster is split, or data is corrupt.
	Unhealthy Verdict = "Unhealthy"
	// Unknown: what can't be observed decides whether quorum holds.
	Unknown Verdict = "Unknown"
	// Hibernated: no members are wanted.
	Hibernated Verdict = "Hibernated"
)

// MemberHealth is the one word about a member.
type MemberHealth string

const (
	// MemberHealthy: a voter that serves, by a fresh word of its publisher.
	MemberHealthy MemberHealth = "Healthy"
	// MemberUnhealthy: it does not serve, or its data or volume is bad.
	MemberUnhealthy MemberHealth = "Unhealthy"
	// MemberSyncing: a learner, or on its way to be one. It does not vote.
	MemberSyncing MemberHealth = "Syncing"
	// MemberUnknown: nobody has told of it lately.
	MemberUnknown MemberHealth = "Unknown"
	// MemberMissing: it is wanted, and there is nothing of it.
	MemberMissing MemberHealth = "Missing"
	// MemberStopped: no members are wanted, and it has no pod.
	MemberStopped MemberHealth = "Stopped"
)

// Severity is how bad a finding is.
type Severity string

const (
	// Critical: service or data is lost, or about to be.
	Critical Severity = "Critical"
	// Warning: something is wrong that quorum still covers.
	Warning Severity = "Warning"
	// Notice: worth knowing; it changes no verdict.
	Notice Severity = "Notice"
)

func (s Severity) rank() int {
	switch s {
	case Critical:
		return 0
	case Warning:
		return 1
	default:
		return 2
	}
}

// Code names a kind of finding. Scripts match on codes: one is never renamed.
type Code string

// The codes of findings.
const (
	QuorumLost          Code = "QuorumLost"
	QuorumUnknown       Code = "QuorumUnknown"
	ClusterSplit        Code = "ClusterSplit"
	DuplicateMemberID   Code = "DuplicateMemberID"
	DataCorrupt         Code = "DataCorrupt"
	AlarmRaised         Code = "AlarmRaised"
	MemberNotServing    Code = "MemberNotServing"
	MemberNotStarted    Code = "MemberNotStarted"
	MemberNotVoting     Code = "MemberNotVoting"
	PublisherGone       Code = "PublisherGone"
	NeverPublished      Code = "NeverPublished"
	MembersMissing      Code = "MembersMissing"
	MembersSurplus      Code = "MembersSurplus"
	NoLeaderKnown       Code = "NoLeaderKnown"
	SeveralLeaders      Code = "SeveralLeaders"
	DataVolumeReadOnly  Code = "DataVolumeReadOnly"
	DataVolumeFull      Code = "DataVolumeFull"
	VolumeMismatch      Code = "VolumeMismatch"
	DatabaseNearQuota   Code = "DatabaseNearQuota"
	PeerTLSMixed        Code = "PeerTLSMixed"
	VersionsMixed       Code = "VersionsMixed"
	HeartbeatInFuture   Code = "HeartbeatInFuture"
	Unreadable          Code = "Unreadable"
	WantedMembersUnsure Code = "WantedMembersUnsure"

	// Of members that do not publish: by pods and Leases.
	PodMissing         Code = "PodMissing"
	PodNotRunning      Code = "PodNotRunning"
	PodTerminating     Code = "PodTerminating"
	PodUnread          Code = "PodUnread"
	NodeLost           Code = "NodeLost"
	NotProven          Code = "NotProven"
	LeaseMissing       Code = "LeaseMissing"
	LeaseExpired       Code = "LeaseExpired"
	MemberNotJoined    Code = "MemberNotJoined"
	EtcdMembersMissing Code = "EtcdMembersMissing"

	// Of members that were asked: of themselves and of the membership.
	MemberNotAsked       Code = "MemberNotAsked"
	MemberUnstarted      Code = "MemberUnstarted"
	MemberWithoutPod     Code = "MemberWithoutPod"
	NotInMembership      Code = "NotInMembership"
	MembershipDiffers    Code = "MembershipDiffers"
	LearnerMismatch      Code = "LearnerMismatch"
	LearnerBlocks        Code = "LearnerBlocks"
	MemberLagging        Code = "MemberLagging"
	RevisionsDiffer      Code = "RevisionsDiffer"
	HashesDiffer         Code = "HashesDiffer"
	HashesNotCompared    Code = "HashesNotCompared"
	AlarmOfRemovedMember Code = "AlarmOfRemovedMember"
	PeerURLUnexpected    Code = "PeerURLUnexpected"
	EtcdComplains        Code = "EtcdComplains"

	// Of what surrounds the members.
	PeerTLSNotAsWanted     Code = "PeerTLSNotAsWanted"
	PeerTLSNotAsConfigured Code = "PeerTLSNotAsConfigured"
	ClaimTerminating       Code = "ClaimTerminating"
	ClaimPending           Code = "ClaimPending"
	ClaimMissing           Code = "ClaimMissing"
	ClaimReplaced          Code = "ClaimReplaced"
	ClaimWithoutMember     Code = "ClaimWithoutMember"
	VolumeNotAsWanted      Code = "VolumeNotAsWanted"
	StatefulSetMissing     Code = "StatefulSetMissing"
	ReplicasDiffer         Code = "ReplicasDiffer"
	RolloutPending         Code = "RolloutPending"
	StatusMembersShort     Code = "StatusMembersShort"
	SpecNotReconciled      Code = "SpecNotReconciled"
	ReconcileFailed        Code = "ReconcileFailed"
	ReconcileSuspended     Code = "ReconcileSuspended"
	ProtectionDisabled     Code = "ProtectionDisabled"
	OperationInProgress    Code = "OperationInProgress"
	DruidDisagrees         Code = "DruidDisagrees"
	BackupStale            Code = "BackupStale"
	BackupMissing          Code = "BackupMissing"
	BackupUnknown          Code = "BackupUnknown"
)

// Finding is one thing that is worth telling.
type Finding struct {
	Code     Code
	Severity Severity
	// Subject is the member's name, or empty for the cluster.
	Subject string
	// Message says what was found, with the evidence.
	Message string
	// Advice says what to do about it. May be empty.
	Advice string
	// brief is Message for a line that has little room. Empty: Message is short enough.
	brief string
}

// QuorumState is whether a quorum of voters serves.
type QuorumState string

const (
	QuorumHeld      QuorumState = "Held"
	QuorumIsLost    QuorumState = "Lost"
	QuorumIsUnknown QuorumState = "Unknown"
)

// Quorum is how the voters of a cluster stand. Voters can't always be counted exactly from what members publish: Voters is
// the largest number that the facts allow, but where a read that takes a quorum has just been answered, it is the
// smallest.
type Quorum struct {
	State QuorumState
	// Voters is the number of members that are, or may be, voters.
	Voters int
	// Healthy is the number of voters that serve.
	Healthy int
	// Unknown is the number of members that can't be judged.
	Unknown int
	// Needed is the quorum of Voters.
	Needed int
}

// MemberReport is what is to be said of one member.
type MemberReport struct {
	model.Member
	Health MemberHealth
	// Reason is a word in CamelCase for why Health is what it is. Empty when Healthy.
	Reason string
	// Message says it for people.
	Message string
	// Role is Leader, Follower or Learner, or empty. By druid's Lease alone it is Leader or Member, which may be either of the
	// others.
	Role string
	// Basis is whose word Health rests on. Empty: nobody's.
	Basis model.Source
	// Lag is by how many raft entries the member is behind the furthest. It is known only where members were asked.
	Lag model.Fact[int64]
	// Backup is when the newest snapshot that it could be restored from was taken: its own, or its cluster's. Known and zero:
	// there is none.
	Backup model.Fact[time.Time]
	// vote is what the member counts for in its cluster's quorum. Health says more: a member may vote from a volume that
	// is about to fail.
	vote vote
	// surplus: its pod is none that is wanted.
	surplus bool
	// listed: it is in the membership that its cluster's members tell of.
	listed bool
}

// vote is what a member counts for in a quorum.
type vote int

const (
	// voteUnknown: it may be a voter, and may serve.
	voteUnknown vote = iota
	// voteUp: a voter that answers.
	voteUp
	// voteDown: a voter, or one that may be, that does not answer.
	voteDown
	// voteNone: no voter.
	voteNone
)

// Report is what is to be said of a cluster.
type Report struct {
	model.Cluster
	Verdict Verdict
	// Reason is the code of the finding that the verdict rests on. Empty when Healthy or Hibernated.
	Reason Code
	// Message is one sentence for people: why the verdict is what it is.
	Message string
	Quorum  Quorum
	// Leader is the member that leads by the newest word. Empty: not known.
	Leader string
	// Members are all members of the cluster, and those that are wanted and missing.
	Members []MemberReport
	// Findings are sorted, worst first.
	Findings []Finding
	// HashesCompared says that the members' hashes were asked for, and that all compare.
	HashesCompared bool
	// At is the time that freshness was judged against.
	At time.Time
}

// Options are what a judgement depends on besides the facts.
type Options struct {
	// Now is the time to judge freshness against.
	Now time.Time
	// FreshnessUnknown says that no Now can be trusted: then no member is fresh.
	FreshnessUnknown bool
}

// Limits that turn a value into a finding.
const (
	// StaleAfter is how old a heartbeat may be. Agents renew every 20 s: three are missed (DESIGN §3).
	StaleAfter = model.SupersededAfter
	// SkewTolerated is how far in the future a heartbeat may be before the clocks are told of.
	SkewTolerated = 10 * time.Second
	// QuotaWarning is the part of its quota that a database may fill. At 100 % etcd raises NOSPACE and refuses writes.
	QuotaWarning = 0.8
	// VolumeWarning is the part of its volume that must be left.
	VolumeWarning = 0.1
)
