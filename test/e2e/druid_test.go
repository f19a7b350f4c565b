package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// TestDruidOnServer has the same to say about captured clusters on a server, where there is nothing of ours, as about the same
// objects in files. The server is asked by the real clock: what was captured is moved to now, with all of its ages.
func TestDruidOnServer(t *testing.T) {
	s := startAPIServer(t)
	t.Run("neither druid nor anything of ours", func(t *testing.T) {
		s.plugin(t, "status").want(t, 2, "", lines("error: the server has no resource etcdmembers.druid.gardener.cloud and no etcds of etcd-druid: name a StatefulSet of etcd (sts/NAME, with --live), or install the resource with 'kubectl etcdmember crd install', then 'kubectl etcdmember adopt CLUSTER'"))
		s.plugin(t, "doctor", "-A", "-o", "json").want(t, 2, "", lines("error: the server has no resource etcdmembers.druid.gardener.cloud and no etcds of etcd-druid: name a StatefulSet of etcd (sts/NAME, with --live), or install the resource with 'kubectl etcdmember crd install', then 'kubectl etcdmember adopt CLUSTER'"))
	})
	s.installDruidCRDs(t)
	t.Run("druid, and no cluster", func(t *testing.T) {
		s.plugin(t, "status").want(t, 0, "", lines("No resources found in default namespace."))
		s.plugin(t, "status", "-A", "--exit-code").want(t, 2, "", lines("No resources found"))
	})
	t.Run("no such context", func(t *testing.T) {
		r := s.plugin(t, "status", "--context", "elsewhere")
		if r.code != 2 || r.stdout != "" || !strings.HasPrefix(r.stderr, "error: can't ") || !strings.Contains(r.stderr, "elsewhere") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("what may not be listed", s.druidForbidden)
	t.Run("what kubectl writes of them", s.druidDumped)
	t.Run("what druid's objects should not hold", s.druidRubbish)
	for _, state := range druidStates(t) {
		t.Run(state, func(t *testing.T) {
			ns := s.namespace(t, "druid-"+state)
			// It takes a part of a second to load a state.
			now := time.Now().Add(time.Second).Truncate(time.Second)
			d := readDump(t, state, ns, now)
			s.load(t, d)
			time.Sleep(time.Until(now))
			for _, asked := range []struct {
				args []string
				file string
			}{
				// Volumes belong to no namespace: only doctor asks for them.
				{[]string{"status", "-n", ns, "--exit-code", "-o", "json"}, d.without("PersistentVolume").write(t)},
				{[]string{"doctor", "-n", ns, "-o", "json"}, d.write(t)},
			} {
				args, file := asked.args, asked.file
				onServer := s.plugin(t, args...)
				if late := time.Since(now); late > 2*time.Second {
					t.Fatalf("the server was asked %s late: what depends on ages may differ", late)
				}
				inFiles := s.plugin(t, append(args, "-f", file, "--now", now.UTC().Format(time.RFC3339))...)
				if onServer.code != inFiles.code {
					t.Errorf("%q: exit code %d on the server, and %d in files", args, onServer.code, inFiles.code)
				}
				want, got := masked(t, inFiles.stdout), masked(t, onServer.stdout)
				if absent := d.absent(t); len(absent) > 0 {
					for _, finding := range absent {
						if !strings.Contains(onServer.stdout, finding) {
							t.Errorf("%q does not tell of %s, which the server has not", args, finding)
						}
					}
					want, got = withoutAbsent(want), withoutAbsent(got)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%q (-files +server):\n%s", args, d)
				}
				if d := cmp.Diff(inFiles.stderr, onServer.stderr); d != "" {
					t.Errorf("%q, stderr (-files +server):\n%s", args, d)
				}
			}
		})
	}
}

// druidDumped reads what a real kubectl has written of a cluster.
func (s *apiServer) druidDumped(t *testing.T) {
	ns := s.namespace(t, "druid-dumped")
	s.load(t, readDump(t, "03a-member-cut-80s", ns, time.Now()))
	s.renew(t, ns)
	table := s.plugin(t, "status", "-n", ns, "-o", "json", "--exit-code")
	const kinds = "etcds.druid.gardener.cloud,etcdopstasks,leases,statefulsets,pods,persistentvolumeclaims"
	for _, format := range []string{"yaml", "json"} {
		file := filepath.Join(t.TempDir(), "all."+format)
		dumped := s.kubectl(t, "", "get", kinds, "-n", ns, "-o", format)
		if dumped.code != 0 {
			t.Fatal(dumped.stderr)
		}
		if err := os.WriteFile(file, []byte(dumped.stdout), 0o600); err != nil {
			t.Fatal(err)
		}
		read := s.plugin(t, "status", "-f", file, "--now", time.Now().UTC().Format(time.RFC3339), "-o", "json", "--exit-code")
		if d := cmp.Diff(masked(t, table.stdout), masked(t, read.stdout)); d != "" || read.code != table.code {
			t.Errorf("get -o %s: exit codes %d and %d (-server +file):\n%s", format, table.code, read.code, d)
		}
	}
	// A dump of kubectl's has pods and nodes, but neither Etcds, StatefulSets nor Leases: nothing in it proves anything.
	dir := t.TempDir()
	if r := s.kubectl(t, "", "cluster-info", "dump", "--namespaces="+ns, "--output-directory="+dir); r.code != 0 {
		t.Fatal(r.stderr)
	}
	s.plugin(t, "status", "-f", dir).want(t, 0, "", lines("No resources found in the files."))
	s.plugin(t, "status", "-f", dir, "sts/etcd-main", "--exit-code", "-o", "jsonpath={.verdict} {.members[*].health} {.members[*].name}").
		want(t, 2, "Unknown Unhealthy Unknown Unknown etcd-main-0 etcd-main-1 etcd-main-2", "")
}

// druidForbidden looks at a healthy cluster as users who may list everything but one kind.
func (s *apiServer) druidForbidden(t *testing.T) {
	ns := s.namespace(t, "druid-forbidden")
	s.load(t, readDump(t, "01-healthy-3", ns, time.Now()))
	all := map[string]string{
		// Who is given rights to druid's kinds is given them to all of its group, whether or not ours is installed.
		"etcdmembers": "druid.gardener.cloud",
		"etcds":       "druid.gardener.cloud", "etcdopstasks": "druid.gardener.cloud", "leases": "coordination.k8s.io", "statefulsets": "apps",
		"pods": "", "persistentvolumeclaims": "", "persistentvolumes": "",
	}
	for _, tc := range []struct {
		resource string
		// verdict is what can be said all the same. Empty: nothing can.
		verdict string
		code    int
		// stderr begins so.
		stderr string
	}{
		{"etcds", "", 2, "error: can't list Etcds in namespace druid-forbidden: etcds.druid.gardener.cloud is forbidden: "},
		{"pods", "Unknown", 2, "warning: Pods in namespace druid-forbidden: can't be listed, so what members do that publish nothing is not known: pods is forbidden: "},
		{"leases", "Unknown", 2, "warning: Leases in namespace druid-forbidden: can't be listed, so whether members are fresh is not known: leases.coordination.k8s.io is forbidden: "},
		// Who may list druid's kinds alone, and not ours, is told so; nothing of ours is there.
		{"etcdmembers", "Healthy", 0, "warning: EtcdMembers in namespace druid-forbidden: can't be listed"},
		// These say nothing of the members' health.
		{"statefulsets", "Healthy", 0, "warning: StatefulSets in namespace druid-forbidden: can't be listed"},
		{"persistentvolumeclaims", "Healthy", 0, "warning: PersistentVolumeClaims in namespace druid-forbidden: can't be listed"},
		{"etcdopstasks", "Healthy", 0, "warning: EtcdOpsTasks in namespace druid-forbidden: can't be listed"},
	} {
		t.Run(tc.resource, func(t *testing.T) {
			user := "may-not-list-" + tc.resource
			var rules []any
			for resource, group := range all {
				if resource != tc.resource {
					rules = append(rules, map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": []any{"list"}})
				}
			}
			role := parse(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: "+user+"}}")
			role.Object["rules"] = rules
			s.create(t, clusterRoles, role, "test")
			s.create(t, roleBindings, parse(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: "+user+"}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "+user+"}], roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "+user+"}}"), "test")
			// The server takes a moment to know of a new role, and until then forbids more than is meant.
			s.mayList(t, user, ns, all, tc.resource)

			// Until here more time may have passed than a Lease is good for.
			s.renew(t, ns)
			r := s.plugin(t, "status", "-n", ns, "etcd/etcd-main", "--as="+user, "--exit-code", "-o", "jsonpath={.verdict}")
			if r.code != tc.code || r.stdout != tc.verdict || !strings.HasPrefix(r.stderr, tc.stderr) {
				t.Errorf("got %+v, want code %d, verdict %q and %q", r, tc.code, tc.verdict, tc.stderr)
			}
			if tc.verdict != "" && strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("one kind is forbidden, and this is said: %s", r.stderr)
			}
			if tc.verdict == "" && !strings.HasSuffix(r.stderr, "; ask an administrator for the right, or choose another user with --context or --as\n") {
				t.Errorf("nobody is told what to do: %s", r.stderr)
			}
		})
	}
}

// mayList waits until a user may list all resources but one.
func (s *apiServer) mayList(t *testing.T, user, namespace string, all map[string]string, but string) {
	t.Helper()
	cfg := rest.CopyConfig(s.config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range loadable {
		if _, ok := all[l.resource.Resource]; !ok {
			continue
		}
		eventually(t, 20*time.Second, func() error {
			_, err := client.Resource(l.resource).Namespace(map[bool]string{true: namespace}[l.namespaced]).List(t.Context(), metav1.ListOptions{})
			if l.resource.Resource == but {
				if !apierrors.IsForbidden(err) {
					return fmt.Errorf("%s may list %s: %v", user, but, err)
				}
				return nil
			}
			return err
		})
	}
}

// renew does what the sidecars of a namespace do all the time.
func (s *apiServer) renew(t *testing.T, namespace string) {
	t.Helper()
	for _, name := range s.names(t, namespace, leases) {
		patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
		if _, err := s.dynamic.Resource(leases).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// druidRubbish puts into a healthy cluster's objects what a permissive server lets in.
func (s *apiServer) druidRubbish(t *testing.T) {
	ns := s.namespace(t, "druid-rubbish")
	s.load(t, readDump(t, "07-0-before", ns, time.Now()))
	ask := func(t *testing.T, code int, what, want string) run {
		t.Helper()
		r := s.plugin(t, "status", "-n", ns, "etcd-main", "--exit-code", "-o", "jsonpath="+what)
		if r.code != code || r.stdout != want {
			t.Errorf("%s: got %+v, want code %d and %q", what, r, code, want)
		}
		return r
	}
	change := func(t *testing.T, r schema.GroupVersionResource, name, patch string, subresources ...string) {
		t.Helper()
		if _, err := s.dynamic.Resource(r).Namespace(ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...); err != nil {
			t.Fatal(err)
		}
	}
	healthy := func(t *testing.T) {
		t.Helper()
		s.renew(t, ns)
		ask(t, 0, "{.verdict} {.leader}", "Healthy etcd-main-2")
	}
	t.Run("a Lease", func(t *testing.T) {
		healthy(t)
		const holder = "5c7157131e2b0ce1:1f83ed336f6c7ef5:Member"
		for _, rubbish := range []string{"::", "me", "zz:1f83ed336f6c7ef5:Member", "\u001b[31m:1:Leader", "5c7157131e2b0ce1:1f83ed336f6c7ef5:Member:more"} {
			text, err := json.Marshal(rubbish)
			if err != nil {
				t.Fatal(err)
			}
			change(t, leases, "etcd-main-0", `{"spec":{"holderIdentity":`+string(text)+`}}`)
			ask(t, 1, "{.verdict} {.members[0].health} {.quorum.healthy}", "Degraded Unknown 2")
			r := s.plugin(t, "status", "-n", ns, "etcd-main")
			if r.code != 0 || !strings.Contains(r.stderr, "holderIdentity") || strings.ContainsAny(r.stdout+r.stderr, "\x1b\x07") {
				t.Errorf("%q: %+v", rubbish, r)
			}
		}
		change(t, leases, "etcd-main-0", `{"spec":{"holderIdentity":"`+holder+`"}}`)
		healthy(t)
	})
	t.Run("an Etcd's replicas", func(t *testing.T) {
		for _, tc := range []struct {
			replicas, verdict string
			code              int
		}{
			{"0", "Hibernated", 0},
			{`"three"`, "Healthy", 0}, {"-3", "Healthy", 0}, {"null", "Healthy", 0}, // how many are wanted is not known; those that are there are well
			{"2000000000", "Degraded", 1}, // a ready member has just read by quorum: there are no voters of which nothing is known
		} {
			change(t, etcds, "etcd-main", `{"spec":{"replicas":`+tc.replicas+`}}`)
			s.renew(t, ns)
			r := s.plugin(t, "status", "-n", ns, "etcd-main", "--exit-code", "-o", "jsonpath={.verdict}")
			if tc.verdict == "Healthy" && r.stdout == "Degraded" && r.code == 1 {
				continue // that nobody knows how many are wanted may be worth a warning
			}
			if r.code != tc.code || r.stdout != tc.verdict {
				t.Errorf("replicas %s: got %+v, want %s", tc.replicas, r, tc.verdict)
			}
		}
		change(t, etcds, "etcd-main", `{"spec":{"replicas":3}}`)
		healthy(t)
	})
	t.Run("an Etcd's status", func(t *testing.T) {
		for _, status := range []string{
			`[]`, `"none"`, `{"members":{}}`, `{"members":[null,7,{"name":5},{"name":"etcd-main-0","id":[]}]}`, `{"conditions":"all well"}`,
			`{"observedGeneration":"first","lastOperation":[]}`,
		} {
			change(t, etcds, "etcd-main", `{"status":null}`, "status")
			change(t, etcds, "etcd-main", `{"status":`+status+`}`, "status")
			s.renew(t, ns)
			// What druid says may be worth a warning; members are judged by their pods and Leases.
			r := s.plugin(t, "status", "-n", ns, "etcd-main", "-o", "jsonpath={.quorum.state} {.quorum.healthy} {.leader}")
			r.want(t, 0, "Held 3 etcd-main-2", "")
		}
	})
	t.Run("an Etcd without a status and without anything else", func(t *testing.T) {
		s.in(t, ns, etcds, etcd(t, "just-created", 3))
		r := s.plugin(t, "status", "-n", ns, "just-created", "--exit-code", "-o", "jsonpath={.wanted} {.quorum.healthy} {.members[*].health}")
		if r.stdout != "3 0 Missing Missing Missing" || r.code == 0 {
			t.Errorf("%+v", r)
		}
	})
}

// absent are the findings of what there should be and is not. Of a server that is a fact; files may not have been given.
func (d dump) absent(t *testing.T) []string {
	t.Helper()
	names := map[string]bool{}
	for _, obj := range d {
		names[obj.GetKind()+" "+obj.GetName()] = true
	}
	var codes []string
	for _, obj := range d {
		if obj.GetKind() != "Etcd" {
			continue
		}
		if !names["StatefulSet "+obj.GetName()] {
			codes = append(codes, "StatefulSetMissing")
		}
		replicas, _, err := unstructured.NestedInt64(obj.Object, "spec", "replicas")
		if err != nil {
			t.Fatal(err)
		}
		for i := range replicas {
			if !names[fmt.Sprintf("Lease %s-%d", obj.GetName(), i)] {
				codes = append(codes, "LeaseMissing")
			}
		}
	}
	return codes
}

// withoutAbsent is a document without the findings of what is absent, and without what rests on them.
func withoutAbsent(document any) any {
	switch v := document.(type) {
	case map[string]any:
		delete(v, "reason")
		delete(v, "message")
		for k, inner := range v {
			v[k] = withoutAbsent(inner)
		}
		return v
	case []any:
		var kept []any
		for _, inner := range v {
			if finding, ok := inner.(map[string]any); ok && (finding["code"] == "StatefulSetMissing" || finding["code"] == "LeaseMissing") {
				continue
			}
			kept = append(kept, withoutAbsent(inner))
		}
		return kept
	default:
		return v
	}
}

var (
	anyAge = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?s\b`)
	anyUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// masked is a document without what a server sets anew: UIDs, when objects were created or are to be gone by, and how long
// ago that is.
func masked(t *testing.T, document string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(document), &v); err != nil {
		t.Fatalf("%v: %s", err, document)
	}
	var mask func(key string, v any) any
	mask = func(key string, v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k, inner := range v {
				v[k] = mask(k, inner)
			}
			return v
		case []any:
			for i, inner := range v {
				v[i] = mask(key, inner)
			}
			return v
		case string:
			if key == "judgedAt" || strings.HasPrefix(key, "created") || strings.HasPrefix(key, "deleting") {
				return "TIME"
			}
			return anyAge.ReplaceAllString(anyUID.ReplaceAllString(v, "UID"), "AGE")
		default:
			return v
		}
	}
	return mask("", v)
}
