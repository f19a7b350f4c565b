package source

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// TestTwoDumps: whatever its kind, and whichever dump is read first, the newest copy of an object counts.
func TestTwoDumps(t *testing.T) {
	member := func(version string, metadata string) string {
		return "apiVersion: druid.gardener.cloud/v1alpha1\nkind: EtcdMember\nmetadata: {name: main-0, namespace: ns, " + metadata + "}\nspec: {clusterRef: {kind: StatefulSet, name: main}}\nstatus: {version: v" + version + "}\n---\n"
	}
	set := func(version string, metadata string) string {
		return "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: main, namespace: ns, " + metadata + "}\nspec: {replicas: " + version + "}\n---\n"
	}
	pod := func(version string, metadata string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: main-0, namespace: ns, " + metadata + "}\nspec: {nodeName: v" + version + "}\n---\n"
	}
	claim := func(version string, metadata string) string {
		return "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data-main-0, namespace: ns, " + metadata + "}\nspec: {storageClassName: v" + version + "}\n---\n"
	}
	etcd := func(version string, metadata string) string {
		return "apiVersion: druid.gardener.cloud/v1alpha1\nkind: Etcd\nmetadata: {name: other, namespace: ns, " + metadata + "}\nspec: {replicas: " + version + "}\n---\n"
	}
	lease := func(version string, metadata string) string {
		return "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: etcdmember-main-0, namespace: ns, " + metadata + "}\nspec: {renewTime: '2026-12-01T12:00:0" + version + ".000000Z'}\n---\n"
	}
	dump := func(version, metadata string) string {
		return member(version, metadata) + set(version, metadata) + pod(version, metadata) + claim(version, metadata) + etcd(version, metadata) + lease(version, metadata)
	}
	tests := map[string]struct{ older, newer, told string }{
		"of one cluster":  {dump("1", "uid: u, resourceVersion: '99'"), dump("2", "uid: u, resourceVersion: '100'"), "it is there more than once; the newest is taken"},
		"of two clusters": {dump("1", "uid: u, resourceVersion: '100', creationTimestamp: '2026-11-01T00:00:00Z'"), dump("2", "uid: v, resourceVersion: '99', creationTimestamp: '2026-11-02T00:00:00Z'"), "dumps of different clusters, which must not be mixed"},
	}
	for name, tc := range tests {
		for order, files := range map[string]string{"older first": tc.older + tc.newer, "newer first": tc.newer + tc.older} {
			t.Run(name+", "+order, func(t *testing.T) {
				s := read(t, files)
				clusters := s.Clusters()
				if len(clusters) != 2 || len(clusters[0].Members) != 1 {
					t.Fatalf("%+v", clusters)
				}
				m := clusters[0].Members[0]
				got := fmt.Sprintf("%s %d %s %d %d", m.Version.Value, clusters[0].Wanted.Value, m.PodState.Value.Node, clusters[1].Wanted.Value, m.Heartbeat.Value.Second())
				if want := "v2 2 v2 2 2"; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if len(s.claims) != 1 || s.claims[0].Spec.Value.StorageClassName.Value != "v2" {
					t.Errorf("got claims %+v", s.claims)
				}
				for _, kind := range []string{"EtcdMember ns/main-0", "StatefulSet ns/main", "Pod ns/main-0", "PersistentVolumeClaim ns/data-main-0", "Etcd ns/other", "Lease ns/etcdmember-main-0"} {
					told := slices.DeleteFunc(slices.Clone(s.Problems), func(p model.Problem) bool { return p.Subject != kind })
					if len(told) != 1 || !strings.Contains(told[0].Err.Error(), tc.told) {
						t.Errorf("of %s is told: %v", kind, told)
					}
				}
				before := len(s.Problems)
				if s.Clusters(); len(s.Problems) != before {
					t.Errorf("it is told again: %v", s.Problems[before:])
				}
			})
		}
	}
}

// TestManyTwice: of a whole dump that was given twice is told in a line for each kind.
func TestManyTwice(t *testing.T) {
	var dump strings.Builder
	for i := range 5 {
		fmt.Fprintf(&dump, "apiVersion: v1\nkind: Pod\nmetadata: {name: main-%d, namespace: ns, uid: u%d}\n---\n", i, i)
	}
	s := read(t, dump.String()+dump.String()+dump.String())
	s.Clusters()
	if len(s.Problems) != 1 || s.Problems[0].Subject != "Pod ns/main-0 and 4 others" {
		t.Errorf("got %v", s.Problems)
	}
}

// TestNothingSaysWhichIsNewer: then nobody says that the newest is taken.
func TestNothingSaysWhichIsNewer(t *testing.T) {
	const set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: main, namespace: ns}\nspec: {replicas: 1}\n---\n"
	s := read(t, set+strings.Replace(set, "1}", "3}", 1)+set)
	s.Clusters()
	if len(s.Problems) != 2 || !strings.Contains(s.Problems[1].Err.Error(), "nothing says which is the newest") || s.statefulSets[0].Spec.Value.Replicas.Value != 1 {
		t.Errorf("got %v", s.Problems)
	}
}

// TestOneClusterByManyNames: EtcdMembers may name their cluster by its Etcd, by the StatefulSet that the Etcd has made, in lower
// case, or not at all, and their names may have the Etcd's prefix.
func TestOneClusterByManyNames(t *testing.T) {
	const etcd = "apiVersion: druid.gardener.cloud/v1alpha1\nkind: Etcd\nmetadata: {name: main, namespace: ns}\nspec: {replicas: 2, memberNamePrefix: pfx}\nstatus: {members: [{name: pfx-main-0, id: '1'}, {name: pfx-main-1, id: '2'}]}\n---\n"
	const set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: main, namespace: ns, ownerReferences: [{apiVersion: druid.gardener.cloud/v1alpha1, kind: Etcd, name: main, uid: u, controller: true}]}\nspec: {replicas: 2}\n---\n"
	const pods = "apiVersion: v1\nkind: Pod\nmetadata: {name: main-0, namespace: ns}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: main-1, namespace: ns}\n---\n"
	member := func(name, spec string) string {
		return "apiVersion: druid.gardener.cloud/v1alpha1\nkind: EtcdMember\nmetadata: {name: " + name + ", namespace: ns}\nspec: " + spec + "\n---\n"
	}
	for name, files := range map[string]string{
		"the Etcd and its StatefulSet": etcd + set + pods + member("pfx-main-0", "{clusterRef: {kind: Etcd, name: main}}") + member("pfx-main-1", "{clusterRef: {kind: StatefulSet, name: main}}"),
		"in lower case":                etcd + set + pods + member("pfx-main-0", "{clusterRef: {kind: etcd, name: main}}") + member("pfx-main-1", "{clusterRef: {kind: statefulset, name: main}}"),
		"the StatefulSet is not there": etcd + pods + member("pfx-main-0", "{clusterRef: {kind: StatefulSet, name: main}}"),
		"by their names alone":         etcd + set + pods + member("pfx-main-0", "{}") + member("pfx-main-1", "{}"),
		"with their pods":              etcd + set + pods + member("pfx-main-0", "{podName: main-0}") + member("pfx-main-1", "{podName: main-1}"),
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range read(t, files).Clusters() {
				for _, m := range c.Members {
					got = append(got, c.Key.Argument()+" "+m.Name+" "+m.Pod)
				}
			}
			if want := []string{"etcd/main pfx-main-0 main-0", "etcd/main pfx-main-1 main-1"}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	t.Run("a StatefulSet in lower case", func(t *testing.T) {
		files := strings.Replace(set, "kind: Etcd", "kind: Else", 1) + member("main-0", "{clusterRef: {kind: statefulset, name: main}}")
		clusters := read(t, files).Clusters()
		if len(clusters) != 1 || clusters[0].Key.Kind != model.KindStatefulSet || clusters[0].Wanted.Value != 2 {
			t.Errorf("got %+v", clusters)
		}
	})
}
