package lab_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/etcdmember/kubectl-etcdmember/test/lab"
)

// A claim of the expandable class grows while its pod runs: the file system, the volume and the claim's status all say so.
func TestVolumesGrow(t *testing.T) {
	t.Parallel()
	l := lab.Get(t)
	e := l.StartEtcd(t, l.Namespace(t), lab.EtcdOptions{Replicas: 1, StorageClass: lab.ClassExpandable, Size: "192Mi"})
	before := l.VolumeOf(t, e.Namespace, e.Claim(0))

	claims := l.Client().CoreV1().PersistentVolumeClaims(e.Namespace)
	patch := []byte(`{"spec":{"resources":{"requests":{"storage":"320Mi"}}}}`)
	if _, err := claims.Patch(t.Context(), e.Claim(0), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	want := resource.MustParse("320Mi")
	eventually(t, 30*time.Second, "the claim has grown", func() error {
		c, err := claims.Get(t.Context(), e.Claim(0), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := c.Status.Capacity[corev1.ResourceStorage]; got.Cmp(want) != 0 || len(c.Status.Conditions) > 0 {
			return fmt.Errorf("it has %s and conditions %v", got.String(), c.Status.Conditions)
		}
		return nil
	})
	after := l.VolumeOf(t, e.Namespace, e.Claim(0))
	if after.Size < before.Size+100<<20 {
		t.Errorf("the file system had %d bytes and has %d, want 128 MiB more", before.Size, after.Size)
	}
	if p := e.GetPod(t, e.Pod(0)); p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Error("the pod was disturbed")
	}
	e.Etcdctl(t, "put", "k", "v")
}

// A claim of the standard class can't grow: the API server says so.
func TestStandardVolumesDoNotGrow(t *testing.T) {
	t.Parallel()
	l := lab.Get(t)
	e := l.StartEtcd(t, l.Namespace(t), lab.EtcdOptions{Replicas: 1, StorageClass: lab.ClassStandard})
	patch := []byte(`{"spec":{"resources":{"requests":{"storage":"1Gi"}}}}`)
	_, err := l.Client().CoreV1().PersistentVolumeClaims(e.Namespace).Patch(t.Context(), e.Claim(0), types.MergePatchType, patch, metav1.PatchOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("growing it: %v, want forbidden", err)
	}
}

// A volume is deleted with its claim, unless it was set to be retained.
func TestReclaimPolicies(t *testing.T) {
	t.Parallel()
	l := lab.Get(t)
	ns := l.Namespace(t)
	e := l.StartEtcd(t, ns, lab.EtcdOptions{Replicas: 2})
	volumes := l.Client().CoreV1().PersistentVolumes()
	var names [2]string
	for i := range names {
		names[i] = l.Kubectl(t, "get", "pvc", "-n", ns, e.Claim(i), "-o", "jsonpath={.spec.volumeName}")
	}
	patch := []byte(`{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	if _, err := volumes.Patch(t.Context(), names[0], types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.Kubectl(t, "delete", "-n", ns, "sts/"+e.Name)
	l.Kubectl(t, "delete", "-n", ns, "pvc", "--all")

	eventually(t, 30*time.Second, "the retained volume is released", func() error {
		v, err := volumes.Get(t.Context(), names[0], metav1.GetOptions{})
		if err == nil && v.Status.Phase != corev1.VolumeReleased {
			err = fmt.Errorf("it is %s", v.Status.Phase)
		}
		return err
	})
	eventually(t, 30*time.Second, "the other volume is gone", func() error {
		_, err := volumes.Get(t.Context(), names[1], metav1.GetOptions{})
		if err == nil {
			return errors.New("it is there")
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
	// Set back, it goes the same way.
	patch = []byte(`{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	if _, err := volumes.Patch(t.Context(), names[0], types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the retained volume is gone as well", func() error {
		_, err := volumes.Get(t.Context(), names[0], metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading it: %v", err)
		}
		return nil
	})
}
