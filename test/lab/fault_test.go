package lab_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/etcdmember/kubectl-etcdmember/test/lab"
)

// A killed container is restarted, and its member joins again.
func TestKill(t *testing.T) {
	t.Parallel()
	l := lab.Get(t)
	e := l.StartEtcd(t, l.Namespace(t), lab.EtcdOptions{})
	l.Kill(t, e.Namespace, e.Pod(1), lab.EtcdContainer, syscall.SIGKILL)
	eventually(t, time.Minute, "the container restarts", func() error {
		p := e.GetPod(t, e.Pod(1))
		if s := p.Status.ContainerStatuses[0]; s.RestartCount != 1 || !s.Ready {
			return fmt.Errorf("%d restarts, ready %v", s.RestartCount, s.Ready)
		}
		return nil
	})
	if s := e.GetPod(t, e.Pod(1)).Status.ContainerStatuses[0].LastTerminationState.Terminated; s == nil || s.ExitCode != 137 {
		t.Errorf("the container ended with %+v, want exit code 137", s)
	}
	e.WaitReady(t)
}

// A frozen member answers nothing, while the others go on; thawed, it serves again, and nothing was restarted.
func TestFreeze(t *testing.T) {
	t.Parallel()
	l := lab.Get(t)
	e := l.StartEtcd(t, l.Namespace(t), lab.EtcdOptions{})
	frozen := e.Pod(2)
	fault := l.Freeze(t, e.Namespace, frozen, lab.EtcdContainer)

	if err := put(t, e, "k", "v", 3*time.Second, frozen); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want that it does not answer", err)
	}
	// If it was the leader, the others elect one first.
	if err := put(t, e, "k", "v", 10*time.Second, e.Pod(0), e.Pod(1)); err != nil {
		t.Errorf("while one member is frozen: %v", err)
	}
	eventually(t, 30*time.Second, "its pod is not ready", func() error {
		if lab.Ready(e.GetPod(t, frozen)) {
			return errors.New("it is")
		}
		return nil
	})
	fault.Heal(t)
	eventually(t, 30*time.Second, "it serves again", func() error { return put(t, e, "k", "v", 3*time.Second, frozen) })
	e.WaitReady(t)
	if n := e.GetPod(t, frozen).Status.ContainerStatuses[0].RestartCount; n != 0 {
		t.Errorf("%d restarts, want none", n)
	}
}

// A black-holed member is not refused but stalls, from other pods and through a port-forward alike.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	l := lab.Get(t)
	e := l.StartEtcd(t, l.Namespace(t), lab.EtcdOptions{})
	hole := e.Pod(0)
	if err := ready(t, l, e.Namespace, hole, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	fault := l.BlackHole(t, e.Namespace, hole)

	if err := put(t, e, "k", "v", 3*time.Second, hole); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want that it does not answer", err)
	}
	begin := time.Now()
	if err := ready(t, l, e.Namespace, hole, 3*time.Second); !os.IsTimeout(unwrapAll(err)) {
		t.Errorf("through a port-forward: %v, want a time-out", err)
	}
	if took := time.Since(begin); took < 3*time.Second {
		t.Errorf("the port-forward failed after %s; it should stall", took)
	}
	if err := put(t, e, "k", "v", 10*time.Second, e.Pod(1), e.Pod(2)); err != nil {
		t.Errorf("while one member is black-holed: %v", err)
	}
	fault.Heal(t)
	eventually(t, 30*time.Second, "it serves again", func() error { return put(t, e, "k", "v", 3*time.Second, hole) })
	// Connections that were begun in the hole wait for TCP to try again, and so does the election that they delay.
	eventually(t, 30*time.Second, "it is ready again", func() error { return ready(t, l, e.Namespace, hole, 30*time.Second) })
}

// unwrapAll digs out the innermost error that has an opinion on time-outs.
func unwrapAll(err error) error {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) {
		if inner, ok := timeout.(error); ok {
			return inner
		}
	}
	return err
}

// A partitioned member is alone but alive: it answers itself, serializably, and nobody else.
func TestPartition(t *testing.T) {
	t.Parallel()
	l := lab.Get(t)
	e := l.StartEtcd(t, l.Namespace(t), lab.EtcdOptions{})
	e.Etcdctl(t, "put", "k", "v")
	alone := e.Pod(1)
	fault := l.Partition(t, e.Namespace, alone)

	if err := put(t, e, "k", "v", 3*time.Second, alone); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want that it is not reached", err)
	}
	if out := e.EtcdctlIn(t, alone, "get", "k", "--consistency=s"); out != "k\nv\n" {
		t.Errorf("the partitioned member answered itself %q", out)
	}
	if err := put(t, e, "k", "w", 10*time.Second, e.Pod(0), e.Pod(2)); err != nil {
		t.Errorf("while one member is partitioned: %v", err)
	}
	if out := e.EtcdctlIn(t, alone, "get", "k", "--consistency=s"); out != "k\nv\n" {
		t.Errorf("the partitioned member knows of a write that it can't have seen: %q", out)
	}
	fault.Heal(t)
	eventually(t, 30*time.Second, "it catches up", func() error {
		if out := e.EtcdctlIn(t, alone, "get", "k", "--consistency=s"); out != "k\nw\n" {
			return fmt.Errorf("it has %q", out)
		}
		return nil
	})
}

// A member that is cut off from one other only still has a quorum with the third.
func TestPartitionOfAPair(t *testing.T) {
	t.Parallel()
	l := lab.Get(t)
	e := l.StartEtcd(t, l.Namespace(t), lab.EtcdOptions{})
	// Between two followers, so that no election is needed.
	var followers []string
	for leader, pods := e.Leader(t), e.Pods(); len(pods) > 0; pods = pods[1:] {
		if pods[0] != leader {
			followers = append(followers, pods[0])
		}
	}
	l.Partition(t, e.Namespace, followers[0], followers[1])
	for _, pod := range e.Pods() {
		if err := put(t, e, "k", "v", 30*time.Second, pod); err != nil {
			t.Errorf("while two followers don't see each other: %v", err)
		}
	}
	command := []string{"exec", "-n", e.Namespace, followers[0], "-c", lab.EtcdContainer, "--", "etcdctl", "--dial-timeout=2s", "--command-timeout=2s", "endpoint", "status", "--endpoints="}
	if out, err := l.TryKubectl(t.Context(), append(command[:len(command)-1], "--endpoints="+e.Endpoint(followers[1]))...); err == nil {
		t.Errorf("the pair is not cut: %s", out)
	}
	if out, err := l.TryKubectl(t.Context(), append(command[:len(command)-1], "--endpoints="+e.Endpoint(e.Leader(t)))...); err != nil {
		t.Errorf("more than the pair is cut: %s %v", out, err)
	}
}

// A full volume is really full, for a user without root, and etcd says what the kernel says.
func TestFillVolume(t *testing.T) {
	t.Parallel()
	l := lab.Get(t)
	e := l.StartEtcd(t, l.Namespace(t), lab.EtcdOptions{Size: "192Mi"})
	full := e.Pod(2)
	fault := l.FillVolume(t, e.Namespace, full, 0)
	if v := l.VolumeOf(t, e.Namespace, e.Claim(2)); v.Available > 64<<10 {
		t.Errorf("%d bytes are still free", v.Available)
	}
	// The log is allocated in advance, 64 MiB at a time, so that etcd notices when the database grows.
	value := strings.Repeat("x", 1<<20)
	eventually(t, time.Minute, "etcd runs out of space", func() error {
		c := e.Client(t, e.Pod(0), e.Pod(1))
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if _, err := c.Put(ctx, "big", value); err != nil {
			t.Logf("put: %v", err)
		}
		for _, args := range [][]string{{}, {"--previous"}} {
			out, _ := l.TryKubectl(t.Context(), append([]string{"logs", "-n", e.Namespace, full, "-c", lab.EtcdContainer}, args...)...)
			if strings.Contains(out, "no space left on device") {
				return nil
			}
		}
		return errors.New("its log does not say so")
	})
	fault.Heal(t)
	if v := l.VolumeOf(t, e.Namespace, e.Claim(2)); v.Available < 8<<20 {
		t.Errorf("only %d bytes are free again", v.Available)
	}
	e.WaitReady(t)
}

// A value that was changed on disk is another value, which no checksum notices: only comparing members does.
func TestCorruptValue(t *testing.T) {
	t.Parallel()
	l := lab.Get(t)
	e := l.StartEtcd(t, l.Namespace(t), lab.EtcdOptions{})
	e.Etcdctl(t, "put", "k", "a-sound-value")
	bad := e.Pod(1)
	c := e.Client(t)
	// The value is in the file once the backend has committed, every 100 ms.
	eventually(t, 10*time.Second, "the value is on disk", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		s, err := c.Status(ctx, e.Endpoint(bad))
		if err == nil && s.DbSizeInUse == 0 {
			err = errors.New("it is empty")
		}
		return err
	})
	time.Sleep(500 * time.Millisecond)
	l.CorruptDB(t, e.Namespace, bad, lab.Corruption{Kind: lab.CorruptValue, From: []byte("a-sound-value"), To: []byte("another-value")})

	// The read goes to the file, past the index of keys, so that it shows at once.
	if out := e.EtcdctlIn(t, bad, "get", "k"); out != "k\nanother-value\n" {
		t.Errorf("the corrupt member answers %q", out)
	}
	hashes := map[uint32][]string{}
	for _, pod := range e.Pods() {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		h, err := c.HashKV(ctx, e.Endpoint(pod), 0)
		cancel()
		if err != nil {
			t.Fatalf("hash of %s: %v", pod, err)
		}
		hashes[h.Hash] = append(hashes[h.Hash], pod)
	}
	if len(hashes) != 2 {
		t.Errorf("hashes are %v, want two different ones", hashes)
	}
}

// A database without its meta pages, or cut short, can't be opened: its member does not come back.
func TestCorruptFile(t *testing.T) {
	for _, kind := range []lab.Corruption{{Kind: lab.CorruptMeta}, {Kind: lab.CorruptTruncate}, {Kind: lab.CorruptPages}} {
		t.Run(string(kind.Kind), func(t *testing.T) {
			t.Parallel()
			l := lab.Get(t)
			e := l.StartEtcd(t, l.Namespace(t), lab.EtcdOptions{})
			for i := range 20 {
				if err := put(t, e, fmt.Sprint("k", i), strings.Repeat("x", 20000), 30*time.Second); err != nil {
					t.Fatal(err)
				}
			}
			bad := e.Pod(0)
			l.CorruptDB(t, e.Namespace, bad, kind)
			l.Kill(t, e.Namespace, bad, lab.EtcdContainer, syscall.SIGKILL)
			eventually(t, time.Minute, "its container fails", func() error {
				s := e.GetPod(t, bad).Status.ContainerStatuses[0]
				if s.RestartCount < 2 || s.Ready {
					return fmt.Errorf("%d restarts, ready %v", s.RestartCount, s.Ready)
				}
				return nil
			})
			if err := put(t, e, "k", "v", 10*time.Second, e.Pod(1), e.Pod(2)); err != nil {
				t.Errorf("while one member is corrupt: %v", err)
			}
		})
	}
}

// A lost claim comes back empty, and so does the member; the others go on.
func TestLoseClaim(t *testing.T) {
	t.Parallel()
	l := lab.Get(t)
	e := l.StartEtcd(t, l.Namespace(t), lab.EtcdOptions{})
	e.Etcdctl(t, "put", "k", "v")
	before := l.Kubectl(t, "get", "pvc", "-n", e.Namespace, e.Claim(2), "-o", "jsonpath={.spec.volumeName}")
	e.LoseClaim(t, 2)
	after := l.Kubectl(t, "get", "pvc", "-n", e.Namespace, e.Claim(2), "-o", "jsonpath={.spec.volumeName}")
	if before == after || after == "" {
		t.Errorf("the claim's volume was %q and is %q, want another", before, after)
	}
	if err := put(t, e, "k", "w", 10*time.Second, e.Pod(0), e.Pod(1)); err != nil {
		t.Errorf("while one member has lost its data: %v", err)
	}
}

// While the API server is stopped or killed requests fail at once, etcd and its direct clients go on, and it recovers.
func TestAPIServerStops(t *testing.T) {
	for name, stop := range map[string]func(*lab.Lab) *lab.Fault{
		"stopped": func(l *lab.Lab) *lab.Fault { return l.StopAPIServer(t) },
		"killed":  func(l *lab.Lab) *lab.Fault { return l.KillComponent(t, "kube-apiserver") },
	} {
		t.Run(name, func(t *testing.T) {
			l := lab.Get(t)
			e := l.StartEtcd(t, l.Namespace(t), lab.EtcdOptions{Replicas: 1})
			fault := stop(l)
			begin := time.Now()
			if _, err := l.Client().CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil {
				t.Error("the API server answers although it is down")
			}
			if took := time.Since(begin); took > 130*time.Second {
				t.Errorf("the request failed only after %s", took)
			}
			if err := put(t, e, "k", "v", 30*time.Second); err != nil {
				t.Errorf("without an API server: %v", err)
			}
			fault.Heal(t)
			if _, err := l.Client().CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Errorf("after it came back: %v", err)
			}
			e.WaitReady(t)
		})
	}
}

// Any component can be stopped: without the scheduler, pods stay Pending.
func TestComponentStops(t *testing.T) {
	l := lab.Get(t)
	fault := l.StopComponent(t, "kube-scheduler")
	e := l.StartEtcd(t, l.Namespace(t), lab.EtcdOptions{Replicas: 1, NoWait: true})
	eventually(t, 20*time.Second, "the pod is made", func() error {
		_, err := l.Client().CoreV1().Pods(e.Namespace).Get(t.Context(), e.Pod(0), metav1.GetOptions{})
		return err
	})
	time.Sleep(3 * time.Second)
	if pod := e.GetPod(t, e.Pod(0)); pod.Spec.NodeName != "" {
		t.Errorf("the pod was placed on %s without a scheduler", pod.Spec.NodeName)
	}
	fault.Heal(t)
	e.WaitReady(t)
}
