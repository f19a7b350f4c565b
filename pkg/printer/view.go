package printer

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/etcdmember/kubectl-etcdmember/pkg/health"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// StatusAPIVersion is the version of the documents that 'status -o json' prints. Fields are only ever added to it; its
// schema is docs/schema/clusterstatus.v1.schema.json.
const StatusAPIVersion = "cli.etcdmember.github.io/v1"

// ClusterStatus is one cluster in 'status -o json'. What is not known is absent. IDs and errors are strings, sizes are bytes.
type ClusterStatus struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   Metadata       `json:"metadata"`
	ClusterRef ClusterRef     `json:"clusterRef"`
	Verdict    string         `json:"verdict"`
	Reason     string         `json:"reason,omitempty"`
	Message    string         `json:"message"`
	JudgedAt   *time.Time     `json:"judgedAt,omitempty"`
	Wanted     *int           `json:"wanted,omitempty"`
	Quorum     Quorum         `json:"quorum"`
	Leader     string         `json:"leader,omitempty"`
	PeerTLS    *bool          `json:"peerTLSWanted,omitempty"`
	Backups    *Backups       `json:"backups,omitempty"`
	SameHashes *bool          `json:"hashesCompared,omitempty"`
	Members    []MemberStatus `json:"members"`
	Findings   []Finding      `json:"findings"`
}

// Metadata names a cluster.
type Metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// ClusterRef is the object that runs a cluster's pods.
type ClusterRef struct {
	Kind string `json:"kind,omitempty"`
	Name string `json:"name"`
}

// Quorum is how the voters of a cluster stand.
type Quorum struct {
	State   string `json:"state"`
	Voters  int    `json:"voters"`
	Healthy int    `json:"healthy"`
	Unknown int    `json:"unknown"`
	Needed  int    `json:"needed"`
}

// Backups are the last snapshots of a cluster.
type Backups struct {
	Full  *Snapshot `json:"full,omitempty"`
	Delta *Snapshot `json:"delta,omitempty"`
}

// Snapshot is one backup.
type Snapshot struct {
	Time     *time.Time `json:"time"`
	Revision int64      `json:"revision"`
}

// MemberStatus is one member of a ClusterStatus.
type MemberStatus struct {
	Name    string `json:"name"`
	Pod     string `json:"pod"`
	Health  string `json:"health"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Role    string `json:"role,omitempty"`

	State            string   `json:"state,omitempty"`
	SubState         string   `json:"subState,omitempty"`
	ID               string   `json:"id,omitempty"`
	ClusterID        string   `json:"clusterID,omitempty"`
	PeerTLSEnabled   *bool    `json:"peerTLSEnabled,omitempty"`
	PeerTLSInConfig  *bool    `json:"peerTLSConfigured,omitempty"`
	DBSizeBytes      *int64   `json:"dbSizeBytes,omitempty"`
	DBSizeInUseBytes *int64   `json:"dbSizeInUseBytes,omitempty"`
	DBSizeQuotaBytes *int64   `json:"dbSizeQuotaBytes,omitempty"`
	Revision         *int64   `json:"revision,omitempty"`
	RaftTerm         *int64   `json:"raftTerm,omitempty"`
	RaftIndex        *int64   `json:"raftIndex,omitempty"`
	RaftAppliedIndex *int64   `json:"raftAppliedIndex,omitempty"`
	Version          string   `json:"version,omitempty"`
	LagEntries       *int64   `json:"lagEntries,omitempty"`
	Alarms           []string `json:"alarms,omitempty"`
	Volume           *Volume  `json:"volume,omitempty"`
	Ready            *Ready   `json:"ready,omitempty"`
	Claim            *Claim   `json:"claim,omitempty"`
	PodStatus        *Pod     `json:"podStatus,omitempty"`
	Lease            *Lease   `json:"lease,omitempty"`
	Live             *Live    `json:"live,omitempty"`

	Source        string     `json:"source,omitempty"`
	HeartbeatTime *time.Time `json:"heartbeatTime,omitempty"`
	PublishedAt   *time.Time `json:"publishedAt,omitempty"`
	BackupAt      *time.Time `json:"backupAt,omitempty"`
	CreatedAt     *time.Time `json:"createdAt,omitempty"`
}

// Ready is a member's condition Ready.
type Ready struct {
	Status  string     `json:"status"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
}

// Claim is the claim of a member's data, as the API server has it. Volume is what the member itself tells.
type Claim struct {
	Name           string     `json:"name"`
	UID            string     `json:"uid,omitempty"`
	Phase          string     `json:"phase,omitempty"`
	Volume         string     `json:"volume,omitempty"`
	VolumeHandle   string     `json:"volumeHandle,omitempty"`
	StorageClass   string     `json:"storageClass,omitempty"`
	RequestedBytes *int64     `json:"requestedBytes,omitempty"`
	CapacityBytes  *int64     `json:"capacityBytes,omitempty"`
	ReclaimPolicy  string     `json:"reclaimPolicy,omitempty"`
	DeletingSince  *time.Time `json:"deletingSince,omitempty"`
}

// Pod is a member's pod.
type Pod struct {
	UID           string     `json:"uid,omitempty"`
	Phase         string     `json:"phase,omitempty"`
	Reason        string     `json:"reason,omitempty"`
	Message       string     `json:"message,omitempty"`
	Node          string     `json:"node,omitempty"`
	EtcdReady     bool       `json:"etcdReady"`
	EtcdState     string     `json:"etcdState,omitempty"`
	EtcdReason    string     `json:"etcdReason,omitempty"`
	EtcdRestarts  int        `json:"etcdRestarts"`
	DeletingUntil *time.Time `json:"deletingUntil,omitempty"`
}

// Lease is what druid's backup sidecar tells in its member's Lease.
type Lease struct {
	RenewTime *time.Time `json:"renewTime,omitempty"`
	Role      string     `json:"role,omitempty"`
}

// Live is what a member itself has answered.
type Live struct {
	Endpoint   string         `json:"endpoint,omitempty"`
	Error      string         `json:"error,omitempty"`
	NotAsked   bool           `json:"notAsked"`
	Serves     bool           `json:"serves"`
	ServeError string         `json:"serveError,omitempty"`
	Learner    bool           `json:"learner"`
	LeaderID   string         `json:"leaderID,omitempty"`
	MemberList []ListedMember `json:"memberList,omitempty"`
	ListError  string         `json:"memberListError,omitempty"`
	Complaints []string       `json:"complaints,omitempty"`
	Hash       *Hash          `json:"hash,omitempty"`
	HashError  string         `json:"hashError,omitempty"`
}

// ListedMember is an entry of the member list that a member sees.
type ListedMember struct {
	ID         string   `json:"id"`
	Name       string   `json:"name,omitempty"`
	PeerURLs   []string `json:"peerURLs,omitempty"`
	ClientURLs []string `json:"clientURLs,omitempty"`
	Learner    bool     `json:"learner"`
}

// Hash is a checksum of a member's keys.
type Hash struct {
	Hash            uint32 `json:"hash"`
	Revision        int64  `json:"revision"`
	CompactRevision int64  `json:"compactRevision"`
}

// Volume is a member's volume.
type Volume struct {
	Claim          string `json:"claim,omitempty"`
	ClaimUID       string `json:"claimUID,omitempty"`
	Volume         string `json:"volume,omitempty"`
	VolumeHandle   string `json:"volumeHandle,omitempty"`
	StorageClass   string `json:"storageClass,omitempty"`
	CapacityBytes  *int64 `json:"capacityBytes,omitempty"`
	AvailableBytes *int64 `json:"availableBytes,omitempty"`
}

// Finding is one thing that is worth telling.
type Finding struct {
	Code     string `json:"code"`
	Severity string `json:"severity"`
	Subject  string `json:"subject,omitempty"`
	Message  string `json:"message"`
	Advice   string `json:"advice,omitempty"`
}

// NewClusterStatus makes the document of a report.
func NewClusterStatus(r health.Report) ClusterStatus {
	s := ClusterStatus{
		APIVersion: StatusAPIVersion,
		Kind:       "ClusterStatus",
		Metadata:   Metadata{Name: r.Key.Name, Namespace: r.Key.Namespace},
		ClusterRef: ClusterRef{Kind: string(r.Key.Kind), Name: r.Key.Name},
		Verdict:    string(r.Verdict),
		Reason:     string(r.Reason),
		Message:    r.Message,
		JudgedAt:   timestamp(r.At),
		Wanted:     pointer(r.Wanted),
		Quorum: Quorum{
			State: string(r.Quorum.State), Voters: r.Quorum.Voters, Healthy: r.Quorum.Healthy,
			Unknown: r.Quorum.Unknown, Needed: r.Quorum.Needed,
		},
		Leader:   r.Leader,
		PeerTLS:  pointer(r.PeerTLSWanted),
		Members:  []MemberStatus{},
		Findings: []Finding{},
	}
	if b, ok := r.Backups.Get(); ok {
		s.Backups = &Backups{Full: newSnapshot(b.Full), Delta: newSnapshot(b.Delta)}
	}
	for _, m := range r.Members {
		s.Members = append(s.Members, newMemberStatus(m))
		if m.Live.Value.Hash != nil || m.Live.Value.HashErr != "" {
			s.SameHashes = &r.HashesCompared
		}
	}
	for _, f := range r.Findings {
		s.Findings = append(s.Findings, Finding{
			Code: string(f.Code), Severity: string(f.Severity), Subject: f.Subject, Message: f.Message, Advice: f.Advice,
		})
	}
	return s
}

func newMemberStatus(m health.MemberReport) MemberStatus {
	s := MemberStatus{
		Name: m.Name, Pod: m.Pod, Health: string(m.Health), Reason: m.Reason, Message: m.Message, Role: m.Role,
		State: m.State.Or(""), SubState: m.SubState.Or(""), ID: m.ID.Or(""), ClusterID: m.ClusterID.Or(""),
		PeerTLSEnabled: pointer(m.PeerTLS), PeerTLSInConfig: pointer(m.PeerTLSConfigured),
		DBSizeBytes: pointer(m.DBSize), DBSizeInUseBytes: pointer(m.DBSizeInUse), DBSizeQuotaBytes: pointer(m.DBSizeQuota),
		Revision: pointer(m.Revision),
		RaftTerm: pointer(m.RaftTerm), RaftIndex: pointer(m.RaftIndex), RaftAppliedIndex: pointer(m.RaftAppliedIndex),
		Version: m.Version.Or(""), Alarms: m.Alarms.Or(nil),
		LagEntries: pointer(m.Lag), BackupAt: timestamp(m.Backup.Value),
		Source:      string(m.Basis),
		PublishedAt: timestamp(m.Published.Or(time.Time{})), HeartbeatTime: timestamp(m.Heartbeat.Or(time.Time{})),
		CreatedAt: timestamp(m.Created),
	}
	if v, ok := m.Volume.Get(); ok {
		s.Volume = &Volume{
			Claim: v.Claim, ClaimUID: v.ClaimUID, Volume: v.Name, VolumeHandle: v.Handle, StorageClass: v.StorageClass,
		}
		if v.Capacity > 0 {
			s.Volume.CapacityBytes = &v.Capacity
		}
		if v.AvailableKnown {
			s.Volume.AvailableBytes = &v.Available
		}
	}
	s.observed(m.Member)
	if c, ok := m.Ready.Get(); ok {
		s.Ready = &Ready{Status: c.Status, Reason: c.Reason, Message: c.Message, Since: timestamp(c.Since)}
	}
	return s
}

func newSnapshot(s model.Snapshot) *Snapshot {
	if s.Time.IsZero() {
		return nil
	}
	return &Snapshot{Time: timestamp(s.Time), Revision: s.Revision}
}

// observed adds what is known of a member from outside of it, and what it has answered.
func (s *MemberStatus) observed(m model.Member) {
	positive := func(n int64) *int64 {
		if n <= 0 {
			return nil
		}
		return &n
	}
	if c, ok := m.Claim.Get(); ok {
		s.Claim = &Claim{
			Name: c.Name, UID: c.UID, Phase: c.Phase, Volume: c.Volume, VolumeHandle: c.Handle, StorageClass: c.StorageClass,
			RequestedBytes: positive(c.Requested), CapacityBytes: positive(c.Capacity), ReclaimPolicy: c.ReclaimPolicy,
			DeletingSince: timestamp(c.Deleting),
		}
	}
	if p, ok := m.PodState.Get(); ok {
		s.PodStatus = &Pod{
			UID: p.UID, Phase: p.Phase, Reason: p.Reason, Message: p.Message, Node: p.Node, EtcdReady: p.Etcd.Ready,
			EtcdState: p.Etcd.State, EtcdReason: p.Etcd.Reason, EtcdRestarts: p.Etcd.Restarts, DeletingUntil: timestamp(p.Deleting),
		}
	}
	if t, ok := m.Lease.Get(); ok {
		s.Lease = &Lease{RenewTime: timestamp(t), Role: m.LeaseRole.Value}
	}
	if l, ok := m.Live.Get(); ok {
		s.Live = &Live{
			Endpoint: l.Endpoint, Error: l.Err, NotAsked: l.NotAsked, Serves: l.Serves, ServeError: l.ServeErr, Learner: l.Learner,
			LeaderID: l.Leader, ListError: l.ListErr, Complaints: l.Complaints, HashError: l.HashErr,
		}
		for _, e := range l.List {
			s.Live.MemberList = append(s.Live.MemberList, ListedMember(e))
		}
		if h := l.Hash; h != nil {
			s.Live.Hash = &Hash{Hash: h.Hash, Revision: h.Revision, CompactRevision: h.CompactRevision}
		}
	}
}

func pointer[T any](f model.Fact[T]) *T {
	if !f.Known() {
		return nil
	}
	return &f.Value
}

func timestamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Object makes a document fit for the printers of kubectl.
func Object(document any) (*unstructured.Unstructured, error) {
	raw, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("can't write the status as JSON: %w", err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("can't write the status as an object: %w", err)
	}
	return u, nil
}

// StatusList makes the list of the documents of reports, as kubectl prints lists.
func StatusList(reports []health.Report) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{Object: map[string]any{
		"apiVersion": StatusAPIVersion, "kind": "ClusterStatusList", "metadata": map[string]any{},
	}}
	for _, r := range reports {
		u, err := Object(NewClusterStatus(r))
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, *u)
	}
	return list, nil
}
