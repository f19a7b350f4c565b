package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// testFactory returns a Factory with a kubeconfig, and what is written to it.
func testFactory(kubeconfig string) (f *Factory, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	flags := genericclioptions.NewConfigFlags(true)
	*flags.KubeConfig = kubeconfig
	return &Factory{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: stdout, ErrOut: stderr}, Config: flags, Now: time.Now}, stdout, stderr
}

func TestCompletionOfShells(t *testing.T) {
	for shell, want := range map[string]string{
		"bash":       "# bash completion V2 for kubectl-etcdmember",
		"zsh":        "#compdef kubectl-etcdmember",
		"fish":       "# fish completion for kubectl-etcdmember",
		"powershell": "# powershell completion for kubectl-etcdmember",
	} {
		f, stdout, stderr := testFactory("")
		if code := Main(t.Context(), f, []string{"completion", shell}); code != ExitOK || stderr.Len() > 0 || !strings.HasPrefix(stdout.String(), want) {
			t.Errorf("completion %s: exit code %d, stderr %q, stdout begins %.60q; want %q", shell, code, stderr, stdout, want)
		}
	}
}

func TestCompletionBadInput(t *testing.T) {
	for _, tc := range []struct {
		args   []string
		stderr string
	}{
		{nil, "error: name one shell: bash, zsh, fish or powershell, or kubectl; see 'kubectl etcdmember completion --help'\n"},
		{[]string{"bash", "zsh"}, "error: name one shell: bash, zsh, fish or powershell, or kubectl; see 'kubectl etcdmember completion --help'\n"},
		{[]string{"tcsh\x1b"}, "error: there is no completion for \"tcsh\\x1b\"; there is for bash, zsh, fish and powershell, and for kubectl\n"},
		{[]string{"bash", "--install=."}, "error: --install is for 'completion kubectl' only; write a shell's script to a file with >\n"},
	} {
		f, stdout, stderr := testFactory("")
		code := Main(t.Context(), f, append([]string{"completion"}, tc.args...))
		if code != 2 || stdout.Len() > 0 || stderr.String() != tc.stderr {
			t.Errorf("completion %q: exit code %d, stdout %q, stderr\n%s\nwant\n%s", tc.args, code, stdout, stderr, tc.stderr)
		}
	}
}

func TestCompletionOfKubectl(t *testing.T) {
	dir := t.TempDir()
	install := func(dir string) (code int, stdout, stderr string) {
		f, out, errOut := testFactory("")
		code = Main(t.Context(), f, []string{"completion", "kubectl", "--install", dir})
		return code, out.String(), errOut.String()
	}
	file := filepath.Join(dir, "kubectl_complete-etcdmember")
	warning := "warning: " + dir + " is not in PATH, so kubectl will not find kubectl_complete-etcdmember there\n"

	if code, stdout, stderr := install(dir); code != 0 || stdout != file+" installed\n" || stderr != warning {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if code, stdout, stderr := install(dir); code != 0 || stdout != file+" unchanged\n" || stderr != "" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}

	// It hands the words on as they are, the empty one included.
	fake := filepath.Join(dir, "kubectl-etcdmember")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\nfor a in \"$@\"; do echo \"<$a>\"; done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(file, "adopt", "a b", "").CombinedOutput()
	if want := "<__complete>\n<adopt>\n<a b>\n<>\n"; err != nil || string(out) != want {
		t.Errorf("the shim runs %q (%v), want %q", out, err, want)
	}

	f, stdout, _ := testFactory("")
	if code := Main(t.Context(), f, []string{"completion", "kubectl"}); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != stdout.String() {
		t.Errorf("what is printed is not what is installed: %q and %q (%v)", stdout, text, err)
	}

	if err := os.WriteFile(file, []byte("someone else's"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := install(dir); code != ExitRefused || stderr != "error: "+file+" is not this plugin's, so it is left as it is; move it away first\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	missing := filepath.Join(dir, "missing")
	if code, _, stderr := install(missing); code != 2 || !strings.HasPrefix(stderr, "error: can't write into "+missing+": ") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

func TestCompletionOfConfigFlags(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{apiVersion: v1, kind: Config, clusters: [{name: c2, cluster: {}}, {name: c1, cluster: {server: "http://127.0.0.1:1"}}],
		users: [{name: u1, user: {}}], contexts: [{name: x1, context: {cluster: c1, user: u1}}], current-context: x1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{"--context": "x1\n:4\n", "--cluster": "c1\nc2\n:4\n", "--user": "u1\n:4\n", "--namespace": ":4\n"} {
		f, stdout, stderr := testFactory(kubeconfig)
		root := &cobra.Command{Use: "root", Run: func(*cobra.Command, []string) {}}
		root.SetOut(stdout)
		root.SetErr(stderr)
		f.Config.AddFlags(root.PersistentFlags())
		completeConfigFlags(root, f)
		root.SetArgs([]string{"__complete", flag, ""})
		if err := root.ExecuteContext(t.Context()); err != nil || stdout.String() != want {
			t.Errorf("%s: %v, %q, want %q", flag, err, stdout, want)
		}
	}
}

func TestLooksLikeEtcd(t *testing.T) {
	port := func(ports ...int32) (out []corev1.ContainerPort) {
		for _, p := range ports {
			out = append(out, corev1.ContainerPort{ContainerPort: p})
		}
		return out
	}
	for name, tc := range map[string]struct {
		container corev1.Container
		want      bool
	}{
		"the project's image":        {corev1.Container{Image: "gcr.io/etcd-development/etcd:v3.7.3"}, true},
		"bitnami's":                  {corev1.Container{Image: "docker.io/bitnami/etcd@sha256:abc"}, true},
		"druid's wrapper":            {corev1.Container{Image: "europe-docker.pkg.dev/gardener-project/etcd-wrapper:v0.6"}, true},
		"a registry with a port":     {corev1.Container{Image: "registry:5000/etcd"}, true},
		"a command":                  {corev1.Container{Image: "i", Command: []string{"/usr/local/bin/etcd", "--name=a"}}, true},
		"a command in a shell":       {corev1.Container{Image: "i", Command: []string{"/bin/sh", "-ec", "exec etcd --name $(NAME)"}}, true},
		"arguments":                  {corev1.Container{Image: "i", Args: []string{"--initial-cluster=a=https://a:2380"}}, true},
		"the name of a container":    {corev1.Container{Name: "etcd", Image: "i"}, true},
		"the ports":                  {corev1.Container{Image: "i", Ports: port(2379, 2380)}, true},
		"one port":                   {corev1.Container{Image: "i", Ports: port(2379)}, false},
		"a client of etcd":           {corev1.Container{Image: "registry.k8s.io/kube-apiserver:v1.36.3", Command: []string{"kube-apiserver", "--etcd-servers=http://etcd:2379"}}, false},
		"a registry named like etcd": {corev1.Container{Image: "etcd.example/nginx:1"}, false},
		"something else":             {corev1.Container{Name: "web", Image: "nginx"}, false},
	} {
		set := appsv1.StatefulSet{}
		set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar", Image: "sidecar"}, tc.container}
		if got := looksLikeEtcd(set.Spec.Template.Spec); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
