package agent

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
)

// mounts is the part of an API server that leads to a volume.
type mounts struct {
	mu                             sync.Mutex
	pod                            *corev1.Pod
	claim                          *corev1.PersistentVolumeClaim
	volume                         *corev1.PersistentVolume
	podErr, claimErr, volumeErr    error
	podReads, claimReads, volReads int
}

func (m *mounts) GetPod(context.Context, string) (*corev1.Pod, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.podReads++
	return m.pod, m.podErr
}

func (m *mounts) GetClaim(context.Context, string) (*corev1.PersistentVolumeClaim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claimReads++
	return m.claim, m.claimErr
}

func (m *mounts) GetVolume(context.Context, string) (*corev1.PersistentVolume, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.volReads++
	return m.volume, m.volumeErr
}

// now changes it, and returns how often pod and volume have been read.
func (m *mounts) now(podErr, volumeErr error) (podReads, volReads int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.podErr, m.volumeErr = podErr, volumeErr
	return m.podReads, m.volReads
}

func etcdPod() *corev1.Pod {
	claim := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "main-0"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/var"}, {Name: "data", MountPath: "/var/lib/etcd/"}, {Name: "other", MountPath: "/var/lib/etcd2"}},
			}, {
				VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc"}, {Name: "inline", MountPath: "/inline"}},
			}},
			Volumes: []corev1.Volume{
				{Name: "config"},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "data", VolumeSource: claim("data-main-0")},
				{Name: "other", VolumeSource: claim("other-main-0")},
				{Name: "inline", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
			},
		},
	}
}

func TestClaimOf(t *testing.T) {
	for dir, want := range map[string]string{
		"/var/lib/etcd/data": "data-main-0", "/var/lib/etcd": "data-main-0", "/var/lib/etcd/": "data-main-0", "/var/lib/etcd2/x": "other-main-0",
		"/var/lib": "", "/somewhere": "", "/inline/data": "main-0-inline", "/etc/x": "",
	} {
		if got := claimOf(etcdPod(), dir); got != want {
			t.Errorf("%s is on claim %q: want %q", dir, got, want)
		}
	}
}

func identified(c *core) (*v1alpha1.Volume, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.volume(), c.identifying
}

func TestIdentify(t *testing.T) {
	class := "fast"
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumes"}, "pv-1", errors.New("no"))
	synctest.Test(t, func(t *testing.T) {
		api := &mounts{
			pod:    etcdPod(),
			claim:  &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "claim-uid"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: "pv-1"}},
			volume: &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{VolumeHandle: "vol-0abc"}}}},
			podErr: errors.New("the API is away"),
		}
		logged := make(chan string, 100)
		log := funcr.New(func(_, args string) { logged <- args }, funcr.Options{})
		c := &core{identifying: true}
		i := &identifier{core: c, api: api, log: log, pod: "main-0", dataDir: "/var/lib/etcd/data", wake: make(chan struct{}, 1)}
		ended := make(chan struct{})
		go func() { i.run(t.Context()); close(ended) }()
		pass(time.Second)
		reads, _ := api.now(nil, forbidden)
		if v, identifying := identified(c); v != nil || identifying || reads != 1 {
			t.Errorf("is %+v without a pod, after %d reads", v, reads)
		}
		pass(2 * identifyRetry)
		want := v1alpha1.Volume{Claim: "data-main-0", ClaimUID: "claim-uid", Volume: "pv-1", StorageClass: "fast"}
		if v, _ := identified(c); v == nil || *v != want {
			t.Errorf("is %+v: want %+v", v, want)
		}
		<-logged // That the API was away.
		if got := <-logged; !strings.Contains(got, "etcdmember-agent-volumes") {
			t.Errorf("the log does not say which right is missing: %s", got)
		}
		pass(2 * identifyRetry)
		if _, reads := api.now(nil, nil); reads != 1 {
			t.Error("asks again and again for what is forbidden")
		}
		pass(2 * identifyForbiddenRetry)
		want.VolumeHandle = "vol-0abc"
		if v, _ := identified(c); v == nil || *v != want {
			t.Errorf("is %+v: want %+v", v, want)
		}
		<-ended // What can't change is not asked for again.
	})
}

func TestIdentifyWithoutClaim(t *testing.T) {
	api, c := &mounts{pod: etcdPod()}, &core{identifying: true}
	(&identifier{core: c, api: api, log: testLog(t), pod: "main-0", dataDir: "/scratch", wake: make(chan struct{}, 1)}).run(t.Context())
	if c.volume() != nil || c.identifying || api.podReads != 1 || api.claimReads != 0 {
		t.Errorf("is %+v after %d and %d reads", c.volume(), api.podReads, api.claimReads)
	}
}

func TestHandleOf(t *testing.T) {
	for want, source := range map[string]corev1.PersistentVolumeSource{
		"vol-1":       {CSI: &corev1.CSIPersistentVolumeSource{VolumeHandle: "vol-1"}},
		"/mnt/disk":   {Local: &corev1.LocalVolumeSource{Path: "/mnt/disk"}},
		"/data":       {HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		"nfs:/export": {NFS: &corev1.NFSVolumeSource{Server: "nfs", Path: "/export"}},
		"":            {FC: &corev1.FCVolumeSource{}},
	} {
		if got := handleOf(&corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}}); got != want {
			t.Errorf("handle is %q: want %q", got, want)
		}
	}
}

func TestSuperReadOnly(t *testing.T) {
	const mountinfo = `22 1 254:1 / / rw,relatime - ext4 /dev/root rw
30 22 254:2 / /var/lib/etcd ro,relatime shared:1 - ext4 /dev/sdb rw,stripe=4
31 22 254:3 / /mnt/broken rw,relatime - ext4 /dev/sdc ro,errors=remount-ro
32 22 254:4 / /mnt/shut rw - ext4 /dev/sdd rw,emergency_ro
33 22 254:5 / /mnt/with\040space rw - xfs /dev/sde ro
34 22 254:6 / /mnt/twice rw - ext4 /dev/sdf ro
35 22 254:7 / /mnt/twice rw - ext4 /dev/sdg rw
nonsense
`
	for dir, want := range map[string]bool{
		"/var/lib/etcd/data": false, // The agent's mount is read-only, the file system is not.
		"/mnt/broken/data":   true,
		"/mnt/shut":          true,
		"/mnt/with space/x":  true,
		"/mnt/twice/x":       false,
		"/mnt/brokenx":       false,
	} {
		if got, found := superReadOnly(strings.NewReader(mountinfo), dir); got != want || !found {
			t.Errorf("%s: %t, found %t: want %t", dir, got, found, want)
		}
	}
	if _, found := superReadOnly(strings.NewReader(""), "/x"); found {
		t.Error("found a mount in nothing")
	}
}

func TestFileSystem(t *testing.T) {
	dir := t.TempDir()
	fs, err := (&fileSystemReader{dir: dir}).read()
	if err != nil || fs.capacity <= 0 || fs.available < 0 || fs.available > fs.capacity || fs.readOnly {
		t.Errorf("%+v, %v", fs, err)
	}
	if _, err := (&fileSystemReader{dir: dir + "/missing"}).read(); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("%v: want an error that names the directory", err)
	}
	hanging := &fileSystemReader{dir: dir}
	hanging.pending.Store(true)
	if _, err := hanging.read(); !errors.Is(err, errHangs) {
		t.Errorf("%v: want %v", err, errHangs)
	}
}
