package lab_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/test/lab"
)

// runLab runs the `lab` command and returns what it printed on standard output.
func runLab(t *testing.T, l *lab.Lab, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), lab.LabCommand(l), args...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("lab %s: %v\n%s", strings.Join(args, " "), err, complaint.String())
	}
	return string(out)
}

// The command line does the same harm as the package, and heals it by itself when told to.
func TestFaultsFromTheCommandLine(t *testing.T) {
	t.Parallel()
	l := lab.Get(t)
	if l.IsOwn() {
		t.Fatal("this tests the lab itself: unset KUBECONFIG, or set " + lab.EnvLab + "=1")
	}
	e := l.StartEtcd(t, l.Namespace(t), lab.EtcdOptions{})
	name := e.Namespace + "/" + e.Pod(1)

	out := runLab(t, l, "fault", "freeze", name, lab.EtcdContainer, "--for=4s")
	id, _, ok := strings.Cut(out, ": ")
	if !ok || !strings.Contains(out, name) {
		t.Fatalf("freeze printed %q", out)
	}
	if out := runLab(t, l, "fault", "list"); !strings.Contains(out, id+": Freeze of pod "+name) {
		t.Errorf("list printed %q", out)
	}
	if err := put(t, e, "k", "v", 2*time.Second, e.Pod(1)); err == nil {
		t.Error("the frozen member answers")
	}
	eventually(t, 15*time.Second, "it heals by itself", func() error {
		if strings.Contains(runLab(t, l, "fault", "list"), id+":") {
			return errors.New("the fault is still listed")
		}
		return put(t, e, "k", "v", 3*time.Second, e.Pod(1))
	})
	out = runLab(t, l, "fault", "blackhole", name)
	id, _, _ = strings.Cut(out, ": ")
	if out := runLab(t, l, "fault", "heal", id); out != id+" healed\n" {
		t.Errorf("heal printed %q", out)
	}
	eventually(t, 15*time.Second, "it is healed", func() error { return put(t, e, "k", "v", 3*time.Second, e.Pod(1)) })
	for _, bad := range [][]string{
		{"fault", "freeze", "no-slash", "etcd"}, {"fault", "freeze", e.Namespace + "/none", "etcd"}, {"fault", "freeze", name, "none"},
		{"fault", "heal", "none-1"}, {"fault", "heal"}, {"fault", "stop", "none"}, {"fault", "kill", name, "etcd", "--signal=NONE"},
		{"fault", "corrupt", name, "--path=../x"}, {"fault", "fill", name, "--volume=none"},
	} {
		if out, err := exec.CommandContext(t.Context(), lab.LabCommand(l), bad...).CombinedOutput(); err == nil {
			t.Errorf("lab %s was accepted: %s", strings.Join(bad, " "), out)
		}
	}
}

// status, logs, env and exec tell what runs, and let one look inside.
func TestCommands(t *testing.T) {
	l := lab.Get(t)
	if l.IsOwn() {
		t.Fatal("this tests the lab itself: unset KUBECONFIG, or set " + lab.EnvLab + "=1")
	}
	out := runLab(t, l, "status")
	for _, want := range []string{"lab ready", l.Kubeconfig(), "kube-apiserver", "kubelet-node3", "MiB"} {
		if !strings.Contains(out, want) {
			t.Errorf("status does not say %q:\n%s", want, out)
		}
	}
	var status struct{ Ready bool }
	if err := json.Unmarshal([]byte(runLab(t, l, "status", "-o", "json")), &status); err != nil || !status.Ready {
		t.Errorf("status -o json: %+v, %v", status, err)
	}
	if out := runLab(t, l, "logs"); !strings.Contains(out, "kubelet-node1\n") {
		t.Errorf("logs listed %q", out)
	}
	if out := runLab(t, l, "logs", "coredns", "-n", "1"); strings.Count(strings.TrimSpace(out), "\n") != 0 {
		t.Errorf("logs -n 1 printed %q", out)
	}
	if out := runLab(t, l, "env"); !strings.Contains(out, "export KUBECONFIG=\""+l.Kubeconfig()) {
		t.Errorf("env printed %q", out)
	}
	if out := runLab(t, l, "exec", "--", "hostname"); out != "etcdmember-lab\n" {
		t.Errorf("exec hostname printed %q", out)
	}
	if out := runLab(t, l, "exec", "--", "kubectl", "get", "--raw", "/readyz"); out != "ok" {
		t.Errorf("exec kubectl printed %q", out)
	}
	// Nothing leads out of the lab, and what is the host's is read-only in there.
	if out := runLab(t, l, "exec", "--", "ip", "route", "show", "default"); out != "" {
		t.Errorf("a route leads out of the sandbox: %s", out)
	}
	if out := runLab(t, l, "exec", "--", "sh", "-c", "touch /etc/x /usr/x 2>&1; true"); strings.Count(out, "Read-only file system") != 2 {
		t.Errorf("writing to the host's folders: %q", out)
	}
}

// Someone who is not root is told so, and what to do instead.
func TestWithoutRoot(t *testing.T) {
	l := lab.Get(t)
	if l.IsOwn() {
		t.Fatal("this tests the lab itself: unset KUBECONFIG, or set " + lab.EnvLab + "=1")
	}
	dir := t.TempDir()
	exe := dir + "/lab"
	if out, err := exec.CommandContext(t.Context(), "cp", lab.LabCommand(l), exe).CombinedOutput(); err != nil {
		t.Fatalf("copying lab: %v %s", err, out)
	}
	// t.TempDir's folders, of which there are two, are for their owner only.
	if out, err := exec.CommandContext(t.Context(), "chmod", "a+rx", filepath.Dir(dir), dir, exe).CombinedOutput(); err != nil {
		t.Fatalf("letting nobody in: %v %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), exe, "up")
	cmd.Env = []string{"HOME=/tmp", "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "needs root") || !strings.Contains(string(out), "KUBECONFIG") {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}
