// Package bench measures the budgets of the plugin, each against its rival in the same run.
package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// BenchmarkVersion is the start-up of the plugin against that of kubectl: budget 0.5 of its time and of its memory. The
// rival is a kubectl of its own, as people have it, not the lab's binary, which holds all of Kubernetes.
func BenchmarkVersion(b *testing.B) {
	dir := b.TempDir()
	plugin := build(b, "../..", "./cmd/kubectl-etcdmember", filepath.Join(dir, "kubectl-etcdmember"))
	kubectl := build(b, "../lab/bin/k8s", "k8s.io/kubernetes/cmd/kubectl", filepath.Join(dir, "kubectl"))

	compare(b, "plugin", []string{plugin, "version"}, "kubectl", []string{kubectl, "version", "--client"}, func() {})
}

func build(b *testing.B, dir, pkg, out string) string {
	b.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("can't build %s: %v\n%s", pkg, err, output)
	}
	return out
}

// run runs a command to its end and returns how long it took, and the most memory that it had, in MiB.
func run(b *testing.B, command []string) (time.Duration, float64) {
	b.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	start := time.Now()
	if output, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %v\n%s", command, err, output)
	}
	took := time.Since(start)
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		b.Fatal("this system does not tell how much memory a process had")
	}
	return took, float64(usage.Maxrss) / 1024
}
