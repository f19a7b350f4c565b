package lab_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/test/lab"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/sandbox"
)

// A second lab lives beside the first. When its supervisor is killed with signal 9, everything that it ran ends, and
// the host is as it was, but for empty cgroups, which the next command removes.
func TestEverythingEndsWithTheSupervisor(t *testing.T) {
	if lab.Get(t).IsOwn() {
		t.Fatal("this tests the lab itself: unset KUBECONFIG, or set " + lab.EnvLab + "=1")
	}
	root, err := lab.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	// t.TempDir's path may be too long for a socket.
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	where, err := lab.LayoutAt(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "lab")
	command := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = root, lab.Environ(where.Dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", exe, "./test/lab/cmd/lab")

	mounts, fixed := mountsOf(t, dir), hostState(t)
	t.Cleanup(func() {
		cmd := exec.Command(exe, "down")
		cmd.Dir, cmd.Env = root, lab.Environ(where.Dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("lab down: %v\n%s", err, out)
		}
	})
	t.Logf("lab up:\n%s", command(exe, "up", "--nodes=1"))
	begin := time.Now()
	command(exe, "up")
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("`up` took %s when it was up already", took)
	}
	var s sandbox.State
	if err := sandbox.ReadJSON(where.State(), &s); err != nil {
		t.Fatal(err)
	}
	inside := processesIn(s.Init)
	if len(inside) < 8 {
		t.Fatalf("%d processes are in the sandbox, want the whole cluster", len(inside))
	}
	if got := mountsOf(t, dir); !bytes.Equal(got, mounts) {
		t.Errorf("the host sees mounts of the lab:\n%s", got)
	}
	if got := hostState(t); !slices.Equal(got, fixed) {
		t.Errorf("the host was\n%s\nand is\n%s", strings.Join(fixed, "\n"), strings.Join(got, "\n"))
	}
	if cgroups(where.ID()) == 0 {
		t.Error("the lab has no cgroups of its own")
	}

	if err := syscall.Kill(s.Supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "all its processes end", func() error {
		for _, pid := range inside {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("process %d is there", pid)
			}
		}
		return nil
	})
	if out := loopDevices(t); strings.Contains(out, where.Dir) {
		t.Errorf("it left loop devices: %s", out)
	}
	command(exe, "down")
	if n := cgroups(where.ID()); n > 0 {
		t.Errorf("it left %d cgroups", n)
	}
	if got := hostState(t); !slices.Equal(got, fixed) {
		t.Errorf("the host was\n%s\nand is\n%s", strings.Join(fixed, "\n"), strings.Join(got, "\n"))
	}
}

// processesIn are the host's numbers of the processes in the PID namespace that init is the first of.
func processesIn(init int) []int {
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", init))
	if err != nil {
		return nil
	}
	links, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	var pids []int
	for _, l := range links {
		var pid int
		if in, err := os.Readlink(l); err == nil && in == namespace {
			if _, err := fmt.Sscanf(l, "/proc/%d/ns/pid", &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func cgroups(id string) int {
	found := 0
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		dirs, _ := filepath.Glob(pattern + sandbox.CgroupRoot(id))
		found += len(dirs)
	}
	return found
}

func loopDevices(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "losetup", "--all").CombinedOutput()
	if err != nil {
		t.Fatalf("losetup: %v\n%s", err, out)
	}
	return string(out)
}

// mountsOf are the mounts below dir that this process sees.
func mountsOf(t *testing.T, dir string) []byte {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var found bytes.Buffer
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte(dir)) {
			found.Write(line)
		}
	}
	return found.Bytes()
}

// hostState is what a Kubernetes node would change of its host: settings, folders, network interfaces.
func hostState(t *testing.T) []string {
	t.Helper()
	var state []string
	for _, f := range []string{
		"/proc/sys/vm/overcommit_memory", "/proc/sys/vm/panic_on_oom", "/proc/sys/kernel/panic", "/proc/sys/kernel/panic_on_oops",
		"/proc/sys/kernel/keys/root_maxkeys", "/proc/sys/kernel/keys/root_maxbytes", "/proc/sys/net/ipv4/ip_forward",
		"/proc/sys/net/netfilter/nf_conntrack_max",
	} {
		text, err := os.ReadFile(f)
		if err != nil {
			text = []byte("not there")
		}
		state = append(state, f+" = "+strings.TrimSpace(string(text)))
	}
	for _, dir := range []string{"/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers", "/run/containerd", "/etc/cni"} {
		_, err := os.Stat(dir)
		state = append(state, fmt.Sprintf("%s is there: %v", dir, err == nil))
	}
	interfaces, err := filepath.Glob("/sys/class/net/*")
	if err != nil {
		t.Fatal(err)
	}
	return append(state, "interfaces: "+strings.Join(interfaces, " "))
}
