package e2e

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/etcdmember/kubectl-etcdmember/config/crd"
	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/test/apiserver"
)

const (
	membersCRD = "etcdmembers.druid.gardener.cloud"
	tasksCRD   = "etcdmembertasks.druid.gardener.cloud"

	membersLine = "customresourcedefinition.apiextensions.k8s.io/" + membersCRD
	tasksLine   = "customresourcedefinition.apiextensions.k8s.io/" + tasksCRD
)

var (
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// builtin is a CustomResourceDefinition as it is in the repository.
func builtin(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	plural, group, _ := strings.Cut(name, ".")
	data, err := crd.Files.ReadFile(group + "_" + plural + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// foreign is a CustomResourceDefinition of that name as another project would ship it.
func foreign(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	obj := builtin(t, name)
	obj.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm"})
	obj.SetAnnotations(map[string]string{"meta.helm.sh/release-name": "etcd-druid\x1b[31m"})
	return obj
}

// create creates a cluster-wide object as a field manager.
func (s *apiServer) create(t *testing.T, r schema.GroupVersionResource, obj *unstructured.Unstructured, manager string) {
	t.Helper()
	if _, err := s.dynamic.Resource(r).Create(t.Context(), obj, metav1.CreateOptions{FieldManager: manager}); err != nil {
		t.Fatal(err)
	}
}

// namespace creates a namespace for a test. There are no controllers that would ever delete it.
func (s *apiServer) namespace(t *testing.T, name string) string {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	obj.SetName(name)
	s.create(t, namespaces, obj, "test")
	return name
}

// clean removes all of our CustomResourceDefinitions and whatever they have of objects.
func (s *apiServer) clean(t *testing.T) {
	t.Helper()
	for _, name := range []string{membersCRD, tasksCRD} {
		if err := s.dynamic.Resource(crds).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		s.gone(t, name)
	}
}

func (s *apiServer) gone(t *testing.T, name string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := s.dynamic.Resource(crds).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		t.Fatalf("%s is not gone: %v", name, err)
	}
}

// installed returns a CustomResourceDefinition as the API server has it, nil if it has none.
func (s *apiServer) installed(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	obj, err := s.dynamic.Resource(crds).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// patch changes a CustomResourceDefinition as a field manager.
func (s *apiServer) patch(t *testing.T, name, manager, patch string) {
	t.Helper()
	if _, err := s.dynamic.Resource(crds).Patch(t.Context(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager}); err != nil {
		t.Fatal(err)
	}
}

// member creates an EtcdMember.
func (s *apiServer) member(t *testing.T, namespace, name string, change ...func(*unstructured.Unstructured)) {
	t.Helper()
	obj := newMember(namespace, name)
	for _, f := range change {
		f(obj)
	}
	if _, err := s.dynamic.Resource(v1alpha1.EtcdMemberResource).Namespace(namespace).Create(t.Context(), obj, metav1.CreateOptions{FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
}

// newMember is an EtcdMember of StatefulSet main.
func newMember(namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"clusterRef": map[string]any{"kind": "StatefulSet", "name": "main"}, "podName": name},
	}}
	obj.SetGroupVersionKind(v1alpha1.EtcdMemberKind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

func TestCRD(t *testing.T) {
	s := startAPIServer(t)
	install := func(t *testing.T) {
		t.Helper()
		if r := s.plugin(t, "crd", "install"); r.code != 0 {
			t.Fatalf("can't install: %s", r.stderr)
		}
	}

	t.Run("nothing is installed", func(t *testing.T) {
		r := s.plugin(t, "crd", "diff")
		if r.code != 1 || r.stderr != "" || !strings.HasPrefix(r.stdout, lines("--- /dev/null", "+++ built-in/"+membersCRD)) || !strings.Contains(r.stdout, lines("--- /dev/null", "+++ built-in/"+tasksCRD)) {
			t.Errorf("crd diff: %+.400v", r)
		}
		s.plugin(t, "crd", "uninstall").want(t, 0, "", lines(membersLine+" is not installed", tasksLine+" is not installed"))
		s.plugin(t, "crd", "install", "--dry-run=client").want(t, 0, lines(membersLine+" created (dry run)", tasksLine+" created (dry run)"), "")
		s.plugin(t, "crd", "install", "--dry-run=server").want(t, 0, lines(membersLine+" created (server dry run)", tasksLine+" created (server dry run)"), "")
		s.plugin(t, "crd", "install", "--dry-run=server", "-o", "name").want(t, 0, lines(membersLine, tasksLine), "")
		if s.installed(t, membersCRD) != nil {
			t.Error("a dry run installs")
		}
	})

	t.Run("install is idempotent, and then there is no difference", func(t *testing.T) {
		defer s.clean(t)
		s.plugin(t, "crd", "install", "etcdmembers").want(t, 0, lines(membersLine+" created"), "")
		// It is served by then: no waiting here.
		s.member(t, "default", "main-0")
		s.plugin(t, "crd", "install").want(t, 0, lines(membersLine+" unchanged", tasksLine+" created"), "")
		before := s.installed(t, membersCRD).GetResourceVersion()
		s.plugin(t, "crd", "install").want(t, 0, lines(membersLine+" unchanged", tasksLine+" unchanged"), "")
		if after := s.installed(t, membersCRD).GetResourceVersion(); after != before {
			t.Errorf("resourceVersion %s became %s by an installation that changes nothing", before, after)
		}
		s.plugin(t, "crd", "diff").want(t, 0, "", "")
	})

	t.Run("the output is what the API server holds", func(t *testing.T) {
		defer s.clean(t)
		r := s.plugin(t, "crd", "install", "-o", "json")
		var list unstructured.UnstructuredList
		if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || r.code != 0 || len(list.Items) != 2 || list.Items[0].GetUID() != s.installed(t, membersCRD).GetUID() {
			t.Errorf("crd install -o json: %v, %+.400v", err, r)
		}
	})

	t.Run("what crd print prints can be applied by others, and is ours", func(t *testing.T) {
		defer s.clean(t)
		r := s.plugin(t, "crd", "print")
		docs := yaml.NewYAMLOrJSONDecoder(strings.NewReader(r.stdout), 4096)
		n := 0
		for ; ; n++ {
			obj := &unstructured.Unstructured{}
			if err := docs.Decode(&obj.Object); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			s.create(t, crds, obj, "kubectl-client-side-apply")
		}
		if n != 2 {
			t.Errorf("%d documents, want 2", n)
		}
		s.plugin(t, "crd", "diff").want(t, 0, "", "")
		s.plugin(t, "crd", "install").want(t, 0, lines(membersLine+" unchanged", tasksLine+" unchanged"), "")
	})

	t.Run("labels of others stay", func(t *testing.T) {
		defer s.clean(t)
		install(t)
		s.patch(t, membersCRD, "kubectl-label", `[{"op":"add","path":"/metadata/labels/team","value":"etcd"}]`)
		s.plugin(t, "crd", "diff").want(t, 0, "", "")
		s.plugin(t, "crd", "install", "etcdmembers").want(t, 0, lines(membersLine+" unchanged"), "")
		if got := s.installed(t, membersCRD).GetLabels()["team"]; got != "etcd" {
			t.Errorf("label team=%q, want etcd", got)
		}
	})

	t.Run("an older version of ours is upgraded", func(t *testing.T) {
		defer s.clean(t)
		older := builtin(t, membersCRD)
		versions, _, _ := unstructured.NestedSlice(older.Object, "spec", "versions")
		delete(versions[0].(map[string]any), "additionalPrinterColumns")
		if err := unstructured.SetNestedSlice(older.Object, versions, "spec", "versions"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.dynamic.Resource(crds).Apply(t.Context(), membersCRD, older, metav1.ApplyOptions{FieldManager: v1alpha1.FieldManagerCLI}); err != nil {
			t.Fatal(err)
		}
		if r := s.plugin(t, "crd", "diff", "etcdmembers"); r.code != 1 || r.stderr != "" || !strings.Contains(r.stdout, "\n+      name: Cluster\n") {
			t.Errorf("crd diff: %+v", r)
		}
		s.plugin(t, "crd", "install", "--dry-run=client", "etcdmembers").want(t, 0, lines(membersLine+" configured (dry run)"), "")
		s.plugin(t, "crd", "install", "--dry-run=server", "etcdmembers").want(t, 0, lines(membersLine+" configured (server dry run)"), "")
		s.plugin(t, "crd", "install", "etcdmembers").want(t, 0, lines(membersLine+" configured"), "")
		s.plugin(t, "crd", "diff", "etcdmembers").want(t, 0, "", "")
	})

	t.Run("ours that someone else has changed", func(t *testing.T) {
		defer s.clean(t)
		install(t)
		s.patch(t, membersCRD, "kubectl-edit", `[{"op":"replace","path":"/spec/versions/0/additionalPrinterColumns/0/name","value":"Changed"}]`)
		s.plugin(t, "crd", "install").want(t, 3, "", lines("error: "+membersLine+" was this plugin's and has been changed by someone else, so it is left as it is, and nothing was changed: "+
			"its versions were written by kubectl-edit, and it has label app.kubernetes.io/part-of=kubectl-etcdmember; see 'kubectl etcdmember crd diff', and take it back with --force-conflicts only if they agree"))
		s.plugin(t, "crd", "diff").want(t, 1, lines(
			"--- cluster/"+membersCRD, "+++ built-in/"+membersCRD, "@@ -22,7 +22,7 @@",
			"   versions:", "   - additionalPrinterColumns:", "     - jsonPath: .spec.clusterRef.name", "-      name: Changed", "+      name: Cluster", "       type: string", "     - jsonPath: .status.state", "       name: State"),
			lines("warning: "+membersLine+" is not as this plugin made it: its versions were written by kubectl-edit, and it has label app.kubernetes.io/part-of=kubectl-etcdmember"))
		s.plugin(t, "crd", "uninstall", "--yes").want(t, 3, "", lines("error: "+membersLine+" is not this plugin's, so it is not deleted, and nothing was changed: "+
			"its versions were written by kubectl-edit, and it has label app.kubernetes.io/part-of=kubectl-etcdmember; let its owner remove it"))
		s.plugin(t, "crd", "install", "--force-conflicts").want(t, 0, lines(membersLine+" configured", tasksLine+" unchanged"), "")
		s.plugin(t, "crd", "diff").want(t, 0, "", "")
	})

	t.Run("a newer version of ours", func(t *testing.T) {
		defer s.clean(t)
		install(t)
		newer := builtin(t, membersCRD)
		newer.SetAnnotations(map[string]string{"etcdmember.github.io/schema-version": "99"})
		if _, err := s.dynamic.Resource(crds).Apply(t.Context(), membersCRD, newer, metav1.ApplyOptions{FieldManager: v1alpha1.FieldManagerCLI, Force: true}); err != nil {
			t.Fatal(err)
		}
		s.plugin(t, "crd", "install").want(t, 3, "", lines("error: "+membersLine+" has schema version 99 and this plugin has 1, so it is left as it is, and nothing was changed; "+
			"upgrade the plugin, or see 'kubectl etcdmember crd diff' and go back with --allow-downgrade"))
		s.plugin(t, "crd", "install", "--allow-downgrade").want(t, 0, lines(membersLine+" configured", tasksLine+" unchanged"), "")
	})

	t.Run("someone else's", func(t *testing.T) {
		defer s.clean(t)
		s.create(t, crds, foreign(t, tasksCRD), "helm")
		before := s.installed(t, tasksCRD)
		const origin = "its versions were written by helm, and it has label app.kubernetes.io/managed-by=Helm and annotation meta.helm.sh/release-name=etcd-druid^[[31m"
		for _, args := range [][]string{{"crd", "install"}, {"crd", "install", "--force-conflicts", "--allow-downgrade"}, {"crd", "install", "--dry-run=client"}} {
			s.plugin(t, args...).want(t, 3, "", lines("error: "+tasksLine+" is not this plugin's, so it is left as it is, and nothing was changed: "+origin+"; "+
				"the plugin reads its objects as far as it knows their fields, see 'kubectl etcdmember crd diff'; to have ours instead, let its owner remove it first"))
		}
		s.plugin(t, "crd", "uninstall", "--yes").want(t, 3, "", lines("error: "+tasksLine+" is not this plugin's, so it is not deleted, and nothing was changed: "+origin+"; let its owner remove it"))
		r := s.plugin(t, "crd", "diff", "etcdmembertasks")
		if r.code != 1 || r.stderr != lines("warning: "+tasksLine+" is not as this plugin made it: "+origin) || !strings.Contains(r.stdout, "+    etcdmember.github.io/schema-version: \"1\"\n") {
			t.Errorf("crd diff: %+v", r)
		}
		if s.installed(t, membersCRD) != nil {
			t.Error("the other one was installed, although not all could be")
		}
		if after := s.installed(t, tasksCRD); after.GetUID() != before.GetUID() || after.GetGeneration() != before.GetGeneration() {
			t.Error("a foreign CustomResourceDefinition was changed")
		}
		// The other one alone can be had.
		s.plugin(t, "crd", "install", "etcdmembers").want(t, 0, lines(membersLine+" created"), "")
	})

	t.Run("someone else has one of its names", func(t *testing.T) {
		other := builtin(t, membersCRD)
		for field, value := range map[string]string{"plural": "others", "singular": "other", "kind": "Other", "listKind": "OtherList"} {
			if err := unstructured.SetNestedField(other.Object, value, "spec", "names", field); err != nil {
				t.Fatal(err)
			}
		}
		other.SetName("others.druid.gardener.cloud")
		s.create(t, crds, other, "other")
		defer func() {
			s.clean(t) // first: ours would be established in the moment in which the other goes
			if err := s.dynamic.Resource(crds).Delete(t.Context(), other.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			s.gone(t, other.GetName())
		}()
		if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			_, err := s.dynamic.Resource(schema.GroupVersionResource{Group: "druid.gardener.cloud", Version: "v1alpha1", Resource: "others"}).List(ctx, metav1.ListOptions{})
			return err == nil, nil
		}); err != nil {
			t.Fatal(err)
		}
		s.plugin(t, "crd", "install", "etcdmembers").want(t, 2, lines(membersLine+" created"),
			lines("error: "+membersLine+" is installed and can't be served, because another CustomResourceDefinition has one of its names: \"edm\" is already in use"))
		s.plugin(t, "crd", "uninstall", "etcdmembers", "--yes").want(t, 2, "",
			lines("error: can't tell whether "+membersLine+" has objects, because the API server does not serve them; see 'kubectl describe crd "+membersCRD+"'"))
	})

	t.Run("uninstall refuses while there are objects", func(t *testing.T) {
		defer s.clean(t)
		install(t)
		s.namespace(t, "b")
		s.namespace(t, "a")
		s.member(t, "b", "main-0")
		s.member(t, "a", "main-0")
		s.member(t, "a", "main-1")
		s.plugin(t, "crd", "uninstall", "--yes").want(t, 3, "", lines("error: "+membersLine+" still has 3 objects, in namespaces a (2) and b (1), which would be deleted with it, so nothing was changed; "+
			"see 'kubectl get "+membersCRD+" -A', and delete them first"))
		if s.installed(t, tasksCRD) == nil {
			t.Error("the other one was deleted, although not all could be")
		}
	})

	t.Run("uninstall refuses an object that comes while it asks", func(t *testing.T) {
		defer s.clean(t)
		install(t)
		user, program := openTerminal(t)
		r := invocation{kubeconfig: s.kubeconfig, in: program, onStderr: func(text string) {
			if strings.Contains(text, "type test: ") {
				s.member(t, "default", "late-0")
				if _, err := user.WriteString(contextName + "\n"); err != nil {
					t.Error(err)
				}
			}
		}}.run(t, "crd", "uninstall")
		if r.code != 3 || !strings.Contains(r.stderr, "still has 1 object, in namespace default (1)") {
			t.Errorf("crd uninstall: %+v", r)
		}
	})

	t.Run("uninstall asks", func(t *testing.T) {
		defer s.clean(t)
		install(t)
		host := s.config.Host
		will := []string{
			membersLine + " will be deleted from the cluster of context test (" + host + ")",
			tasksLine + " will be deleted from the cluster of context test (" + host + ")",
		}
		const ask = "To delete 2 CustomResourceDefinitions, type test: "
		s.plugin(t, "crd", "uninstall").want(t, 2, "", lines(append(will, "error: can't ask whether to delete 2 CustomResourceDefinitions, because standard input is no terminal; say it with --yes")...))
		s.pluginOn(t, terminal(t, "y\n"), "crd", "uninstall").want(t, 3, "", lines(append(will, ask+"error: not confirmed: nothing was changed")...))
		s.plugin(t, "crd", "uninstall", "--dry-run=client").want(t, 0, lines(membersLine+" deleted (dry run)", tasksLine+" deleted (dry run)"), "")
		s.plugin(t, "crd", "uninstall", "--dry-run=server").want(t, 0, lines(membersLine+" deleted (server dry run)", tasksLine+" deleted (server dry run)"), "")
		s.pluginOn(t, terminal(t, "test\n"), "crd", "uninstall").want(t, 0, lines(membersLine+" deleted", tasksLine+" deleted"), strings.Join(will, "\n")+"\n"+ask)
		if s.installed(t, membersCRD) != nil || s.installed(t, tasksCRD) != nil {
			t.Error("not all are gone")
		}
	})

	t.Run("one that can't go, and time runs out", func(t *testing.T) {
		defer s.clean(t)
		install(t)
		s.member(t, "default", "held-0", func(o *unstructured.Unstructured) { o.SetFinalizers([]string{v1alpha1.FinalizerTask}) })
		if err := s.dynamic.Resource(crds).Delete(t.Context(), membersCRD, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.plugin(t, "crd", "install", "etcdmembers").want(t, 2, "", lines("error: can't install "+membersLine+": it is being deleted; wait until it is gone, see 'kubectl get crd "+membersCRD+"'"))
		r := s.plugin(t, "crd", "uninstall", "etcdmembers", "--yes", "--timeout=300ms")
		if r.code != 124 || !strings.Contains(r.stderr, membersLine+" is still being deleted after 300ms: ") {
			t.Errorf("crd uninstall: %+v", r)
		}
		patch := []byte(`[{"op":"remove","path":"/metadata/finalizers"}]`)
		if _, err := s.dynamic.Resource(v1alpha1.EtcdMemberResource).Namespace("default").Patch(t.Context(), "held-0", types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		s.gone(t, membersCRD)
		s.plugin(t, "crd", "install", "etcdmembers", "--timeout=1ns").want(t, 124, lines(membersLine+" created"),
			lines("error: "+membersLine+" is installed and not served after 1ns: the API server has not said why; wait for it with 'kubectl wait --for=condition=Established crd/"+membersCRD+"'"))
	})

	t.Run("just enough rights, and not enough", func(t *testing.T) {
		defer s.clean(t)
		allow := func(user string, verbs ...any) {
			role := parse(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, rules: [{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions]}]}`)
			role.SetName(user)
			role.Object["rules"].([]any)[0].(map[string]any)["verbs"] = verbs
			s.create(t, clusterRoles, role, "test")
			binding := parse(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: `+user+`},
				subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: `+user+`}]}`)
			binding.SetName(user)
			s.create(t, roleBindings, binding, "test")
		}
		allow("reader", "get")
		allow("installer", "get", "create", "patch")
		allow("uninstaller", "get", "delete")
		if r := s.plugin(t, "crd", "diff", "--as=reader"); r.code != 1 || r.stderr != "" {
			t.Errorf("crd diff by a reader: %+.300v", r)
		}
		const hint = "; ask an administrator for the right, or choose another user with --context or --as"
		s.plugin(t, "crd", "install", "--as=reader").want(t, 2, "", lines("error: can't apply "+membersLine+": customresourcedefinitions.apiextensions.k8s.io \""+membersCRD+"\" is forbidden: "+
			"User \"reader\" cannot patch resource \"customresourcedefinitions\" in API group \"apiextensions.k8s.io\" at the cluster scope"+hint))
		s.plugin(t, "crd", "install", "--as=installer").want(t, 0, lines(membersLine+" created", tasksLine+" created"), "")
		s.plugin(t, "crd", "uninstall", "--yes", "--as=uninstaller").want(t, 2, "", lines("error: can't list "+membersCRD+" in all namespaces, to see whether any is left: "+membersCRD+" is forbidden: "+
			"User \"uninstaller\" cannot list resource \"etcdmembers\" in API group \"druid.gardener.cloud\" at the cluster scope"+hint))
		if s.installed(t, membersCRD) == nil {
			t.Error("it was deleted, although nobody knows whether it has objects")
		}
	})

	t.Run("forbidden", func(t *testing.T) {
		for _, args := range [][]string{{"crd", "diff"}, {"crd", "install"}, {"crd", "uninstall", "--yes"}} {
			s.plugin(t, append(args, "--as=nobody")...).want(t, 2, "", lines("error: can't read "+membersLine+": customresourcedefinitions.apiextensions.k8s.io \""+membersCRD+"\" is forbidden: "+
				"User \"nobody\" cannot get resource \"customresourcedefinitions\" in API group \"apiextensions.k8s.io\" at the cluster scope; "+
				"ask an administrator for the right, or choose another user with --context or --as"))
		}
	})
}

func TestCRDBadInput(t *testing.T) {
	dir := t.TempDir()
	nowhere := filepath.Join(dir, "nowhere")
	port := apiserver.FreePort(t)
	if err := os.WriteFile(nowhere, []byte("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: \"https://"+port+"\"}}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := "error: can't read " + membersLine + ": Get \"https://" + port + "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + membersCRD + "\": dial tcp " + port +
		": connect: connection refused; is the cluster up, and is this the right --context?"
	for _, tc := range []struct {
		args   []string
		stderr string
	}{
		{[]string{"crd", "install"}, refused},
		{[]string{"crd", "uninstall", "--yes"}, refused},
		{[]string{"crd", "diff"}, refused},
		{[]string{"crd", "install", "--context=none"}, "error: can't find out how to reach a cluster: context \"none\" does not exist; see --kubeconfig and --context, or read files with -f"},
		{[]string{"crd", "install", "--dry-run"}, "error: invalid argument \"unchanged\" for \"--dry-run\" flag: a value must be set: \"none\", \"client\" or \"server\"; see 'kubectl etcdmember crd install --help'"},
		{[]string{"crd", "install", "--dry-run=maybe"}, "error: invalid argument \"maybe\" for \"--dry-run\" flag: a value must be set: \"none\", \"client\" or \"server\"; see 'kubectl etcdmember crd install --help'"},
		{[]string{"crd", "install", "--timeout=-1s"}, "error: --timeout is -1s; it can't be negative"},
		{[]string{"crd", "uninstall", "--timeout=-1s"}, "error: --timeout is -1s; it can't be negative"},
		{[]string{"crd", "install", "--timeout=soon"}, "error: invalid argument \"soon\" for \"--timeout\" flag: must be a duration like \"30s\" or \"5m\"; see 'kubectl etcdmember crd install --help'"},
		{[]string{"crd", "install", "--field-manager="}, "error: --field-manager is empty; leave it out or name a manager"},
		{[]string{"crd", "install", "--nonsense"}, "error: unknown flag: --nonsense; see 'kubectl etcdmember crd install --help'"},
		{[]string{"crd", "install", "-o", "nonsense"}, "error: unable to match a printer suitable for the output format \"nonsense\", allowed formats are: go-template,go-template-file,json,jsonpath,jsonpath-as-json,jsonpath-file,kyaml,name,template,templatefile,yaml"},
		{[]string{"crd", "uninstall", "-o", "json"}, "error: unknown output format \"json\"; --output may be name"},
		{[]string{"crd", "print", "-o", "json\x1b[2J"}, "error: unknown output format \"json\\x1b[2J\"; --output may be yaml or json"},
		{[]string{"crd", "install", "etcds\x1b[2J"}, "error: there is no CustomResourceDefinition \"etcds\\x1b[2J\" in this plugin; it has etcdmembers and etcdmembertasks"},
		{[]string{"crd", "nonsense"}, "error: unknown command \"nonsense\" for \"kubectl etcdmember crd\""},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			invocation{kubeconfig: nowhere}.run(t, tc.args...).want(t, 2, "", lines(tc.stderr))
		})
	}
	t.Run("no kubeconfig", func(t *testing.T) {
		t.Setenv("KUBECONFIG", "")
		r := invocation{kubeconfig: filepath.Join(dir, "missing")}.run(t, "crd", "diff")
		if r.code != 2 || !strings.HasPrefix(r.stderr, "error: can't ") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("print needs no cluster", func(t *testing.T) {
		r := invocation{kubeconfig: filepath.Join(dir, "missing")}.run(t, "crd", "print", membersCRD, "-o", "json")
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON([]byte(r.stdout)); err != nil || r.code != 0 || obj.GetName() != membersCRD {
			t.Errorf("%v, %+.200v", err, r)
		}
	})
}
