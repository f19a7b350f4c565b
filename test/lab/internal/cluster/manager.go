// Package cluster runs a Kubernetes inside the sandbox: control plane, nodes, DNS, volumes, and the faults that are
// done to them.
package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"golang.org/x/sync/errgroup"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/control"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/proc"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/sandbox"
)

// bootTimeout is far beyond what a slow machine takes (see the README), so that a lab that can't start says so.
const bootTimeout = 3 * time.Minute

// Manager is the process that runs the cluster.
type Manager struct {
	c       sandbox.Config
	started time.Time
	daemons proc.Group
	rest    *rest.Config
	client  kubernetes.Interface
	faults  faults

	mu     sync.Mutex
	ready  bool
	failed error
	steps  []control.Step
	images map[string]control.Image
}

// Manage runs the cluster until it is killed. A cluster that can't start is kept as far as it came, so that somebody
// can look at it.
func Manage(ctx context.Context, configPath string) error {
	m := &Manager{started: time.Now(), images: map[string]control.Image{}}
	if err := sandbox.ReadJSON(configPath, &m.c); err != nil {
		return err
	}
	m.daemons.LogDir = m.c.Layout.Log()
	m.faults.init(m)
	door, err := sandbox.Door()
	if err != nil {
		return err
	}
	go func() {
		if err := m.boot(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "lab:", err)
			m.mu.Lock()
			m.failed = err
			m.mu.Unlock()
		}
	}()
	go forward(door)
	return control.Serve(m.c.Layout.Socket(), m)
}

func (m *Manager) boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	err := m.step("network, certificates", func() error {
		if err := m.makeNetwork(ctx); err != nil {
			return err
		}
		return m.writePKI()
	})
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", m.kubeconfig("lab-manager"))
	if err != nil {
		return fmt.Errorf("reading the manager's kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 200, 400
	m.rest = config
	if m.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client of the cluster: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.bootControlPlane(ctx) })
	group.Go(func() error { return m.bootNodes(ctx) })
	if err := group.Wait(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range m.c.Images {
		m.images[i.Ref] = control.Image{Ref: i.Ref, Digest: i.Digest, Path: i.Path}
	}
	m.ready = true
	return nil
}

func (m *Manager) bootControlPlane(ctx context.Context) error {
	err := m.step("etcd, API server", func() error {
		if err := m.startEtcd(); err != nil {
			return err
		}
		if err := m.startAPIServer(); err != nil {
			return err
		}
		return until(ctx, "the API server is ready", healthy(m.rest, "https://"+apiAddress+"/readyz"))
	})
	if err != nil {
		return err
	}
	return m.step("controllers, scheduler, proxy, DNS, volumes", func() error {
		if err := m.startControllers(); err != nil {
			return err
		}
		if err := m.startDNS(); err != nil {
			return err
		}
		if err := m.startVolumes(); err != nil {
			return err
		}
		if err := m.apply(ctx); err != nil {
			return err
		}
		if err := until(ctx, "CoreDNS is ready", healthy(&rest.Config{}, "http://127.0.0.1:8181/ready")); err != nil {
			return err
		}
		return until(ctx, "the default service account exists", func(ctx context.Context) error {
			_, err := m.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
			return err
		})
	})
}

func (m *Manager) bootNodes(ctx context.Context) error {
	err := m.step("containerd, images", func() error {
		group, ctx := errgroup.WithContext(ctx)
		for _, n := range m.nodes() {
			group.Go(func() error { return m.startContainerd(ctx, n) })
		}
		return group.Wait()
	})
	if err != nil {
		return err
	}
	return m.step(fmt.Sprintf("%d nodes ready", m.c.Nodes), func() error {
		// A kubelet that finds no API server waits seconds before it asks again.
		if err := until(ctx, "the API server is ready", healthy(m.rest, "https://"+apiAddress+"/readyz")); err != nil {
			return err
		}
		for _, n := range m.nodes() {
			if err := m.startKubelet(n); err != nil {
				return err
			}
		}
		return until(ctx, "all nodes are ready", m.nodesReady)
	})
}

func (m *Manager) nodesReady(ctx context.Context) error {
	list, err := m.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	ready := 0
	for _, n := range list.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && len(n.Spec.Taints) == 0 {
				ready++
			}
		}
	}
	if ready < m.c.Nodes {
		return fmt.Errorf("%d of %d nodes are ready", ready, m.c.Nodes)
	}
	return nil
}

// startVolumes starts the provisioner. It is a process of its own, so that it can be stopped like any component.
func (m *Manager) startVolumes() error {
	return m.daemons.Start(proc.Daemon{Name: "volumes", Argv: []string{
		filepath.Join(m.c.Layout.Bin(), "lab"), "sandbox", "volumes", "--kubeconfig", m.kubeconfig("lab-manager"), "--dir", m.c.Layout.Volumes(),
	}})
}

func (m *Manager) step(name string, do func() error) error {
	start := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps = append(m.steps, control.Step{Name: name, Took: time.Since(start), At: time.Since(m.started)})
	return nil
}

// Status is what the manager knows of the lab.
func (m *Manager) Status() control.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := control.Status{Ready: m.ready, Started: m.started, Steps: m.steps, Kubernetes: filepath.Base(m.c.Kubernetes), Components: m.daemons.Status(), Faults: m.faults.list()}
	if m.failed != nil {
		s.Failed = m.failed.Error()
	}
	for _, i := range m.images {
		s.Images = append(s.Images, i)
	}
	return s
}

// Load imports an image on all nodes.
func (m *Manager) Load(ctx context.Context, i control.Image) error {
	m.mu.Lock()
	has := m.images[i.Ref].Digest == i.Digest
	m.mu.Unlock()
	if has {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range m.nodes() {
		group.Go(func() error { return n.load(ctx, i.Path) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.images[i.Ref] = i
	return nil
}
