package lab

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/images"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/storage"
)

// The containers of an etcd pod.
const (
	EtcdContainer  = "etcd"
	AgentContainer = "agent"
)

// The lab's storage classes.
const (
	// ClassStandard is the default one. Its volumes can't grow.
	ClassStandard = storage.Standard
	// ClassExpandable has volumes that can grow while they are in use.
	ClassExpandable = storage.Expandable
)

// AgentImage and ControllerImage are this checkout's own.
const (
	AgentImage      = images.Agent
	ControllerImage = images.Controller
)

// The etcd versions that the lab has.
const (
	Etcd37 = "3.7.3"
	Etcd36 = "3.6.16"
	Etcd35 = "3.5.35"
	// Etcd34 is whatever Debian 12 packages.
	Etcd34 = "3.4"
)

// readyTimeout is far beyond what a busy machine takes; see the README.
const readyTimeout = 3 * time.Minute

// EtcdOptions say what etcd cluster to start. The zero value is three members of the newest version without TLS.
type EtcdOptions struct {
	// Name of the StatefulSet, "main" unless given.
	Name string
	// Replicas, 3 unless given.
	Replicas int
	// Version, Etcd37 unless given.
	Version string
	// TLS, with certificates asked of clients and peers.
	TLS bool
	// StorageClass of the data volume, the cluster's default unless given.
	StorageClass string
	// Size of the data volume, "256Mi" unless given. etcd allocates two log files of 64 MiB before it writes a byte, so
	// that less than 160 MiB won't do.
	Size string
	// QuotaBytes of the backend, etcd's default unless given.
	QuotaBytes int64
	// Agent adds the project's agent as a sidecar. It needs the project's CRDs and ClusterRoles in the cluster.
	Agent bool
	// AgentArgs are added to the agent's.
	AgentArgs []string
	// ExtraArgs are added to etcd's.
	ExtraArgs []string
	// Mutate changes the StatefulSet before it is made.
	Mutate func(*appsv1.StatefulSet)
	// NoWait returns when all objects are made, without waiting until the members are ready.
	NoWait bool
}

func (o *EtcdOptions) complete(t testing.TB) {
	if o.Name == "" {
		o.Name = "main"
	}
	if o.Replicas == 0 {
		o.Replicas = 3
	}
	if o.Version == "" {
		o.Version = Etcd37
	}
	if o.Size == "" {
		o.Size = "256Mi"
	}
	if o.Agent && !o.TLS {
		t.Fatal("the agent's arguments are those of an etcd with TLS: set TLS as well")
	}
}

// Etcd is an etcd cluster in the lab.
type Etcd struct {
	// Name of the StatefulSet.
	Name string
	// Namespace that it is in.
	Namespace string
	// Version as its image's tag has it.
	Version string
	// Replicas that were asked for.
	Replicas int

	lab  *Lab
	opts EtcdOptions
	tls  *certificates
}

// StartEtcd starts an etcd cluster and waits until all members are ready.
func (l *Lab) StartEtcd(t testing.TB, namespace string, o EtcdOptions) *Etcd {
	t.Helper()
	o.complete(t)
	if l.IsOwn() {
		// What is not the lab has no 3.4 image, and no way to find out its full version.
		if o.Version == Etcd34 {
			t.Fatal(errOwn)
		}
	} else {
		o.Version = l.etcdVersion(t, o.Version)
		if o.Agent {
			l.LoadImages(t, "agent")
		}
	}
	e := &Etcd{Name: o.Name, Namespace: namespace, Version: o.Version, Replicas: o.Replicas, lab: l, opts: o}
	if err := e.create(t.Context()); err != nil {
		t.Fatalf("starting etcd %s/%s: %v", namespace, o.Name, err)
	}
	if !o.NoWait {
		e.WaitReady(t)
	}
	return e
}

// etcdVersion gives the nodes the image of that version, and returns the version in full.
func (l *Lab) etcdVersion(t testing.TB, version string) string {
	t.Helper()
	l.LoadImages(t, "etcd:"+version)
	archive, err := l.launcher.Archive(t.Context(), "etcd:"+version)
	if err != nil {
		t.Fatalf("making the image of etcd %s: %v", version, err)
	}
	return archive.Ref[strings.LastIndexByte(archive.Ref, ':')+1:]
}

// Pod is the name of a member's pod, which is the member's name too.
func (e *Etcd) Pod(ordinal int) string { return fmt.Sprintf("%s-%d", e.Name, ordinal) }

// Pods are the names of all members' pods.
func (e *Etcd) Pods() []string {
	pods := make([]string, e.Replicas)
	for i := range pods {
		pods[i] = e.Pod(i)
	}
	return pods
}

// Claim is the name of a member's claim.
func (e *Etcd) Claim(ordinal int) string { return dataVolume + "-" + e.Pod(ordinal) }

// Endpoint is the client URL of a member, by its pod's name.
func (e *Etcd) Endpoint(pod string) string {
	return fmt.Sprintf("%s://%s.%s.%s.svc:2379", e.scheme(), pod, e.PeerService(), e.Namespace)
}

// PeerService is the headless Service, by which members are found before they are ready.
func (e *Etcd) PeerService() string { return e.Name + "-peer" }

// ClientService is the Service of ready members.
func (e *Etcd) ClientService() string { return e.Name + "-client" }

// ServiceAccount of the pods.
func (e *Etcd) ServiceAccount() string { return e.Name + "-agent" }

func (e *Etcd) scheme() string {
	if e.opts.TLS {
		return "https"
	}
	return "http"
}

// WaitReady waits until every member's pod is ready, which takes a linearizable read through each member.
func (e *Etcd) WaitReady(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
	defer cancel()
	for {
		set, err := e.lab.client.AppsV1().StatefulSets(e.Namespace).Get(ctx, e.Name, metav1.GetOptions{})
		if err == nil && set.Status.ObservedGeneration >= set.Generation && set.Status.ReadyReplicas == int32(e.Replicas) && set.Status.Replicas == int32(e.Replicas) {
			return
		}
		ready := int32(-1)
		if err == nil {
			ready = set.Status.ReadyReplicas
		}
		select {
		case <-ctx.Done():
			t.Fatalf("etcd %s/%s: %d of %d members are ready after %s (%v)", e.Namespace, e.Name, ready, e.Replicas, readyTimeout, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// GetPod reads a member's pod.
func (e *Etcd) GetPod(t testing.TB, pod string) *corev1.Pod {
	t.Helper()
	p, err := e.lab.client.CoreV1().Pods(e.Namespace).Get(t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("reading pod %s/%s: %v", e.Namespace, pod, err)
	}
	return p
}

// Etcdctl runs etcdctl in the first member's pod, as an operator would, and returns what it printed.
func (e *Etcd) Etcdctl(t testing.TB, args ...string) string {
	t.Helper()
	return e.EtcdctlIn(t, e.Pod(0), args...)
}

// EtcdctlIn runs etcdctl in a member's pod, against that member.
func (e *Etcd) EtcdctlIn(t testing.TB, pod string, args ...string) string {
	t.Helper()
	command := []string{"exec", "-n", e.Namespace, pod, "-c", EtcdContainer, "--", "etcdctl", "--endpoints=" + e.scheme() + "://127.0.0.1:2379"}
	if e.opts.TLS {
		command = append(command, "--cacert="+clientTLSDir+"/ca.crt", "--cert="+clientTLSDir+"/tls.crt", "--key="+clientTLSDir+"/tls.key")
	}
	return e.lab.Kubectl(t, append(command, args...)...)
}
