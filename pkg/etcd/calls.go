package etcd

import (
	"context"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Header is what every answer says about who answered.
type Header struct {
	// ClusterID and MemberID are the answering member's own.
	ClusterID, MemberID ID
	// Revision is the store's revision on the member.
	Revision int64
	// RaftTerm is the raft term that the member is in.
	RaftTerm uint64
}

func headerOf(h *pb.ResponseHeader) Header {
	return Header{ClusterID: ID(h.GetClusterId()), MemberID: ID(h.GetMemberId()), Revision: h.GetRevision(), RaftTerm: h.GetRaftTerm()}
}

// Status is what a member says of itself. It is local: it needs no quorum and costs no disk write.
type Status struct {
	Header
	// Version is the version of the running binary, for example 3.7.3.
	Version string
	// Leader is the member that this one believes to lead. 0: it knows none.
	Leader ID
	// Learner says that the member does not vote.
	Learner bool
	// DBSize and DBSizeInUse are bytes: the database file, and what of it is not free pages.
	DBSize, DBSizeInUse int64
	// DBSizeQuota is the size in bytes at which the member raises NOSPACE. 0: not known; members before 3.6 don't say
	// it here, see Client.MetricsQuota.
	DBSizeQuota int64
	// RaftIndex is the member's own commit index and RaftAppliedIndex what it has applied of that: on a member that is
	// cut off, both stand still together.
	RaftIndex, RaftAppliedIndex uint64
	// Alarms are the alarms of all members. See OwnAlarms.
	Alarms []Alarm
	// Errors is what else the member complains about, for example "etcdserver: no leader".
	Errors []string
}

// IsLeader says whether the member leads by its own word.
func (s *Status) IsLeader() bool { return s.Leader != 0 && s.Leader == s.MemberID }

// Status asks the member about itself. With authentication on, members before 3.6.12 answer only root: IsPermissionDenied.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	r, err := call(ctx, c, "its status", c.maintenance.Status, &pb.StatusRequest{})
	if err != nil {
		return nil, err
	}
	if r.GetHeader().GetMemberId() == 0 {
		return nil, &CallError{Op: "its status", Endpoint: c.endpoint, Err: errNoHeader}
	}
	s := &Status{
		Header:           headerOf(r.GetHeader()),
		Version:          r.GetVersion(),
		Leader:           ID(r.GetLeader()),
		Learner:          r.GetIsLearner(),
		DBSize:           r.GetDbSize(),
		DBSizeInUse:      r.GetDbSizeInUse(),
		DBSizeQuota:      max(r.GetDbSizeQuota(), 0),
		RaftIndex:        r.GetRaftIndex(),
		RaftAppliedIndex: r.GetRaftAppliedIndex(),
	}
	// Before 3.4 the header's term is that of the answer and RaftTerm the member's; they are the same where both are set.
	s.RaftTerm = max(s.RaftTerm, r.GetRaftTerm())
	s.Alarms, s.Errors = parseStatusErrors(r.GetErrors())
	return s, nil
}

// Member is an entry of the membership.
type Member struct {
	// ID is the member's.
	ID ID
	// Name is what the member was started with; empty until it first was.
	Name string
	// PeerURLs are where other members reach it, as the membership has it.
	PeerURLs []string
	// ClientURLs are where it says that clients reach it; empty until it first started.
	ClientURLs []string
	// Learner says that it does not vote.
	Learner bool
}

// PeerTLS says whether all peer URLs are https. known is false if there are none.
func (m Member) PeerTLS() (enabled, known bool) {
	for _, u := range m.PeerURLs {
		if !strings.HasPrefix(strings.ToLower(u), "https://") {
			return false, true
		}
	}
	return len(m.PeerURLs) > 0, len(m.PeerURLs) > 0
}

// Consistency is whose view a list is.
type Consistency bool

const (
	// Serializable is the asked member's own view, which may be old. It needs no quorum.
	Serializable Consistency = false
	// Linearizable is the cluster's view. It needs a quorum.
	Linearizable Consistency = true
)

// MemberList is the membership in the order of IDs. A learner does not give it: IsNotSupportedForLearner.
func (c *Client) MemberList(ctx context.Context, consistency Consistency) (Header, []Member, error) {
	r, err := call(ctx, c, "the member list", c.cluster.MemberList, &pb.MemberListRequest{Linearizable: bool(consistency)})
	if err != nil {
		return Header{}, nil, err
	}
	members := make([]Member, 0, len(r.GetMembers()))
	for _, m := range r.GetMembers() {
		members = append(members, Member{
			ID: ID(m.GetID()), Name: m.GetName(), PeerURLs: m.GetPeerURLs(), ClientURLs: m.GetClientURLs(), Learner: m.GetIsLearner(),
		})
	}
	slices.SortFunc(members, func(a, b Member) int {
		switch {
		case a.ID < b.ID:
			return -1
		case a.ID > b.ID:
			return 1
		}
		return 0
	})
	return headerOf(r.GetHeader()), members, nil
}

// probeKey is what a linearizable read asks for. It need not exist; etcdctl's "endpoint health" asks for the same.
var probeKey = []byte("health")

// LinearizableRead returns without an error if the member has confirmed with a quorum that it is up to date. Nothing is
// transferred but a count. Not permitted to read the key is a success: etcd checks permissions only after the quorum
// has confirmed (EtcdServer.Range: linearizableReadNotify, then the check), so a denied reader got what it came for;
// the header is then empty. A learner refuses: IsNotSupportedForLearner.
func (c *Client) LinearizableRead(ctx context.Context) (Header, error) {
	r, err := call(ctx, c, "a linearizable read", c.kv.Range, &pb.RangeRequest{Key: probeKey, Limit: 1, CountOnly: true})
	if IsPermissionDenied(err) {
		return Header{}, nil
	}
	if err != nil {
		return Header{}, err
	}
	return headerOf(r.GetHeader()), nil
}

// Hash is a checksum of a member's keys.
type Hash struct {
	Header
	// Hash is the checksum of all revisions from CompactRevision up to HashRevision.
	Hash uint32
	// CompactRevision is what the member is compacted at: hashes compare only where it is equal.
	CompactRevision int64
	// HashRevision is the revision that was hashed up to. Members before 3.6 leave it 0: it is then what was asked for.
	HashRevision int64
}

// HashKV asks for the checksum up to revision; 0 is the member's newest. The member reads its whole database for that.
// With authentication on, only root may ask. See IsCompacted and IsFutureRevision.
func (c *Client) HashKV(ctx context.Context, revision int64) (*Hash, error) {
	r, err := call(ctx, c, "a hash of its keys", c.maintenance.HashKV, &pb.HashKVRequest{Revision: revision})
	if err != nil {
		return nil, err
	}
	h := &Hash{Header: headerOf(r.GetHeader()), Hash: r.GetHash(), CompactRevision: r.GetCompactRevision(), HashRevision: r.GetHashRevision()}
	if h.HashRevision == 0 {
		h.HashRevision = revision
	}
	return h, nil
}

// MoveLeader makes the voter to lead. It must be asked of the leader: IsNotLeader.
func (c *Client) MoveLeader(ctx context.Context, to ID) error {
	_, err := call(ctx, c, "handing leadership to "+to.String(), c.maintenance.MoveLeader, &pb.MoveLeaderRequest{TargetID: uint64(to)})
	return err
}
