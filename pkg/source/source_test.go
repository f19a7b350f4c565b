package source

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

func TestEtcdID(t *testing.T) {
	for in, want := range map[string]string{
		`"8211f1d0f64f3269"`:     "8211f1d0f64f3269",
		`"0x8211F1D0F64F3269"`:   "8211f1d0f64f3269",
		`"00ff"`:                 "ff",
		`"9372538179322589801"`:  "8211f1d0f64f3269", // too long for hexadecimal
		`9372538179322589801`:    "8211f1d0f64f3269", // beyond 2^53: a float would lose the last digits
		`18446744073709551615`:   "ffffffffffffffff",
		`"1234"`:                 "1234", // a string is hexadecimal where it can be
		`1234`:                   "4d2",
		`"18446744073709551616"`: "",
		`"main-0"`:               "",
		`""`:                     "",
		`-1`:                     "",
		`1.5`:                    "",
		`true`:                   "",
		`null`:                   "",
		`{}`:                     "",
	} {
		var l lax[etcdID]
		if err := json.Unmarshal([]byte(in), &l); err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if string(l.Value) != want || l.OK != (want != "") {
			t.Errorf("%s: got %q, ok %v; want %q", in, l.Value, l.OK, want)
		}
		if (l.Bad != "") != (want == "" && in != "null") {
			t.Errorf("%s: told of as %q", in, l.Bad)
		}
	}
}

func TestSize(t *testing.T) {
	for in, want := range map[string]int64{
		`"20Mi"`: 20 << 20, `"6Gi"`: 6 << 30, `20971520`: 20 << 20, `"20971520"`: 20 << 20, `"1k"`: 1000, `0`: 0,
		`"-1"`: -1, `"much"`: -1, `[]`: -1, `"99999999999999999999999999Ei"`: -1,
	} {
		var l lax[size]
		if err := json.Unmarshal([]byte(in), &l); err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if got := int64(l.Value); (want >= 0 && got != want) || l.OK != (want >= 0) {
			t.Errorf("%s: got %d, ok %v; want %d", in, got, l.OK, want)
		}
	}
}

func read(t *testing.T, yaml string) *Set {
	t.Helper()
	s, err := ReadFiles([]string{"-"}, strings.NewReader(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestClusterOfMember: members that somebody else has written name their cluster in other ways.
func TestClusterOfMember(t *testing.T) {
	tests := map[string]struct {
		metadata, spec string
		want           model.Key
	}{
		"by its spec": {
			metadata: "labels: {app.kubernetes.io/part-of: other}", spec: "{clusterRef: {kind: StatefulSet, name: main}}",
			want: model.Key{Namespace: "ns", Kind: model.KindStatefulSet, Name: "main"},
		},
		"by its owner, as DEP-04 has it": {
			metadata: "ownerReferences: [{apiVersion: druid.gardener.cloud/v1alpha1, kind: Etcd, name: main, uid: u}]",
			want:     model.Key{Namespace: "ns", Kind: model.KindEtcd, Name: "main"},
		},
		"another owner is not its cluster": {
			metadata: "ownerReferences: [{apiVersion: operator.etcd.io/v1, kind: Etcd, name: other, uid: u}], labels: {gardener.cloud/owned-by: main}",
			want:     model.Key{Namespace: "ns", Name: "main"},
		},
		"by DEP-04's label": {
			metadata: "labels: {gardener.cloud/owned-by: main}", want: model.Key{Namespace: "ns", Name: "main"},
		},
		"by its name": {want: model.Key{Namespace: "ns", Name: "main-etcd"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			metadata := "name: main-etcd-0, namespace: ns"
			if tc.metadata != "" {
				metadata += ", " + tc.metadata
			}
			spec := tc.spec
			if spec == "" {
				spec = "{}"
			}
			s := read(t, "apiVersion: druid.gardener.cloud/v1alpha1\nkind: EtcdMember\nmetadata: {"+metadata+"}\nspec: "+spec)
			cs := s.Clusters()
			if len(cs) != 1 || cs[0].Key != tc.want {
				t.Errorf("got %+v, want %+v", cs, tc.want)
			}
		})
	}
}

// TestForeignKinds: other projects have an EtcdMember, and other groups have an Etcd.
func TestForeignKinds(t *testing.T) {
	s := read(t, `{"apiVersion": "v1", "kind": "List", "items": [
		{"apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdMember", "metadata": {"name": "a"}},
		{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
		{"kind": "EtcdMember", "metadata": {"name": "a"}},
		7
	]}`)
	if len(s.Clusters()) != 0 {
		t.Errorf("foreign objects were taken for ours: %+v", s.Clusters())
	}
	if len(s.Problems) != 1 || !strings.Contains(s.Problems[0].Subject, "item 4") {
		t.Errorf("got problems %v, want one of item 4", s.Problems)
	}
}

// TestTypedList: a list of one kind, as the API server sends it, does not repeat the kind in its items.
func TestTypedList(t *testing.T) {
	s := read(t, `{"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "EtcdMemberList", "items": [{"metadata": {"name": "main-0", "namespace": "ns"}}]}`)
	if cs := s.Clusters(); len(cs) != 1 || cs[0].Members[0].Name != "main-0" {
		t.Errorf("got %+v", cs)
	}
}

func TestNowOfFiles(t *testing.T) {
	const member = "apiVersion: druid.gardener.cloud/v1alpha1\nkind: EtcdMember\nmetadata: {name: main-0}\nstatus: {publishedAt: 2026-12-01T12:00:00Z}\n---\n"
	const lease = "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: etcdmember-main-0}\nspec: {renewTime: 2026-12-01T12:00:09Z}\n---\n"
	const node = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {conditions: [{type: Ready, status: 'True', lastHeartbeatTime: 2026-12-01T12:00:05Z}]}\n---\n"
	const etcd = "apiVersion: druid.gardener.cloud/v1alpha1\nkind: Etcd\nmetadata: {name: main}\nstatus: {conditions: [{type: Ready, status: 'True', lastUpdateTime: 2026-12-01T12:00:30Z}]}\n---\n"
	tests := map[string]struct {
		files string
		want  string
		known bool
	}{
		"a node tells the time, and a later heartbeat is later": {member + lease + node, "2026-12-01T12:00:09Z", true},
		"druid tells the time":                      {member + lease + etcd, "2026-12-01T12:00:30Z", true},
		"a node's Lease tells the time":             {member + lease + strings.NewReplacer("etcdmember-main-0", "node1, namespace: kube-node-lease").Replace(lease), "2026-12-01T12:00:09Z", true},
		"a clock that is long past tells nothing":   {member + lease + strings.ReplaceAll(node, "2026", "2020"), "2026-12-01T12:00:09Z", false},
		"nor does one that stopped a minute before": {member + lease + strings.ReplaceAll(node, "12:00:05", "11:59:05"), "2026-12-01T12:00:09Z", false},
		"a Lease of Kubernetes' own tells the time": {member + lease + strings.NewReplacer("etcdmember-main-0", "kube-scheduler, namespace: kube-system").Replace(lease), "2026-12-01T12:00:09Z", true},
		"members in kube-system are members": {member + strings.NewReplacer("etcdmember-main-0", "etcdmember-main-0, namespace: kube-system").Replace(lease) +
			strings.NewReplacer("etcdmember-main-0", "beat, namespace: kube-system, labels: {app.kubernetes.io/component: etcd-member-heartbeat}").Replace(lease) +
			strings.NewReplacer("etcdmember-main-0", "main-0, namespace: kube-system, labels: {app.kubernetes.io/component: etcd-member-lease}").Replace(lease) +
			strings.NewReplacer("etcdmember-main-0", "main-full-snap, namespace: kube-system, labels: {app.kubernetes.io/component: etcd-snapshot-lease}").Replace(lease), "2026-12-01T12:00:09Z", false},
		"a node may have any name":           {member + lease + strings.NewReplacer("etcdmember-main-0", "etcdmember-1, namespace: kube-node-lease").Replace(lease), "2026-12-01T12:00:09Z", true},
		"members can't vouch for themselves": {member + lease, "2026-12-01T12:00:09Z", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, known := read(t, tc.files).Now()
			if got.UTC().Format(time.RFC3339) != tc.want || known != tc.known {
				t.Errorf("got %s, known %v; want %s, known %v", got, known, tc.want, tc.known)
			}
		})
	}
}

// FuzzFiles: whatever a file holds, reading it does not panic, and what it says of members can be judged.
func FuzzFiles(f *testing.F) {
	f.Add("apiVersion: druid.gardener.cloud/v1alpha1\nkind: EtcdMember\nmetadata: {name: main-0}\nstatus: {id: 1, conditions: [{type: Ready}]}")
	f.Add(`{"kind": "List", "items": [{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "spec": null}]}`)
	f.Add("---\n---\n# nothing\n")
	f.Add("kind: List\nitems: {}")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ReadFiles([]string{"-"}, strings.NewReader(text))
		if err != nil {
			return
		}
		s.Now()
		s.Clusters()
	})
}

// FuzzMember: an EtcdMember's fields may hold any JSON.
func FuzzMember(f *testing.F) {
	f.Add(`{"id": 7, "dbSize": "1Gi", "volume": {"capacity": []}, "raft": {"term": "1"}}`)
	f.Add(`{"conditions": {}, "transitions": [[]], "alarms": [1], "publishedBy": null}`)
	f.Fuzz(func(t *testing.T, status string) {
		if !json.Valid([]byte(status)) {
			return
		}
		s := &Set{}
		if err := s.addJSON([]byte(`{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"EtcdMember","metadata":{"name":"a"},"status":`+status+`}`), "input"); err != nil {
			t.Fatalf("valid JSON was refused: %v", err)
		}
		for _, c := range s.Clusters() {
			for _, m := range c.Members {
				if id, ok := m.ID.Get(); ok && (id == "" || len(id) > 16 || strings.Trim(id, "0123456789abcdef") != "") {
					t.Errorf("%q is not an ID", id)
				}
			}
		}
	})
}

// TestSizeWithAHugeExponent: such a quantity is valid, and comparing it would take for ever.
func TestSizeWithAHugeExponent(t *testing.T) {
	for _, text := range []string{`"1e999999999"`, `"1e-999999999"`, `"1E0999"`, `1e400`} {
		var v size
		if err := v.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s is taken for %d bytes", text, v)
		}
	}
	var v size
	if err := v.UnmarshalJSON([]byte(`"1e3"`)); err != nil || v != 1000 {
		t.Errorf("1e3 is %d, %v", v, err)
	}
}

// TestTheSameLeaseOfTwoOwners: two dumps may hold a Lease of the same name that belongs to different clusters.
func TestTheSameLeaseOfTwoOwners(t *testing.T) {
	lease := func(owner, renewed string) string {
		return `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"namespace":"ns","name":"main-1","labels":{"app.kubernetes.io/component":"etcd-member-lease"},` +
			`"ownerReferences":[{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"Etcd","name":"` + owner + `","controller":true}]},"spec":{"renewTime":"` + renewed + `","holderIdentity":"a1:c1:Member"}}`
	}
	s := &Set{}
	for _, o := range []string{
		`{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"Etcd","metadata":{"namespace":"ns","name":"main"},"spec":{"replicas":1}}`,
		`{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"Etcd","metadata":{"namespace":"ns","name":"other"},"spec":{"replicas":1}}`,
		lease("main", "2026-12-01T12:00:00.000000Z"), lease("other", "2026-12-01T12:00:10.000000Z"),
	} {
		if err := s.addJSON([]byte(o), "test"); err != nil {
			t.Fatal(err)
		}
	}
	clusters := s.Clusters()
	if len(clusters) != 2 || len(clusters[0].Members) != 0 || len(clusters[1].Members) != 1 {
		t.Errorf("the newest copy counts, which is of other: %+v", clusters)
	}
}
