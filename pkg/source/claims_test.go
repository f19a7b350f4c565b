package source

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// setOf reads objects as a file would have them.
func setOf(t *testing.T, objects ...any) *Set {
	t.Helper()
	s := &Set{}
	for _, o := range objects {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.addJSON(raw, "test"); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

type object = map[string]any

func aSet(name string, replicas int, templates ...string) object {
	var claims []any
	for _, c := range templates {
		claims = append(claims, object{"metadata": object{"name": c}})
	}
	return object{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": object{"namespace": "ns", "name": name}, "spec": object{
		"replicas": replicas, "volumeClaimTemplates": claims,
	}}
}

func aPod(set string, ordinal int, container object, volumes ...string) object {
	var vs, mounts []any
	for _, v := range volumes {
		vs = append(vs, object{"name": v, "persistentVolumeClaim": object{"claimName": fmt.Sprintf("%s-%s-%d", v, set, ordinal)}})
		mounts = append(mounts, object{"name": v, "mountPath": "/var/" + v})
	}
	if container["volumeMounts"] == nil {
		container["volumeMounts"] = mounts
	}
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"namespace": "ns", "name": fmt.Sprintf("%s-%d", set, ordinal), "ownerReferences": []any{
		object{"kind": "StatefulSet", "name": set, "controller": true},
	}}, "spec": object{"containers": []any{container}, "volumes": vs}, "status": object{"phase": "Running"}}
}

func aClaim(name string, deleting bool) object {
	meta := object{"namespace": "ns", "name": name, "uid": name}
	if deleting {
		meta["deletionTimestamp"] = "2026-12-01T12:00:00Z"
	}
	return object{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta}
}

func only(t *testing.T, s *Set, name string) model.Cluster {
	t.Helper()
	clusters := s.Clusters(model.Key{Namespace: "ns", Kind: model.KindStatefulSet, Name: name})
	if len(clusters) != 1 || clusters[0].Key.Name != name {
		t.Fatalf("clusters: %+v", clusters)
	}
	return clusters[0]
}

// TestClaimsOfAMember: all claims of a member are lost together, and its data's is told by where etcd keeps it.
func TestClaimsOfAMember(t *testing.T) {
	for name, c := range map[string]struct {
		set       string
		templates []string
		args      []string
		data      string
	}{
		"data and WAL":                      {"main", []string{"wal", "data"}, nil, "data-main-0"},
		"a set whose name says data":        {"data", []string{"wal", "data"}, nil, "data-data-0"},
		"by --data-dir, whatever the names": {"main", []string{"data", "db"}, []string{"--data-dir=/var/db/etcd"}, "db-main-0"},
		"names that tell nothing":           {"main", []string{"a", "b"}, nil, "a-main-0"},
	} {
		t.Run(name, func(t *testing.T) {
			other := ""
			objects := []any{aSet(c.set, 1, c.templates...), aPod(c.set, 0, object{"name": "etcd", "args": c.args}, c.templates...)}
			for _, template := range c.templates {
				claim := template + "-" + c.set + "-0"
				objects = append(objects, aClaim(claim, claim != c.data))
				if claim != c.data {
					other = claim
				}
			}
			m := only(t, setOf(t, objects...), c.set).Members[0]
			if m.Claim.Value.Name != c.data || len(m.OtherClaims) != 1 || m.OtherClaims[0].Name != other || m.OtherClaims[0].Deleting.IsZero() {
				t.Errorf("data is on %q, and %+v besides", m.Claim.Value.Name, m.OtherClaims)
			}
		})
	}
}

// TestLooseClaims: only what has the cluster's own numbers, and no pod uses, is left over.
func TestLooseClaims(t *testing.T) {
	s := setOf(t, aSet("main", 1, "data"), aSet("main-2", 1, "data"),
		aPod("main", 0, object{"name": "etcd"}, "data"), aPod("main-2", 0, object{"name": "etcd"}, "data"),
		aPod("job", 7, object{"name": "job"}, "x"),
		aClaim("data-main-0", false), aClaim("data-main-2-0", false), aClaim("data-main-1", false), aClaim("data-main-old", false))
	loose := only(t, s, "main").LooseClaims
	if len(loose) != 1 || loose[0].Name != "data-main-1" {
		t.Errorf("loose claims: %+v", loose)
	}
}

// TestEtcdContainer: a container runs etcd by its program, and not by a path that is called so.
func TestEtcdContainer(t *testing.T) {
	list := func(v ...string) []string { return v }
	sidecar := container{Name: given("backup"), Args: given(list("--data-dir=/var/lib/etcd", "--dir", "/var/lib/etcd"))}
	for name, c := range map[string]struct {
		containers []container
		want       string
	}{
		"by its name":               {[]container{sidecar, {Name: given("etcd")}}, "etcd"},
		"the only one":              {[]container{{Name: given("server")}}, "server"},
		"by its program":            {[]container{sidecar, {Name: given("server"), Command: given(list("/usr/local/bin/etcd", "--name=x"))}}, "server"},
		"by what a shell starts":    {[]container{sidecar, {Name: given("server"), Command: given(list("/bin/sh", "-c", "set -e\nexec /opt/etcd --name $POD"))}}, "server"},
		"by its options":            {[]container{sidecar, {Name: given("server"), Args: given(list("--listen-peer-urls=https://0.0.0.0:2380"))}}, "server"},
		"by its environment":        {[]container{sidecar, {Name: given("server"), Env: given([]lax[envVar]{given(envVar{Name: given("ETCD_LISTEN_PEER_URLS"), Value: given("x")})})}}, "server"},
		"none of two that tell not": {[]container{sidecar, {Name: given("server")}}, ""},
		"a shell that only looks":   {[]container{{Name: given("a"), Command: given(list("sh", "-c", "ls /var/lib/etcd"))}, {Name: given("b")}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var all []lax[container]
			for _, x := range c.containers {
				all = append(all, given(x))
			}
			if got, _ := etcdContainer(all); got.Name.Value != c.want {
				t.Errorf("got %q, want %q", got.Name.Value, c.want)
			}
		})
	}
}
