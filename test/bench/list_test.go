package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/test/apiserver"
)

const (
	listedClusters   = 3334
	membersEach      = 3
	clustersAtOnce   = 32
	listedNamespaces = 100
)

var (
	statefulSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	leases       = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	namespaces   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// BenchmarkStatusAll is 'status -A' over 10,000 members that publish, against 'kubectl get' of their EtcdMembers from the
// same server: budget 1.0 of its time and of its memory.
func BenchmarkStatusAll(b *testing.B) {
	dir := b.TempDir()
	plugin, kubectl := buildBoth(b, dir)
	s := apiserver.Start(b)
	config := "--kubeconfig=" + s.Kubeconfig
	run(b, plugin, "crd", "install", config)
	populate(b, s)

	beat(b, s)
	// What is measured must be what is meant.
	out, err := exec.Command(plugin, "status", "-A", config, "--no-headers").Output()
	if err != nil {
		b.Fatal(err)
	}
	if rows := bytes.Count(out, []byte("\n")); rows != listedClusters*membersEach {
		b.Fatalf("status -A printed %d rows, want %d, as\n%.2000s", rows, listedClusters*membersEach, out)
	}
	if healthy := bytes.Count(out, []byte("Healthy")); healthy != listedClusters*membersEach {
		b.Fatalf("%d members are healthy, want all %d:\n%.600s", healthy, listedClusters*membersEach, out)
	}

	compare(b, here(b, dir), contender{name: "plugin", command: []string{plugin, "status", "-A", config}},
		contender{name: "kubectl", command: []string{kubectl, "get", "etcdmembers.druid.gardener.cloud", "-A", config}},
		func() { beat(b, s) })
}

// populate creates StatefulSets and the EtcdMembers and Leases of their members, as 'adopt' and agents do.
func populate(b *testing.B, s *apiserver.Server) {
	b.Helper()
	start := time.Now()
	ctx := b.Context()
	apply := func(r schema.GroupVersionResource, o map[string]any) error {
		u := &unstructured.Unstructured{Object: o}
		_, err := s.Dynamic.Resource(r).Namespace(u.GetNamespace()).Create(ctx, u, metav1.CreateOptions{})
		return err
	}
	var g errgroup.Group
	g.SetLimit(clustersAtOnce)
	for i := range listedNamespaces {
		g.Go(func() error {
			return apply(namespaces, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespaceOf(i)}})
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	for i := range listedClusters {
		g.Go(func() error { return populateCluster(ctx, s, apply, i) })
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "%d clusters of %d members created in %s\n", listedClusters, membersEach, time.Since(start).Round(time.Second))
}

func namespaceOf(cluster int) string {
	return fmt.Sprintf("shoot--bench--%02d", cluster%listedNamespaces)
}

func clusterName(cluster int) string { return fmt.Sprintf("etcd-main-%04d", cluster) }

func populateCluster(ctx context.Context, s *apiserver.Server, apply func(schema.GroupVersionResource, map[string]any) error, i int) error {
	ns, name := namespaceOf(i), clusterName(i)
	labels := map[string]any{"app.kubernetes.io/part-of": name}
	if err := apply(statefulSets, map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": map[string]any{"name": name, "namespace": ns, "labels": labels},
		"spec": map[string]any{
			"replicas": int64(membersEach), "serviceName": name + "-peer", "podManagementPolicy": "Parallel",
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
				"containers": []any{map[string]any{"name": "etcd", "image": "etcd:3.7.3", "args": []any{"--name=$(POD_NAME)", "--data-dir=/var/lib/etcd"}}},
			}},
		},
	}); err != nil {
		return err
	}
	for m := range membersEach {
		member := fmt.Sprintf("%s-%d", name, m)
		labels := map[string]any{
			v1alpha1.LabelPartOf: name, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelComponent: v1alpha1.ComponentMember, v1alpha1.LabelOwnedBy: name,
		}
		object := map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "EtcdMember",
			"metadata": map[string]any{"name": member, "namespace": ns, "labels": labels},
			"spec":     map[string]any{"clusterRef": map[string]any{"kind": "StatefulSet", "name": name}, "podName": member},
		}
		if err := apply(v1alpha1.EtcdMemberResource, object); err != nil {
			return err
		}
		if _, err := s.Dynamic.Resource(v1alpha1.EtcdMemberResource).Namespace(ns).ApplyStatus(ctx, member, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "EtcdMember",
			"metadata": map[string]any{"name": member, "namespace": ns}, "status": published(i, m, member),
		}}, metav1.ApplyOptions{FieldManager: v1alpha1.FieldManagerAgent, Force: true}); err != nil {
			return err
		}
		if err := apply(leases, map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": map[string]any{"name": v1alpha1.HeartbeatLeaseName(member), "namespace": ns, "labels": map[string]any{
				v1alpha1.LabelPartOf: name, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelComponent: v1alpha1.ComponentHeartbeat,
			}},
			"spec": map[string]any{"holderIdentity": member, "renewTime": time.Now().UTC().Format(metav1.RFC3339Micro)},
		}); err != nil {
			return err
		}
	}
	return nil
}

// published is the status of a member that serves, with the transitions of a usual life.
func published(cluster, m int, name string) map[string]any {
	now := time.Now().UTC().Format(time.RFC3339)
	role := "Follower"
	if m == 0 {
		role = "Leader"
	}
	transition := func(state, sub, reason string) any {
		return map[string]any{"state": state, "subState": sub, "reason": reason, "message": "", "transitionTime": now}
	}
	return map[string]any{
		"id": fmt.Sprintf("%x", 0x7211f1d0f64f3000+cluster*membersEach+m), "clusterID": fmt.Sprintf("%x", 0x5b06ae4800000000+cluster),
		"state": "Started", "subState": role, "peerTLSEnabled": true, "dbSize": "20Mi", "dbSizeInUse": "10Mi", "dbSizeQuota": "8Gi",
		"revision": int64(123456), "raft": map[string]any{"term": int64(3), "index": int64(200000), "appliedIndex": int64(200000)},
		"version": "3.7.3", "publishedAt": now, "publishedBy": map[string]any{"type": "Agent"},
		"volume": map[string]any{
			"claim": "data-" + name, "claimUID": "11111111-2222-3333-4444-555555555555", "volume": "pvc-11111111-2222-3333-4444-555555555555",
			"volumeHandle": "handle", "storageClass": "fast", "capacity": "25Gi", "available": "20Gi",
		},
		"transitions": []any{
			transition("Initializing", "DBValidationSanity", "DetectedPreviousCleanExit"), transition("Started", "Follower", "DBValidationSucceeded"),
			transition("Started", role, "GainedClusterLeadership"),
		},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Serving", "message": "", "lastTransitionTime": now}},
	}
}

// beat renews all heartbeats, as agents do every 20 s. That they go on for as long as the benchmark does is not what is measured.
func beat(b *testing.B, s *apiserver.Server) {
	b.Helper()
	var g errgroup.Group
	g.SetLimit(clustersAtOnce)
	for i := range listedClusters {
		g.Go(func() error {
			for m := range membersEach {
				patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
				if _, err := s.Dynamic.Resource(leases).Namespace(namespaceOf(i)).Patch(b.Context(), v1alpha1.HeartbeatLeaseName(fmt.Sprintf("%s-%d", clusterName(i), m)), "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}
