package agent

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
)

const (
	// beatEvery is how often the Lease is renewed.
	beatEvery = 20 * time.Second
	// beatFor is how long a renewal holds: a reader takes an older one for stale. Two may be lost.
	beatFor = 60 * time.Second
	// beatRetry is how soon a renewal that failed is tried again.
	beatRetry = 10 * time.Second
	// beatComplainEvery is how often a Lease that can't be renewed is logged.
	beatComplainEvery = time.Minute
)

// leaseRenewer renews a Lease that exists. It never creates one.
type leaseRenewer interface {
	RenewLease(ctx context.Context, name string, spec coordinationv1.LeaseSpec) error
}

// heartbeat says by the member's Lease that its publisher lives and that what it has published is what it knows.
type heartbeat struct {
	core    *core
	api     leaseRenewer
	metrics *metrics
	log     logr.Logger
	// holder is who renews: the pod and its UID.
	holder string

	// last is the Lease that was last renewed.
	last       string
	complained time.Time
}

// run renews until the context ends. It begins when something is published and goes on when what is published is true
// again, not by the clock: a reader should not wait for it.
func (h *heartbeat) run(ctx context.Context) {
	for withheld := false; ; {
		delay := time.Second
		member := h.core.member()
		switch vouches := member != "" && h.core.vouches(time.Now()); {
		case vouches:
			withheld, delay = false, h.beat(ctx, member)
		case member != "" && h.last != "" && !withheld:
			withheld = true
			h.metrics.renewed("withheld")
			h.log.Info("Not renewing the heartbeat until the status is published: what is there is out of date", "lease", h.last)
		}
		if !sleep(ctx, nil, time.Now().Add(delay)) {
			return
		}
	}
}

// beat renews once, and returns when to do so again.
func (h *heartbeat) beat(ctx context.Context, member string) time.Duration {
	begun := time.Now()
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	name := v1alpha1.HeartbeatLeaseName(member)
	now, seconds := metav1.NowMicro(), int32(beatFor/time.Second)
	err := h.api.RenewLease(call, name, coordinationv1.LeaseSpec{HolderIdentity: &h.holder, LeaseDurationSeconds: &seconds, RenewTime: &now})
	switch {
	case err == nil:
		h.metrics.renewed("ok")
		h.last = name
	case ctx.Err() != nil:
	case apierrors.IsNotFound(err):
		h.metrics.renewed("missing")
		h.complain(err, name, "There is no heartbeat Lease: create it with: kubectl etcdmember adopt")
	default:
		h.metrics.renewed("error")
		h.complain(err, name, "Renewing the heartbeat failed")
		return jitter(beatRetry)
	}
	return beatEvery - time.Since(begun)
}

func (h *heartbeat) complain(err error, lease, text string) {
	if time.Since(h.complained) < beatComplainEvery {
		return
	}
	h.complained = time.Now()
	h.log.Error(err, text, "lease", lease)
}
