package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/etcdmember/kubectl-etcdmember/pkg/agent"
	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/test/lab"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/pki"
)

// agentPods is a real etcd in real pods, with agents as sidecars.
type agentPods struct {
	lab       *lab.Lab
	namespace string
	pods      []string
	dynamic   dynamic.Interface
}

func newAgentPods(t *testing.T) *agentPods {
	t.Helper()
	l := lab.Get(t)
	client, err := dynamic.NewForConfig(l.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	l.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", "../../config/crd")
	l.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-k", "../../config/rbac")
	return &agentPods{lab: l, namespace: l.Namespace(t), pods: []string{"main-0", "main-1", "main-2"}, dynamic: client}
}

// bindVolumes gives the agents the optional right to read volumes.
func (a *agentPods) bindVolumes(t *testing.T) {
	t.Helper()
	bindings := a.lab.Client().RbacV1().ClusterRoleBindings()
	binding, err := bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: a.namespace + "-main-agent-volumes"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "etcdmember-agent-volumes"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "main-agent", Namespace: a.namespace}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bindings.Delete(context.Background(), binding.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func (a *agentPods) plugin(t *testing.T, args ...string) run {
	t.Helper()
	return invocation{kubeconfig: a.lab.Kubeconfig()}.run(t, append(args, "-n", a.namespace)...)
}

func (a *agentPods) adopt(t *testing.T) {
	t.Helper()
	if r := a.plugin(t, "adopt", "sts/main"); r.code != 0 {
		t.Fatalf("adopt: %+v", r)
	}
}

func (a *agentPods) get(ctx context.Context, name string) (*v1alpha1.EtcdMember, error) {
	u, err := a.dynamic.Resource(v1alpha1.EtcdMemberResource).Namespace(a.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	m := &v1alpha1.EtcdMember{}
	return m, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, m)
}

func (a *agentPods) wantReady(t *testing.T, within time.Duration, name, want string) {
	t.Helper()
	agentEventually(t, within, name+" is "+want, func(ctx context.Context) error {
		m, err := a.get(ctx, name)
		if err != nil {
			return err
		}
		if got := agentReady(m); got != want {
			return fmt.Errorf("ready is %s", got)
		}
		return nil
	})
}

// leader waits until all members are ready and exactly one is published as the leader. All transitions must be legal.
func (a *agentPods) leader(t *testing.T, within time.Duration) string {
	t.Helper()
	var leader string
	agentEventually(t, within, "all are ready, and one leads", func(ctx context.Context) error {
		leader = ""
		for _, name := range a.pods {
			m, err := a.get(ctx, name)
			if err != nil {
				return err
			}
			if err := agent.CheckTransitions(m.Status.Transitions); err != nil {
				t.Fatalf("transitions of %s: %v", name, err)
			}
			if ready := agentReady(m); ready != "True/Serving" {
				return fmt.Errorf("%s is %s", name, ready)
			}
			if m.Status.SubState == v1alpha1.SubStateLeader {
				if leader != "" {
					return fmt.Errorf("%s and %s are both published as leader", leader, name)
				}
				leader = name
			}
		}
		if leader == "" {
			return errors.New("none is published as leader")
		}
		return nil
	})
	return leader
}

// ask gets a path from the agent in a pod, through the API server.
func (a *agentPods) ask(ctx context.Context, pod, path string) (string, error) {
	text, err := a.lab.Client().CoreV1().Pods(a.namespace).ProxyGet("http", pod, "9980", path, nil).DoRaw(ctx)
	return string(text), err
}

func (a *agentPods) metrics(t *testing.T, pod string) string {
	t.Helper()
	text, err := a.ask(t.Context(), pod, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// etcdctlStatus is what "etcdctl endpoint status -w json" prints. IDs are decimal in it.
type etcdctlStatus []struct {
	Status struct {
		Header struct {
			ClusterID uint64 `json:"cluster_id"`
			MemberID  uint64 `json:"member_id"`
		} `json:"header"`
		Version string `json:"version"`
		Leader  uint64 `json:"leader"`
		DBSize  int64  `json:"dbSize"`
	} `json:"Status"`
}

// TestAgent tells the story of a cluster whose members publish themselves, one scene after the other.
func TestAgent(t *testing.T) {
	a := newAgentPods(t)
	a.bindVolumes(t)
	e := a.lab.StartEtcd(t, a.namespace, lab.EtcdOptions{TLS: true, Agent: true})

	t.Run("waits for its EtcdMember", func(t *testing.T) {
		for _, pod := range a.pods {
			if text, err := a.ask(t.Context(), pod, "/healthz"); err != nil || text != "ok\n" {
				t.Errorf("/healthz of %s: %q, %v", pod, text, err)
			}
			if text, err := a.ask(t.Context(), pod, "/readyz"); !apierrors.IsServiceUnavailable(err) || !strings.Contains(text, "waiting for the EtcdMember") {
				t.Errorf("/readyz of %s: %q, %v", pod, text, err)
			}
		}
	})

	t.Run("publishes when it is there", func(t *testing.T) {
		a.adopt(t)
		leader := a.leader(t, 30*time.Second)
		for _, pod := range a.pods {
			var truth etcdctlStatus
			if err := json.Unmarshal([]byte(e.EtcdctlIn(t, pod, "endpoint", "status", "-w", "json")), &truth); err != nil || len(truth) != 1 {
				t.Fatalf("etcdctl's status of %s is %+v: %v", pod, truth, err)
			}
			a.compare(t, pod, truth, pod == leader)
		}
		agentEventually(t, 30*time.Second, "kubectl etcdmember status is healthy", func(context.Context) error {
			if r := a.plugin(t, "status", "--exit-code"); r.code != 0 {
				return fmt.Errorf("%+v", r)
			}
			return nil
		})
	})

	t.Run("its token permits its work and no more", func(t *testing.T) { a.tryToken(t) })

	t.Run("costs little when idle", func(t *testing.T) {
		before := map[string]string{}
		for _, pod := range a.pods {
			before[pod] = a.metrics(t, pod)
		}
		const minute = 60 * time.Second
		time.Sleep(minute) // What does not happen has no event to wait for.
		for _, pod := range a.pods {
			after := a.metrics(t, pod)
			since := func(parts ...string) int {
				return agentMetric(t, after, parts...) - agentMetric(t, before[pod], parts...)
			}
			beats, writes := since("writes_total", `kind="lease"`), since("writes_total", `kind="status"`)
			t.Logf("%s in a minute: %d renewals, %d status writes, %d looks", pod, beats, writes, since("polls_total"))
			if beats < 2 || beats > 4 || writes > 1 {
				t.Errorf("%s: %d renewals and %d status writes: want 3, and at most one", pod, beats, writes)
			}
		}
	})

	t.Run("the leader is killed", func(t *testing.T) {
		old := a.leader(t, 30*time.Second)
		a.lab.Kill(t, a.namespace, old, lab.EtcdContainer, syscall.SIGKILL)
		agentEventually(t, 30*time.Second, "another one leads", func(ctx context.Context) error {
			for _, pod := range a.pods {
				m, err := a.get(ctx, pod)
				if err != nil {
					return err
				}
				if pod != old && m.Status.SubState == v1alpha1.SubStateLeader && agentReady(m) == "True/Serving" {
					return nil
				}
			}
			return errors.New("not yet")
		})
		a.leader(t, 60*time.Second)
		m, err := a.get(t.Context(), old)
		if err != nil {
			t.Fatal(err)
		}
		if last := m.Status.Transitions[len(m.Status.Transitions)-1]; m.Status.SubState == v1alpha1.SubStateFollower && last.Reason != v1alpha1.ReasonLostClusterLeadership {
			t.Errorf("the last transition of %s is %+v", old, last)
		}
	})

	t.Run("a member freezes for 30 s", func(t *testing.T) {
		leader := a.leader(t, 30*time.Second)
		frozen := a.lab.Freeze(t, a.namespace, leader, lab.EtcdContainer)
		begun := time.Now()
		a.wantReady(t, 10*time.Second, leader, "False/NotAnswering")
		agentEventually(t, 10*time.Second, "kubectl etcdmember status is degraded", func(context.Context) error {
			if r := a.plugin(t, "status", "--exit-code"); r.code != 1 {
				return fmt.Errorf("%+v", r)
			}
			return nil
		})
		time.Sleep(30*time.Second - time.Since(begun))
		frozen.Heal(t)
		a.wantReady(t, 10*time.Second, leader, "True/Serving")
		a.leader(t, 10*time.Second)
	})

	t.Run("the API server is away while the leader changes", func(t *testing.T) {
		leader := a.leader(t, 30*time.Second)
		transitions, writes := map[string]int{}, map[string]int{}
		for _, pod := range a.pods {
			m, err := a.get(t.Context(), pod)
			if err != nil {
				t.Fatal(err)
			}
			transitions[pod] = len(m.Status.Transitions)
			writes[pod] = agentMetric(t, a.metrics(t, pod), "writes_total", `kind="status"`)
		}
		// A frozen leader is replaced after an election timeout, when the API server is gone already. That is killed, because
		// one that is asked to end waits for its watches, for a minute.
		frozen := a.lab.Freeze(t, a.namespace, leader, lab.EtcdContainer)
		killed := a.lab.KillComponent(t, "kube-apiserver")
		begun := time.Now()
		time.Sleep(10 * time.Second)
		frozen.Heal(t)
		time.Sleep(25*time.Second - time.Since(begun))
		killed.Heal(t)
		agentEventually(t, 60*time.Second, "what happened meanwhile is published", func(ctx context.Context) error {
			more := 0
			for _, pod := range a.pods {
				m, err := a.get(ctx, pod)
				if err != nil {
					return err
				}
				got := len(m.Status.Transitions) - transitions[pod]
				if pod == leader && got != 1 {
					return fmt.Errorf("%s, which led, has %d more transitions", pod, got)
				}
				more += got
			}
			if more != 2 {
				return fmt.Errorf("there are %d more transitions: want two, of the old leader and of the new one", more)
			}
			return nil
		})
		if got := a.leader(t, 30*time.Second); got == leader {
			t.Errorf("%s is published as leader still", got)
		}
		for _, pod := range a.pods {
			agentEventually(t, 30*time.Second, pod+" answers /metrics", func(ctx context.Context) error { _, err := a.ask(ctx, pod, "/metrics"); return err })
			if n := agentMetric(t, a.metrics(t, pod), "writes_total", `kind="status"`) - writes[pod]; n > 25 {
				t.Errorf("%s has tried to write %d times", pod, n)
			}
		}
	})
}

// compare compares what is published of a member with what etcdctl and the API server say.
func (a *agentPods) compare(t *testing.T, pod string, truth etcdctlStatus, leads bool) {
	t.Helper()
	m, err := a.get(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	s, status := m.Status, truth[0].Status
	if string(s.ID) != fmt.Sprintf("%x", status.Header.MemberID) || string(s.ClusterID) != fmt.Sprintf("%x", status.Header.ClusterID) || s.Version != status.Version ||
		(status.Leader == status.Header.MemberID) != leads || s.DBSize.Value() != status.DBSize || s.PeerTLSEnabled == nil || !*s.PeerTLSEnabled {
		t.Errorf("%s is published as %+v; etcdctl says %+v", pod, s, status)
	}
	claim, err := a.lab.Client().CoreV1().PersistentVolumeClaims(a.namespace).Get(t.Context(), "data-"+pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v := s.Volume
	if v == nil || v.Claim != claim.Name || string(v.ClaimUID) != string(claim.UID) || v.Volume != claim.Spec.VolumeName || v.StorageClass != *claim.Spec.StorageClassName ||
		v.Capacity == nil || v.Capacity.Value() < 100<<20 || v.Available == nil || v.Available.Cmp(*v.Capacity) >= 0 || v.ReadOnly == nil || *v.ReadOnly {
		t.Errorf("the volume of %s is published as %+v; the claim is %+v", pod, v, claim.Spec)
	}
}

// tryToken does with a token like an agent's what an agent does, and what it must not.
func (a *agentPods) tryToken(t *testing.T) {
	ctx, core := t.Context(), a.lab.Client().CoreV1()
	pod, err := core.Pods(a.namespace).Get(ctx, "main-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	request, err = core.ServiceAccounts(a.namespace).CreateToken(ctx, "main-agent", request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := a.lab.RESTConfig()
	config.BearerToken, config.BearerTokenFile, config.Username, config.Password = request.Status.Token, "", "", ""
	config.CertData, config.CertFile, config.KeyData, config.KeyFile = nil, "", nil, ""
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	members, leases := client.Resource(v1alpha1.EtcdMemberResource).Namespace(a.namespace), client.Resource(leases).Namespace(a.namespace)
	another := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "EtcdMember", "metadata": map[string]any{"name": "main-9"},
		"spec": map[string]any{"podName": "main-9", "clusterRef": map[string]any{"kind": "StatefulSet", "name": "main"}},
	}}
	lease := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": "etcdmember-main-9"}}}
	force := true
	apply := metav1.PatchOptions{FieldManager: v1alpha1.FieldManagerAgent, Force: &force}
	body := func(o *unstructured.Unstructured) []byte {
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for what, try := range map[string]func() error{
		"create an EtcdMember": func() error { _, err := members.Create(ctx, another, metav1.CreateOptions{}); return err },
		"create one by applying it": func() error {
			_, err := members.Patch(ctx, "main-9", types.ApplyPatchType, body(another), apply)
			return err
		},
		"change a spec": func() error {
			_, err := members.Patch(ctx, "main-0", types.MergePatchType, []byte(`{"spec":{"action":{"id":"x","type":"Hold"}}}`), metav1.PatchOptions{})
			return err
		},
		"delete an EtcdMember": func() error { return members.Delete(ctx, "main-0", metav1.DeleteOptions{}) },
		"create a Lease":       func() error { _, err := leases.Create(ctx, lease, metav1.CreateOptions{}); return err },
		"create one by applying it, too": func() error {
			_, err := leases.Patch(ctx, "etcdmember-main-9", types.ApplyPatchType, body(lease), apply)
			return err
		},
		"delete a Lease": func() error { return leases.Delete(ctx, "etcdmember-main-0", metav1.DeleteOptions{}) },
		"read a Secret": func() error {
			_, err := kube.CoreV1().Secrets(a.namespace).Get(ctx, "main-client-tls", metav1.GetOptions{})
			return err
		},
		"list pods":      func() error { _, err := kube.CoreV1().Pods(a.namespace).List(ctx, metav1.ListOptions{}); return err },
		"delete its pod": func() error { return kube.CoreV1().Pods(a.namespace).Delete(ctx, "main-0", metav1.DeleteOptions{}) },
		"delete a claim": func() error {
			return kube.CoreV1().PersistentVolumeClaims(a.namespace).Delete(ctx, "data-main-0", metav1.DeleteOptions{})
		},
		"change a volume": func() error { return kube.CoreV1().PersistentVolumes().Delete(ctx, "x", metav1.DeleteOptions{}) },
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("it may %s: %v", what, err)
		}
	}
	if _, err := members.List(ctx, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := leases.Patch(ctx, "etcdmember-main-0", types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

// TestSample applies config/samples as its readers do, but for the namespace, the size of the volumes and the Secrets, which
// cert-manager would make.
func TestSample(t *testing.T) {
	a := newAgentPods(t)
	a.lab.LoadImages(t, "agent", "etcd:"+lab.Etcd37)
	authority, err := pki.NewAuthority("main-ca")
	if err != nil {
		t.Fatal(err)
	}
	peers := []string{"*.main-peer." + a.namespace + ".svc", "*.main-peer." + a.namespace + ".svc.cluster.local"}
	for secret, subject := range map[string]pki.Subject{
		"main-server-tls": {CommonName: "server", Server: true, Client: true, Names: []string{peers[0], "main-client." + a.namespace + ".svc", "localhost", "127.0.0.1"}},
		"main-peer-tls":   {CommonName: "peer", Server: true, Client: true, Names: peers},
		"main-client-tls": {CommonName: "main-agent", Client: true},
	} {
		pair, err := authority.Issue(subject)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		args := []string{"create", "secret", "generic", secret, "-n", a.namespace}
		for name, content := range map[string][]byte{"ca.crt": authority.Cert, "tls.crt": pair.Cert, "tls.key": pair.Key} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, "--from-file="+filepath.Join(dir, name))
		}
		a.lab.Kubectl(t, args...)
	}
	sample, err := filepath.Abs("../../config/samples")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	base, err := filepath.Rel(dir, sample)
	if err != nil {
		t.Fatal(err)
	}
	overlay := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: " + a.namespace + "\nresources: [" + base + "]\n" +
		`patches: [{target: {kind: StatefulSet}, patch: '[{"op": "replace", "path": "/spec/volumeClaimTemplates/0/spec/resources/requests/storage", "value": "256Mi"}]'}]` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	a.lab.Kubectl(t, "apply", "-k", dir)
	a.adopt(t)
	a.leader(t, 2*time.Minute)
	agentEventually(t, 30*time.Second, "kubectl etcdmember status is healthy", func(context.Context) error {
		if r := a.plugin(t, "status", "--exit-code"); r.code != 0 {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	a.lab.Kubectl(t, "wait", "-n", a.namespace, "--for=condition=Ready", "--timeout=60s", "etcdmembers.druid.gardener.cloud", "--all")
	a.lab.Kubectl(t, "wait", "-n", a.namespace, "--for=condition=Ready", "--timeout=60s", "pod/main-0", "pod/main-1", "pod/main-2")
}

// TestAgentOlderEtcd: members before 3.6 say their quota in their metrics only.
func TestAgentOlderEtcd(t *testing.T) {
	a := newAgentPods(t)
	a.pods = []string{"main-0"}
	a.lab.StartEtcd(t, a.namespace, lab.EtcdOptions{TLS: true, Agent: true, Replicas: 1, Version: lab.Etcd35, QuotaBytes: 3 << 30})
	a.adopt(t)
	a.leader(t, 30*time.Second)
	m, err := a.get(t.Context(), "main-0")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(m.Status.Version, "3.5.") || m.Status.DBSizeQuota == nil || m.Status.DBSizeQuota.Value() != 3<<30 || m.Status.PeerTLSEnabled == nil {
		t.Errorf("status is %+v", m.Status)
	}
}
