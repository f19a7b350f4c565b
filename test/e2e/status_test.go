package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
)

var (
	podResource  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	clusterRoles = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	roleBindings = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}
)

// publish does what a member's agent does: it applies a status, and renews the heartbeat.
func (s *apiServer) publish(t *testing.T, namespace, name string, status map[string]any, beat time.Time) {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "EtcdMember",
		"metadata": map[string]any{"name": name, "namespace": namespace}, "status": status,
	}}
	if _, err := s.dynamic.Resource(v1alpha1.EtcdMemberResource).Namespace(namespace).
		ApplyStatus(t.Context(), name, object, metav1.ApplyOptions{FieldManager: v1alpha1.FieldManagerAgent, Force: true}); err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, beat.UTC().Format(metav1.RFC3339Micro))
	if _, err := s.dynamic.Resource(leases).Namespace(namespace).
		Patch(t.Context(), v1alpha1.HeartbeatLeaseName(name), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// serving is the status of a voter that serves.
func serving(id, role string, at time.Time) map[string]any {
	stamp := at.UTC().Format(time.RFC3339)
	return map[string]any{
		"id": id, "clusterID": "c1d4", "state": "Started", "subState": role, "peerTLSEnabled": true,
		"dbSize": "20Mi", "dbSizeInUse": "10Mi", "dbSizeQuota": "2Gi", "revision": int64(7), "version": "3.7.3",
		"raft":        map[string]any{"term": int64(2), "index": int64(9), "appliedIndex": int64(9)},
		"conditions":  []any{map[string]any{"type": "Ready", "status": "True", "reason": "Serving", "message": "", "lastTransitionTime": stamp}},
		"publishedAt": at.UTC().Format(metav1.RFC3339Micro), "publishedBy": map[string]any{"type": "Agent"},
	}
}

// adopted makes a StatefulSet of three with its EtcdMembers, all publishing.
func (s *apiServer) adopted(t *testing.T, namespace, name string) {
	t.Helper()
	s.in(t, namespace, statefulSets, statefulSet(t, name, "etcd:3.7.3"))
	if r := s.plugin(t, "adopt", "-n", namespace, "sts/"+name); r.code != 0 {
		t.Fatal(r.stderr)
	}
	for i, role := range []string{"Leader", "Follower", "Follower"} {
		s.publish(t, namespace, fmt.Sprintf("%s-%d", name, i), serving(fmt.Sprintf("a%d", i), role, time.Now()), time.Now())
		s.runPod(t, namespace, name, i)
	}
}

// runPod creates a pod of a StatefulSet, and reports it running as a kubelet would.
func (s *apiServer) runPod(t *testing.T, namespace, set string, ordinal int) {
	t.Helper()
	owner, err := s.dynamic.Resource(statefulSets).Namespace(namespace).Get(t.Context(), set, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	labels, _, _ := unstructured.NestedMap(owner.Object, "spec", "selector", "matchLabels")
	pod := s.in(t, namespace, podResource, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": fmt.Sprintf("%s-%d", set, ordinal), "labels": labels, "ownerReferences": []any{map[string]any{
			"apiVersion": "apps/v1", "kind": "StatefulSet", "name": set, "uid": string(owner.GetUID()), "controller": true,
		}}},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "etcd", "image": "etcd"}}, "nodeName": "node1"},
	}})
	pod.Object["status"] = map[string]any{
		"phase":      "Running",
		"conditions": []any{map[string]any{"type": "Ready", "status": "True"}, map[string]any{"type": "ContainersReady", "status": "True"}},
		"containerStatuses": []any{map[string]any{
			"name": "etcd", "image": "etcd", "imageID": "etcd", "ready": true, "started": true, "restartCount": int64(0),
			"state": map[string]any{"running": map[string]any{"startedAt": time.Now().UTC().Format(time.RFC3339)}},
		}},
	}
	if _, err := s.dynamic.Resource(podResource).Namespace(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestStatus(t *testing.T) {
	s := startAPIServer(t)
	t.Run("no CRD", func(t *testing.T) {
		s.plugin(t, "status").want(t, 2, "", lines("error: the server has no resource etcdmembers.druid.gardener.cloud and no etcds of etcd-druid: name a StatefulSet of etcd (sts/NAME, with --live), or install the resource with 'kubectl etcdmember crd install', then 'kubectl etcdmember adopt CLUSTER'"))
	})
	if r := s.plugin(t, "crd", "install"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	t.Run("nothing there", func(t *testing.T) {
		s.plugin(t, "status").want(t, 0, "", lines("No resources found in default namespace."))
		s.plugin(t, "status", "-A").want(t, 0, "", lines("No resources found"))
		s.plugin(t, "status", "-n", "nosuch").want(t, 0, "", lines("No resources found in nosuch namespace."))
		s.plugin(t, "status", "-n", "nosuch", "--exit-code").want(t, 2, "", lines("No resources found in nosuch namespace."))
		s.plugin(t, "status", "main").want(t, 2, "", lines("error: there is no etcd cluster main in namespace default: neither an Etcd, nor EtcdMembers, nor a StatefulSet of that name; see 'kubectl get etcds,statefulsets'"))
	})

	ns := s.namespace(t, "status")
	s.adopted(t, ns, "main")
	t.Run("forbidden", func(t *testing.T) {
		s.plugin(t, "status", "-n", ns, "--as=nobody").want(t, 2, "", lines(`error: can't list EtcdMembers in namespace status: etcdmembers.druid.gardener.cloud is forbidden: User "nobody" cannot list resource "etcdmembers" in API group "druid.gardener.cloud" in the namespace "status"; ask an administrator for the right, or choose another user with --context or --as`))
		s.plugin(t, "status", "main", "-n", ns, "--as=nobody").want(t, 2, "", lines(`error: can't list EtcdMembers in namespace status: etcdmembers.druid.gardener.cloud is forbidden: User "nobody" cannot list resource "etcdmembers" in API group "druid.gardener.cloud" in the namespace "status"; ask an administrator for the right, or choose another user with --context or --as`))
		s.plugin(t, "describe", "main-0", "-n", ns, "--as=nobody").want(t, 2, "", lines(`error: can't list EtcdMembers in namespace status: etcdmembers.druid.gardener.cloud is forbidden: User "nobody" cannot list resource "etcdmembers" in API group "druid.gardener.cloud" in the namespace "status"; ask an administrator for the right, or choose another user with --context or --as`))
	})
	t.Run("only members may be listed", func(t *testing.T) {
		for r, object := range map[schema.GroupVersionResource]string{
			clusterRoles: "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: members-only}\nrules: [{apiGroups: [druid.gardener.cloud], resources: [etcdmembers], verbs: [list]}]",
			roleBindings: "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: members-only}\nsubjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: members-only}",
		} {
			if _, err := s.dynamic.Resource(r).Create(t.Context(), parse(t, object), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		// What can be read is shown; heartbeats can't, so nobody is known to be fresh, and that is said.
		eventually(t, 10*time.Second, func() error {
			r := s.plugin(t, "status", "-n", ns, "--as=reader", "--exit-code")
			if r.code != 2 || !strings.Contains(r.stdout, "sts/main: Unknown.") || !strings.Contains(r.stdout, "main-2") ||
				!strings.Contains(r.stderr, "warning: Leases in namespace status: can't be listed") || !strings.Contains(r.stderr, "warning: StatefulSets in namespace status: can't be listed") {
				return fmt.Errorf("%+v", r)
			}
			return nil
		})
	})
	t.Run("healthy, through a real kubectl as through the plugin", func(t *testing.T) {
		bin := t.TempDir()
		build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(bin, "kubectl-etcdmember"), "../../cmd/kubectl-etcdmember")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, args := range [][]string{
			{"-o", "json", "main"}, {"-o", "name"}, {"-o", "jsonpath={.items[0].verdict}"}, {"--exit-code", "-o", "yaml"},
			{"--no-headers", "-o", "custom-columns=V:.verdict,L:.leader"}, {"-o", "nonsense"}, {"nosuch"},
		} {
			args = append([]string{"status", "-n", ns}, args...)
			through := s.kubectl(t, bin, append([]string{"etcdmember"}, args...)...)
			direct := s.plugin(t, args...)
			// The time of judgement differs from run to run, and nothing else does.
			through.stdout, direct.stdout = withoutTime(through.stdout), withoutTime(direct.stdout)
			// kubectl tells of a plugin's exit code only by its own.
			direct.want(t, through.code, through.stdout, through.stderr)
		}
		s.plugin(t, "status", "-n", ns, "main", "--exit-code", "-o", "jsonpath={.verdict} {.leader} {.quorum.healthy}").want(t, 0, "Healthy main-0 3", "")
	})
	t.Run("documents are of the schema", func(t *testing.T) {
		compiled, err := jsonschema.NewCompiler().Compile("../../docs/schema/clusterstatus.v1.schema.json")
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"main"}, {"-A"}, {}} {
			r := s.plugin(t, append([]string{"status", "-n", ns, "-o", "json"}, args...)...)
			var document any
			if err := json.Unmarshal([]byte(r.stdout), &document); err != nil {
				t.Fatalf("%v: %+v", err, r)
			}
			if err := compiled.Validate(document); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("chunks", func(t *testing.T) {
		whole := s.plugin(t, "status", "-A", "-o", "custom-columns=C:.metadata.name,M:.members[*].name")
		for _, size := range []string{"1", "2", "500"} {
			s.plugin(t, "status", "-A", "-o", "custom-columns=C:.metadata.name,M:.members[*].name", "--chunk-size", size).want(t, 0, whole.stdout, "")
		}
	})
	t.Run("a publisher that has gone is never healthy", func(t *testing.T) {
		s.publish(t, ns, "main-1", serving("a1", "Follower", time.Now()), time.Now().Add(-61*time.Second))
		r := s.plugin(t, "status", "-n", ns, "main", "--exit-code", "-o", "jsonpath={.verdict} {.members[1].health} {.members[1].reason}")
		r.want(t, 1, "Degraded Unknown PublisherGone", "")
		s.publish(t, ns, "main-1", serving("a1", "Follower", time.Now()), time.Now())
	})
	t.Run("hibernated", func(t *testing.T) {
		s.scale(t, ns, statefulSets, "main", "0")
		s.plugin(t, "status", "-n", ns, "main", "--exit-code", "-o", "jsonpath={.verdict}").want(t, 0, "Hibernated", "")
		s.scale(t, ns, statefulSets, "main", "3")
	})
	t.Run("watch prints a cluster when it has changed, and not otherwise", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := &syncBuffer{}
		done := make(chan int)
		go func() {
			done <- invocation{kubeconfig: s.kubeconfig}.runTo(ctx, out, io.Discard, "status", "-n", ns, "-w")
		}()
		eventually(t, 10*time.Second, func() error { return contains(out, "sts/main: Healthy.", 1) })
		down := serving("a2", "Follower", time.Now())
		down["conditions"] = []any{map[string]any{"type": "Ready", "status": "False", "reason": "NotAnswering", "message": "gone", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}}
		s.publish(t, ns, "main-2", down, time.Now())
		eventually(t, 10*time.Second, func() error { return contains(out, "sts/main: Degraded.", 1) })
		s.publish(t, ns, "main-2", serving("a2", "Follower", time.Now()), time.Now())
		eventually(t, 10*time.Second, func() error { return contains(out, "sts/main: Healthy.", 2) })
		cancel()
		if code := <-done; code != 0 && code != 130 {
			t.Errorf("exit code %d after an interrupt", code)
		}
		if err := contains(out, "sts/main: ", 3); err != nil {
			t.Error(err)
		}
	})
}

// withoutTime masks what differs between two runs.
func withoutTime(text string) string {
	var kept []string
	for _, line := range strings.Split(text, "\n") {
		if !strings.Contains(line, "judgedAt") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// eventually tries until there is no error, or time is up.
func eventually(t *testing.T, limit time.Duration, try func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %v", limit, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// contains wants a text as often as n in what was printed so far.
func contains(out fmt.Stringer, text string, n int) error {
	if got := strings.Count(out.String(), text); got != n {
		return fmt.Errorf("%q is there %d times, want %d, in:\n%s", text, got, n, out)
	}
	return nil
}
