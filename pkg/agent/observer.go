package agent

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
)

const (
	// membersEvery is how often the member list is read for the own peer URLs, besides when ID or role have changed.
	membersEvery = 30 * time.Second
	// quotaEvery is how often the metrics of a member before 3.6 are read for the quota.
	quotaEvery = 5 * time.Minute
	// fileSystemEvery is how often the file system is looked at.
	fileSystemEvery = 10 * time.Second
)

// member is what the observer asks of etcd.
type member interface {
	Status(ctx context.Context) (*etcd.Status, error)
	MemberList(ctx context.Context, consistency etcd.Consistency) (etcd.Header, []etcd.Member, error)
	LinearizableRead(ctx context.Context) (etcd.Header, error)
	MetricsQuota(ctx context.Context) (int64, error)
}

// observer looks at the member again and again.
type observer struct {
	core     *core
	etcd     member
	metrics  *metrics
	log      logr.Logger
	interval time.Duration
	// fileSystem may be nil: nothing is known of it then.
	fileSystem func() (*fileSystem, error)
	// wake is signalled after each look.
	wake chan<- struct{}

	// What is asked for less often than by every look.
	membersAt, quotaAt, fileSystemAt time.Time
	id                               etcd.ID
	was                              stage
	version                          string
	quota                            int64
	fsError                          string
	reported                         verdict
}

// run looks until the context ends. Looks never overlap: one that takes longer than the interval delays the next.
func (o *observer) run(ctx context.Context) {
	ticker := time.NewTicker(o.interval)
	defer ticker.Stop()
	for {
		look := o.look(ctx)
		if ctx.Err() != nil {
			return
		}
		o.core.observe(look)
		o.report()
		o.metrics.polled(look)
		signal(o.wake)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look asks the member, each question with the client's timeout, one after the other.
func (o *observer) look(ctx context.Context) *observation {
	look := &observation{}
	defer func() { look.at = time.Now() }()
	if o.fileSystem != nil && due(&o.fileSystemAt, fileSystemEvery) {
		fs, err := o.fileSystem()
		look.volume = fs
		o.reportFileSystem(err)
	}
	if look.status, look.statusErr = o.etcd.Status(ctx); look.statusErr != nil {
		return look
	}
	s := look.status
	if !s.Learner && s.Leader != 0 {
		_, look.readErr = o.etcd.LinearizableRead(ctx)
	}
	changed := s.MemberID != o.id || look.stage() != o.was || s.Version != o.version
	o.id, o.was, o.version = s.MemberID, look.stage(), s.Version
	if changed {
		o.membersAt, o.quotaAt, o.quota = time.Time{}, time.Time{}, 0
	}
	// A learner gives no list.
	if !s.Learner && due(&o.membersAt, membersEvery) {
		look.peerTLS = o.peerTLS(ctx, s.MemberID)
	}
	if s.DBSizeQuota == 0 && due(&o.quotaAt, quotaEvery) {
		quota, err := o.etcd.MetricsQuota(ctx)
		if err != nil {
			o.log.V(1).Info("The quota is not known", "why", err.Error())
		}
		o.quota = quota
	}
	look.quota = o.quota
	return look
}

// peerTLS is whether the member's own entry in its own list has only peer URLs with TLS. Nil: it can't be said.
func (o *observer) peerTLS(ctx context.Context, id etcd.ID) *bool {
	_, members, err := o.etcd.MemberList(ctx, etcd.Serializable)
	if err != nil {
		o.log.V(1).Info("The peer URLs are not known", "why", err.Error())
		return nil
	}
	for _, m := range members {
		if enabled, known := m.PeerTLS(); m.ID == id && known {
			return &enabled
		}
	}
	return nil
}

// due says whether it is time, and if so, notes that.
func due(last *time.Time, every time.Duration) bool {
	if !last.IsZero() && time.Since(*last) < every {
		return false
	}
	*last = time.Now()
	return true
}

// report logs a change of what is believed, once.
func (o *observer) report() {
	v, at := o.core.verdict()
	if v.reason == "" || v.same(o.reported) {
		return
	}
	o.reported = v
	o.log.Info("The member is "+at.String(), "ready", v.status, "reason", v.reason, "message", v.message)
}

func (o *observer) reportFileSystem(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != o.fsError && text != "" {
		o.log.Info("The data volume's sizes are not known", "why", text)
	}
	o.fsError = text
}
