package e2e

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/test/apiserver"
)

var (
	statefulSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	etcds        = schema.GroupVersionResource{Group: "druid.gardener.cloud", Version: "v1alpha1", Resource: "etcds"}
	leases       = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

// parse reads an object from YAML.
func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// statefulSet is a StatefulSet of one container with an image.
func statefulSet(t *testing.T, name, image string, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	obj := parse(t, `{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 3, serviceName: s, selector: {matchLabels: {app: a}},
		template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: x}]}}}}`)
	obj.SetName(name)
	set(t, obj, []any{map[string]any{"name": "c", "image": image}}, "spec", "template", "spec", "containers")
	for _, f := range change {
		f(obj)
	}
	return obj
}

// etcd is an Etcd.
func etcd(t *testing.T, name string, replicas int64, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	obj := parse(t, `{apiVersion: druid.gardener.cloud/v1alpha1, kind: Etcd, spec: {}}`)
	obj.SetName(name)
	set(t, obj, replicas, "spec", "replicas")
	for _, f := range change {
		f(obj)
	}
	return obj
}

func set(t *testing.T, obj *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(obj.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

// in creates an object in a namespace and returns it.
func (s *apiServer) in(t *testing.T, namespace string, r schema.GroupVersionResource, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	out, err := s.dynamic.Resource(r).Namespace(namespace).Create(t.Context(), obj, metav1.CreateOptions{FieldManager: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// scale sets spec.replicas.
func (s *apiServer) scale(t *testing.T, namespace string, r schema.GroupVersionResource, name, replicas string) {
	t.Helper()
	if _, err := s.dynamic.Resource(r).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"replicas":`+replicas+`}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// names are the names of a namespace's objects.
func (s *apiServer) names(t *testing.T, namespace string, r schema.GroupVersionResource) []string {
	t.Helper()
	list, err := s.dynamic.Resource(r).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names
}

func (s *apiServer) wantNames(t *testing.T, namespace string, r schema.GroupVersionResource, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, s.names(t, namespace, r)); d != "" {
		t.Errorf("%s in namespace %s (-want +got):\n%s", r.Resource, namespace, d)
	}
}

// did is what adopt prints of members and their Leases.
func did(verb string, members ...string) []string {
	var out []string
	for _, m := range members {
		out = append(out, "etcdmember.druid.gardener.cloud/"+m+" "+verb, "lease.coordination.k8s.io/etcdmember-"+m+" "+verb)
	}
	return out
}

func TestAdoptWithoutEtcdMembers(t *testing.T) {
	s := startAPIServer(t)
	s.in(t, "default", statefulSets, statefulSet(t, "main", "registry.example/etcd:v3.7.3"))
	s.plugin(t, "adopt", "main").want(t, 2, "", lines("error: the cluster does not know EtcdMembers; install their CustomResourceDefinition with 'kubectl etcdmember crd install': the server could not find the requested resource"))
}

func TestAdopt(t *testing.T) {
	s := startAPIServer(t)
	crdOfEtcds, err := os.ReadFile("testdata/etcds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.create(t, crds, parse(t, string(crdOfEtcds)), "test")
	if r := s.plugin(t, "crd", "install"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := s.dynamic.Resource(etcds).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	const image = "registry.example/etcd:v3.7.3"

	t.Run("a StatefulSet", func(t *testing.T) {
		ns := s.namespace(t, "sts")
		s.in(t, ns, statefulSets, statefulSet(t, "main", image))
		s.plugin(t, "adopt", "main", "-n", ns, "--dry-run=client").want(t, 0, lines(did("created (dry run)", "main-0", "main-1", "main-2")...), "")
		s.plugin(t, "adopt", "main", "-n", ns, "--dry-run=server").want(t, 0, lines(did("created (server dry run)", "main-0", "main-1", "main-2")...), "")
		s.wantNames(t, ns, v1alpha1.EtcdMemberResource)
		s.plugin(t, "adopt", "main", "-n", ns).want(t, 0, lines(did("created", "main-0", "main-1", "main-2")...), "")
		s.wantNames(t, ns, v1alpha1.EtcdMemberResource, "main-0", "main-1", "main-2")
		s.wantNames(t, ns, leases, "etcdmember-main-0", "etcdmember-main-1", "etcdmember-main-2")

		m, err := s.dynamic.Resource(v1alpha1.EtcdMemberResource).Namespace(ns).Get(t.Context(), "main-1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(map[string]any{"clusterRef": map[string]any{"kind": "StatefulSet", "name": "main"}, "podName": "main-1"}, m.Object["spec"]); d != "" {
			t.Errorf("spec (-want +got):\n%s", d)
		}
		if d := cmp.Diff(map[string]string{
			"app.kubernetes.io/part-of": "main", "app.kubernetes.io/managed-by": "kubectl-etcdmember",
			"app.kubernetes.io/component": "etcd-member", "gardener.cloud/owned-by": "main",
		}, m.GetLabels()); d != "" {
			t.Errorf("labels (-want +got):\n%s", d)
		}
		if len(m.GetOwnerReferences()) != 0 {
			t.Errorf("a StatefulSet owns it, and a volume roll deletes the StatefulSet: %v", m.GetOwnerReferences())
		}

		before := m.GetResourceVersion()
		for _, arg := range []string{"main", "sts/main", "statefulset.apps/main"} {
			s.plugin(t, "adopt", arg, "-n", ns).want(t, 0, lines(did("unchanged", "main-0", "main-1", "main-2")...), "")
		}
		s.plugin(t, "adopt", "main", "sts/main", "-n", ns, "--dry-run=client").want(t, 0, lines(did("unchanged (dry run)", "main-0", "main-1", "main-2")...), "")
		if m, err = s.dynamic.Resource(v1alpha1.EtcdMemberResource).Namespace(ns).Get(t.Context(), "main-1", metav1.GetOptions{}); err != nil || m.GetResourceVersion() != before {
			t.Errorf("an adoption that changes nothing writes: resourceVersion %s became %s (%v)", before, m.GetResourceVersion(), err)
		}
	})

	t.Run("output", func(t *testing.T) {
		ns := s.namespace(t, "output")
		s.in(t, ns, statefulSets, statefulSet(t, "main", image, func(o *unstructured.Unstructured) { set(t, o, int64(1), "spec", "replicas") }))
		s.plugin(t, "adopt", "main", "-n", ns, "--dry-run=client", "-o", "yaml").want(t, 0, lines(
			"apiVersion: v1",
			"items:",
			"- apiVersion: druid.gardener.cloud/v1alpha1",
			"  kind: EtcdMember",
			"  metadata:",
			"    labels:",
			"      app.kubernetes.io/component: etcd-member",
			"      app.kubernetes.io/managed-by: kubectl-etcdmember",
			"      app.kubernetes.io/part-of: main",
			"      gardener.cloud/owned-by: main",
			"    name: main-0",
			"    namespace: output",
			"  spec:",
			"    clusterRef:",
			"      kind: StatefulSet",
			"      name: main",
			"    podName: main-0",
			"- apiVersion: coordination.k8s.io/v1",
			"  kind: Lease",
			"  metadata:",
			"    labels:",
			"      app.kubernetes.io/component: etcd-member-heartbeat",
			"      app.kubernetes.io/managed-by: kubectl-etcdmember",
			"      app.kubernetes.io/part-of: main",
			"      gardener.cloud/owned-by: main",
			"    name: etcdmember-main-0",
			"    namespace: output",
			"kind: List",
			"metadata: {}",
		), "")
		s.plugin(t, "adopt", "main", "-n", ns, "-o", "name").want(t, 0, lines("etcdmember.druid.gardener.cloud/main-0", "lease.coordination.k8s.io/etcdmember-main-0"), "")
		r := s.plugin(t, "adopt", "main", "-n", ns, "-o", "json")
		var list unstructured.UnstructuredList
		if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || len(list.Items) != 2 || list.Items[0].GetUID() == "" {
			t.Errorf("%v: %+v", err, r)
		}
		s.plugin(t, "adopt", "main", "-n", ns, "-o", "jsonpath={.items[*].metadata.name}").want(t, 0, "main-0 etcdmember-main-0", "")
	})

	t.Run("ordinals.start", func(t *testing.T) {
		ns := s.namespace(t, "start")
		s.in(t, ns, statefulSets, statefulSet(t, "main", image, func(o *unstructured.Unstructured) { set(t, o, int64(5), "spec", "ordinals", "start") }))
		s.plugin(t, "adopt", "main", "-n", ns).want(t, 0, lines(did("created", "main-5", "main-6", "main-7")...), "")
	})

	t.Run("an Etcd, its prefix, and its StatefulSet", func(t *testing.T) {
		ns := s.namespace(t, "druid")
		owner := s.in(t, ns, etcds, etcd(t, "main", 3, func(o *unstructured.Unstructured) { set(t, o, "east", "spec", "memberNamePrefix") }))
		ref := metav1.OwnerReference{APIVersion: owner.GetAPIVersion(), Kind: "Etcd", Name: "main", UID: owner.GetUID(), Controller: new(true), BlockOwnerDeletion: new(true)}
		s.in(t, ns, statefulSets, statefulSet(t, "main", image, func(o *unstructured.Unstructured) { o.SetOwnerReferences([]metav1.OwnerReference{ref}) }))
		s.plugin(t, "adopt", "main", "-n", ns).want(t, 0, lines(did("created", "east-main-0", "east-main-1", "east-main-2")...), "")
		for _, arg := range []string{"etcd/main", "etcd.druid.gardener.cloud/main", "Etcd/main"} {
			s.plugin(t, "adopt", arg, "-n", ns).want(t, 0, lines(did("unchanged", "east-main-0", "east-main-1", "east-main-2")...), "")
		}
		s.plugin(t, "adopt", "sts/main", "-n", ns).want(t, 0, lines(did("unchanged", "east-main-0", "east-main-1", "east-main-2")...),
			lines("statefulset.apps/main belongs to etcd.druid.gardener.cloud/main, which is adopted"))
		for r, name := range map[schema.GroupVersionResource]string{v1alpha1.EtcdMemberResource: "east-main-1", leases: "etcdmember-east-main-1"} {
			m, err := s.dynamic.Resource(r).Namespace(ns).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]metav1.OwnerReference{ref}, m.GetOwnerReferences()); d != "" {
				t.Errorf("%s's owners (-want +got):\n%s", name, d)
			}
		}
	})

	t.Run("what has changed is made right, and who made it is left", func(t *testing.T) {
		ns := s.namespace(t, "repair")
		s.in(t, ns, statefulSets, statefulSet(t, "main", image))
		s.member(t, ns, "main-0", func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "etcdmember-controller"})
		})
		s.plugin(t, "adopt", "main", "-n", ns).want(t, 0, lines(append(
			[]string{"etcdmember.druid.gardener.cloud/main-0 configured", "lease.coordination.k8s.io/etcdmember-main-0 created"},
			did("created", "main-1", "main-2")...)...), "")
		m, err := s.dynamic.Resource(v1alpha1.EtcdMemberResource).Namespace(ns).Get(t.Context(), "main-0", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.GetLabels()["app.kubernetes.io/managed-by"]; got != "etcdmember-controller" {
			t.Errorf("label managed-by=%s, want etcdmember-controller", got)
		}
		if got := m.GetLabels()["app.kubernetes.io/part-of"]; got != "main" {
			t.Errorf("label part-of=%s, want main", got)
		}
	})

	t.Run("another manager's field", func(t *testing.T) {
		ns := s.namespace(t, "conflict")
		s.in(t, ns, statefulSets, statefulSet(t, "main", image, func(o *unstructured.Unstructured) { set(t, o, int64(1), "spec", "replicas") }))
		s.member(t, ns, "main-0", func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{"app.kubernetes.io/part-of": "other"})
		})
		r := s.plugin(t, "adopt", "main", "-n", ns)
		if r.code != 3 || r.stdout != "" || !strings.Contains(r.stderr, "etcdmember.druid.gardener.cloud/main-0 in namespace conflict is left as it is, because others manage some of its fields: ") || !strings.Contains(r.stderr, `conflict with "test"`) {
			t.Errorf("%+v", r)
		}
		s.plugin(t, "adopt", "main", "-n", ns, "--force-conflicts").want(t, 0, lines("etcdmember.druid.gardener.cloud/main-0 configured", "lease.coordination.k8s.io/etcdmember-main-0 created"), "")
	})

	t.Run("what is someone else's is refused before anything is written", func(t *testing.T) {
		ns := s.namespace(t, "foreign")
		s.in(t, ns, statefulSets, statefulSet(t, "main", image))
		s.in(t, ns, statefulSets, statefulSet(t, "events", image))
		s.member(t, ns, "main-2", func(o *unstructured.Unstructured) {
			set(t, o, "events", "spec", "clusterRef", "name")
		})
		s.plugin(t, "adopt", "events", "main", "-n", ns, "--force", "--force-conflicts").want(t, 3, "",
			lines("error: etcdmember.druid.gardener.cloud/main-2 in namespace foreign belongs to StatefulSet events and not to statefulset.apps/main, so nothing was changed; if it is stale, delete it first: an EtcdMember owns nothing, so no data is lost"))
		s.wantNames(t, ns, v1alpha1.EtcdMemberResource, "main-2")

		s.in(t, ns, leases, parse(t, `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: etcdmember-events-1, labels: {app.kubernetes.io/component: etcd-member-lease, app.kubernetes.io/part-of: etcdmember-events}}}`))
		s.plugin(t, "adopt", "events", "-n", ns).want(t, 3, "",
			lines(`error: lease.coordination.k8s.io/etcdmember-events-1 in namespace foreign is no heartbeat of statefulset.apps/events, so nothing was changed: it has labels app.kubernetes.io/component="etcd-member-lease" and app.kubernetes.io/part-of="etcdmember-events"; delete it first if nobody uses it`))
		s.wantNames(t, ns, leases, "etcdmember-events-1")
	})

	t.Run("the EtcdMember of another pod", func(t *testing.T) {
		ns := s.namespace(t, "pod")
		s.in(t, ns, etcds, etcd(t, "main", 1, func(o *unstructured.Unstructured) { set(t, o, "a", "spec", "memberNamePrefix") }))
		s.member(t, ns, "a-main-0", func(o *unstructured.Unstructured) {
			set(t, o, map[string]any{"kind": "Etcd", "name": "main"}, "spec", "clusterRef")
		})
		s.plugin(t, "adopt", "main", "-n", ns).want(t, 3, "",
			lines("error: etcdmember.druid.gardener.cloud/a-main-0 in namespace pod is that of pod a-main-0 and not of pod main-0, so nothing was changed; if it is stale, delete it first: an EtcdMember owns nothing, so no data is lost"))
	})

	t.Run("an EtcdMember that is being deleted", func(t *testing.T) {
		ns := s.namespace(t, "terminating")
		s.in(t, ns, statefulSets, statefulSet(t, "main", image))
		s.member(t, ns, "main-1", func(o *unstructured.Unstructured) { o.SetFinalizers([]string{v1alpha1.FinalizerTask}) })
		if err := s.dynamic.Resource(v1alpha1.EtcdMemberResource).Namespace(ns).Delete(t.Context(), "main-1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.plugin(t, "adopt", "main", "-n", ns).want(t, 2, "",
			lines("error: can't adopt statefulset.apps/main: etcdmember.druid.gardener.cloud/main-1 in namespace terminating is being deleted; wait until it is gone, and adopt again"))
	})

	t.Run("prune", func(t *testing.T) {
		ns := s.namespace(t, "prune")
		s.in(t, ns, statefulSets, statefulSet(t, "main", image))
		s.in(t, ns, etcds, etcd(t, "events", 3))
		s.plugin(t, "adopt", "main", "events", "-n", ns).want(t, 0, lines(append(did("created", "main-0", "main-1", "main-2"), did("created", "events-0", "events-1", "events-2")...)...), "")
		// A Lease that has lost its EtcdMember goes, too; one of another cluster's EtcdMember does not.
		s.in(t, ns, leases, parse(t, `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: etcdmember-main-9, labels: {app.kubernetes.io/component: etcd-member-heartbeat, app.kubernetes.io/part-of: main}}}`))
		s.in(t, ns, leases, parse(t, `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: main-9, labels: {app.kubernetes.io/component: etcd-member-lease, app.kubernetes.io/part-of: main}}}`))
		s.scale(t, ns, statefulSets, "main", "1")
		s.plugin(t, "adopt", "main", "-n", ns).want(t, 0, lines(did("unchanged", "main-0")...), "")
		gone := func(suffix string) []string {
			return append(did("unchanged"+suffix, "main-0"),
				"etcdmember.druid.gardener.cloud/main-1 deleted"+suffix, "etcdmember.druid.gardener.cloud/main-2 deleted"+suffix,
				"lease.coordination.k8s.io/etcdmember-main-1 deleted"+suffix, "lease.coordination.k8s.io/etcdmember-main-2 deleted"+suffix, "lease.coordination.k8s.io/etcdmember-main-9 deleted"+suffix)
		}
		s.plugin(t, "adopt", "main", "-n", ns, "--prune", "--dry-run=client").want(t, 0, lines(gone(" (dry run)")...), "")
		s.plugin(t, "adopt", "main", "-n", ns, "--prune", "--dry-run=server").want(t, 0, lines(gone(" (server dry run)")...), "")
		s.plugin(t, "adopt", "main", "-n", ns, "--prune").want(t, 0, lines(gone("")...), "")
		s.wantNames(t, ns, v1alpha1.EtcdMemberResource, "events-0", "events-1", "events-2", "main-0")
		s.wantNames(t, ns, leases, "etcdmember-events-0", "etcdmember-events-1", "etcdmember-events-2", "etcdmember-main-0", "main-9")
		s.plugin(t, "adopt", "main", "-n", ns, "--prune").want(t, 0, lines(did("unchanged", "main-0")...), "")

		// Of an Etcd as well.
		s.scale(t, ns, etcds, "events", "1")
		s.plugin(t, "adopt", "events", "-n", ns, "--prune", "-o", "name").want(t, 0, lines(
			"etcdmember.druid.gardener.cloud/events-0", "lease.coordination.k8s.io/etcdmember-events-0",
			"etcdmember.druid.gardener.cloud/events-1", "etcdmember.druid.gardener.cloud/events-2",
			"lease.coordination.k8s.io/etcdmember-events-1", "lease.coordination.k8s.io/etcdmember-events-2"), "")
	})

	t.Run("prune keeps what an unfinished task needs", func(t *testing.T) {
		ns := s.namespace(t, "task")
		s.in(t, ns, statefulSets, statefulSet(t, "main", image))
		if r := s.plugin(t, "adopt", "main", "-n", ns); r.code != 0 {
			t.Fatal(r.stderr)
		}
		patch := []byte(`[{"op":"add","path":"/metadata/finalizers","value":["` + v1alpha1.FinalizerTask + `"]}]`)
		if _, err := s.dynamic.Resource(v1alpha1.EtcdMemberResource).Namespace(ns).Patch(t.Context(), "main-1", types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		s.scale(t, ns, statefulSets, "main", "1")
		s.plugin(t, "adopt", "main", "-n", ns, "--prune").want(t, 3, lines(append(did("unchanged", "main-0"),
			"etcdmember.druid.gardener.cloud/main-2 deleted", "lease.coordination.k8s.io/etcdmember-main-2 deleted")...),
			lines("error: not pruned, because an unfinished task still needs it: etcdmember.druid.gardener.cloud/main-1; see 'kubectl get etcdmembertasks.druid.gardener.cloud -n task'"))
		s.wantNames(t, ns, v1alpha1.EtcdMemberResource, "main-0", "main-1")
		s.wantNames(t, ns, leases, "etcdmember-main-0", "etcdmember-main-1")
	})

	t.Run("hibernated", func(t *testing.T) {
		ns := s.namespace(t, "hibernated")
		s.in(t, ns, etcds, etcd(t, "main", 1))
		s.plugin(t, "adopt", "main", "-n", ns).want(t, 0, lines(did("created", "main-0")...), "")
		s.scale(t, ns, etcds, "main", "0")
		s.plugin(t, "adopt", "main", "-n", ns).want(t, 0, "", lines("etcd.druid.gardener.cloud/main in namespace hibernated is hibernated (spec.replicas is 0): there is no member to adopt"))
		const will = "etcd.druid.gardener.cloud/main in namespace hibernated is hibernated (spec.replicas is 0): 1 EtcdMember will be deleted\n"
		const ask = will + "To delete all EtcdMembers of main, type main: "
		s.plugin(t, "adopt", "main", "-n", ns, "--prune").want(t, 2, "", will+lines("error: can't ask whether to delete all EtcdMembers of main, because standard input is no terminal; say it with --yes"))
		s.pluginOn(t, terminal(t, "no\n"), "adopt", "main", "-n", ns, "--prune").want(t, 3, "", ask+lines("error: not confirmed: nothing was changed"))
		s.plugin(t, "adopt", "main", "-n", ns, "--prune", "--dry-run=client").want(t, 0, lines(did("deleted (dry run)", "main-0")...), "")
		s.pluginOn(t, terminal(t, "main\n"), "adopt", "main", "-n", ns, "--prune").want(t, 0, lines(did("deleted", "main-0")...), ask)
		s.plugin(t, "adopt", "main", "-n", ns, "--prune", "--yes").want(t, 0, "", "")
	})

	t.Run("what does not look like etcd", func(t *testing.T) {
		ns := s.namespace(t, "looks")
		s.in(t, ns, statefulSets, statefulSet(t, "web", "registry.example/nginx:1"))
		s.plugin(t, "adopt", "web", "-n", ns).want(t, 3, "", lines("error: statefulset.apps/web in namespace looks does not look like etcd: none of its containers has an image or a command of that name, or etcd's ports; adopt it with --force if it is one"))
		s.plugin(t, "adopt", "web", "-n", ns, "--force").want(t, 0, lines(did("created", "web-0", "web-1", "web-2")...), "")
	})

	t.Run("bad input", func(t *testing.T) {
		ns := s.namespace(t, "bad")
		long := strings.Repeat("a", 62)
		s.in(t, ns, etcds, etcd(t, "dotted.name", 1))
		s.in(t, ns, statefulSets, statefulSet(t, long, image))
		s.in(t, ns, etcds, parse(t, `{apiVersion: druid.gardener.cloud/v1alpha1, kind: Etcd, metadata: {name: empty}}`))
		s.in(t, ns, etcds, parse(t, `{apiVersion: druid.gardener.cloud/v1alpha1, kind: Etcd, metadata: {name: wrong}, spec: {replicas: three}}`))
		forbidden := func(what, resource, group string) string {
			return what + ": " + resource + " is forbidden: User \"nobody\" cannot get resource " + group + " in the namespace \"bad\""
		}
		for _, tc := range []struct {
			args   []string
			stderr string
		}{
			{nil, "no cluster is named; see 'kubectl etcdmember adopt --help'"},
			{[]string{"none"}, "there is no Etcd and no StatefulSet none in namespace bad"},
			{[]string{"etcd/none"}, "there is no etcd.druid.gardener.cloud/none in namespace bad"},
			{[]string{"sts/none"}, "there is no statefulset.apps/none in namespace bad"},
			{[]string{"pod/none"}, `"pod/none" does not name a cluster: there is no kind of cluster "pod"; write NAME, etcd/NAME or sts/NAME`},
			{[]string{"a\x1b[2Jb"}, `"a\x1b[2Jb" does not name a cluster: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`},
			{[]string{"dotted.name"}, `can't adopt etcd.druid.gardener.cloud/dotted.name in namespace bad: its name would be a label's value and a part of its pods' names: must not contain dots`},
			{[]string{long}, `can't adopt statefulset.apps/` + long + ` in namespace bad: "` + long + `-0" can't be the name of an EtcdMember: must be no more than 63 characters`},
			{[]string{"empty"}, "can't understand etcd.druid.gardener.cloud/empty in namespace bad: it has no spec.replicas"},
			{[]string{"wrong"}, "can't understand etcd.druid.gardener.cloud/wrong in namespace bad: .spec.replicas accessor error: three is of the type string, expected int64"},
			{[]string{"main", "--dry-run=perhaps"}, `invalid argument "perhaps" for "--dry-run" flag: a value must be set: "none", "client" or "server"; see 'kubectl etcdmember adopt --help'`},
			{[]string{"main", "--field-manager="}, "--field-manager is empty; leave it out or name a manager"},
			{[]string{"etcd/main", "--as=nobody"}, forbidden("can't read etcd.druid.gardener.cloud/main in namespace bad", `etcds.druid.gardener.cloud "main"`, `"etcds" in API group "druid.gardener.cloud"`) + "; ask an administrator for the right, or choose another user with --context or --as"},
			{[]string{"main", "--as=nobody"}, forbidden("can't tell whether there is an Etcd main in namespace bad", `etcds.druid.gardener.cloud "main"`, `"etcds" in API group "druid.gardener.cloud"`) + "; write sts/main if it is a StatefulSet"},
			{[]string{"sts/main", "--as=nobody"}, forbidden("can't read statefulset.apps/main in namespace bad", `statefulsets.apps "main"`, `"statefulsets" in API group "apps"`) + "; ask an administrator for the right, or choose another user with --context or --as"},
		} {
			t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
				s.plugin(t, append([]string{"adopt", "-n", ns}, tc.args...)...).want(t, 2, "", lines("error: "+tc.stderr))
			})
		}
	})

	t.Run("completion", func(t *testing.T) {
		ns := s.namespace(t, "completion")
		s.in(t, ns, statefulSets, statefulSet(t, "sts-10", image))
		s.in(t, ns, statefulSets, statefulSet(t, "sts-9", image))
		s.in(t, ns, statefulSets, statefulSet(t, "web", "registry.example/nginx:1"))
		s.in(t, ns, etcds, etcd(t, "etcd-main", 3))
		s.member(t, ns, "main-0")
		const end = "Completion ended with directive: ShellCompDirectiveNoFileComp\n"
		for _, cmd := range []string{"adopt", "status"} {
			s.plugin(t, "__complete", cmd, "-n", ns, "").want(t, 0, lines("etcd-main", "main", "sts-9", "sts-10", ":4"), end)
			s.plugin(t, "__complete", cmd, "-n", ns, "main", "").want(t, 0, lines("etcd-main", "sts-9", "sts-10", ":4"), end)
			s.plugin(t, "__complete", cmd, "-n", ns, "etcd/").want(t, 0, lines("etcd/etcd-main", ":4"), end)
			s.plugin(t, "__complete", cmd, "-n", ns, "sts/").want(t, 0, lines("sts/main", "sts/sts-9", "sts/sts-10", ":4"), end)
			s.plugin(t, "__complete", cmd, "-n", ns, "pod/").want(t, 0, lines(":4"), end)
			s.plugin(t, "__complete", cmd, "-n", ns, "--as=nobody", "").want(t, 0, lines(":4"), end)
		}
		s.plugin(t, "__complete", "crd", "install", "etcdmembers", "").want(t, 0, lines("etcdmembertasks", ":4"), end)
		s.plugin(t, "__complete", "adopt", "--dry-run=").want(t, 0, lines("none", "client", "server", ":4"), end)
	})
}

// TestAdoptedMembersGoWithTheEtcd has a real garbage collector: members of an Etcd go with it, with their Leases, and
// members of a StatefulSet outlive it, because a volume roll deletes and makes it anew.
func TestAdoptedMembersGoWithTheEtcd(t *testing.T) {
	s := startAPIServer(t)
	crdOfEtcds, err := os.ReadFile("testdata/etcds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.create(t, crds, parse(t, string(crdOfEtcds)), "test")
	if r := s.plugin(t, "crd", "install"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	apiserver.StartProgram(t, apiserver.Binary(t, "k8s", "k8s"), "kube-controller-manager", "--kubeconfig="+s.kubeconfig, "--controllers=garbage-collector-controller",
		"--leader-elect=false", "--secure-port=0", "--use-service-account-credentials=false")
	owner := s.in(t, "default", etcds, etcd(t, "main", 3))
	s.in(t, "default", statefulSets, statefulSet(t, "events", "registry.example/etcd:v3.7.3"))
	if r := s.plugin(t, "adopt", "etcd/main", "sts/events"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	background := metav1.DeletePropagationBackground
	if err := s.dynamic.Resource(etcds).Namespace("default").Delete(t.Context(), owner.GetName(), metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	if err := s.dynamic.Resource(statefulSets).Namespace("default").Delete(t.Context(), "events", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	members, heartbeats := []string{"events-0", "events-1", "events-2"}, []string{"etcdmember-events-0", "etcdmember-events-1", "etcdmember-events-2"}
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return cmp.Equal(members, s.names(t, "default", v1alpha1.EtcdMemberResource)) && cmp.Equal(heartbeats, s.names(t, "default", leases)), nil
	}); err != nil {
		t.Fatalf("EtcdMembers %q and Leases %q remain, want %q and %q", s.names(t, "default", v1alpha1.EtcdMemberResource), s.names(t, "default", leases), members, heartbeats)
	}
	// They stay: the garbage collector, which has just collected, has nothing against them.
	time.Sleep(2 * time.Second)
	s.wantNames(t, "default", v1alpha1.EtcdMemberResource, members...)
	s.wantNames(t, "default", leases, heartbeats...)
}
