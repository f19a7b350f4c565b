package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/printer"
	"github.com/etcdmember/kubectl-etcdmember/test/lab"
)

// TestThread is the whole way from a running etcd to what a person sees: agents publish, and status tells the truth, also
// while members are frozen, cut off and killed.
func TestThread(t *testing.T) {
	l := lab.Get(t)
	published(t, l)
	ns := l.Namespace(t)
	e := l.StartEtcd(t, ns, lab.EtcdOptions{TLS: true, Agent: true})
	plugin := func(args ...string) run { return invocation{kubeconfig: l.Kubeconfig()}.run(t, args...) }
	if r := plugin("adopt", "-n", ns, "sts/"+e.Name); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	status := func() (s printer.ClusterStatus, err error) {
		r := plugin("status", "-n", ns, e.Name, "-o", "json")
		if r.code != 0 {
			return s, fmt.Errorf("%+v", r)
		}
		return s, json.Unmarshal([]byte(r.stdout), &s)
	}
	// is wants a verdict, and of one member a health and a reason.
	is := func(verdict, member, health, reason string) func() error {
		return func() error {
			s, err := status()
			if err != nil {
				return err
			}
			for _, m := range s.Members {
				if m.Name == member && (m.Health != health || (reason != "" && m.Reason != reason)) {
					return fmt.Errorf("%s is %s (%s)", member, m.Health, m.Reason)
				}
			}
			if s.Verdict != verdict {
				return fmt.Errorf("%s: %s", s.Verdict, s.Message)
			}
			return nil
		}
	}
	const soon = 10 * time.Second // how soon a change must be seen
	eventually(t, time.Minute, is("Healthy", "", "", ""))

	t.Run("the table is what etcd says", func(t *testing.T) {
		s, err := status()
		if err != nil {
			t.Fatal(err)
		}
		truth := endpointStatus(t, e)
		leaders := 0
		for _, m := range s.Members {
			real := truth[m.Name]
			if m.ID != real.member || m.ClusterID != real.cluster {
				t.Errorf("%s: ID %s of cluster %s, etcd says %s of %s", m.Name, m.ID, m.ClusterID, real.member, real.cluster)
			}
			if (m.Role == "Leader") != (real.leader == real.member) {
				t.Errorf("%s: role %s, etcd says that %s leads", m.Name, m.Role, real.leader)
			}
			if m.Role == "Leader" {
				leaders++
			}
			if m.PeerTLSEnabled == nil || !*m.PeerTLSEnabled {
				t.Errorf("%s: peer TLS is not shown as on", m.Name)
			}
			if m.Version != lab.Etcd37 || m.Volume == nil || m.Volume.Claim == "" || m.Volume.CapacityBytes == nil {
				t.Errorf("%s: version %q, volume %+v", m.Name, m.Version, m.Volume)
			}
		}
		if len(s.Members) != 3 || leaders != 1 {
			t.Errorf("%d members, %d leaders", len(s.Members), leaders)
		}
	})
	t.Run("kubectl wait and get", func(t *testing.T) {
		l.Kubectl(t, "wait", "-n", ns, "--for=condition=Ready", "--timeout=10s", membersCRD, "--all")
		if out := l.Kubectl(t, "get", "-n", ns, membersCRD, "--no-headers"); strings.Count(out, " True ") != 3 {
			t.Errorf("kubectl get:\n%s", out)
		}
	})
	follower := func() string {
		s, err := status()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range s.Members {
			if m.Role == "Follower" {
				return m.Name
			}
		}
		t.Fatal("there is no follower")
		return ""
	}
	t.Run("a frozen member", func(t *testing.T) {
		pod := follower()
		f := l.Freeze(t, ns, pod, lab.EtcdContainer)
		eventually(t, soon, is("Degraded", pod, "Unhealthy", "NotAnswering"))
		if r := plugin("status", "-n", ns, e.Name, "--exit-code"); r.code != 1 {
			t.Errorf("exit code %d", r.code)
		}
		f.Heal(t)
		eventually(t, soon, is("Healthy", pod, "Healthy", ""))
	})
	t.Run("a frozen leader", func(t *testing.T) {
		pod := e.Leader(t)
		f := l.Freeze(t, ns, pod, lab.EtcdContainer)
		eventually(t, soon, func() error {
			s, err := status()
			if err == nil && (s.Verdict != "Degraded" || s.Leader == pod || s.Leader == "") {
				err = fmt.Errorf("%s, leader %s", s.Verdict, s.Leader)
			}
			return err
		})
		f.Heal(t)
		eventually(t, soon, is("Healthy", pod, "Healthy", ""))
	})
	t.Run("a member that is cut off, and its agent with it, is unknown after a minute", func(t *testing.T) {
		pod := follower()
		f := l.BlackHole(t, ns, pod)
		eventually(t, 90*time.Second, is("Degraded", pod, "Unknown", "PublisherGone"))
		f.Heal(t)
		eventually(t, 2*time.Minute, is("Healthy", pod, "Healthy", ""))
	})
	t.Run("a killed leader", func(t *testing.T) {
		pod := e.Leader(t)
		before := restarts(t, e, pod)
		l.Kill(t, ns, pod, lab.EtcdContainer, syscall.SIGKILL)
		eventually(t, time.Minute, func() error {
			if restarts(t, e, pod) == before {
				return fmt.Errorf("the kubelet has not started etcd again")
			}
			return nil
		})
		e.WaitReady(t)
		eventually(t, time.Minute, is("Healthy", pod, "Healthy", ""))
		if r := plugin("timeline", "-n", ns, e.Name, "--no-headers"); !strings.Contains(r.stdout, "GainedClusterLeadership") {
			t.Errorf("no change of leadership in the timeline:\n%s", r.stdout)
		}
	})
	t.Run("quorum lost", func(t *testing.T) {
		pods := e.Pods()
		a, b := l.Freeze(t, ns, pods[0], lab.EtcdContainer), l.Freeze(t, ns, pods[1], lab.EtcdContainer)
		eventually(t, 20*time.Second, is("Unhealthy", pods[2], "Unhealthy", ""))
		r := plugin("doctor", "-n", ns, e.Name)
		if r.code != 1 || !strings.Contains(r.stdout, "CRITICAL QuorumLost") {
			t.Errorf("%+v", r)
		}
		a.Heal(t)
		b.Heal(t)
		eventually(t, 30*time.Second, is("Healthy", "", "", ""))
	})
}

// published installs what members need to publish: the custom resources, and the rights of their agents.
func published(t *testing.T, l *lab.Lab) {
	t.Helper()
	if r := (invocation{kubeconfig: l.Kubeconfig()}).run(t, "crd", "install"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	l.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-k", "../../config/rbac")
	l.LoadImages(t, "agent")
}

// restarts is how often the kubelet has started a member's etcd again.
func restarts(t *testing.T, e *lab.Etcd, pod string) int32 {
	t.Helper()
	for _, c := range e.GetPod(t, pod).Status.ContainerStatuses {
		if c.Name == lab.EtcdContainer {
			return c.RestartCount
		}
	}
	t.Fatalf("pod %s has no container %s", pod, lab.EtcdContainer)
	return 0
}

// truth is what a member says of itself.
type truth struct{ member, cluster, leader string }

// endpointStatus asks every member by etcdctl.
func endpointStatus(t *testing.T, e *lab.Etcd) map[string]truth {
	t.Helper()
	all := map[string]truth{}
	for _, pod := range e.Pods() {
		var answers []struct {
			Status struct {
				Header struct {
					ClusterID uint64 `json:"cluster_id"`
					MemberID  uint64 `json:"member_id"`
				} `json:"header"`
				Leader uint64 `json:"leader"`
			} `json:"Status"`
		}
		if err := json.Unmarshal([]byte(e.EtcdctlIn(t, pod, "endpoint", "status", "-w", "json")), &answers); err != nil || len(answers) != 1 {
			t.Fatalf("etcdctl's status of %s can't be read: %v", pod, err)
		}
		s := answers[0].Status
		hex := func(n uint64) string { return strconv.FormatUint(n, 16) }
		all[pod] = truth{member: hex(s.Header.MemberID), cluster: hex(s.Header.ClusterID), leader: hex(s.Leader)}
	}
	return all
}
