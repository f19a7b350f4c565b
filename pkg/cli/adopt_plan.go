package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

var (
	leaseResource = coordinationv1.SchemeGroupVersion.WithResource("leases")
	leaseKind     = coordinationv1.SchemeGroupVersion.WithKind("Lease")
)

// inventory is what a namespace has of EtcdMembers and of their heartbeat Leases, by name.
type inventory struct {
	members, leases map[string]*unstructured.Unstructured
}

// adoptPlan is what is to be done for one cluster.
type adoptPlan struct {
	cluster *workloadCluster
	// apply are the objects to be applied, each with what is there of it.
	apply []adoptItem
	// staleMembers and staleLeases are what is to be deleted.
	staleMembers, staleLeases []*unstructured.Unstructured
}

// adoptItem is one object to be applied. before is nil where there is nothing.
type adoptItem struct {
	resource     schema.GroupVersionResource
	want, before *unstructured.Unstructured
}

// list reads what the namespace has.
func (o *adoptOptions) list(ctx context.Context) (*inventory, error) {
	inv := &inventory{members: map[string]*unstructured.Unstructured{}, leases: map[string]*unstructured.Unstructured{}}
	for _, kind := range []struct {
		resource schema.GroupVersionResource
		into     map[string]*unstructured.Unstructured
	}{{v1alpha1.EtcdMemberResource, inv.members}, {leaseResource, inv.leases}} {
		opts := metav1.ListOptions{Limit: 500}
		for {
			page, err := o.client.Resource(kind.resource).Namespace(o.namespace).List(ctx, opts)
			if apierrors.IsNotFound(err) && kind.resource == v1alpha1.EtcdMemberResource {
				return nil, fmt.Errorf("the cluster does not know EtcdMembers; install their CustomResourceDefinition with 'kubectl etcdmember crd install': %w", err)
			}
			if err != nil {
				return nil, explain(err, "list %s in namespace %s", kind.resource.GroupResource(), o.namespace)
			}
			for i := range page.Items {
				kind.into[page.Items[i].GetName()] = &page.Items[i]
			}
			if opts.Continue = page.GetContinue(); opts.Continue == "" {
				break
			}
		}
	}
	return inv, nil
}

// newAdoptPlan decides what is to be done for a cluster, or why it must not be.
func newAdoptPlan(c *workloadCluster, namespace string, there *inventory, prune bool) (*adoptPlan, error) {
	p := &adoptPlan{cluster: c}
	if problems := utilvalidation.IsDNS1123Label(c.name); len(problems) > 0 {
		return nil, fmt.Errorf("can't adopt %s in namespace %s: its name would be a label's value and a part of its pods' names: %s", c, namespace, strings.Join(problems, ", "))
	}
	wanted := map[string]bool{}
	for _, m := range c.members() {
		wanted[m.name] = true
		if err := validateMember(c, namespace, m); err != nil {
			return nil, err
		}
		before := there.members[m.name]
		if err := checkMember(c, namespace, m, before); err != nil {
			return nil, err
		}
		lease := there.leases[v1alpha1.HeartbeatLeaseName(m.name)]
		if err := checkLease(c, namespace, lease); err != nil {
			return nil, err
		}
		p.apply = append(p.apply,
			adoptItem{v1alpha1.EtcdMemberResource, newMember(c, namespace, m, before), before},
			adoptItem{leaseResource, newHeartbeatLease(c, namespace, m, lease), lease})
	}
	if prune {
		p.findStale(there, wanted)
	}
	return p, nil
}

// findStale finds the EtcdMembers of the cluster that have no replica, their Leases, and Leases that have lost their EtcdMember.
func (p *adoptPlan) findStale(there *inventory, wanted map[string]bool) {
	names := slices.SortedFunc(maps.Keys(there.members), model.CompareNatural)
	for _, name := range names {
		if m := there.members[name]; !wanted[name] && refersTo(m, p.cluster) {
			p.staleMembers = append(p.staleMembers, m)
		}
	}
	for _, leaseName := range slices.SortedFunc(maps.Keys(there.leases), model.CompareNatural) {
		name, ok := strings.CutPrefix(leaseName, v1alpha1.HeartbeatLeasePrefix)
		lease := there.leases[leaseName]
		if !ok || wanted[name] || !isHeartbeat(lease) || lease.GetLabels()[v1alpha1.LabelPartOf] != p.cluster.name {
			continue
		}
		if m := there.members[name]; m == nil || refersTo(m, p.cluster) {
			p.staleLeases = append(p.staleLeases, lease)
		}
	}
}

// refersTo says whether an EtcdMember is one of the cluster's.
func refersTo(m *unstructured.Unstructured, c *workloadCluster) bool {
	kind, _, _ := unstructured.NestedString(m.Object, "spec", "clusterRef", "kind")
	name, _, _ := unstructured.NestedString(m.Object, "spec", "clusterRef", "name")
	return kind == string(c.kind) && name == c.name
}

// isHeartbeat says whether a Lease is one that agents renew.
func isHeartbeat(lease *unstructured.Unstructured) bool {
	return lease.GetLabels()[v1alpha1.LabelComponent] == v1alpha1.ComponentHeartbeat
}

// validateMember says early, and for all members, what the API server would say of one.
func validateMember(c *workloadCluster, namespace string, m member) error {
	problems := utilvalidation.IsDNS1123Label(m.name)
	if len(problems) == 0 {
		problems = utilvalidation.IsDNS1123Label(m.pod)
	}
	if len(problems) > 0 {
		return fmt.Errorf("can't adopt %s in namespace %s: %q can't be the name of an EtcdMember: %s", c, namespace, m.name, strings.Join(problems, ", "))
	}
	return nil
}

// checkMember refuses an EtcdMember of that name that is another member.
func checkMember(c *workloadCluster, namespace string, m member, before *unstructured.Unstructured) error {
	if before == nil {
		return nil
	}
	name := objectName(before)
	if !refersTo(before, c) {
		kind, _, _ := unstructured.NestedString(before.Object, "spec", "clusterRef", "kind")
		of, _, _ := unstructured.NestedString(before.Object, "spec", "clusterRef", "name")
		return refusef("%s in namespace %s belongs to %s %s and not to %s, so nothing was changed; "+
			"if it is stale, delete it first: an EtcdMember owns nothing, so no data is lost", name, namespace, kind, of, c)
	}
	if pod, _, _ := unstructured.NestedString(before.Object, "spec", "podName"); pod != m.pod {
		return refusef("%s in namespace %s is that of pod %s and not of pod %s, so nothing was changed; "+
			"if it is stale, delete it first: an EtcdMember owns nothing, so no data is lost", name, namespace, pod, m.pod)
	}
	if before.GetDeletionTimestamp() != nil {
		return fmt.Errorf("can't adopt %s: %s in namespace %s is being deleted; wait until it is gone, and adopt again", c, name, namespace)
	}
	return nil
}

// checkLease refuses a Lease of a heartbeat's name that is something else, such as the one that etcd-druid keeps for a
// member whose name begins with etcdmember-.
func checkLease(c *workloadCluster, namespace string, lease *unstructured.Unstructured) error {
	if lease == nil || isHeartbeat(lease) && lease.GetLabels()[v1alpha1.LabelPartOf] == c.name {
		return nil
	}
	return refusef("%s in namespace %s is no heartbeat of %s, so nothing was changed: it has labels %s=%q and %s=%q; "+
		"delete it first if nobody uses it", objectName(lease), namespace, c,
		v1alpha1.LabelComponent, lease.GetLabels()[v1alpha1.LabelComponent], v1alpha1.LabelPartOf, lease.GetLabels()[v1alpha1.LabelPartOf])
}

// newMember is the EtcdMember to be applied.
func newMember(c *workloadCluster, namespace string, m member, before *unstructured.Unstructured) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"clusterRef": map[string]any{"kind": string(c.kind), "name": c.name},
			"podName":    m.pod,
		},
	}}
	obj.SetGroupVersionKind(v1alpha1.EtcdMemberKind)
	setMeta(obj, c, namespace, m.name, v1alpha1.ComponentMember, before)
	return obj
}

// newHeartbeatLease is the Lease to be applied. It is deleted with what its EtcdMember is deleted with; the EtcdMember
// itself owns nothing.
func newHeartbeatLease(c *workloadCluster, namespace string, m member, before *unstructured.Unstructured) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(leaseKind)
	setMeta(obj, c, namespace, v1alpha1.HeartbeatLeaseName(m.name), v1alpha1.ComponentHeartbeat, before)
	return obj
}

// setMeta sets name, labels and owner. Who made an object that is there already is left as it is.
func setMeta(obj *unstructured.Unstructured, c *workloadCluster, namespace, name, component string, before *unstructured.Unstructured) {
	obj.SetNamespace(namespace)
	obj.SetName(name)
	labels := map[string]string{
		v1alpha1.LabelPartOf:    c.name,
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
		v1alpha1.LabelComponent: component,
		v1alpha1.LabelOwnedBy:   c.name,
	}
	if before != nil && before.GetLabels()[v1alpha1.LabelManagedBy] != "" && before.GetLabels()[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy {
		delete(labels, v1alpha1.LabelManagedBy)
	}
	obj.SetLabels(labels)
	if c.owner != nil {
		obj.SetOwnerReferences([]metav1.OwnerReference{*c.owner})
	}
}
