package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
)

// findEvery is how often a missing EtcdMember is looked for by its pod. One that is known by name is watched for instead.
const findEvery = 10 * time.Second

// memberReader reads EtcdMembers of the agent's namespace.
type memberReader interface {
	// ListMembers returns all of them.
	ListMembers(ctx context.Context) ([]v1alpha1.EtcdMember, error)
	// GetMember returns the one of that name, or nil, and the resource version to watch from.
	GetMember(ctx context.Context, name string) (*v1alpha1.EtcdMember, string, error)
	// WatchMember watches the one of that name.
	WatchMember(ctx context.Context, name, from string) (watch.Interface, error)
}

// follower finds the EtcdMember that is this pod's and keeps core up to date with it. It watches a single object: memory
// does not grow with the namespace.
type follower struct {
	core *core
	api  memberReader
	log  logr.Logger
	// pod is the agent's own pod, and name the EtcdMember's if it was given.
	pod, name string
	// wake is signalled when core has seen something new.
	wake chan<- struct{}
	// lost is signalled when the object is not the known one any more.
	lost <-chan struct{}

	// waiting is why there is no EtcdMember yet, to log it once.
	waiting string
}

// run follows until the context ends.
func (f *follower) run(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		name := f.name
		if name == "" {
			found, err := f.find(ctx)
			if err != nil || found == "" {
				failures = f.pause(ctx, err, failures)
				continue
			}
			name = found
		}
		if err := f.follow(ctx, name); err != nil {
			failures = f.pause(ctx, err, failures)
			continue
		}
		failures = 0
		// Watches end now and then, some all the time: never as fast as the server answers.
		sleep(ctx, nil, time.Now().Add(jitter(time.Second)))
	}
}

// pause logs and waits after a failure, or until a missing object is looked for again.
func (f *follower) pause(ctx context.Context, err error, failures int) int {
	delay := jitter(findEvery)
	if err != nil && ctx.Err() == nil {
		failures++
		delay = backoff(failures)
		if failures&(failures-1) == 0 {
			hint := "retrying"
			switch {
			case apierrors.IsForbidden(err):
				hint = "the agent's ServiceAccount lacks rights: it needs ClusterRole etcdmember-agent, bound in this namespace"
			case apierrors.IsNotFound(err):
				hint = "the CustomResourceDefinition etcdmembers.druid.gardener.cloud is not installed"
			}
			f.log.Error(err, "Reading the EtcdMember failed", "hint", hint, "failures", failures)
		}
	} else {
		failures = 0
	}
	sleep(ctx, nil, time.Now().Add(delay))
	return failures
}

// find looks for the EtcdMember whose spec.podName is the pod. It is empty, and logged, if there is not exactly one.
func (f *follower) find(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	members, err := f.api.ListMembers(ctx)
	if err != nil {
		return "", fmt.Errorf("looking for the EtcdMember of pod %s: %w", f.pod, err)
	}
	var found []string
	for i := range members {
		if members[i].Spec.PodName == f.pod {
			found = append(found, members[i].Name)
		}
	}
	switch len(found) {
	case 0:
		f.wait("there is no EtcdMember whose spec.podName is this pod: create it with: kubectl etcdmember adopt")
		return "", nil
	case 1:
		return found[0], nil
	default:
		f.wait("more than one EtcdMember has this pod as its spec.podName: delete all but one, or say which with --member-name: " + strings.Join(found, ", "))
		return "", nil
	}
}

// wait logs why there is nothing to publish to, once for each reason.
func (f *follower) wait(why string) {
	if f.waiting != why {
		f.waiting = why
		f.log.Info("Waiting: "+why, "pod", f.pod)
	}
}

// follow watches one object until it is deleted, or until the watch ends, which it does now and then.
func (f *follower) follow(ctx context.Context, name string) error {
	get, cancel := context.WithTimeout(ctx, callTimeout)
	object, version, err := f.api.GetMember(get, name)
	cancel()
	if err != nil {
		return fmt.Errorf("reading EtcdMember %s: %w", name, err)
	}
	f.see(object, name)
	ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	events, err := f.api.WatchMember(ctx, name, version)
	if err != nil {
		return fmt.Errorf("watching EtcdMember %s: %w", name, err)
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.lost:
			return nil
		case event, open := <-events.ResultChan():
			if !open {
				return nil
			}
			switch event.Type {
			case watch.Added, watch.Modified:
				if object, ok := event.Object.(*v1alpha1.EtcdMember); ok {
					f.see(object, name)
				}
			case watch.Deleted:
				f.see(nil, name)
				if f.name == "" {
					return nil
				}
			case watch.Error:
				err := apierrors.FromObject(event.Object)
				if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
					return nil
				}
				return fmt.Errorf("watching EtcdMember %s: %w", name, err)
			}
		}
	}
}

// see passes the object on, if it is this pod's: spec.podName is the identity that may publish.
func (f *follower) see(object *v1alpha1.EtcdMember, name string) {
	switch {
	case object == nil:
		f.wait(fmt.Sprintf("there is no EtcdMember %s: create it with: kubectl etcdmember adopt", name))
	case object.Spec.PodName != f.pod:
		f.wait(fmt.Sprintf("EtcdMember %s is that of pod %q, not of this one", object.Name, object.Spec.PodName))
		object = nil
	case f.waiting != "" || f.core.member() == "":
		f.waiting = ""
		f.log.Info("Publishing to EtcdMember", "member", object.Name, "uid", object.UID)
	}
	f.core.see(object, time.Now())
	signal(f.wake)
}
