package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
)

const (
	// identifyRetry is how soon a volume that could not be identified is tried again.
	identifyRetry = 20 * time.Second
	// identifyForbiddenRetry is the same where a right is missing, which is often so on purpose.
	identifyForbiddenRetry = 30 * time.Minute
)

// mountReader reads what leads from a pod to its volume.
type mountReader interface {
	GetPod(ctx context.Context, name string) (*corev1.Pod, error)
	GetClaim(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, error)
	GetVolume(ctx context.Context, name string) (*corev1.PersistentVolume, error)
}

// identifier finds out which volume the data directory is on. A running pod's volume never changes, so that it asks until
// it knows all, and then no more. It is no part of a look: the API server can be slow, and etcd must not wait for it.
type identifier struct {
	core         *core
	api          mountReader
	log          logr.Logger
	pod, dataDir string
	// wake is signalled after each try.
	wake chan<- struct{}
}

// run asks until all is known or the context ends.
func (i *identifier) run(ctx context.Context) {
	logged := ""
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		volume, err := i.ask(call)
		cancel()
		i.core.identify(volume, time.Now())
		signal(i.wake)
		if err == nil || ctx.Err() != nil {
			return
		}
		delay := jitter(identifyRetry)
		if apierrors.IsForbidden(err) {
			delay = jitter(identifyForbiddenRetry)
		}
		if logged != err.Error() {
			logged = err.Error()
			i.log.Info("The data volume is not known in full", "why", logged)
		}
		if !sleep(ctx, nil, time.Now().Add(delay)) {
			return
		}
	}
}

// ask follows pod, claim and volume as far as it may. What it has found up to an error is returned with it.
func (i *identifier) ask(ctx context.Context) (*v1alpha1.Volume, error) {
	pod, err := i.api.GetPod(ctx, i.pod)
	if err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", i.pod, err)
	}
	claimName := claimOf(pod, i.dataDir)
	if claimName == "" {
		return nil, nil // On the node's own disk or in memory: there is no claim, and nothing more to know.
	}
	v := &v1alpha1.Volume{Claim: claimName}
	claim, err := i.api.GetClaim(ctx, claimName)
	if err != nil {
		return v, fmt.Errorf("reading PersistentVolumeClaim %s: %w", claimName, err)
	}
	v.ClaimUID, v.Volume = v1alpha1.UID(claim.UID), claim.Spec.VolumeName
	if claim.Spec.StorageClassName != nil {
		v.StorageClass = *claim.Spec.StorageClassName
	}
	if v.Volume == "" {
		return v, fmt.Errorf("PersistentVolumeClaim %s is not bound", claimName)
	}
	volume, err := i.api.GetVolume(ctx, v.Volume)
	if err != nil {
		return v, fmt.Errorf("reading PersistentVolume %s, which takes ClusterRole etcdmember-agent-volumes: %w", v.Volume, err)
	}
	v.VolumeHandle = handleOf(volume)
	return v, nil
}

// claimOf is the name of the claim that the directory is on: that of the deepest mount above it, in whatever container of
// the pod has one. Empty: it is not on a claim.
func claimOf(pod *corev1.Pod, dir string) string {
	dir = filepath.Clean(dir)
	var deepest, volume string
	containers := append(append([]corev1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...)
	for _, container := range containers {
		for _, mount := range container.VolumeMounts {
			path := filepath.Clean(mount.MountPath)
			if contains(path, dir) && len(path) > len(deepest) {
				deepest, volume = path, mount.Name
			}
		}
	}
	for _, v := range pod.Spec.Volumes {
		if v.Name != volume {
			continue
		}
		switch {
		case v.PersistentVolumeClaim != nil:
			return v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			return pod.Name + "-" + v.Name // Fixed by the API: the name of the claim that is made for an ephemeral volume.
		}
	}
	return ""
}

// contains says whether dir is parent or below it.
func contains(parent, dir string) bool {
	return parent == dir || parent == "/" || strings.HasPrefix(dir, parent+"/")
}

// handleOf is what the storage system calls the volume. Empty where it has no name for it.
func handleOf(pv *corev1.PersistentVolume) string {
	switch s := pv.Spec.PersistentVolumeSource; {
	case s.CSI != nil:
		return s.CSI.VolumeHandle
	case s.AWSElasticBlockStore != nil:
		return s.AWSElasticBlockStore.VolumeID
	case s.GCEPersistentDisk != nil:
		return s.GCEPersistentDisk.PDName
	case s.AzureDisk != nil:
		return s.AzureDisk.DataDiskURI
	case s.Cinder != nil:
		return s.Cinder.VolumeID
	case s.VsphereVolume != nil:
		return s.VsphereVolume.VolumePath
	case s.NFS != nil:
		return s.NFS.Server + ":" + s.NFS.Path
	case s.Local != nil:
		return s.Local.Path
	case s.HostPath != nil:
		return s.HostPath.Path
	default:
		return ""
	}
}
