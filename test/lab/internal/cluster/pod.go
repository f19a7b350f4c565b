package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pod is what faults need to know of a pod.
type pod struct {
	name string
	uid  string
	ip   string
	// containers maps names to the IDs that are part of their cgroups' names.
	containers map[string]string
	// claims maps the names of volumes to those of claims.
	claims map[string]string
	ns     string
}

func (m *Manager) findPod(ctx context.Context, namespace, name string) (pod, error) {
	found, err := m.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return pod{}, fmt.Errorf("looking for pod %s/%s: %w", namespace, name, err)
	}
	p := pod{name: name, ns: namespace, uid: string(found.UID), ip: found.Status.PodIP, containers: map[string]string{}, claims: map[string]string{}}
	for _, c := range found.Status.ContainerStatuses {
		_, id, _ := strings.Cut(c.ContainerID, "://")
		p.containers[c.Name] = id
	}
	for _, v := range found.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			p.claims[v.Name] = v.PersistentVolumeClaim.ClaimName
		}
	}
	return p, nil
}

// process is one of a pod's. Its start time tells it from another process that got the same number later.
type process struct {
	pid     int
	started string
}

// processesOf a container are found by the cgroup that they are in.
func (p pod) processesOf(container string) ([]process, error) {
	id := p.containers[container]
	if id == "" {
		return nil, fmt.Errorf("pod %s/%s has no running container %q", p.ns, p.name, container)
	}
	found, err := inCgroup(id)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("container %s of pod %s/%s has no process", container, p.ns, p.name)
	}
	return found, nil
}

// inCgroup lists the processes in cgroups whose path has the part.
func inCgroup(part string) ([]process, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var found []process
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(text), part) {
			continue // it may have ended meanwhile
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			continue
		}
		if started := startTime(pid); started != "" {
			found = append(found, process{pid: pid, started: started})
		}
	}
	return found, nil
}

// startTime is the 22nd field of a process's stat. The second one, its name in brackets, may hold anything.
func startTime(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	rest := string(text[strings.LastIndexByte(string(text), ')')+1:])
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// signalAll signals those processes that are still the same.
func signalAll(processes []process, signal syscall.Signal) error {
	var failed error
	for _, p := range processes {
		if startTime(p.pid) != p.started {
			continue
		}
		if err := syscall.Kill(p.pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			failed = errors.Join(failed, fmt.Errorf("sending %s to process %d: %w", signal, p.pid, err))
		}
	}
	return failed
}

// drop discards packets inside the pod's own network namespace: nothing of the node or of another pod is touched. A rule
// is a chain and what must match.
func (p pod) drop(ctx context.Context, rules [][]string) (undo func(context.Context) error, err error) {
	processes, err := inCgroup("pod" + p.uid)
	if err != nil {
		return nil, err
	}
	if len(processes) == 0 {
		return nil, fmt.Errorf("pod %s/%s has no process whose network could be cut", p.ns, p.name)
	}
	// The namespace is held open, so that it can be healed even when the processes have changed.
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", processes[0].pid))
	if err != nil {
		return nil, fmt.Errorf("opening the network of pod %s/%s: %w", p.ns, p.name, err)
	}
	path := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), namespace.Fd())
	iptables := func(ctx context.Context, action string, rule []string) error {
		var failed error
		for _, tool := range []string{"iptables", "ip6tables"} {
			if tool == "ip6tables" && slices.ContainsFunc(rule, func(s string) bool { return s == "-s" || s == "-d" }) {
				continue // pods have IPv4 addresses only; a whole cut includes IPv6's loopback
			}
			args := append([]string{"--net=" + path, tool, "-w", action, rule[0]}, rule[1:]...)
			failed = errors.Join(failed, run(ctx, "nsenter", append(args, "-j", "DROP")...))
		}
		return failed
	}
	var done [][]string
	undo = func(ctx context.Context) error {
		defer namespace.Close()
		var failed error
		for _, rule := range done {
			failed = errors.Join(failed, iptables(ctx, "-D", rule))
		}
		return failed
	}
	for _, rule := range rules {
		if err := iptables(ctx, "-I", rule); err != nil {
			return nil, errors.Join(fmt.Errorf("cutting the network of pod %s/%s: %w", p.ns, p.name, err), undo(ctx))
		}
		done = append(done, rule)
	}
	return undo, nil
}
