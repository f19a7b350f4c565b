package source

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// Labels of druid's (api/core/v1alpha1/constants.go there).
const (
	managedByDruid         = "etcd-druid"
	componentMemberLease   = "etcd-member-lease"
	componentSnapshotLease = "etcd-snapshot-lease"
)

type leaseObject struct {
	Metadata objectMeta `json:"metadata"`
	Spec     lax[struct {
		HolderIdentity lax[string]  `json:"holderIdentity"`
		RenewTime      lax[instant] `json:"renewTime"`
	}] `json:"spec"`
}

func (o *leaseObject) subject() string { return "Lease " + o.Metadata.key() }

// foreign says whether the Lease is renewed by somebody who has nothing to do with etcd members: a node, or one of
// Kubernetes' own components. etcd may run in kube-system as well.
func (o *leaseObject) foreign() bool {
	switch o.Metadata.Labels.Value[v1alpha1.LabelComponent] {
	case v1alpha1.ComponentHeartbeat, componentMemberLease, componentSnapshotLease:
		return false
	}
	switch o.Metadata.Namespace.Value {
	case "kube-node-lease":
		return true
	case "kube-system":
		return !strings.HasPrefix(o.Metadata.Name.Value, v1alpha1.HeartbeatLeasePrefix)
	}
	return false
}

// renewed is when the Lease was last renewed; zero: never, or it can't be told, which is then a problem.
func (o *leaseObject) renewed() (time.Time, error) {
	if o.Spec.Bad != "" {
		return time.Time{}, fmt.Errorf("spec is %.80s, which can't be understood", o.Spec.Bad)
	}
	if bad := o.Spec.Value.RenewTime.Bad; bad != "" {
		return time.Time{}, fmt.Errorf("spec.renewTime is %.80s, which is not a time", bad)
	}
	return time.Time(o.Spec.Value.RenewTime.Value), nil
}

// holder is what druid's backup sidecar writes into its member's Lease.
type holder struct{ id, clusterID, role string }

// parseHolder reads a member Lease's holderIdentity: ID:CLUSTERID:ROLE, or ID:ROLE as sidecars up to v0.39.0 wrote it. IDs
// are hexadecimal without padding (etcd-backup-restore, pkg/health/heartbeat). A role that is not known is kept.
func parseHolder(s string) (holder, error) {
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[len(parts)-1] == "" {
		return holder{}, fmt.Errorf("holderIdentity %.80q is none of ID:CLUSTERID:ROLE and ID:ROLE", s)
	}
	h := holder{role: parts[len(parts)-1]}
	id, err := etcd.ParseID(parts[0])
	if err != nil {
		return holder{}, fmt.Errorf("holderIdentity %.80q: %w", s, err)
	}
	h.id = id.String()
	if len(parts) == 3 {
		cluster, err := etcd.ParseID(parts[1])
		if err != nil {
			return holder{}, fmt.Errorf("holderIdentity %.80q: %w", s, err)
		}
		h.clusterID = cluster.String()
	}
	return h, nil
}

// memberLease takes the facts out of the Lease that druid's sidecar renews for its member.
func memberLease(o *leaseObject) (model.Member, []model.Problem) {
	var m model.Member
	var problems []model.Problem
	trouble := func(err error) { problems = append(problems, model.Problem{Subject: o.subject(), Err: err}) }
	renewed, err := o.renewed()
	if err != nil {
		trouble(err)
	}
	m.Lease = model.Known(renewed, model.SourceMemberLease, renewed)
	switch tls := o.Metadata.Annotations.Value[annotationPeerTLS]; tls {
	case "true", "false":
		m.PeerTLSConfigured = model.Known(tls == "true", model.SourceMemberLease, renewed)
	case "":
		// The sidecar writes it when it starts to renew; until then nothing is known.
	default:
		trouble(fmt.Errorf("annotation %s is %.80q, which is neither true nor false", annotationPeerTLS, tls))
	}
	identity := o.Spec.Value.HolderIdentity
	if identity.Bad != "" {
		trouble(fmt.Errorf("spec.holderIdentity is %.80s, which is not a string", identity.Bad))
	}
	if identity.Value == "" {
		// Nobody has ever held it, or it was taken away: whoever renewed it then has told nothing of itself.
		m.Lease.Value = time.Time{}
		return m, problems
	}
	h, err := parseHolder(identity.Value)
	if err != nil {
		trouble(err)
		m.Lease.Value = time.Time{}
		return m, problems
	}
	m.ID = model.Known(h.id, model.SourceMemberLease, renewed)
	if h.clusterID != "" {
		m.ClusterID = model.Known(h.clusterID, model.SourceMemberLease, renewed)
	}
	m.LeaseRole = model.Known(h.role, model.SourceMemberLease, renewed)
	return m, problems
}

// snapshotLease reads a Lease in which druid's sidecar tells of its last snapshot: the holder is the snapshot's last
// revision, in decimal.
func snapshotLease(o *leaseObject) model.Snapshot {
	renewed, err := o.renewed()
	if err != nil {
		return model.Snapshot{Unreadable: err.Error()}
	}
	s := model.Snapshot{Time: renewed}
	identity := o.Spec.Value.HolderIdentity
	switch n, err := strconv.ParseInt(identity.Value, 10, 64); {
	case identity.Bad == "" && identity.Value == "":
		s.Time = time.Time{} // none was taken yet
	case err != nil || n < 0:
		return model.Snapshot{Unreadable: fmt.Sprintf("its holderIdentity is %.80q, which is not a revision", identity.Value+identity.Bad)}
	default:
		s.Revision = n
	}
	return s
}
