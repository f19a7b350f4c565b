package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
)

// world is an etcd and an API server in virtual time: what outages of minutes do to the loops can't be had from real
// ones in a unit test. Real ones are in test/e2e.
type world struct {
	t  *testing.T
	mu sync.Mutex

	// The member.
	look  func(time.Time) *observation
	slow  time.Duration
	polls int

	// The API server.
	object   *v1alpha1.EtcdMember
	refuse   error
	watchers []*watch.FakeWatcher
	writes   []time.Time
	applied  []*v1alpha1.EtcdMember
	noLease  bool
	beats    []time.Time
	version  int

	core *core
}

func (w *world) Status(ctx context.Context) (*etcd.Status, error) {
	w.mu.Lock()
	w.polls++
	o, slow := w.look(time.Now()), w.slow
	w.mu.Unlock()
	if slow > 0 || o.statusErr != nil && !etcd.IsPermissionDenied(o.statusErr) {
		time.Sleep(max(slow, etcd.DefaultTimeout))
	}
	return o.status, o.statusErr
}

func (w *world) LinearizableRead(context.Context) (etcd.Header, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return etcd.Header{}, w.look(time.Now()).readErr
}

func (w *world) MemberList(context.Context, etcd.Consistency) (etcd.Header, []etcd.Member, error) {
	return etcd.Header{}, []etcd.Member{{ID: ownID, PeerURLs: []string{"https://main-0:2380"}}, {ID: 0xb2, PeerURLs: []string{"http://main-1:2380"}}}, nil
}

func (w *world) MetricsQuota(context.Context) (int64, error) { return 0, etcd.ErrNoQuota }

func (w *world) ApplyStatus(_ context.Context, m *v1alpha1.EtcdMember) (*v1alpha1.EtcdMember, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, time.Now())
	resource := schema.GroupResource{Group: v1alpha1.GroupName, Resource: "etcdmembers"}
	switch {
	case w.refuse != nil:
		return nil, w.refuse
	case w.object == nil:
		return nil, apierrors.NewNotFound(resource, m.Name)
	}
	w.store(func(o *v1alpha1.EtcdMember) { o.Status = *m.Status.DeepCopy() })
	w.applied = append(w.applied, w.object)
	return w.object.DeepCopy(), nil
}

// store changes the object under the lock, and tells the watchers.
func (w *world) store(change func(*v1alpha1.EtcdMember)) {
	o := w.object.DeepCopy()
	change(o)
	w.version++
	o.ResourceVersion = fmt.Sprint(100 + w.version)
	w.object = o
	for _, watcher := range w.watching() {
		watcher.Modify(o.DeepCopy())
	}
}

// watching are the watches that nobody has stopped.
func (w *world) watching() []*watch.FakeWatcher {
	w.watchers = slices.DeleteFunc(w.watchers, func(f *watch.FakeWatcher) bool { return f.IsStopped() })
	return w.watchers
}

func (w *world) create(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.object = object(uid)
	w.version++
	w.object.ResourceVersion = fmt.Sprint(100 + w.version)
	for _, watcher := range w.watching() {
		watcher.Add(w.object.DeepCopy())
	}
}

func (w *world) remove() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watcher := range w.watching() {
		watcher.Delete(w.object.DeepCopy())
	}
	w.object = nil
}

func (w *world) ListMembers(context.Context) ([]v1alpha1.EtcdMember, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil || w.object == nil {
		return nil, w.refuse
	}
	return []v1alpha1.EtcdMember{{Spec: v1alpha1.EtcdMemberSpec{PodName: "other"}}, *w.object.DeepCopy()}, nil
}

func (w *world) GetMember(context.Context, string) (*v1alpha1.EtcdMember, string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil || w.object == nil {
		return nil, "1", w.refuse
	}
	return w.object.DeepCopy(), w.object.ResourceVersion, nil
}

func (w *world) WatchMember(context.Context, string, string) (watch.Interface, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		return nil, w.refuse
	}
	watcher := watch.NewFakeWithChanSize(1000, false)
	w.watchers = append(w.watchers, watcher)
	return watcher, nil
}

func (w *world) RenewLease(_ context.Context, name string, spec coordinationv1.LeaseSpec) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if name != "etcdmember-main-0" || *spec.HolderIdentity != "main-0_uid" || *spec.LeaseDurationSeconds != 60 || !spec.RenewTime.Time.Equal(time.Now()) {
		w.t.Errorf("renews %s with %+v", name, spec)
	}
	switch {
	case w.refuse != nil:
		return w.refuse
	case w.noLease:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, name)
	}
	w.beats = append(w.beats, time.Now())
	return nil
}

// outage makes every call to the API fail, and breaks the watches.
func (w *world) outage(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = err
	for _, watcher := range w.watchers {
		watcher.Stop()
	}
	w.watchers = nil
}

func (w *world) is(look func(time.Time) *observation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look = look
}

func (w *world) count() (writes, beats int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.writes), len(w.beats)
}

func (w *world) status() v1alpha1.EtcdMemberStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.object.DeepCopy().Status
}

func (w *world) ready() string {
	for _, c := range w.status().Conditions {
		if c.Type == v1alpha1.ConditionReady {
			return string(c.Status) + "/" + c.Reason
		}
	}
	return ""
}

func role(s stage) func(time.Time) *observation {
	return func(at time.Time) *observation { return answers(at, s) }
}

// run runs all loops against a world, in virtual time, while the script plays.
func run(t *testing.T, memberName string, script func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, look: role(stageFollower), core: &core{version: "v1", looked: time.Now()}}
		wake, lost, m, log := make(chan struct{}, 1), make(chan struct{}, 1), newMetrics(), testLog(t)
		loops := []func(context.Context){
			(&observer{core: w.core, etcd: w, metrics: m, log: log, interval: 2 * time.Second, wake: wake}).run,
			(&follower{core: w.core, api: w, log: log, pod: "main-0", name: memberName, wake: wake, lost: lost}).run,
			(&publisher{core: w.core, api: w, metrics: m, log: log, wake: wake, gone: func() { signal(lost) }}).run,
			(&heartbeat{core: w.core, api: w, metrics: m, log: log, holder: "main-0_uid"}).run,
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for _, loop := range loops {
			group.Go(func() { loop(ctx) })
		}
		script(w)
		cancel()
		group.Wait()
		for _, m := range w.applied {
			if err := CheckTransitions(m.Status.Transitions); err != nil {
				t.Error(err)
			}
		}
	})
}

// pass lets virtual time pass, and the loops do what is due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestWaitsForItsEtcdMember(t *testing.T) {
	for _, name := range []string{"", "main-0"} {
		t.Run("member-name "+name, func(t *testing.T) {
			run(t, name, func(w *world) {
				pass(time.Minute)
				if writes, beats := w.count(); writes+beats != 0 {
					t.Errorf("%d writes and %d beats without an EtcdMember", writes, beats)
				}
				w.create("uid-1")
				pass(12 * time.Second)
				if s := w.status(); s.SubState != v1alpha1.SubStateFollower || s.PeerTLSEnabled == nil || !*s.PeerTLSEnabled {
					t.Errorf("status is %+v", s)
				}
				if _, beats := w.count(); beats == 0 {
					t.Error("no heartbeat 12 s after the EtcdMember was created")
				}
			})
		})
	}
}

func TestIdleHour(t *testing.T) {
	run(t, "", func(w *world) {
		w.create("uid-1")
		pass(time.Minute)
		writes, beats := w.count()
		pass(time.Hour)
		moreWrites, moreBeats := w.count()
		// The interval is jittered by a tenth: 5 to 4.5 minutes are 12 to 13.3 an hour.
		if got := moreWrites - writes; got < 10 || got > 14 {
			t.Errorf("%d status writes in an idle hour: want about 12", got)
		}
		if got := moreBeats - beats; got != 180 {
			t.Errorf("%d heartbeats in an hour: want 180", got)
		}
	})
}

func TestFreezeAndThaw(t *testing.T) {
	for offset := time.Duration(0); offset < 2*time.Second; offset += 100 * time.Millisecond {
		run(t, "", func(w *world) {
			w.create("uid-1")
			pass(time.Minute + offset)
			w.is(frozen)
			pass(8 * time.Second)
			if got := w.ready(); got != "False/NotAnswering" {
				t.Errorf("8 s after freezing, Ready is %s", got)
			}
			pass(22 * time.Second)
			w.is(role(stageFollower))
			pass(8 * time.Second)
			if got := w.ready(); got != "True/Serving" {
				t.Errorf("8 s after thawing, Ready is %s", got)
			}
			if writes, _ := w.count(); writes != 3 {
				t.Errorf("%d writes: want the first and two more", writes)
			}
		})
	}
}

func TestReadsThatFailAlsoTurnReady(t *testing.T) {
	run(t, "", func(w *world) {
		w.create("uid-1")
		pass(time.Minute)
		w.is(func(at time.Time) *observation {
			return with(answers(at, stageFollower), func(o *observation) { o.readErr = errRead })
		})
		pass(8 * time.Second)
		if got := w.ready(); got != "False/ReadFailed" {
			t.Errorf("Ready is %s", got)
		}
	})
}

// TestOutage: the API server is away while the role changes twice; all of it is published afterwards, in few writes.
func TestOutage(t *testing.T) {
	run(t, "", func(w *world) {
		w.create("uid-1")
		pass(time.Minute)
		writes, beats := w.count()
		w.outage(errors.New("connection refused"))
		pass(10 * time.Second)
		w.is(role(stageLeader))
		pass(10 * time.Second)
		w.is(role(stageFollower))
		pass(5 * time.Minute)
		tried, moreBeats := w.count()
		if tried -= writes; tried < 5 || tried > 25 {
			t.Errorf("%d attempts in five minutes: want a few, backing off", tried)
		}
		if moreBeats != beats {
			t.Error("the heartbeat was counted while the API was away")
		}
		w.outage(nil)
		pass(35 * time.Second)
		if got := len(w.status().Transitions); got != 3 {
			t.Errorf("%d transitions are published: want those of the outage too: %+v", got, w.status().Transitions)
		}
		now, beatsNow := w.count()
		if now-writes-tried > 2 || beatsNow == beats {
			t.Errorf("%d writes to catch up, %d heartbeats", now-writes-tried, beatsNow-beats)
		}
	})
}

// TestFlapping: a role that changes with every look does not make more writes than the limit.
func TestFlapping(t *testing.T) {
	run(t, "", func(w *world) {
		w.create("uid-1")
		pass(time.Minute)
		writes, _ := w.count()
		leads := false
		w.is(func(at time.Time) *observation {
			if leads = !leads; leads {
				return answers(at, stageLeader)
			}
			return answers(at, stageFollower)
		})
		pass(time.Hour)
		more, beats := w.count()
		if got := more - writes; got > 255 {
			t.Errorf("%d writes in an hour of flapping: want at most 240 and the burst", got)
		}
		if beats < 180 {
			t.Errorf("%d heartbeats: a member that flaps is not lost", beats)
		}
	})
}

func TestRecreatedWhileRunning(t *testing.T) {
	run(t, "", func(w *world) {
		w.create("uid-1")
		pass(time.Minute)
		w.remove()
		pass(time.Second)
		w.create("uid-2")
		pass(15 * time.Second)
		if s := w.status(); s.ID != "a1" || s.PublishedAt == nil {
			t.Errorf("the new object has status %+v", s)
		}
	})
}

// TestReplacedUnseen: the watch missed that the object was replaced. The write's result shows it, and all is published again.
func TestReplacedUnseen(t *testing.T) {
	run(t, "", func(w *world) {
		w.create("uid-1")
		pass(time.Minute)
		w.mu.Lock()
		w.watchers = nil
		w.object = object("uid-2")
		w.mu.Unlock()
		w.is(role(stageLeader))
		pass(20 * time.Second)
		if s := w.status(); s.SubState != v1alpha1.SubStateLeader || len(s.Transitions) != 2 {
			t.Errorf("the new object has status %+v", s)
		}
	})
}

func TestForbidden(t *testing.T) {
	run(t, "", func(w *world) {
		w.create("uid-1")
		pass(time.Minute)
		writes, _ := w.count()
		w.outage(apierrors.NewForbidden(schema.GroupResource{Resource: "etcdmembers"}, "main-0", errors.New("no")))
		w.is(role(stageLeader))
		pass(time.Hour)
		if more, _ := w.count(); more-writes > 260 || more == writes {
			t.Errorf("%d attempts in an hour: want them backed off, and not given up", more-writes)
		}
		w.outage(nil)
		pass(35 * time.Second)
		if w.status().SubState != v1alpha1.SubStateLeader {
			t.Error("does not recover when it may write again")
		}
	})
}

func TestLeaseMissing(t *testing.T) {
	run(t, "", func(w *world) {
		w.mu.Lock()
		w.noLease = true
		w.mu.Unlock()
		w.create("uid-1")
		pass(5 * time.Minute)
		w.mu.Lock()
		w.noLease = false
		w.mu.Unlock()
		pass(21 * time.Second)
		if _, beats := w.count(); beats == 0 {
			t.Error("the Lease is there now, and is not renewed")
		}
	})
}

func TestAnotherPodsEtcdMember(t *testing.T) {
	run(t, "main-0", func(w *world) {
		w.create("uid-1")
		w.mu.Lock()
		w.store(func(o *v1alpha1.EtcdMember) { o.Spec.PodName = "other-0" })
		w.mu.Unlock()
		pass(time.Minute)
		if writes, beats := w.count(); writes+beats != 0 {
			t.Errorf("%d writes and %d beats to the EtcdMember of another pod", writes, beats)
		}
	})
}
