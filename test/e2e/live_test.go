package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/etcdmember/kubectl-etcdmember/pkg/printer"
	"github.com/etcdmember/kubectl-etcdmember/test/lab"
)

const (
	// memberTimeout is what one member gets in these tests: the default.
	memberTimeout = 2 * time.Second
	// settled is within which what must come true does, however busy the machine.
	settled = time.Minute
)

// liveCluster is an etcd cluster of which nothing is known but its StatefulSet and what its members answer.
type liveCluster struct {
	*lab.Etcd
	lab  *lab.Lab
	args []string
}

func startLive(t *testing.T, o lab.EtcdOptions) *liveCluster {
	t.Helper()
	l := lab.Get(t)
	o.TLS = true
	c := &liveCluster{Etcd: l.StartEtcd(t, l.Namespace(t), o), lab: l}
	dir := t.TempDir()
	secret, err := l.Client().CoreV1().Secrets(c.Namespace).Get(t.Context(), c.Name+"-client-tls", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.args = []string{"-n", c.Namespace}
	for flag, key := range map[string]string{"--cacert": "ca.crt", "--cert": "tls.crt", "--key": "tls.key"} {
		file := filepath.Join(dir, key)
		if err := os.WriteFile(file, secret.Data[key], 0o600); err != nil {
			t.Fatal(err)
		}
		c.args = append(c.args, flag, file)
	}
	return c
}

func (c *liveCluster) run(t *testing.T, command string, args ...string) run {
	t.Helper()
	return invocation{kubeconfig: c.lab.Kubeconfig()}.run(t, slices.Concat([]string{command, "sts/" + c.Name, "--live"}, c.args, args)...)
}

// answer is what came of asking the members of a cluster.
type answer struct {
	printer.ClusterStatus
	code int
	took time.Duration
}

func (c *liveCluster) ask(t *testing.T, args ...string) (a answer) {
	t.Helper()
	begun := time.Now()
	r := c.run(t, "status", append(args, "-o", "json", "--exit-code")...)
	a.code, a.took = r.code, time.Since(begun)
	if err := json.Unmarshal([]byte(r.stdout), &a.ClusterStatus); err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	return a
}

func (a answer) member(name string) printer.MemberStatus {
	for _, m := range a.Members {
		if m.Name == name {
			return m
		}
	}
	return printer.MemberStatus{}
}

// notAsked is why a member could not be asked, by what was found.
func (a answer) notAsked(subject string) string {
	for _, f := range a.Findings {
		if f.Subject == subject && f.Code == "MemberNotAsked" {
			return f.Message
		}
	}
	return ""
}

// unproven wants nothing to be concluded from a silence that is ours, and the reason to be told.
func (c *liveCluster) unproven(t *testing.T, a answer, why ...string) {
	t.Helper()
	if a.Verdict != "Unknown" || a.code != 2 || a.Quorum.Healthy != 0 || a.Quorum.Unknown != 3 {
		t.Errorf("%s, exit code %d, %+v", a.Verdict, a.code, a.Quorum)
	}
	for _, pod := range c.Pods() {
		if m := a.member(pod); m.Health != "Unknown" || m.Live == nil || !m.Live.NotAsked {
			t.Errorf("%+v", m)
		}
		for _, w := range why {
			if got := a.notAsked(pod); !strings.Contains(got, w) {
				t.Errorf("%s: %q: want %q", pod, got, w)
			}
		}
	}
}

func (a answer) codes(subject string) []string {
	var codes []string
	for _, f := range a.Findings {
		if f.Subject == subject && f.Severity != "Notice" {
			codes = append(codes, f.Code)
		}
	}
	return codes
}

// wanted is what an answer has to be.
type wanted struct {
	verdict string
	code    int
	// member is the row that is looked at, with its health, its reason, and what is found of it.
	member, health, reason string
	found                  []string
	// cluster is what is found of the cluster.
	cluster []string
	// silent: members that do not answer cost the timeout once, and nobody waits for them twice.
	silent bool
}

func (w wanted) check(a answer) error {
	m := a.member(w.member)
	if w.silent && (a.took < memberTimeout || a.took >= 2*memberTimeout) {
		return fmt.Errorf("it took %s: want one timeout of %s", a.took, memberTimeout)
	}
	if a.Verdict != w.verdict || a.code != w.code || m.Health != w.health || m.Reason != w.reason ||
		!slices.Equal(a.codes(w.member), w.found) || (w.member != "" && !slices.Equal(a.codes(""), w.cluster)) {
		return fmt.Errorf("verdict %s, exit code %d, %s %s (%s: %s), findings %v and %v\nwant %+v", a.Verdict, a.code, w.member, m.Health, m.Reason, m.Message, a.codes(w.member), a.codes(""), w)
	}
	return nil
}

// becomes asks until the answer is what it has to be.
func (c *liveCluster) becomes(t *testing.T, w wanted) (a answer) {
	t.Helper()
	eventually(t, settled, func() error {
		a = c.ask(t)
		return w.check(a)
	})
	return a
}

func (c *liveCluster) healthy(t *testing.T) answer {
	t.Helper()
	return c.becomes(t, wanted{verdict: "Healthy"})
}

func (c *liveCluster) follower(t *testing.T) string {
	t.Helper()
	leader := c.Leader(t)
	return c.Pods()[slices.IndexFunc(c.Pods(), func(p string) bool { return p != leader })]
}

// crash kills a member again and again, until its kubelet waits before it starts it once more.
func (c *liveCluster) crash(t *testing.T, pod string) {
	t.Helper()
	for range 3 {
		before := restarts(t, c.Etcd, pod)
		c.lab.Kill(t, c.Namespace, pod, lab.EtcdContainer, syscall.SIGKILL)
		eventually(t, settled, func() error {
			for _, s := range c.GetPod(t, pod).Status.ContainerStatuses {
				if s.Name == lab.EtcdContainer && (s.RestartCount > before || s.State.Waiting != nil) {
					return nil
				}
			}
			return fmt.Errorf("the kubelet has not noticed")
		})
		for _, s := range c.GetPod(t, pod).Status.ContainerStatuses {
			if s.Name == lab.EtcdContainer && s.State.Waiting != nil {
				return
			}
		}
	}
}

// TestLive asks the members of a real cluster, while they are well, frozen, cut off, killed, and without a quorum.
func TestLive(t *testing.T) {
	c := startLive(t, lab.EtcdOptions{})
	pods := c.Pods()

	t.Run("all is well, and as etcd says", func(t *testing.T) {
		a := c.healthy(t)
		truth := endpointStatus(t, c.Etcd)
		for _, m := range a.Members {
			real := truth[m.Name]
			if m.ID != real.member || m.ClusterID != real.cluster || (m.Role == "Leader") != (real.leader == real.member) {
				t.Errorf("%s: %s of cluster %s, role %s; etcd says %+v", m.Name, m.ID, m.ClusterID, m.Role, real)
			}
			if m.State != "Started" || m.Health != "Healthy" || m.Version != lab.Etcd37 || m.PeerTLSEnabled == nil || !*m.PeerTLSEnabled || m.Revision == nil ||
				m.DBSizeBytes == nil || m.DBSizeQuotaBytes == nil || m.RaftAppliedIndex == nil || m.Source != "Live" {
				t.Errorf("%+v", m)
			}
		}
		if a.Leader != c.Leader(t) || a.Quorum.State != "Held" || a.Quorum.Voters != 3 || a.Quorum.Healthy != 3 || len(a.Members) != 3 || len(a.Findings) != 0 {
			t.Errorf("%+v", a)
		}
		if r := c.run(t, "doctor"); r.code != 0 || r.stderr != "" {
			t.Errorf("doctor: %+v", r)
		}
	})
	t.Run("hashes", func(t *testing.T) {
		if _, err := c.Client(t).Put(t.Context(), "key", "value"); err != nil {
			t.Fatal(err)
		}
		eventually(t, settled, func() error {
			a := c.ask(t, "--hash")
			if a.Verdict != "Healthy" || a.SameHashes == nil || !*a.SameHashes {
				return fmt.Errorf("%+v", a)
			}
			return nil
		})
	})
	t.Run("a frozen member", func(t *testing.T) {
		pod := c.follower(t)
		f := c.lab.Freeze(t, c.Namespace, pod, lab.EtcdContainer)
		a := c.becomes(t, wanted{verdict: "Degraded", code: 1, member: pod, health: "Unhealthy", reason: "NotAnswering", found: []string{"MemberNotServing"}, silent: true})
		if a.Quorum.Healthy != 2 || a.Leader == "" || !strings.Contains(a.member(pod).Message, "no answer in time") {
			t.Errorf("%+v", a)
		}
		f.Heal(t)
		c.healthy(t)
	})
	t.Run("a member in a black hole", func(t *testing.T) {
		pod := c.follower(t)
		f := c.lab.BlackHole(t, c.Namespace, pod)
		c.becomes(t, wanted{verdict: "Degraded", code: 1, member: pod, health: "Unhealthy", reason: "NotAnswering", found: []string{"MemberNotServing"}, silent: true})
		f.Heal(t)
		c.healthy(t)
	})
	t.Run("a member that is cut off from the others, and knows it", func(t *testing.T) {
		pod := c.follower(t)
		f := c.lab.Partition(t, c.Namespace, pod)
		a := c.becomes(t, wanted{verdict: "Degraded", code: 1, member: pod, health: "Unhealthy", reason: "NoLeader", found: []string{"MemberNotServing"}})
		// It is asked all the same, and says what it knows.
		if m := a.member(pod); m.ID == "" || m.State != "Started" || m.Version == "" {
			t.Errorf("%+v", m)
		}
		f.Heal(t)
		c.healthy(t)
	})
	t.Run("a killed member", func(t *testing.T) {
		pod := c.follower(t)
		c.crash(t, pod)
		a := c.becomes(t, wanted{verdict: "Degraded", code: 1, member: pod, health: "Unhealthy", reason: "NotAnswering", found: []string{"MemberNotServing"}})
		if m := a.member(pod); !strings.Contains(m.Message, "nothing listens on port 2379 of pod "+c.Namespace+"/"+pod+": connection refused") {
			t.Errorf("it is said to be down because %s", m.Message)
		}
		c.WaitReady(t)
		c.healthy(t)
	})
	t.Run("a killed leader", func(t *testing.T) {
		pod := c.Leader(t)
		c.crash(t, pod)
		a := c.becomes(t, wanted{verdict: "Degraded", code: 1, member: pod, health: "Unhealthy", reason: "NotAnswering", found: []string{"MemberNotServing"}})
		if a.Leader == "" || a.Leader == pod || a.member(a.Leader).Role != "Leader" {
			t.Errorf("leader %q", a.Leader)
		}
		c.WaitReady(t)
		c.healthy(t)
	})
	t.Run("quorum lost", func(t *testing.T) {
		one, two := c.lab.Freeze(t, c.Namespace, pods[0], lab.EtcdContainer), c.lab.Freeze(t, c.Namespace, pods[1], lab.EtcdContainer)
		a := c.becomes(t, wanted{verdict: "Unhealthy", code: 1, member: pods[2], health: "Unhealthy", reason: "NoLeader", found: []string{"MemberNotServing"}, cluster: []string{"QuorumLost", "NoLeaderKnown"}, silent: true})
		if a.Quorum.State != "Lost" || a.Reason != "QuorumLost" {
			t.Errorf("%+v", a.Quorum)
		}
		if r := c.run(t, "doctor"); r.code != 1 || !strings.Contains(r.stdout, "CRITICAL QuorumLost") {
			t.Errorf("doctor: %+v", r)
		}
		one.Heal(t)
		two.Heal(t)
		c.healthy(t)
	})
	t.Run("alarm NOSPACE", func(t *testing.T) {
		pod := c.follower(t)
		alarm := func(action pb.AlarmRequest_AlarmAction) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), settled)
			defer cancel()
			client := c.Client(t, pod)
			s, err := client.Status(ctx, c.Endpoint(pod))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{Action: action, MemberID: s.Header.MemberId, Alarm: pb.AlarmType_NOSPACE}); err != nil {
				t.Fatal(err)
			}
		}
		alarm(pb.AlarmRequest_ACTIVATE)
		a := c.becomes(t, wanted{verdict: "Degraded", code: 1, member: pod, health: "Unhealthy", reason: "Alarm", found: []string{"AlarmRaised"}})
		if m := a.member(pod); !slices.Equal(m.Alarms, []string{"NOSPACE"}) {
			t.Errorf("%+v", m)
		}
		for _, other := range pods {
			if m := a.member(other); other != pod && (m.Health != "Healthy" || len(m.Alarms) != 0) {
				t.Errorf("%s is said to raise it, too: %+v", other, m)
			}
		}
		alarm(pb.AlarmRequest_DEACTIVATE)
		c.healthy(t)
	})
	t.Run("rights", func(t *testing.T) { c.rights(t) })
	t.Run("from inside of the cluster alone", func(t *testing.T) {
		c.unproven(t, c.ask(t, "--in-cluster"), "--in-cluster works inside of the cluster alone")
	})
	t.Run("without the CA", func(t *testing.T) {
		c := *c
		c.args = c.args[:2]
		c.unproven(t, c.ask(t), "give --cacert")
	})
}

// rights: what it takes to ask, and what becomes of those who may not.
func (c *liveCluster) rights(t *testing.T) {
	c.lab.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", "../../config/rbac/live.yaml")
	for user, roles := range map[string][]string{
		"all": {"--clusterrole=etcdmember-live"},
		// SPDY takes create alone; a websocket takes get as well.
		"create": {"--clusterrole=view", "--role=create"},
		"none":   {"--clusterrole=view"},
	} {
		for i, role := range roles {
			c.lab.Kubectl(t, "create", "rolebinding", "-n", c.Namespace, fmt.Sprintf("%s-%d", user, i), role, "--user="+user+"-"+c.Namespace)
		}
	}
	c.lab.Kubectl(t, "create", "role", "-n", c.Namespace, "create", "--verb=create", "--resource=pods/portforward")
	as := func(user string) answer { return c.ask(t, "--as="+user+"-"+c.Namespace) }
	for _, user := range []string{"all", "create"} {
		// What else this user may not read is told of, and is of no interest here.
		if a := as(user); a.Quorum.Healthy != 3 || a.member(c.Pod(0)).Live == nil || a.member(c.Pod(0)).ID == "" || (user == "all" && a.Verdict != "Healthy") {
			t.Errorf("%s: %+v", user, a)
		}
	}
	c.unproven(t, as("none"), "opening a port-forward to pod "+c.Namespace+"/", `cannot create resource "pods/portforward"`)
}

// TestLiveMembership asks a cluster with a learner, and one that a member has left for a cluster of its own.
func TestLiveMembership(t *testing.T) {
	c := startLive(t, lab.EtcdOptions{Mutate: func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType }})
	c.healthy(t)
	pod := c.Pod(2)
	client := c.Client(t, c.Pod(0), c.Pod(1))
	// restart gives the member an empty disk and other arguments.
	restart := func(t *testing.T, with ...string) {
		t.Helper()
		set, err := c.lab.Client().AppsV1().StatefulSets(c.Namespace).Get(t.Context(), c.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		command := set.Spec.Template.Spec.Containers[0].Command
		for _, argument := range with {
			flag, _, _ := strings.Cut(argument, "=")
			command = append(slices.DeleteFunc(command, func(s string) bool { return strings.HasPrefix(s, flag+"=") }), argument)
		}
		patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template/spec/containers/0/command", "value": command}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.lab.Client().AppsV1().StatefulSets(c.Namespace).Patch(t.Context(), c.Name, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		c.LoseClaim(t, 2)
	}
	idOf := func(t *testing.T) uint64 {
		t.Helper()
		l, err := client.MemberList(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range l.Members {
			if m.Name == pod {
				return m.ID
			}
		}
		t.Fatalf("%s is not in the membership", pod)
		return 0
	}
	peer := fmt.Sprintf("https://%s.%s.%s.svc:2380", pod, c.PeerService(), c.Namespace)

	t.Run("a learner", func(t *testing.T) {
		id := idOf(t)
		// Until members have been connected for a while, etcd refuses to change the membership. A change that raft drops, since
		// another one is not applied yet, is never answered: it is asked for again, and may then have been made after all.
		change := func(made func(l *clientv3.MemberListResponse) bool, ask func(ctx context.Context) error) {
			t.Helper()
			eventually(t, settled, func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				err := ask(ctx)
				if err == nil {
					return nil
				}
				if l, listErr := client.MemberList(ctx); listErr == nil && made(l) {
					return nil
				}
				return err
			})
		}
		listed := func(is func(m *pb.Member) bool) func(*clientv3.MemberListResponse) bool {
			return func(l *clientv3.MemberListResponse) bool { return slices.ContainsFunc(l.Members, is) }
		}
		removed := listed(func(m *pb.Member) bool { return m.ID == id })
		change(func(l *clientv3.MemberListResponse) bool { return !removed(l) }, func(ctx context.Context) error {
			_, err := client.MemberRemove(ctx, id)
			return err
		})
		var added uint64
		change(listed(func(m *pb.Member) bool {
			if m.IsLearner {
				added = m.ID
			}
			return m.IsLearner
		}), func(ctx context.Context) error {
			r, err := client.MemberAddAsLearner(ctx, []string{peer})
			if err == nil {
				added = r.Member.ID
			}
			return err
		})
		restart(t, "--initial-cluster-state=existing")
		a := c.becomes(t, wanted{verdict: "Degraded", code: 1, member: pod, health: "Syncing", reason: "Learner", found: []string{"MemberNotVoting"}})
		if m := a.member(pod); m.Role != "Learner" || m.State != "Starting" || m.SubState != "Learner" || m.ID != fmt.Sprintf("%x", added) || a.Quorum.Voters != 2 || a.Quorum.Healthy != 2 {
			t.Errorf("%+v", a)
		}
		change(listed(func(m *pb.Member) bool { return m.ID == added && !m.IsLearner }), func(ctx context.Context) error {
			_, err := client.MemberPromote(ctx, added)
			return err
		})
		c.becomes(t, wanted{verdict: "Healthy", member: pod, health: "Healthy"})
	})
	t.Run("a member of another cluster", func(t *testing.T) {
		restart(t, "--initial-cluster-state=new", "--initial-cluster=$(POD_NAME)="+strings.Replace(peer, pod, "$(POD_NAME)", 1), "--initial-cluster-token=other")
		a := c.becomes(t, wanted{verdict: "Unhealthy", code: 1, member: pod, health: "Unhealthy", reason: "ClusterSplit", cluster: []string{"ClusterSplit", "MembershipDiffers"}})
		if a.member(pod).ClusterID == a.member(c.Pod(0)).ClusterID || a.member(pod).ClusterID == "" {
			t.Errorf("%+v", a)
		}
	})
}

// TestLiveOldVersions: what older versions answer differently.
func TestLiveOldVersions(t *testing.T) {
	for _, version := range []string{lab.Etcd36, lab.Etcd35, lab.Etcd34} {
		t.Run(version, func(t *testing.T) {
			c := startLive(t, lab.EtcdOptions{Version: version, Replicas: 1})
			a := c.healthy(t)
			// Before 3.6 the quota is in the metrics alone; its default has never changed.
			if m := a.member(c.Pod(0)); m.Version != c.Version || m.Role != "Leader" || m.DBSizeQuotaBytes == nil || *m.DBSizeQuotaBytes != 2<<30 {
				t.Errorf("%+v", m)
			}
			// There is a hash also at a revision that everything before has just been compacted away of.
			put, err := c.Client(t).Put(t.Context(), "key", "value")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Client(t).Compact(t.Context(), put.Header.Revision); err != nil {
				t.Fatal(err)
			}
			a = c.ask(t, "--hash")
			live := a.member(c.Pod(0)).Live
			if live == nil || live.Hash == nil {
				t.Fatalf("with hashes: %+v, %+v", a, live)
			}
			if a.Verdict != "Healthy" || live.Hash.Revision != put.Header.Revision {
				t.Errorf("with hashes: %s, put at %d: %+v", a.Verdict, put.Header.Revision, live.Hash)
			}
		})
	}
}
