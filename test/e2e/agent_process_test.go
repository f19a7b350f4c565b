package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/etcdmember/kubectl-etcdmember/pkg/agent"
	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	etcdclient "github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
	"github.com/etcdmember/kubectl-etcdmember/test/apiserver"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/pki"
)

// agentProcesses is a real etcd of three members with TLS, run as processes of this machine, each with an agent in this process, and
// a real API server behind a gate that can be shut. It needs neither root nor the lab, and nobody else notices an
// outage. What takes real pods is in agent_test.go.
type agentProcesses struct {
	server    *apiServer
	gate      *gate
	namespace string
	members   []*agentProcess
	tls       etcdclient.TLSFiles
}

type agentProcess struct {
	name, clientURL, health string
	command                 *exec.Cmd
	stopAgent               func()
	config                  agent.Config
}

// startAgentProcesses starts all but the agents, with no EtcdMembers.
func startAgentProcesses(t *testing.T) *agentProcesses {
	t.Helper()
	p := &agentProcesses{server: startAPIServer(t), namespace: "default"}
	if r := p.server.plugin(t, "crd", "install"); r.code != 0 {
		t.Fatalf("crd install: %+v", r)
	}
	p.gate = startGate(t, strings.TrimPrefix(p.server.config.Host, "https://"))

	dir := t.TempDir()
	authority, err := pki.NewAuthority("agent-e2e")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{CommonName: "member", Names: pki.LocalNames(), Server: true, Client: true})
	if err != nil {
		t.Fatal(err)
	}
	p.tls = etcdclient.TLSFiles{CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	for path, content := range map[string][]byte{p.tls.CA: authority.Cert, p.tls.Cert: pair.Cert, p.tls.Key: pair.Key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var initial []string
	peers := map[string]string{}
	for i := range 3 {
		name := fmt.Sprintf("main-%d", i)
		m := &agentProcess{name: name, clientURL: "https://" + apiserver.FreePort(t), health: apiserver.FreePort(t)}
		peers[name] = "https://" + apiserver.FreePort(t)
		initial = append(initial, name+"="+peers[name])
		p.members = append(p.members, m)
	}
	for _, m := range p.members {
		data := filepath.Join(dir, m.name)
		m.command = &exec.Cmd{Path: apiserver.Binary(t, "etcd37", "etcd"), SysProcAttr: apiserver.DieWithParent(), Args: []string{"etcd",
			"--name=" + m.name, "--data-dir=" + data, "--unsafe-no-fsync", "--log-level=error",
			"--listen-client-urls=" + m.clientURL, "--advertise-client-urls=" + m.clientURL,
			"--listen-peer-urls=" + peers[m.name], "--initial-advertise-peer-urls=" + peers[m.name],
			"--initial-cluster=" + strings.Join(initial, ","), "--initial-cluster-token=" + t.Name(),
			"--client-cert-auth", "--trusted-ca-file=" + p.tls.CA, "--cert-file=" + p.tls.Cert, "--key-file=" + p.tls.Key,
			"--peer-client-cert-auth", "--peer-trusted-ca-file=" + p.tls.CA, "--peer-cert-file=" + p.tls.Cert, "--peer-key-file=" + p.tls.Key,
		}}
		if err := m.command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = m.command.Process.Kill()
			_ = m.command.Wait()
		})
		config, err := clientcmd.BuildConfigFromFlags("", p.server.kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		config.Host = "https://" + p.gate.address
		m.config = agent.Config{
			Etcd:         etcdclient.Config{Endpoint: m.clientURL, TLS: p.tls},
			PollInterval: 2 * time.Second, DataDir: data, PodName: m.name, PodNamespace: p.namespace, PodUID: "uid-of-" + m.name,
			HealthAddress: m.health, Kubernetes: config,
		}
		p.startAgent(t, m)
	}
	return p
}

func (p *agentProcesses) startAgent(t *testing.T, m *agentProcess) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx, m.config, klog.Background().WithName(m.name)) }()
	m.stopAgent = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the agent of %s ended: %v", m.name, err)
		}
	})
	t.Cleanup(func() { m.stopAgent() })
}

// adopt creates what the plugin's adopt creates, for a StatefulSet that has no pods.
func (p *agentProcesses) adopt(t *testing.T) {
	t.Helper()
	p.server.in(t, p.namespace, statefulSets, statefulSet(t, "main", "etcd:3.7.3"))
	if r := p.server.plugin(t, "adopt", "-n", p.namespace, "sts/main"); r.code != 0 {
		t.Fatalf("adopt: %+v", r)
	}
}

func (p *agentProcesses) get(ctx context.Context, name string) (*v1alpha1.EtcdMember, error) {
	u, err := p.server.dynamic.Resource(v1alpha1.EtcdMemberResource).Namespace(p.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	m := &v1alpha1.EtcdMember{}
	return m, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, m)
}

// agentReady says what condition Ready says.
func agentReady(m *v1alpha1.EtcdMember) string {
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return "none"
	}
	return string(c.Status) + "/" + c.Reason
}

// agentEventually polls until there is no error any more, and says how long that took.
func agentEventually(t *testing.T, within time.Duration, what string, check func(context.Context) error) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	begun := time.Now()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			took := time.Since(begun)
			t.Logf("%s: after %s", what, took.Round(10*time.Millisecond))
			return took
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, within, last)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// wantReady waits for what condition Ready says.
func (p *agentProcesses) wantReady(t *testing.T, within time.Duration, name, want string) {
	t.Helper()
	agentEventually(t, within, name+" is "+want, func(ctx context.Context) error {
		m, err := p.get(ctx, name)
		if err != nil {
			return err
		}
		if got := agentReady(m); got != want {
			return fmt.Errorf("ready is %s", got)
		}
		return nil
	})
}

// leader waits until exactly one member that is ready is published as the leader, and all transitions are legal.
func (p *agentProcesses) leader(t *testing.T, within time.Duration) *agentProcess {
	t.Helper()
	var leader *agentProcess
	agentEventually(t, within, "all are ready, and one leads", func(ctx context.Context) error {
		leader = nil
		for _, member := range p.members {
			m, err := p.get(ctx, member.name)
			if err != nil {
				return err
			}
			if err := agent.CheckTransitions(m.Status.Transitions); err != nil {
				t.Fatalf("transitions of %s: %v", m.Name, err)
			}
			if ready := agentReady(m); ready != "True/Serving" {
				return fmt.Errorf("%s is %s", m.Name, ready)
			}
			if m.Status.SubState == v1alpha1.SubStateLeader {
				if leader != nil {
					return fmt.Errorf("%s and %s are both published as leader", leader.name, m.Name)
				}
				leader = member
			}
		}
		if leader == nil {
			return errors.New("none is published as leader")
		}
		return nil
	})
	return leader
}

// metric is a counter of an agent, summed over the series that hold all of the given texts.
func agentMetric(t *testing.T, text string, parts ...string) int {
	t.Helper()
	sum := 0
	for line := range strings.Lines(text) {
		matches := !strings.HasPrefix(line, "#")
		for _, part := range parts {
			matches = matches && strings.Contains(line, part)
		}
		if matches {
			var value float64
			if _, err := fmt.Sscan(line[strings.LastIndex(line, " "):], &value); err != nil {
				t.Fatal(err)
			}
			sum += int(value)
		}
	}
	return sum
}

func (m *agentProcess) metrics(t *testing.T) string {
	t.Helper()
	code, text := m.httpGet(t, "/metrics")
	if code != http.StatusOK {
		t.Fatalf("/metrics of the agent of %s: %d", m.name, code)
	}
	return text
}

func (m *agentProcess) httpGet(t *testing.T, path string) (int, string) {
	t.Helper()
	response, err := http.Get("http://" + m.health + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func (m *agentProcess) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := m.command.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// gate is a TCP proxy that can be shut: then what goes through it breaks, and nothing new gets in.
type gate struct {
	address string

	mu    sync.Mutex
	shut  bool
	conns map[net.Conn]bool
}

func startGate(t *testing.T, target string) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{address: listener.Addr().String(), conns: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = listener.Close(); g.set(true) })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			go g.pass(in, target)
		}
	}()
	return g
}

func (g *gate) pass(in net.Conn, target string) {
	out, err := net.Dial("tcp", target)
	if err != nil {
		_ = in.Close()
		return
	}
	g.mu.Lock()
	if g.shut {
		g.mu.Unlock()
		_, _ = in.Close(), out.Close()
		return
	}
	g.conns[in], g.conns[out] = true, true
	g.mu.Unlock()
	go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
	_, _ = io.Copy(in, out)
	_ = in.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, in)
	delete(g.conns, out)
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
	if shut {
		for conn := range g.conns {
			_ = conn.Close()
		}
	}
}

// TestAgentProcesses tells the story of three agents, one scene after the other.
func TestAgentProcesses(t *testing.T) {
	p, story := startAgentProcesses(t), t

	t.Run("waits for its EtcdMember", func(t *testing.T) {
		for _, m := range p.members {
			agentEventually(t, 30*time.Second, m.name+" answers /healthz", func(ctx context.Context) error {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.health+"/healthz", nil)
				if err != nil {
					return err
				}
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					return err
				}
				return response.Body.Close()
			})
			if code, text := m.httpGet(t, "/healthz"); code != http.StatusOK {
				t.Errorf("/healthz is %d %s", code, text)
			}
			if code, text := m.httpGet(t, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "waiting for the EtcdMember") {
				t.Errorf("/readyz is %d %s", code, text)
			}
		}
	})

	t.Run("publishes when it is there", func(t *testing.T) {
		p.adopt(t)
		leader := p.leader(t, 30*time.Second)
		clusterIDs := map[v1alpha1.EtcdID]bool{}
		for _, member := range p.members {
			m, err := p.get(t.Context(), member.name)
			if err != nil {
				t.Fatal(err)
			}
			client, err := etcdclient.New(member.config.Etcd)
			if err != nil {
				t.Fatal(err)
			}
			truth, err := client.Status(t.Context())
			_ = client.Close()
			if err != nil {
				t.Fatal(err)
			}
			s := m.Status
			clusterIDs[s.ClusterID] = true
			if string(s.ID) != truth.MemberID.String() || string(s.ClusterID) != truth.ClusterID.String() || s.Version != truth.Version || truth.IsLeader() != (member == leader) {
				t.Errorf("%s is published as %+v; it says %+v", m.Name, s, truth)
			}
			if s.PeerTLSEnabled == nil || !*s.PeerTLSEnabled || s.DBSizeQuota.String() != "2Gi" || s.DBSize.Value() != truth.DBSize {
				t.Errorf("%s is published as %+v", m.Name, s)
			}
			if code, text := member.httpGet(t, "/readyz"); code != http.StatusOK {
				t.Errorf("/readyz of %s is %d %s", m.Name, code, text)
			}
		}
		if len(clusterIDs) != 1 {
			t.Errorf("cluster IDs are %v", clusterIDs)
		}
		agentEventually(t, 5*time.Second, "kubectl etcdmember status is healthy", func(context.Context) error {
			if r := p.server.plugin(t, "status", "-n", p.namespace, "--exit-code"); r.code != 0 {
				return fmt.Errorf("%+v", r)
			}
			return nil
		})
	})

	t.Run("a frozen follower", func(t *testing.T) {
		follower := p.followerOf(p.leader(t, 30*time.Second))
		follower.signal(t, syscall.SIGSTOP)
		p.wantReady(t, 8*time.Second, follower.name, "False/NotAnswering")
		m, err := p.get(t.Context(), follower.name)
		if err != nil {
			t.Fatal(err)
		}
		if m.Status.ID == "" || m.Status.SubState != v1alpha1.SubStateFollower {
			t.Errorf("what was known of it is gone: %+v", m.Status)
		}
		follower.signal(t, syscall.SIGCONT)
		p.wantReady(t, 8*time.Second, follower.name, "True/Serving")
	})

	t.Run("an agent that restarts writes nothing and loses nothing", func(t *testing.T) {
		member := p.leader(t, 30*time.Second)
		before, err := p.get(t.Context(), member.name)
		if err != nil {
			t.Fatal(err)
		}
		member.stopAgent()
		p.startAgent(story, member)
		agentEventually(t, 20*time.Second, "the agent is there again", func(ctx context.Context) error {
			connection, err := new(net.Dialer).DialContext(ctx, "tcp", member.health)
			if err != nil {
				return err
			}
			_ = connection.Close()
			if n := agentMetric(t, member.metrics(t), "writes_total", `kind="lease"`, `result="ok"`); n == 0 {
				return errors.New("no heartbeat yet")
			}
			return nil
		})
		after, err := p.get(t.Context(), member.name)
		if err != nil {
			t.Fatal(err)
		}
		if after.ResourceVersion != before.ResourceVersion {
			t.Errorf("it has written %+v over %+v", after.Status, before.Status)
		}
	})

	t.Run("the API server is away while the leader changes twice", func(t *testing.T) {
		before := map[string]int{}
		for _, m := range p.members {
			object, err := p.get(t.Context(), m.name)
			if err != nil {
				t.Fatal(err)
			}
			before[m.name] = len(object.Status.Transitions)
		}
		first := p.leader(t, 30*time.Second)
		second := p.followerOf(first)
		attempts := map[string]int{}
		for _, m := range p.members {
			attempts[m.name] = agentMetric(t, m.metrics(t), "writes_total", `kind="status"`)
		}
		p.gate.set(true)
		begun := time.Now()
		p.moveLeader(t, first, second)
		time.Sleep(5 * time.Second) // More than a look, so that each agent sees it.
		p.moveLeader(t, second, first)
		time.Sleep(25*time.Second - time.Since(begun))
		p.gate.set(false)
		agentEventually(t, 40*time.Second, "all has been published", func(ctx context.Context) error {
			for _, m := range p.members {
				more := map[*agentProcess]int{first: 2, second: 2}[m]
				object, err := p.get(ctx, m.name)
				if err != nil {
					return err
				}
				if got := len(object.Status.Transitions) - before[m.name]; got != more {
					return fmt.Errorf("%s has %d more transitions: want %d", m.name, got, more)
				}
			}
			return nil
		})
		if got := p.leader(t, 10*time.Second); got != first {
			t.Errorf("%s leads", got.name)
		}
		for _, m := range p.members {
			if n := agentMetric(t, m.metrics(t), "writes_total", `kind="status"`) - attempts[m.name]; n > 20 {
				t.Errorf("%s has tried to write %d times", m.name, n)
			}
		}
		agentEventually(t, 30*time.Second, "kubectl etcdmember status is healthy", func(context.Context) error {
			if r := p.server.plugin(t, "status", "-n", p.namespace, "--exit-code"); r.code != 0 {
				return fmt.Errorf("%+v", r)
			}
			return nil
		})
	})

	t.Run("the EtcdMember is deleted and created again", func(t *testing.T) {
		member := p.members[1]
		before, err := p.get(t.Context(), member.name)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.server.dynamic.Resource(v1alpha1.EtcdMemberResource).Namespace(p.namespace).Delete(t.Context(), member.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if r := p.server.plugin(t, "adopt", "-n", p.namespace, "sts/main"); r.code != 0 {
			t.Fatalf("adopt: %+v", r)
		}
		agentEventually(t, 20*time.Second, "all is published again", func(ctx context.Context) error {
			after, err := p.get(ctx, member.name)
			if err != nil {
				return err
			}
			if after.UID == before.UID || after.Status.ID != before.Status.ID || len(after.Status.Transitions) != len(before.Status.Transitions) {
				return fmt.Errorf("status is %+v", after.Status)
			}
			return nil
		})
	})

	t.Run("somebody else writes over Ready", func(t *testing.T) {
		member := p.members[2]
		patch := []byte(`{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"EtcdMember","metadata":{"name":"` + member.name + `"},"status":{"conditions":[
			{"type":"Ready","status":"Unknown","reason":"PublisherLost","message":"x","lastTransitionTime":"2026-01-01T00:00:00Z"},
			{"type":"Stalled","status":"False","reason":"X","message":"x","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
		force := true
		if _, err := p.server.dynamic.Resource(v1alpha1.EtcdMemberResource).Namespace(p.namespace).Patch(t.Context(), member.name, types.ApplyPatchType, patch,
			metav1.PatchOptions{FieldManager: v1alpha1.FieldManagerController, Force: &force}, "status"); err != nil {
			t.Fatal(err)
		}
		p.wantReady(t, 20*time.Second, member.name, "True/Serving")
		m, err := p.get(t.Context(), member.name)
		if err != nil {
			t.Fatal(err)
		}
		if meta.FindStatusCondition(m.Status.Conditions, "Stalled") == nil {
			t.Error("the controller's condition is gone")
		}
	})
}

// followerOf is a member that does not lead.
func (p *agentProcesses) followerOf(leader *agentProcess) *agentProcess {
	for _, m := range p.members {
		if m != leader {
			return m
		}
	}
	return nil
}

// moveLeader hands leadership over, and waits until it is.
func (p *agentProcesses) moveLeader(t *testing.T, from, to *agentProcess) {
	t.Helper()
	agentEventually(t, 10*time.Second, "leadership goes from "+from.name+" to "+to.name, func(ctx context.Context) error {
		source, err := etcdclient.New(from.config.Etcd)
		if err != nil {
			return err
		}
		defer source.Close()
		target, err := etcdclient.New(to.config.Etcd)
		if err != nil {
			return err
		}
		defer target.Close()
		s, err := target.Status(ctx)
		if err != nil {
			return err
		}
		if s.IsLeader() {
			return nil
		}
		if err := source.MoveLeader(ctx, s.MemberID); err != nil {
			return err
		}
		return errors.New("not yet")
	})
}
