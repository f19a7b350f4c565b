package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
)

// Bounds of the publisher. They hold whatever the member and the API server do.
const (
	// publishBurst writes may follow each other at once, which covers what happens when a member fails and comes back.
	publishBurst = 10
	// publishEvery is how often one may be made in the long run: 240 an hour.
	publishEvery = 15 * time.Second
	// retryFirst and retryMost bound the delay after a failed write. It doubles, and is shortened by up to a half at random.
	retryFirst, retryMost = 500 * time.Millisecond, 30 * time.Second
	// callTimeout is for one call to the API server.
	callTimeout = 10 * time.Second
)

// statusWriter applies the status of one EtcdMember, and returns the object as it then is.
type statusWriter interface {
	ApplyStatus(ctx context.Context, member *v1alpha1.EtcdMember) (*v1alpha1.EtcdMember, error)
}

// publisher writes what core knows when core says so.
type publisher struct {
	core    *core
	api     statusWriter
	metrics *metrics
	log     logr.Logger
	// wake is signalled when core may have something new.
	wake <-chan struct{}
	// gone is called when the API says that the object is not there any more, or is another one.
	gone func()

	// lost is what the API server did not keep of the last write.
	lost string
}

// run publishes until the context ends. What is written is always the newest: changes while a write is under way, or the
// API server is away, are one write afterwards, with the transitions of all of them.
func (p *publisher) run(ctx context.Context) {
	limiter := rate.NewLimiter(rate.Every(publishEvery), publishBurst)
	failures := 0
	for {
		why, before := p.core.plan(time.Now())
		if why == "" {
			failures = 0 // What could not be published is not true any more, or somebody else has published it.
			if !sleep(ctx, p.wake, before) {
				return
			}
			continue
		}
		// Waiting does not end early for a newer change: the draft is made afterwards.
		if err := limiter.Wait(ctx); err != nil {
			return
		}
		err := p.publish(ctx, why)
		switch {
		case err == nil:
			if failures > 0 {
				p.log.Info("Publishing works again", "failures", failures)
			}
			failures = 0
		case ctx.Err() != nil:
			return
		default:
			failures++
			delay := backoff(failures)
			p.complain(err, failures, delay)
			if !sleep(ctx, nil, time.Now().Add(delay)) {
				return
			}
		}
	}
}

// publish makes one write.
func (p *publisher) publish(ctx context.Context, why string) error {
	draft, ok := p.core.draft(time.Now())
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	begun := time.Now()
	result, err := p.api.ApplyStatus(ctx, draft)
	p.metrics.published(why, err, time.Since(begun))
	switch {
	case apierrors.IsNotFound(err):
		p.forget(draft)
		return nil
	case err != nil:
		return fmt.Errorf("publishing the status of EtcdMember %s/%s: %w", draft.Namespace, draft.Name, err)
	case result.UID != draft.UID:
		p.forget(draft)
		return nil
	}
	if lost := p.core.published(draft, result, time.Now()); lost != p.lost {
		p.lost = lost
		if lost != "" {
			p.log.Error(nil, "The API server does not keep what is published: the CustomResourceDefinition does not fit this agent, update it", "member", draft.Name, "lost", lost)
		}
	}
	p.log.V(1).Info("Published", "member", draft.Name, "because", why, "state", draft.Status.State, "subState", draft.Status.SubState)
	return nil
}

// forget leaves it to the follower to find out what has become of an object that is gone, or is another one of its name. A
// write can't be made to fail for the latter: the API server ignores the UID of a status that is applied. It does no
// harm: whatever the object, it is of this member, and all is published again.
func (p *publisher) forget(draft *v1alpha1.EtcdMember) {
	p.log.Info("The EtcdMember is gone, or is another one now", "member", draft.Name)
	p.core.see(nil, time.Now())
	p.gone()
}

// complain logs a failure, the first at once and then ever more rarely: they come at the pace of the backoff.
func (p *publisher) complain(err error, failures int, delay time.Duration) {
	if failures&(failures-1) != 0 {
		return
	}
	hint := "retrying"
	switch {
	case apierrors.IsForbidden(err):
		hint = "the agent's ServiceAccount lacks rights: it needs ClusterRole etcdmember-agent, bound in this namespace"
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		hint = "the CustomResourceDefinition does not fit this agent: update it"
	}
	p.log.Error(err, "Publishing failed", "hint", hint, "failures", failures, "retryIn", delay.Round(time.Millisecond).String())
}

// backoff is the delay after so many failures in a row.
func backoff(failures int) time.Duration {
	d := retryMost
	if shift := failures - 1; shift < 10 {
		d = min(retryFirst<<shift, retryMost)
	}
	return d - rand.N(d/2)
}

// sleep waits for the context's end, a wake-up or the time, if it is not zero. It is false if the context has ended.
func sleep(ctx context.Context, wake <-chan struct{}, until time.Time) bool {
	var alarm <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-alarm:
	}
	return true
}

// signal wakes a receiver that may already have been woken.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
