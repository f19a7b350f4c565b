package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/control"
)

// healTimeout is for undoing a fault after a test, whose own context has ended by then.
const healTimeout = time.Minute

// Fault is a fault in force. It is healed at the latest when its test ends.
type Fault struct {
	what string
	heal func(context.Context) error
	once sync.Once
	err  error
}

// Heal undoes the fault. Only the first call does anything.
func (f *Fault) Heal(t testing.TB) {
	t.Helper()
	f.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), healTimeout)
		defer cancel()
		f.err = f.heal(ctx)
	})
	if f.err != nil {
		t.Errorf("healing %s: %v", f.what, f.err)
	}
}

// inject does what the fault says, or fails the test.
func (l *Lab) inject(t testing.TB, f control.Fault) *Fault {
	t.Helper()
	c, err := l.control()
	if err != nil {
		t.Fatalf("%s of %s%s: %v", f.Kind, f.Pod, f.Component, err)
	}
	done, err := c.Inject(t.Context(), f)
	if err != nil {
		t.Fatalf("%s of %s%s: %v", f.Kind, f.Pod, f.Component, err)
	}
	fault := &Fault{
		what: fmt.Sprintf("%s of %s%s", f.Kind, f.Pod, f.Component),
		heal: func(ctx context.Context) error { return c.Heal(ctx, done.ID) },
	}
	if done.ID != "" {
		t.Cleanup(func() { fault.Heal(t) })
	}
	return fault
}

// Kill sends a signal to all processes of a container.
func (l *Lab) Kill(t testing.TB, namespace, pod, container string, signal syscall.Signal) {
	t.Helper()
	l.inject(t, control.Fault{Kind: control.Kill, Namespace: namespace, Pod: pod, Container: container, Signal: int(signal)})
}

// Freeze stops all processes of a container without their knowing (SIGSTOP); healing lets them go on. Connections to it
// are still accepted, by the kernel, and then nothing comes.
func (l *Lab) Freeze(t testing.TB, namespace, pod, container string) *Fault {
	t.Helper()
	return l.inject(t, control.Fault{Kind: control.Freeze, Namespace: namespace, Pod: pod, Container: container})
}

// BlackHole discards all packets of a pod, those of its loopback too, in both directions: connections to it are not
// refused, they stall, and so does a port-forward, which enters the pod through its loopback.
func (l *Lab) BlackHole(t testing.TB, namespace, pod string) *Fault {
	t.Helper()
	return l.inject(t, control.Fault{Kind: control.BlackHole, Namespace: namespace, Pod: pod})
}

// Partition cuts a pod off from the network, but not from itself. With from, it is cut off only from those pods of its
// namespace.
func (l *Lab) Partition(t testing.TB, namespace, pod string, from ...string) *Fault {
	t.Helper()
	return l.inject(t, control.Fault{Kind: control.Partition, Namespace: namespace, Pod: pod, From: from})
}

// FillVolume takes up all that is free on a pod's data volume, but leave bytes; healing frees it.
func (l *Lab) FillVolume(t testing.TB, namespace, pod string, leave int64) *Fault {
	t.Helper()
	return l.inject(t, control.Fault{Kind: control.Fill, Namespace: namespace, Pod: pod, Volume: dataVolume, Leave: leave})
}

// Corruption is a way to damage an etcd's database file.
type Corruption = control.Corruption

// The kinds of corruption.
const (
	CorruptValue    = control.CorruptValue
	CorruptPages    = control.CorruptPages
	CorruptMeta     = control.CorruptMeta
	CorruptTruncate = control.CorruptTruncate
)

// DBPath is where an etcd of StartEtcd has its database, in its volume.
const DBPath = "data/member/snap/db"

// CorruptDB damages a member's database in place, while it is in use. This can't be healed.
func (l *Lab) CorruptDB(t testing.TB, namespace, pod string, c Corruption) {
	t.Helper()
	if c.Path == "" {
		c.Path = DBPath
	}
	l.inject(t, control.Fault{Kind: control.Corrupt, Namespace: namespace, Pod: pod, Volume: dataVolume, Corruption: &c})
}

// StopComponent stops a component of the cluster, such as "kubelet-node2" or "kube-scheduler", as its administrator
// would; healing starts it. `lab status` lists them.
func (l *Lab) StopComponent(t testing.TB, name string) *Fault {
	t.Helper()
	return l.inject(t, control.Fault{Kind: control.Stop, Component: name})
}

// KillComponent kills a component of the cluster (signal 9); healing starts it again.
func (l *Lab) KillComponent(t testing.TB, name string) *Fault {
	t.Helper()
	return l.inject(t, control.Fault{Kind: control.Stop, Component: name, Signal: int(syscall.SIGKILL)})
}

// StopAPIServer stops the API server; healing starts it and waits until it is ready. The lab's own connections to etcd
// (Etcd.Client) and all faults but those of pods work on.
func (l *Lab) StopAPIServer(t testing.TB) *Fault {
	t.Helper()
	return l.StopComponent(t, "kube-apiserver")
}

// Volume is the file system behind a claim, as its node sees it.
type Volume = control.Volume

// VolumeOf measures the file system behind a claim.
func (l *Lab) VolumeOf(t testing.TB, namespace, claim string) Volume {
	t.Helper()
	c, err := l.control()
	if err != nil {
		t.Fatalf("measuring the volume of claim %s/%s: %v", namespace, claim, err)
	}
	v, err := c.VolumeOf(t.Context(), namespace, claim)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// LoseClaim deletes a member's claim and pod, with the data, and waits until the pod is there again with a new claim. It
// is what a dead disk and a hasty administrator do. This can't be healed, and needs no lab.
func (e *Etcd) LoseClaim(t testing.TB, ordinal int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	claims, pods := e.lab.client.CoreV1().PersistentVolumeClaims(e.Namespace), e.lab.client.CoreV1().Pods(e.Namespace)
	claim, err := claims.Get(ctx, e.Claim(ordinal), metav1.GetOptions{})
	if err != nil {
		t.Fatalf("losing a claim: %v", err)
	}
	pod, err := pods.Get(ctx, e.Pod(ordinal), metav1.GetOptions{})
	if err != nil {
		t.Fatalf("losing a claim: %v", err)
	}
	// The claim stays while a pod uses it, so it is gone only with the pod.
	if err := claims.Delete(ctx, claim.Name, deleteOnly(claim.UID)); err != nil {
		t.Fatalf("losing a claim: %v", err)
	}
	if err := pods.Delete(ctx, pod.Name, deleteOnly(pod.UID)); err != nil {
		t.Fatalf("losing a claim: %v", err)
	}
	again := time.Now().Add(5 * time.Second)
	for {
		newClaim, claimErr := claims.Get(ctx, claim.Name, metav1.GetOptions{})
		newPod, podErr := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if claimErr == nil && podErr == nil && newClaim.UID != claim.UID && newPod.UID != pod.UID && newClaim.Spec.VolumeName != "" {
			return
		}
		if podErr == nil && newPod.UID != pod.UID && apierrors.IsNotFound(claimErr) && time.Now().After(again) {
			// The set may make the new pod while the old claim is still there, and then sees no reason to look for
			// a claim again. Another pod is one.
			again = time.Now().Add(5 * time.Second)
			if err := pods.Delete(ctx, newPod.Name, deleteOnly(newPod.UID)); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				t.Fatalf("losing a claim: %v", err)
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("pod %s/%s did not get a new claim: %v", e.Namespace, pod.Name, errors.Join(claimErr, podErr, ctx.Err()))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func deleteOnly(uid types.UID) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}
