package storage

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// resizer grows the volumes of claims that ask for more than they have, and says so in the same places as the external
// resizer of a storage driver: the volume's capacity, then the claim's capacity and conditions.
type resizer struct {
	client  kubernetes.Interface
	volumes loopVolumes
	claims  listers.PersistentVolumeClaimLister
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
	factory informers.SharedInformerFactory
}

func newResizer(client kubernetes.Interface, volumes loopVolumes) *resizer {
	r := &resizer{
		client:  client,
		volumes: volumes,
		factory: informers.NewSharedInformerFactory(client, 10*time.Minute),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](200*time.Millisecond, 10*time.Second)),
	}
	r.claims = r.factory.Core().V1().PersistentVolumeClaims().Lister()
	enqueue := func(obj any) {
		if c, ok := obj.(*corev1.PersistentVolumeClaim); ok && wantsMore(c) {
			r.queue.Add(cache.MetaObjectToName(c))
		}
	}
	// Adding a handler fails only on an informer that has stopped.
	_, _ = r.factory.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, obj any) { enqueue(obj) },
	})
	return r
}

func wantsMore(c *corev1.PersistentVolumeClaim) bool {
	wanted, has := c.Spec.Resources.Requests[corev1.ResourceStorage], c.Status.Capacity[corev1.ResourceStorage]
	return c.Status.Phase == corev1.ClaimBound && wanted.Cmp(has) > 0
}

func (r *resizer) run(ctx context.Context) {
	r.factory.StartWithContext(ctx)
	r.factory.WaitForCacheSyncWithContext(ctx)
	context.AfterFunc(ctx, r.queue.ShutDown)
	for {
		name, quit := r.queue.Get()
		if quit {
			return
		}
		if err := r.resize(ctx, name); err != nil {
			klog.FromContext(ctx).Error(err, "growing a volume", "claim", name)
			r.queue.AddRateLimited(name)
		} else {
			r.queue.Forget(name)
		}
		r.queue.Done(name)
	}
}

func (r *resizer) resize(ctx context.Context, name cache.ObjectName) error {
	claim, err := r.claims.PersistentVolumeClaims(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) || err == nil && !wantsMore(claim) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading claim %s: %w", name, err)
	}
	volume, err := r.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the volume of claim %s: %w", name, err)
	}
	if volume.Annotations["pv.kubernetes.io/provisioned-by"] != Provisioner {
		return nil
	}
	wanted := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	err = r.updateStatus(ctx, name, func(s *corev1.PersistentVolumeClaimStatus) {
		s.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: wanted}
		s.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
			corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInProgress,
		}
		s.Conditions = []corev1.PersistentVolumeClaimCondition{{
			Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		}}
	})
	if err != nil {
		return err
	}
	if err := r.volumes.grow(ctx, volume.Name, wanted.Value()); err != nil {
		return err
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		volume, err := r.client.CoreV1().PersistentVolumes().Get(ctx, volume.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		volume.Spec.Capacity[corev1.ResourceStorage] = wanted
		_, err = r.client.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("recording the new size of volume %s: %w", volume.Name, err)
	}
	return r.updateStatus(ctx, name, func(s *corev1.PersistentVolumeClaimStatus) {
		s.Capacity[corev1.ResourceStorage] = wanted
		s.AllocatedResourceStatuses = nil
		s.Conditions = nil
	})
}

func (r *resizer) updateStatus(ctx context.Context, name cache.ObjectName, change func(*corev1.PersistentVolumeClaimStatus)) error {
	claims := r.client.CoreV1().PersistentVolumeClaims(name.Namespace)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		claim, err := claims.Get(ctx, name.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&claim.Status)
		_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("recording the progress of claim %s: %w", name, err)
	}
	return nil
}
