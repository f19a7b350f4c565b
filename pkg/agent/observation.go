package agent

import (
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
)

// observation is one look at the member: what it answered, and what it did not.
type observation struct {
	// at is when the look ended.
	at time.Time
	// status is nil if statusErr is not.
	status    *etcd.Status
	statusErr error
	// readErr is why a linearizable read failed. Not asked if status failed, or the member is a learner or knows no leader.
	readErr error
	// peerTLS is nil where it was not asked for or the member could not say (a learner gives no member list).
	peerTLS *bool
	// quota in bytes, for members whose status does not say it. 0: not known.
	quota int64
	// volume is nil if the file system could not be looked at.
	volume *fileSystem
}

// fileSystem is the data directory's file system as the agent sees it.
type fileSystem struct {
	// capacity is its size and available what is left for unprivileged users, in bytes.
	capacity, available int64
	// readOnly says that the file system, and not only the agent's mount of it, can't be written to.
	readOnly bool
}

// stage is the stage that the member says it is in, or unknown.
func (o *observation) stage() stage {
	switch {
	case o.status == nil:
		return unknown
	case o.status.Learner:
		return stageLearner
	case o.status.IsLeader():
		return stageLeader
	default:
		return stageFollower
	}
}
