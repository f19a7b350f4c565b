package agent

import (
	"context"
	"encoding/json"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
)

// pageSize bounds how many EtcdMembers are held in memory while looking for one.
const pageSize = 100

// kube is the agent's access to the API server: one namespace, and nothing but the calls that config/rbac allows. It uses
// plain REST clients: a clientset of all kinds would be most of the agent's memory.
type kube struct {
	members, leases, core rest.Interface
	namespace             string
	params                runtime.ParameterCodec
}

var (
	_ statusWriter = (*kube)(nil)
	_ memberReader = (*kube)(nil)
	_ leaseRenewer = (*kube)(nil)
	_ mountReader  = (*kube)(nil)
)

// newKube returns access to the namespace. It makes no call.
func newKube(config *rest.Config, namespace string) (*kube, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("setting up access to the API server: %w", err)
	}
	k := &kube{namespace: namespace, params: runtime.NewParameterCodec(scheme)}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	for _, group := range []struct {
		version schema.GroupVersion
		path    string
		target  *rest.Interface
	}{
		{v1alpha1.GroupVersion, "/apis", &k.members},
		{coordinationv1.SchemeGroupVersion, "/apis", &k.leases},
		{corev1.SchemeGroupVersion, "/api", &k.core},
	} {
		c := rest.CopyConfig(config)
		c.GroupVersion, c.APIPath, c.NegotiatedSerializer = &group.version, group.path, codecs
		if *group.target, err = rest.RESTClientForConfigAndClient(c, client); err != nil {
			return nil, fmt.Errorf("setting up access to the API server: %w", err)
		}
	}
	return k, nil
}

// ApplyStatus applies by server-side apply, and takes over fields of ours that somebody else has written. It fails if there
// is no such object: applying a status creates none.
func (k *kube) ApplyStatus(ctx context.Context, member *v1alpha1.EtcdMember) (*v1alpha1.EtcdMember, error) {
	body, err := applyBody(member)
	if err != nil {
		return nil, err
	}
	force := true
	result := &v1alpha1.EtcdMember{}
	err = k.members.Patch(types.ApplyPatchType).
		Namespace(k.namespace).Resource(v1alpha1.EtcdMemberResource.Resource).Name(member.Name).SubResource("status").
		VersionedParams(&metav1.PatchOptions{FieldManager: v1alpha1.FieldManagerAgent, Force: &force}, k.params).
		Body(body).Do(ctx).Into(result)
	if err != nil {
		return nil, err
	}
	return result, nil
}

// applyBody is the apply configuration: the object's identity, and the status without a spec to own.
func applyBody(member *v1alpha1.EtcdMember) ([]byte, error) {
	body, err := json.Marshal(map[string]any{
		"apiVersion": member.APIVersion,
		"kind":       member.Kind,
		"metadata":   map[string]any{"name": member.Name},
		"status":     member.Status,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the status of EtcdMember %s: %w", member.Name, err)
	}
	return body, nil
}

// ListMembers lists page by page.
func (k *kube) ListMembers(ctx context.Context) ([]v1alpha1.EtcdMember, error) {
	var all []v1alpha1.EtcdMember
	for options := (metav1.ListOptions{Limit: pageSize}); ; {
		page := &v1alpha1.EtcdMemberList{}
		err := k.members.Get().Namespace(k.namespace).Resource(v1alpha1.EtcdMemberResource.Resource).
			VersionedParams(&options, k.params).Do(ctx).Into(page)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			// Only what the search needs is kept.
			all = append(all, v1alpha1.EtcdMember{
				ObjectMeta: metav1.ObjectMeta{Name: page.Items[i].Name},
				Spec:       v1alpha1.EtcdMemberSpec{PodName: page.Items[i].Spec.PodName},
			})
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

// GetMember lists by name, because a list's resource version can be watched from; an object's own may be compacted away.
func (k *kube) GetMember(ctx context.Context, name string) (*v1alpha1.EtcdMember, string, error) {
	list := &v1alpha1.EtcdMemberList{}
	err := k.members.Get().Namespace(k.namespace).Resource(v1alpha1.EtcdMemberResource.Resource).
		VersionedParams(&metav1.ListOptions{FieldSelector: byName(name)}, k.params).Do(ctx).Into(list)
	if err != nil {
		return nil, "", err
	}
	if len(list.Items) == 0 {
		return nil, list.ResourceVersion, nil
	}
	return &list.Items[0], list.ResourceVersion, nil
}

// WatchMember watches the one of that name.
func (k *kube) WatchMember(ctx context.Context, name, from string) (watch.Interface, error) {
	return k.members.Get().Namespace(k.namespace).Resource(v1alpha1.EtcdMemberResource.Resource).
		VersionedParams(&metav1.ListOptions{FieldSelector: byName(name), ResourceVersion: from, Watch: true}, k.params).Watch(ctx)
}

func byName(name string) string { return fields.OneTermEqualSelector("metadata.name", name).String() }

// RenewLease is one small write and no read. It fails if there is no such Lease.
func (k *kube) RenewLease(ctx context.Context, name string, spec coordinationv1.LeaseSpec) error {
	body, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return fmt.Errorf("encoding Lease %s: %w", name, err)
	}
	return k.leases.Patch(types.MergePatchType).Namespace(k.namespace).Resource("leases").Name(name).
		VersionedParams(&metav1.PatchOptions{FieldManager: v1alpha1.FieldManagerAgent}, k.params).
		Body(body).Do(ctx).Error()
}

// GetPod reads a pod of the namespace.
func (k *kube) GetPod(ctx context.Context, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, k.core.Get().Namespace(k.namespace).Resource("pods").Name(name).Do(ctx).Into(pod)
}

// GetClaim reads a claim of the namespace.
func (k *kube) GetClaim(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, error) {
	claim := &corev1.PersistentVolumeClaim{}
	return claim, k.core.Get().Namespace(k.namespace).Resource("persistentvolumeclaims").Name(name).Do(ctx).Into(claim)
}

// GetVolume reads a volume, for which the agent may lack the right: volumes belong to no namespace.
func (k *kube) GetVolume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	volume := &corev1.PersistentVolume{}
	return volume, k.core.Get().Resource("persistentvolumes").Name(name).Do(ctx).Into(volume)
}
