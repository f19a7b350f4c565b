package cli

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
)

// apply creates the objects of a plan, or makes them right.
func (o *adoptOptions) apply(ctx context.Context, p *adoptPlan) error {
	for _, item := range p.apply {
		after, err := o.applyOne(ctx, item)
		if err != nil {
			return err
		}
		if err := o.results.add(after, verbOf(item.before, after)); err != nil {
			return err
		}
	}
	return nil
}

// applyOne applies one object, and returns what it has become, or would.
func (o *adoptOptions) applyOne(ctx context.Context, item adoptItem) (*unstructured.Unstructured, error) {
	if o.dryRun == dryRunClient {
		out := item.want.DeepCopy()
		if item.before != nil {
			out = item.before.DeepCopy()
			overlay(out.Object, item.want.DeepCopy().Object)
		}
		return out, nil
	}
	want := item.want.DeepCopy()
	if item.before != nil {
		want.SetUID(item.before.GetUID()) // that very one, and no other that has taken its place
	}
	after, err := o.client.Resource(item.resource).Namespace(o.namespace).Apply(ctx, want.GetName(), want,
		metav1.ApplyOptions{FieldManager: o.fieldManager, Force: o.forceConflicts, DryRun: o.dryRun.options()})
	if isFieldConflict(err) {
		return nil, refusef("%s in namespace %s is left as it is, because others manage some of its fields: %w; take them over with --force-conflicts only if they agree", objectName(want), o.namespace, err)
	}
	if err != nil {
		return nil, explain(err, "apply %s in namespace %s", objectName(want), o.namespace)
	}
	return after, nil
}

// pruneStale deletes what a plan has found to be stale, and returns the names of what it had to keep.
func (o *adoptOptions) pruneStale(ctx context.Context, p *adoptPlan) (kept []string, err error) {
	keep := map[string]bool{}
	for _, m := range p.staleMembers {
		needed, err := o.deleteStale(ctx, v1alpha1.EtcdMemberResource, m, func(now *unstructured.Unstructured) bool {
			return slices.Contains(now.GetFinalizers(), v1alpha1.FinalizerTask)
		})
		if err != nil {
			return nil, err
		}
		if needed {
			kept = append(kept, objectName(m))
			keep[v1alpha1.HeartbeatLeaseName(m.GetName())] = true
		}
	}
	for _, l := range p.staleLeases {
		if keep[l.GetName()] {
			continue
		}
		if _, err := o.deleteStale(ctx, leaseResource, l, func(*unstructured.Unstructured) bool { return false }); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// deleteStale deletes an object unless it is needed, which is judged on the very state that is deleted.
func (o *adoptOptions) deleteStale(ctx context.Context, resource schema.GroupVersionResource, obj *unstructured.Unstructured, needed func(*unstructured.Unstructured) bool) (bool, error) {
	c := o.client.Resource(resource).Namespace(o.namespace)
	uid := obj.GetUID()
	for {
		if needed(obj) {
			return true, nil
		}
		if o.dryRun == dryRunClient || obj.GetDeletionTimestamp() != nil {
			return false, o.results.addDeleted(obj)
		}
		rv := obj.GetResourceVersion()
		err := c.Delete(ctx, obj.GetName(), metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &rv},
			DryRun:        o.dryRun.options(),
		})
		switch {
		case err == nil:
			return false, o.results.addDeleted(obj)
		case apierrors.IsNotFound(err):
			return false, nil
		case !apierrors.IsConflict(err):
			return false, explain(err, "delete %s in namespace %s", objectName(obj), o.namespace)
		}
		// Somebody has written it meanwhile: a late heartbeat, or a task that begins to need it.
		now, err := c.Get(ctx, obj.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, explain(err, "read %s in namespace %s", objectName(obj), o.namespace)
		case now.GetUID() != uid:
			return false, nil // a new one, which nobody has called stale
		}
		obj = now
	}
}
