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

	complained time.Time
}

// run renews until the context ends. There are no retries in between: the next renewal is one, and soon.
func (h *heartbeat) run(ctx context.Context) {
	// The first one follows the first publication, not the clock: a reader should not wait for it.
	for !h.core.vouches(time.Now()) {
		if !sleep(ctx, nil, time.Now().Add(time.Second)) {
			return
		}
	}
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		h.beat(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (h *heartbeat) beat(ctx context.Context) {
	member := h.core.member()
	if member == "" {
		return
	}
	if !h.core.vouches(time.Now()) {
		h.metrics.renewed("withheld")
		h.complain(nil, member, "Not renewing the heartbeat: what is published is out of date and can't be renewed")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now, seconds := metav1.NowMicro(), int32(beatFor/time.Second)
	err := h.api.RenewLease(ctx, v1alpha1.HeartbeatLeaseName(member), coordinationv1.LeaseSpec{
		HolderIdentity: &h.holder, LeaseDurationSeconds: &seconds, RenewTime: &now,
	})
	switch {
	case err == nil:
		h.metrics.renewed("ok")
	case apierrors.IsNotFound(err):
		h.metrics.renewed("missing")
		h.complain(err, member, "There is no heartbeat Lease: create it with: kubectl etcdmember adopt")
	case ctx.Err() == context.Canceled:
	default:
		h.metrics.renewed("error")
		h.complain(err, member, "Renewing the heartbeat failed")
	}
}

func (h *heartbeat) complain(err error, member, text string) {
	if time.Since(h.complained) < beatComplainEvery {
		return
	}
	h.complained = time.Now()
	h.log.Error(err, text, "lease", v1alpha1.HeartbeatLeaseName(member))
}
