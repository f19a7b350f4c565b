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
	DBSizeBytes      *int64   `json:"dbSizeBytes,omitempty"`
	DBSizeInUseBytes *int64   `json:"dbSizeInUseBytes,omitempty"`
	DBSizeQuotaBytes *int64   `json:"dbSizeQuotaBytes,omitempty"`
	Revision         *int64   `json:"revision,omitempty"`
	RaftTerm         *int64   `json:"raftTerm,omitempty"`
	RaftIndex        *int64   `json:"raftIndex,omitempty"`
	RaftAppliedIndex *int64   `json:"raftAppliedIndex,omitempty"`
	Version          string   `json:"version,omitempty"`
	Alarms           []string `json:"alarms,omitempty"`
	Volume           *Volume  `json:"volume,omitempty"`
	Ready            *Ready   `json:"ready,omitempty"`

	Source        string     `json:"source,omitempty"`
	HeartbeatTime *time.Time `json:"heartbeatTime,omitempty"`
	PublishedAt   *time.Time `json:"publishedAt,omitempty"`
	CreatedAt     *time.Time `json:"createdAt,omitempty"`
}

// Ready is a member's condition Ready.
type Ready struct {
	Status  string     `json:"status"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
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
		Members:  []MemberStatus{},
		Findings: []Finding{},
	}
	for _, m := range r.Members {
		s.Members = append(s.Members, newMemberStatus(m))
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
		PeerTLSEnabled: pointer(m.PeerTLS),
		DBSizeBytes:    pointer(m.DBSize), DBSizeInUseBytes: pointer(m.DBSizeInUse), DBSizeQuotaBytes: pointer(m.DBSizeQuota),
		Revision: pointer(m.Revision),
		RaftTerm: pointer(m.RaftTerm), RaftIndex: pointer(m.RaftIndex), RaftAppliedIndex: pointer(m.RaftAppliedIndex),
		Version: m.Version.Or(""), Alarms: m.Alarms.Or(nil),
		Source:      string(source(m.Member)),
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
	if c, ok := m.Ready.Get(); ok {
		s.Ready = &Ready{Status: c.Status, Reason: c.Reason, Message: c.Message, Since: timestamp(c.Since)}
	}
	return s
}

// source is who has told what is known of a member.
func source(m model.Member) model.Source {
	switch {
	case m.Published.Known():
		return m.Published.Source
	case m.State.Known():
		return m.State.Source
	default:
		return m.Ready.Source
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
