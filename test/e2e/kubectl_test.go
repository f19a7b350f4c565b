package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/test/apiserver"
)

// kubectl runs a real kubectl.
func (s *apiServer) kubectl(t *testing.T, path string, args ...string) run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, apiserver.Binary(t, "k8s", "k8s"))
	cmd.Args = append([]string{"kubectl"}, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig, "HOME="+t.TempDir(), "PATH="+path+string(filepath.ListSeparator)+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("can't run kubectl: %v", err)
	}
	return run{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// TestKubectl is what kubectl alone makes of EtcdMembers.
func TestKubectl(t *testing.T) {
	s := startAPIServer(t)
	if r := s.plugin(t, "crd", "install"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	for _, example := range examples(t) {
		resource := s.dynamic.Resource(kinds[example.GetKind()].resource).Namespace("default")
		created, err := resource.Create(t.Context(), example, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if status := example.Object["status"]; status != nil {
			created.Object["status"] = status
			if _, err := resource.UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	get := func(t *testing.T, args ...string) []string {
		t.Helper()
		r := s.kubectl(t, "", append([]string{"get"}, args...)...)
		if r.code != 0 {
			t.Fatalf("kubectl get %s: %s", strings.Join(args, " "), r.stderr)
		}
		var rows []string
		for _, row := range strings.Split(strings.TrimSpace(r.stdout), "\n") {
			rows = append(rows, strings.Join(strings.Fields(row), " "))
		}
		return rows
	}
	want := func(t *testing.T, got []string, header, row string) {
		t.Helper()
		// The last column is an age.
		if got[0] != header || !slices.ContainsFunc(got, func(r string) bool { return strings.HasPrefix(r, row+" ") }) {
			t.Errorf("got\n%s\nwant the header and the beginning of a row\n%s\n%s", strings.Join(got, "\n"), header, row)
		}
	}
	for _, name := range []string{membersCRD, "edm"} {
		want(t, get(t, name), "NAME CLUSTER STATE ROLE READY ID DB REVISION PEER-TLS AGE", "main-0 main Started Leader True 8211f1d0f64f3269 25Mi 4711 true")
	}
	want(t, get(t, "edm", "-o", "wide"), "NAME CLUSTER STATE ROLE READY ID DB REVISION PEER-TLS VERSION CLUSTER-ID VOLUME PUBLISHED AGE",
		"main-0 main Started Leader True 8211f1d0f64f3269 25Mi 4711 true 3.7.3 ef37ad9dc622a7c4 pvc-2ad1c2f6")
	want(t, get(t, "edmt"), "NAME CLUSTER DESIRED PHASE STEP REASON AGE", "main-roll-volumes main Run Running WaitForVoter CatchingUp")
	want(t, get(t, "edmt", "-o", "wide"), "NAME CLUSTER DESIRED PHASE STEP REASON MESSAGE STARTED AGE", "main-roll-volumes main Run Running WaitForVoter CatchingUp main-0 is a learner")

	s.kubectl(t, "", "wait", "--for=condition=Ready", membersCRD+"/main-0", "--timeout=10s").want(t, 0, lines("etcdmember.druid.gardener.cloud/main-0 condition met"), "")
	if r := s.kubectl(t, "", "wait", "--for=condition=Ready", membersCRD+"/east-main-0", "--timeout=1s"); r.code != 1 || !strings.Contains(r.stderr, "timed out waiting for the condition") {
		t.Errorf("kubectl wait for a member that has published nothing: %+v", r)
	}
	// What was last waited for is not what is waited for now.
	m, err := s.dynamic.Resource(v1alpha1.EtcdMemberResource).Namespace("default").Get(t.Context(), "main-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(m.Object, "spec", "action")
	if m, err = s.dynamic.Resource(v1alpha1.EtcdMemberResource).Namespace("default").Update(t.Context(), m, metav1.UpdateOptions{}); err != nil || m.GetGeneration() != 2 {
		t.Fatalf("generation %d, %v", m.GetGeneration(), err)
	}
	if r := s.kubectl(t, "", "wait", "--for=condition=Ready", membersCRD+"/main-0", "--timeout=1s"); r.code != 1 {
		t.Errorf("kubectl wait takes a condition of generation 1 for one of generation 2: %+v", r)
	}

	r := s.kubectl(t, "", "explain", membersCRD+".status.volume")
	for _, text := range []string{
		"GROUP:      druid.gardener.cloud", "KIND:       EtcdMember", "FIELD: volume <Object>",
		"volume is the volume that the member's data is on.", "claimUID\t<string>", "a claim of the same name with another UID is another volume.",
	} {
		if !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), strings.Join(strings.Fields(text), " ")) {
			t.Errorf("kubectl explain does not say %q:\n%s", text, r.stdout)
		}
	}
	for kind := range kinds {
		if r := s.kubectl(t, "", "explain", kinds[kind].crd, "--recursive"); r.code != 0 || strings.Contains(r.stdout, "<no description>") {
			t.Errorf("kubectl explain %s --recursive:\n%+v", kind, r)
		}
	}
}

// TestKubectlCompletes has a real kubectl complete the plugin, as a shell would have it.
func TestKubectlCompletes(t *testing.T) {
	s := startAPIServer(t)
	if r := s.plugin(t, "crd", "install"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	s.member(t, "default", "main-0")
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "kubectl-etcdmember"), "github.com/etcdmember/kubectl-etcdmember/cmd/kubectl-etcdmember").CombinedOutput(); err != nil {
		t.Fatalf("can't build the plugin: %v: %s", err, out)
	}
	complete := func(t *testing.T, want string, args ...string) {
		t.Helper()
		r := s.kubectl(t, bin, append([]string{"__complete", "etcdmember"}, args...)...)
		var got []string
		for line := range strings.Lines(r.stdout) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got = append(got, word)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("kubectl etcdmember %q completes to %q, want %q; stderr: %s", args, text, want, r.stderr)
		}
	}
	for name, install := range map[string]func(t *testing.T){
		"by the shim": func(t *testing.T) {
			if r := s.plugin(t, "completion", "kubectl", "--install", bin); r.code != 0 {
				t.Fatal(r.stderr)
			}
		},
		"by a link": func(t *testing.T) {
			if err := os.Symlink("kubectl-etcdmember", filepath.Join(bin, "kubectl_complete-etcdmember")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			install(t)
			defer os.Remove(filepath.Join(bin, "kubectl_complete-etcdmember"))
			complete(t, "adopt :4", "ad")
			complete(t, "main :4", "status", "")
			complete(t, "sts/main :4", "adopt", "-n", "default", "sts/")
			complete(t, "diff install print uninstall :4", "crd", "")
			complete(t, "none client server :4", "adopt", "--dry-run=")
		})
	}
}
