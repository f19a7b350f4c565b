package source

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
	"github.com/etcdmember/kubectl-etcdmember/test/listserver"
)

// manyClusters are clusters of druid's, each with its pod and claim in a namespace of its own; of the first the pods have the
// labels that druid gave them long ago. Beside them are a pod and a claim that are none of theirs.
func manyClusters(n int) string {
	var b strings.Builder
	for i := range n {
		labels := "app.kubernetes.io/managed-by: etcd-druid, app.kubernetes.io/part-of: main"
		if i == 0 {
			labels = "instance: main"
		}
		fmt.Fprintf(&b, "apiVersion: druid.gardener.cloud/v1alpha1\nkind: Etcd\nmetadata: {name: main, namespace: ns%d}\nspec: {replicas: 1}\n---\n", i)
		fmt.Fprintf(&b, "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: main, namespace: ns%d, ownerReferences: [{apiVersion: druid.gardener.cloud/v1alpha1, kind: Etcd, name: main, uid: u, controller: true}]}\n", i)
		fmt.Fprintf(&b, "spec: {replicas: 1, selector: {matchLabels: {%s}}, volumeClaimTemplates: [{metadata: {name: main}}]}\n---\n", labels)
		fmt.Fprintf(&b, "apiVersion: v1\nkind: Pod\nmetadata: {name: main-0, namespace: ns%d, labels: {%s}}\nspec: {nodeName: node%d, volumes: [{name: main, persistentVolumeClaim: {claimName: main-main-0}}], containers: [{name: etcd, volumeMounts: [{name: main}]}]}\n---\n", i, labels, i)
		fmt.Fprintf(&b, "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: main-main-0, namespace: ns%d}\n---\n", i)
	}
	b.WriteString("apiVersion: v1\nkind: Pod\nmetadata: {name: druid-0, namespace: ns1, labels: {app.kubernetes.io/managed-by: etcd-druid, app.kubernetes.io/part-of: other}}\n---\n")
	b.WriteString("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: main-main-0, namespace: elsewhere}\n")
	return b.String()
}

func serverOf(t *testing.T, s *listserver.Server) *Server {
	t.Helper()
	c, err := NewServer(&rest.Config{Host: s.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPodsOfManyClusters: of many clusters pods and claims are listed at once, where that is allowed, and the result is the same.
func TestPodsOfManyClusters(t *testing.T) {
	const n = 20
	tests := map[string]struct {
		clusters int
		refused  []string
		pods     int
		claims   int
		atOnce   []string
	}{
		"many":                         {n, nil, 1, 0, []string{"persistentvolumeclaims in all namespaces", "pods in all namespaces"}},
		"many, each to be read alone":  {n, []string{"pods in all namespaces", "persistentvolumeclaims in all namespaces"}, n, n, []string{"persistentvolumeclaims in all namespaces", "pods in all namespaces"}},
		"many, and pods may be listed": {n, []string{"persistentvolumeclaims in all namespaces"}, 1, n, []string{"persistentvolumeclaims in all namespaces", "pods in all namespaces"}},
		"few":                          {5, nil, 5, 5, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			api := listserver.Start(t, manyClusters(tc.clusters))
			for _, r := range tc.refused {
				api.Refuse(r, http.StatusForbidden)
			}
			s, err := serverOf(t, api).Read(t.Context(), ReadOptions{Now: time.Now()})
			if err != nil || len(s.Problems) > 0 {
				t.Fatalf("%v, %v", err, s.Problems)
			}
			var pods, claims int
			var atOnce []string
			for _, r := range api.Requests() {
				switch {
				case r == "pods in all namespaces" || r == "persistentvolumeclaims in all namespaces":
					atOnce = append(atOnce, r)
				case strings.HasPrefix(r, "pods in "):
					pods++
				case strings.HasPrefix(r, "persistentvolumeclaims in "):
					claims++
				}
			}
			if pods != tc.pods || claims != tc.claims || !slices.Equal(atOnce, tc.atOnce) {
				t.Errorf("%d lists of pods, %d of claims and %q, want %d, %d and %q", pods, claims, atOnce, tc.pods, tc.claims, tc.atOnce)
			}
			clusters := s.Clusters()
			if len(clusters) != tc.clusters {
				t.Fatalf("%d clusters, want %d", len(clusters), tc.clusters)
			}
			for _, c := range clusters {
				node := strings.Replace(c.Key.Namespace, "ns", "node", 1)
				if len(c.Members) != 1 || !c.PodsRead || c.Members[0].PodState.Value.Node != node || !c.Members[0].Claim.Known() {
					t.Errorf("%s: %d members, pods read %v, %+v", c.Key.Namespace, len(c.Members), c.PodsRead, c.Members[0].PodState.Value)
				}
			}
		})
	}
}

// TestPodsRefusedEverywhere: that is said once, and not once for each namespace.
func TestPodsRefusedEverywhere(t *testing.T) {
	api := listserver.Start(t, manyClusters(20))
	api.Refuse("pods", http.StatusForbidden)
	s, err := serverOf(t, api).Read(t.Context(), ReadOptions{Now: time.Now()})
	if err != nil || len(s.Problems) != 1 || s.Problems[0].Subject != "Pods in namespace ns0, and in 19 other namespaces" {
		t.Fatalf("%v, %v", err, s.Problems)
	}
	if c := s.Clusters()[0]; c.PodsRead {
		t.Errorf("%+v", c)
	}
}

// TestReadThatEnds: where the context ends, or the server is gone, at whichever list, that is an error and not a problem.
func TestReadThatEnds(t *testing.T) {
	for _, list := range []string{"etcdmembers", "etcds", "leases", "statefulsets", "etcdopstasks", "pods", "persistentvolumeclaims"} {
		t.Run(list, func(t *testing.T) {
			api := listserver.Start(t, manyClusters(1))
			ctx, cancel := context.WithCancel(t.Context())
			api.Before(list, cancel)
			s, err := serverOf(t, api).Read(ctx, ReadOptions{Now: time.Now(), StatefulSets: []model.Key{{Kind: model.KindStatefulSet, Name: "main"}}})
			if err == nil || !lost(err) || !strings.HasPrefix(err.Error(), "can't list ") {
				t.Errorf("got %+v, %v", s, err)
			}
		})
	}
}

// TestDroppedListIsNotLogged: where there are no clusters the other lists are dropped, of which the client would log an error.
func TestDroppedListIsNotLogged(t *testing.T) {
	reading := make(chan struct{})
	gone := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/leases"):
			fmt.Fprint(w, "{")
			w.(http.Flusher).Flush()
			close(reading)
			<-r.Context().Done()
			close(gone)
		case strings.HasSuffix(r.URL.Path, "/etcds"):
			<-reading
			time.Sleep(50 * time.Millisecond) // the client has the answer's head, and waits for its body
			fallthrough
		default:
			fmt.Fprint(w, `{"apiVersion":"v1","kind":"List","metadata":{},"items":[]}`)
		}
	}))
	defer api.Close()
	var logged bytes.Buffer
	restore := klog.CaptureState()
	defer restore.Restore()
	klog.LogToStderr(false)
	klog.SetOutput(&logged)
	c, err := NewServer(&rest.Config{Host: api.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Read(t.Context(), ReadOptions{Now: time.Now()})
	if err != nil || len(s.Clusters()) != 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	<-gone
	time.Sleep(50 * time.Millisecond)
	klog.Flush()
	if logged.Len() > 0 {
		t.Errorf("logged: %s", &logged)
	}
}
