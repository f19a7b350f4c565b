package lab_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdmember/kubectl-etcdmember/test/lab"
)

// On a machine that lacks the packages they are installed, no service starts, not even with the machine's next start,
// and the lab comes up.
func TestFreshMachine(t *testing.T) {
	l := lab.Get(t)
	if l.IsOwn() {
		t.Fatal("this tests the lab itself: unset KUBECONFIG, or set " + lab.EnvLab + "=1")
	}
	root, err := lab.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("testdata/fresh-machine.sh")
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(t.TempDir(), "lab")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", exe, "./test/lab/cmd/lab")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building lab: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "bash", script, exe, root).CombinedOutput()
	if err != nil || strings.Contains(string(out), "FAIL") || !strings.HasSuffix(string(out), "DONE\n") {
		t.Errorf("on a fresh machine: %v\n%s", err, out)
	}
}
