package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/control"
)

// healTimeout is for undoing a fault: that must not fail because whoever asked for it was in a hurry.
const healTimeout = 30 * time.Second

// stopGrace is for a component that was told to end. The API server would wait a minute for its watches to end.
const stopGrace = 5 * time.Second

// faults are those in force, with what undoes each.
type faults struct {
	m      *Manager
	mu     sync.Mutex
	next   int
	active map[string]*activeFault
}

type activeFault struct {
	control.Fault
	undo  func(context.Context) error
	timer *time.Timer
}

func (f *faults) init(m *Manager) {
	f.m, f.active = m, map[string]*activeFault{}
}

func (f *faults) list() []control.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []control.Fault
	for _, a := range f.active {
		all = append(all, a.Fault)
	}
	slices.SortFunc(all, func(a, b control.Fault) int { return a.Since.Compare(b.Since) })
	return all
}

// Inject does what the fault says. One that lasts gets an ID, by which it is healed.
func (m *Manager) Inject(ctx context.Context, f control.Fault) (control.Fault, error) {
	undo, err := m.inject(ctx, f)
	if err != nil {
		return f, err
	}
	if undo == nil {
		return f, nil
	}
	m.faults.mu.Lock()
	defer m.faults.mu.Unlock()
	m.faults.next++
	f.ID, f.Since = fmt.Sprintf("%s-%d", strings.ToLower(string(f.Kind)), m.faults.next), time.Now()
	active := &activeFault{Fault: f, undo: undo}
	if f.For > 0 {
		active.timer = time.AfterFunc(f.For, func() {
			ctx, cancel := context.WithTimeout(context.Background(), healTimeout)
			defer cancel()
			if err := m.Heal(ctx, f.ID); err != nil {
				fmt.Println("lab: healing after its time:", err)
			}
		})
	}
	m.faults.active[f.ID] = active
	return f, nil
}

// Heal undoes a fault. One that is gone already is no error: its time may have come a moment ago.
func (m *Manager) Heal(ctx context.Context, id string) error {
	m.faults.mu.Lock()
	active := m.faults.active[id]
	delete(m.faults.active, id)
	m.faults.mu.Unlock()
	if active == nil {
		return nil
	}
	if active.timer != nil {
		active.timer.Stop()
	}
	if err := active.undo(ctx); err != nil {
		return fmt.Errorf("healing %s of %s/%s%s: %w", active.Kind, active.Namespace, active.Pod, active.Component, err)
	}
	return nil
}

// inject returns how to undo the fault, or nil for what happens once.
func (m *Manager) inject(ctx context.Context, f control.Fault) (undo func(context.Context) error, err error) {
	if f.Kind == control.Stop {
		return m.stop(ctx, f)
	}
	p, err := m.findPod(ctx, f.Namespace, f.Pod)
	if err != nil {
		return nil, err
	}
	switch f.Kind {
	case control.Kill:
		return nil, m.kill(p, f)
	case control.Freeze:
		return m.freeze(p, f)
	case control.BlackHole:
		return p.drop(ctx, [][]string{{"INPUT"}, {"OUTPUT"}})
	case control.Partition:
		return m.partition(ctx, p, f)
	case control.Fill:
		return m.fill(ctx, p, f)
	case control.Corrupt:
		return nil, m.corrupt(ctx, p, f)
	default:
		return nil, fmt.Errorf("no fault is called %q", f.Kind)
	}
}

// stop takes a component of the cluster away.
func (m *Manager) stop(ctx context.Context, f control.Fault) (func(context.Context) error, error) {
	signal := syscall.SIGTERM
	if f.Signal != 0 {
		signal = syscall.Signal(f.Signal)
	}
	if err := m.daemons.Stop(ctx, f.Component, signal, stopGrace); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := m.daemons.Resume(f.Component); err != nil {
			return err
		}
		if f.Component != "kube-apiserver" && f.Component != "etcd" {
			return nil
		}
		if err := until(ctx, "the API server is ready again", healthy(m.rest, "https://"+apiAddress+"/readyz")); err != nil {
			return err
		}
		return m.restartClients(ctx)
	}, nil
}

// restartClients restarts all that has waited for the API server. Each waits longer and longer between attempts, up to a
// minute, and a test would take that minute for its own fault. Where components hold leases, they restart for their own
// part, having lost them.
func (m *Manager) restartClients(ctx context.Context) error {
	for _, d := range m.daemons.Status() {
		switch {
		case d.Stopped, d.Name == "etcd", d.Name == "kube-apiserver", strings.HasPrefix(d.Name, "containerd-"):
			continue
		}
		if err := m.daemons.Stop(ctx, d.Name, syscall.SIGKILL, stopGrace); err != nil {
			return err
		}
		if err := m.daemons.Resume(d.Name); err != nil {
			return err
		}
	}
	return m.clientsServe(ctx)
}

// clientsServe waits until those components that are not stopped on purpose answer.
func (m *Manager) clientsServe(ctx context.Context) error {
	ports := map[string]string{
		"kube-controller-manager": "127.0.0.1:10257", "kube-scheduler": "127.0.0.1:10259",
		"kube-proxy": "127.0.0.1:10256", "coredns": "127.0.0.1:8181",
	}
	for _, n := range m.nodes() {
		ports["kubelet-"+n.name] = n.address + ":10250"
	}
	for _, d := range m.daemons.Status() {
		port := ports[d.Name]
		if port == "" || d.Stopped {
			continue
		}
		err := until(ctx, d.Name+" serves", func(ctx context.Context) error {
			conn, err := m.Dial(ctx, port)
			if err == nil {
				conn.Close()
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *Manager) kill(p pod, f control.Fault) error {
	signal := syscall.SIGKILL
	if f.Signal != 0 {
		signal = syscall.Signal(f.Signal)
	}
	processes, err := p.processesOf(f.Container)
	if err != nil {
		return err
	}
	return signalAll(processes, signal)
}

// freeze stops all processes of a container, without their knowing. The kernel still answers for them: connections
// are accepted, and then nothing comes.
func (m *Manager) freeze(p pod, f control.Fault) (func(context.Context) error, error) {
	processes, err := p.processesOf(f.Container)
	if err != nil {
		return nil, err
	}
	undo := func(context.Context) error { return signalAll(processes, syscall.SIGCONT) }
	if err := signalAll(processes, syscall.SIGSTOP); err != nil {
		return nil, errors.Join(err, undo(context.Background()))
	}
	return undo, nil
}

// partition cuts a pod off from the network but not from itself, or, with From, from single other pods only.
func (m *Manager) partition(ctx context.Context, p pod, f control.Fault) (func(context.Context) error, error) {
	if len(f.From) == 0 {
		return p.drop(ctx, [][]string{{"INPUT", "!", "-i", "lo"}, {"OUTPUT", "!", "-o", "lo"}})
	}
	var rules [][]string
	for _, name := range f.From {
		other, err := m.findPod(ctx, f.Namespace, name)
		if err != nil {
			return nil, err
		}
		rules = append(rules, []string{"INPUT", "-s", other.ip}, []string{"OUTPUT", "-d", other.ip})
	}
	return p.drop(ctx, rules)
}
