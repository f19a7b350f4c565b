package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

var (
	etcdResource        = schema.GroupVersionResource{Group: v1alpha1.GroupName, Version: "v1alpha1", Resource: "etcds"}
	statefulSetResource = appsv1.SchemeGroupVersion.WithResource("statefulsets")
)

// String is the argument as kubectl would have it.
func (a clusterArg) String() string { return model.Key{Kind: a.kind, Name: a.name}.Resource() }

// workloadCluster is what a cluster wants to be: the Etcd's or the StatefulSet's spec.
type workloadCluster struct {
	clusterArg
	replicas int
	// start is the ordinal of the first pod.
	start int
	// prefix is what member names begin with, before the pod's name.
	prefix string
	// owner is what the members are deleted with. Never a StatefulSet, which may be deleted and made anew.
	owner *metav1.OwnerReference
	// looksLikeEtcd is true for every Etcd.
	looksLikeEtcd bool
	// standIn is the StatefulSet by which the Etcd was named.
	standIn string
}

// member is the name of a member and of its pod.
type member struct{ name, pod string }

// members are the members that the cluster wants.
func (c *workloadCluster) members() []member {
	var out []member
	for i := range c.replicas {
		pod := fmt.Sprintf("%s-%d", c.name, c.start+i)
		name := pod
		if c.prefix != "" {
			name = c.prefix + "-" + pod
		}
		out = append(out, member{name: name, pod: pod})
	}
	return out
}

// mostReplicas is far more than any etcd has, and few enough for a mistyped number to do no harm.
const mostReplicas = 100

// resolveCluster finds the cluster that an argument names.
func resolveCluster(ctx context.Context, c dynamic.Interface, namespace string, arg clusterArg) (*workloadCluster, error) {
	if arg.kind != model.KindStatefulSet {
		etcd, err := getEtcd(ctx, c, namespace, arg)
		if etcd != nil || err != nil {
			return etcd, err
		}
		if arg.kind == model.KindEtcd {
			return nil, fmt.Errorf("there is no %s in namespace %s", arg, namespace)
		}
	}
	obj, err := c.Resource(statefulSetResource).Namespace(namespace).Get(ctx, arg.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && arg.kind == "":
		return nil, fmt.Errorf("there is no Etcd and no StatefulSet %s in namespace %s", arg.name, namespace)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no %s in namespace %s", arg, namespace)
	case err != nil:
		return nil, explain(err, "read %s in namespace %s", clusterArg{model.KindStatefulSet, arg.name}, namespace)
	}
	set := &appsv1.StatefulSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, set); err != nil {
		return nil, fmt.Errorf("can't understand %s in namespace %s: %w", arg, namespace, err)
	}
	if ref := metav1.GetControllerOf(set); ref != nil && ref.Kind == string(model.KindEtcd) && strings.HasPrefix(ref.APIVersion, v1alpha1.GroupName+"/") {
		owner := clusterArg{model.KindEtcd, ref.Name}
		etcd, err := getEtcd(ctx, c, namespace, owner)
		if err != nil {
			return nil, err
		}
		if etcd == nil {
			return nil, fmt.Errorf("can't adopt %s in namespace %s: its owner %s is gone, so it is about to go, too", clusterArg{model.KindStatefulSet, arg.name}, namespace, owner)
		}
		etcd.standIn = clusterArg{model.KindStatefulSet, arg.name}.String()
		return etcd, nil
	}
	out := &workloadCluster{clusterArg: clusterArg{model.KindStatefulSet, arg.name}, replicas: 1, looksLikeEtcd: looksLikeEtcd(set.Spec.Template.Spec)}
	if set.Spec.Replicas != nil {
		out.replicas = int(*set.Spec.Replicas)
	}
	if set.Spec.Ordinals != nil {
		out.start = int(set.Spec.Ordinals.Start)
	}
	return out, nil
}

// getEtcd reads an Etcd, nil where there is none. Etcds are etcd-druid's, whose types this project does not import: it
// needs four fields.
func getEtcd(ctx context.Context, c dynamic.Interface, namespace string, arg clusterArg) (*workloadCluster, error) {
	obj, err := c.Resource(etcdResource).Namespace(namespace).Get(ctx, arg.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case apierrors.IsForbidden(err) && arg.kind == "":
		return nil, fmt.Errorf("can't tell whether there is an Etcd %s in namespace %s: %w; write sts/%s if it is a StatefulSet", arg.name, namespace, err, arg.name)
	case err != nil:
		return nil, explain(err, "read etcd.%s/%s in namespace %s", v1alpha1.GroupName, arg.name, namespace)
	}
	out := &workloadCluster{clusterArg: clusterArg{model.KindEtcd, arg.name}, looksLikeEtcd: true}
	replicas, found, err1 := unstructured.NestedInt64(obj.Object, "spec", "replicas")
	prefix, _, err2 := unstructured.NestedString(obj.Object, "spec", "memberNamePrefix")
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("can't understand %s in namespace %s: %w", out, namespace, err)
	}
	if !found {
		return nil, fmt.Errorf("can't understand %s in namespace %s: it has no spec.replicas", out, namespace)
	}
	if obj.GetDeletionTimestamp() != nil {
		return nil, fmt.Errorf("can't adopt %s in namespace %s: it is being deleted", out, namespace)
	}
	out.replicas, out.prefix = int(replicas), prefix
	yes := true
	out.owner = &metav1.OwnerReference{
		APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Name: obj.GetName(), UID: obj.GetUID(),
		Controller: &yes, BlockOwnerDeletion: &yes, // DEP-04
	}
	return out, nil
}

// looksLikeEtcd says whether a pod seems to run etcd: by the name of an image or a command, or by etcd's two ports.
func looksLikeEtcd(pod corev1.PodSpec) bool {
	for _, c := range pod.Containers {
		image := path.Base(c.Image)
		image, _, _ = strings.Cut(image, "@")
		image, _, _ = strings.Cut(image, ":")
		if strings.Contains(image, "etcd") || strings.Contains(c.Name, "etcd") {
			return true
		}
		for _, word := range append(append([]string{}, c.Command...), c.Args...) {
			// Not any word: --etcd-servers=… is what clients of etcd have.
			for w := range strings.FieldsSeq(word) {
				if path.Base(w) == "etcd" || strings.HasPrefix(w, "--initial-cluster=") {
					return true
				}
			}
		}
		ports := map[int32]bool{}
		for _, p := range c.Ports {
			ports[p.ContainerPort] = true
		}
		if ports[2379] && ports[2380] {
			return true
		}
	}
	return false
}
