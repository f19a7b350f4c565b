package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// loadable are the kinds of captured objects, in the order in which they are created: owners, and what is referred to by
// UID, first.
var loadable = []struct {
	kind       string
	resource   schema.GroupVersionResource
	namespaced bool
}{
	{"Node", schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, false},
	{"StorageClass", schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}, false},
	{"Etcd", etcds, true},
	{"EtcdOpsTask", opsTasks, true},
	{"StatefulSet", statefulSets, true},
	{"PersistentVolumeClaim", claims, true},
	{"PersistentVolume", schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}, false},
	{"Lease", leases, true},
	{"Pod", pods, true},
}

var (
	opsTasks = schema.GroupVersionResource{Group: "druid.gardener.cloud", Version: "v1alpha1", Resource: "etcdopstasks"}
	pods     = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	claims   = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
)

// installDruidCRDs installs druid's kinds, and none of ours.
func (s *apiServer) installDruidCRDs(t *testing.T) {
	t.Helper()
	for _, def := range documents(t, "testdata/druid/crds.yaml") {
		s.create(t, crds, def, "test")
	}
	for _, r := range []schema.GroupVersionResource{etcds, opsTasks} {
		if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			_, err := s.dynamic.Resource(r).List(ctx, metav1.ListOptions{})
			return err == nil, nil
		}); err != nil {
			t.Fatalf("%s are not served: %v", r.Resource, err)
		}
	}
}

// documents reads all objects of a file.
func documents(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, text := range strings.Split(string(data), "\n---\n") {
		objects = append(objects, parse(t, text))
	}
	return objects
}

// dump are captured objects that are about to be loaded.
type dump []*unstructured.Unstructured

// druidStates are the names of the captured states.
func druidStates(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(druidDir("*", "objects.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no captured states: %v", err)
	}
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	return names
}

func druidDir(elements ...string) string {
	return filepath.Join(append([]string{"..", "..", "pkg", "cli", "testdata", "druid"}, elements...)...)
}

// readDump reads a state as if it had been captured at another time in another namespace.
func readDump(t *testing.T, state, namespace string, at time.Time) dump {
	t.Helper()
	d := dump(documents(t, druidDir(state, "objects.yaml")))
	was, shift := d.namespace(t), at.Sub(d.newest(t))
	for _, obj := range d {
		obj.Object = rewrite(obj.Object, func(text string) string {
			if then, err := time.Parse(time.RFC3339, text); err == nil {
				// As precise as it was: Kubernetes' own times have whole seconds, and Leases' have more.
				layout := time.RFC3339
				if strings.Contains(text, ".") {
					layout = metav1.RFC3339Micro
				}
				return then.Add(shift).UTC().Format(layout)
			}
			return strings.ReplaceAll(text, was, namespace)
		}).(map[string]any)
	}
	return d
}

// namespace is the one that the objects are of.
func (d dump) namespace(t *testing.T) string {
	t.Helper()
	for _, obj := range d {
		if obj.GetKind() == "Etcd" {
			return obj.GetNamespace()
		}
	}
	t.Fatal("there is no Etcd")
	return ""
}

// newest is the newest time in the objects that is of the past.
func (d dump) newest(t *testing.T) time.Time {
	t.Helper()
	var newest time.Time
	var walk func(key string, value any)
	walk = func(key string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for k, inner := range v {
				walk(k, inner)
			}
		case []any:
			for _, inner := range v {
				walk(key, inner)
			}
		case string:
			// A deletionTimestamp is when something is to be gone by.
			if at, err := time.Parse(time.RFC3339, v); err == nil && key != "deletionTimestamp" && at.After(newest) {
				newest = at
			}
		}
	}
	for _, obj := range d {
		walk("", obj.Object)
	}
	return newest
}

// rewrite applies a function to every string in a value.
func rewrite(value any, f func(string) string) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, inner := range v {
			out[k] = rewrite(inner, f)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = rewrite(inner, f)
		}
		return out
	case string:
		return f(v)
	default:
		return v
	}
}

// without is the objects but those of a kind.
func (d dump) without(kind string) dump {
	return slices.DeleteFunc(slices.Clone(d), func(obj *unstructured.Unstructured) bool { return obj.GetKind() == kind })
}

// write writes the objects to a file.
func (d dump) write(t *testing.T) string {
	t.Helper()
	var parts []string
	for _, obj := range d {
		text, err := yaml.Marshal(obj.Object)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, string(text))
	}
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(parts, "---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// load creates the objects as a cluster would hold them: with UIDs of its own, which owners and volumes then refer to, with
// statuses that are written by themselves, the same generations, and being deleted where they were. What is not of the
// namespace is removed again with the test: all states have a node of the same name.
func (s *apiServer) load(t *testing.T, d dump) {
	t.Helper()
	// druid's two containers have ports of the same name, of which the server warns each time.
	cfg := rest.CopyConfig(s.config)
	cfg.WarningHandler = rest.NoWarnings{}
	quiet, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s = &apiServer{dynamic: quiet}
	uids := map[string]string{}
	for _, l := range loadable {
		for _, original := range d {
			if original.GetKind() != l.kind {
				continue
			}
			obj := original.DeepCopy()
			obj.Object = rewrite(obj.Object, func(text string) string {
				if uid, ok := uids[text]; ok {
					return uid
				}
				return text
			}).(map[string]any)
			obj.SetUID("")
			obj.SetDeletionTimestamp(nil)
			obj.SetDeletionGracePeriodSeconds(nil)
			client := s.dynamic.Resource(l.resource).Namespace(obj.GetNamespace())
			created := s.atGeneration(t, l.resource, obj, original.GetGeneration())
			uids[string(original.GetUID())] = string(created.GetUID())
			if !l.namespaced {
				t.Cleanup(func() { s.removeNow(t, l.resource, obj.GetName()) })
			}
			if status, ok := obj.Object["status"].(map[string]any); ok {
				// What the server has put there itself may not be changed: a pod's class of service.
				merged, _, _ := unstructured.NestedMap(created.Object, "status")
				if merged == nil {
					merged = map[string]any{}
				}
				for k, v := range status {
					merged[k] = v
				}
				created.Object["status"] = merged
				var err error
				if created, err = client.UpdateStatus(t.Context(), created, metav1.UpdateOptions{FieldManager: "test"}); err != nil {
					t.Fatalf("%s %s: status: %v", l.kind, obj.GetName(), err)
				}
			}
			if original.GetDeletionTimestamp() != nil {
				s.deleting(t, l.resource, created, original.GetDeletionGracePeriodSeconds())
			}
		}
	}
}

// atGeneration creates an object, and changes the number of its replicas until it is at a generation and has the right one.
func (s *apiServer) atGeneration(t *testing.T, r schema.GroupVersionResource, obj *unstructured.Unstructured, generation int64) *unstructured.Unstructured {
	t.Helper()
	client := s.dynamic.Resource(r).Namespace(obj.GetNamespace())
	bare := obj.DeepCopy()
	delete(bare.Object, "status")
	replicas, scaled, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas")
	if scaled {
		set(t, bare, replicas+generation-1, "spec", "replicas")
	}
	created, err := client.Create(t.Context(), bare, metav1.CreateOptions{FieldManager: "test"})
	if err != nil {
		t.Fatalf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
	for scaled && created.GetGeneration() < generation {
		set(t, created, replicas+generation-1-created.GetGeneration(), "spec", "replicas")
		if created, err = client.Update(t.Context(), created, metav1.UpdateOptions{FieldManager: "test"}); err != nil {
			t.Fatalf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}
	return created
}

// deleting deletes an object that then stays: by its finalizers, or as a pod that runs on a node until its kubelet is done.
func (s *apiServer) deleting(t *testing.T, r schema.GroupVersionResource, obj *unstructured.Unstructured, grace *int64) {
	t.Helper()
	client := s.dynamic.Resource(r).Namespace(obj.GetNamespace())
	if err := client.Delete(t.Context(), obj.GetName(), metav1.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
		t.Fatal(err)
	}
	if left, err := client.Get(t.Context(), obj.GetName(), metav1.GetOptions{}); err != nil || left.GetDeletionTimestamp() == nil {
		t.Fatalf("%s %s is not being deleted: %v", obj.GetKind(), obj.GetName(), err)
	}
}

// removeNow removes an object that nobody else would remove.
func (s *apiServer) removeNow(t *testing.T, r schema.GroupVersionResource, name string) {
	t.Helper()
	// The test's own context has ended when what it has created is removed.
	ctx := context.Background()
	if _, err := s.dynamic.Resource(r).Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.dynamic.Resource(r).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}
