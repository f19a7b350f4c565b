// Package storage provisions and grows the lab's volumes. Each is a file system in a file behind a loop device, so that
// it is as large as it says: a full one gives a real "no space left on device", and a grown one really grows.
// They are `local` volumes, bound to the node that the pod was placed on; for those, unlike for hostPath, the kubelet
// sets the group that a container without root needs to write.
package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// Provisioner is the name that storage classes call it by.
const Provisioner = "lab.etcdmember.local/loop"

// The lab's storage classes.
const (
	Standard   = "lab-standard"
	Expandable = "lab-expandable"
)

// smallest is what a file system needs for itself and its journal.
const smallest = 16 << 20

// The file systems of the classes. A mounted ext4 can be grown only with CAP_SYS_RESOURCE, which many a container and CI
// lacks; a mounted XFS can be grown by any root.
const (
	fsParameter = "fsType"
	ext4        = "ext4"
	xfs         = "xfs"
)

// Classes are the storage classes: Standard, the default, can't grow, and Expandable can.
func Classes() []storagev1.StorageClass {
	wait, reclaim, yes, no := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete, true, false
	class := func(name, fs string, expandable *bool) storagev1.StorageClass {
		return storagev1.StorageClass{
			ObjectMeta:           metav1.ObjectMeta{Name: name},
			Provisioner:          Provisioner,
			Parameters:           map[string]string{fsParameter: fs},
			VolumeBindingMode:    &wait,
			ReclaimPolicy:        &reclaim,
			AllowVolumeExpansion: expandable,
		}
	}
	standard := class(Standard, ext4, &no)
	standard.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	return []storagev1.StorageClass{standard, class(Expandable, xfs, &yes)}
}

// Run provisions, deletes and grows volumes in dir until ctx ends.
func Run(ctx context.Context, kubeconfig, dir string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 200, 400
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client of the cluster: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making room for volumes: %w", err)
	}
	ctx = klog.NewContext(ctx, klog.Background())
	volumes := loopVolumes{dir: dir}
	go newResizer(client, volumes).run(ctx)
	controller.NewProvisionController(ctx, client, Provisioner, volumes, controller.LeaderElection(false)).Run(ctx)
	return ctx.Err()
}

// loopVolumes keeps each volume as NAME.img, mounted on NAME.
type loopVolumes struct {
	dir string
}

func (v loopVolumes) image(volume string) string { return filepath.Join(v.dir, volume+".img") }
func (v loopVolumes) mount(volume string) string { return filepath.Join(v.dir, volume) }

// Provision makes a volume on the node that the scheduler has selected.
func (v loopVolumes) Provision(ctx context.Context, o controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	size := o.PVC.Spec.Resources.Requests[corev1.ResourceStorage]
	if o.SelectedNodeName == "" {
		return nil, controller.ProvisioningFinished, fmt.Errorf("no node is selected for claim %s/%s: its storage class must wait for the first consumer", o.PVC.Namespace, o.PVC.Name)
	}
	if size.Value() < smallest {
		return nil, controller.ProvisioningFinished, fmt.Errorf("claim %s/%s asks for %s, and the smallest file system has 16Mi", o.PVC.Namespace, o.PVC.Name, size.String())
	}
	fs := o.StorageClass.Parameters[fsParameter]
	if err := v.create(ctx, o.PVName, fs, size.Value()); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	filesystem := corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			AccessModes:                   o.PVC.Spec.AccessModes,
			VolumeMode:                    &filesystem,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: size},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: v.mount(o.PVName)}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{o.SelectedNodeName}}},
			}}}},
		},
	}, controller.ProvisioningFinished, nil
}

// Delete removes a volume and what is on it.
func (v loopVolumes) Delete(ctx context.Context, pv *corev1.PersistentVolume) error {
	mount := v.mount(pv.Name)
	if isMounted(mount) {
		// The kubelet's mounts of it are gone when the claim is released, but for a moment.
		if err := run(ctx, "umount", mount); err != nil {
			return err
		}
	}
	for _, path := range []string{v.image(pv.Name), mount} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("deleting volume %s: %w", pv.Name, err)
		}
	}
	return nil
}

func (v loopVolumes) create(ctx context.Context, volume, fs string, size int64) error {
	image, mount := v.image(volume), v.mount(volume)
	if isMounted(mount) {
		return nil
	}
	if err := truncate(image, size); err != nil {
		return err
	}
	if err := format(ctx, image, fs); err != nil {
		return err
	}
	if err := os.MkdirAll(mount, 0o755); err != nil {
		return fmt.Errorf("making the mount point of volume %s: %w", volume, err)
	}
	// mount's own loop devices free themselves when they are unmounted, be it by the end of the sandbox.
	if err := run(ctx, "mount", "-o", "loop", image, mount); err != nil {
		return err
	}
	// A folder that only root may read makes an etcd without root stumble, and no other provisioner leaves one.
	if err := os.Remove(filepath.Join(mount, "lost+found")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("emptying volume %s: %w", volume, err)
	}
	return nil
}

func format(ctx context.Context, image, fs string) error {
	switch fs {
	case ext4:
		// No blocks are reserved for root, so that full means the same to every user. The journal is initialised at
		// once rather than by a kernel thread that would write during a test.
		return run(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", image)
	case xfs:
		// Unsupported are sizes below 300 MiB: those are too small to be fast, and work.
		return run(ctx, "mkfs.xfs", "-q", "-f", "-K", "--unsupported", "-l", "size=8m", image)
	default:
		return fmt.Errorf("storage class parameter %s is %q; there are %s and %s", fsParameter, fs, ext4, xfs)
	}
}

// grow makes a volume of the expandable class larger while it is in use.
func (v loopVolumes) grow(ctx context.Context, volume string, size int64) error {
	image := v.image(volume)
	info, err := os.Stat(image)
	if err != nil {
		return fmt.Errorf("growing volume %s: %w", volume, err)
	}
	if info.Size() < size {
		if err := truncate(image, size); err != nil {
			return err
		}
	}
	out, err := exec.CommandContext(ctx, "losetup", "--noheadings", "--output", "NAME", "--associated", image).Output()
	if err != nil {
		return fmt.Errorf("finding the loop device of volume %s: %w", volume, err)
	}
	device := strings.TrimSpace(string(out))
	if device == "" || strings.Contains(device, "\n") {
		return fmt.Errorf("volume %s has loop devices %q, not one", volume, device)
	}
	if err := run(ctx, "losetup", "--set-capacity", device); err != nil {
		return err
	}
	return run(ctx, "xfs_growfs", "-d", v.mount(volume))
}

func truncate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("making a volume's image: %w", err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return fmt.Errorf("making a volume's image %s long: %w", strconv.FormatInt(size, 10), err)
	}
	return nil
}

// isMounted compares the folder's device with that of the folder that it is in.
func isMounted(path string) bool {
	inner, err := deviceOf(path)
	if err != nil {
		return false
	}
	outer, err := deviceOf(filepath.Dir(path))
	return err == nil && inner != outer
}

func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
