package agent

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/version"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`

func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	command := NewCommand()
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&out)
	command.SetArgs(args)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := command.ExecuteContext(ctx)
	return out.String(), err
}

func TestCommand(t *testing.T) {
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	good := []string{"sidecar", "--kubeconfig", config, "--endpoint", "http://127.0.0.1:1", "--health-addr", "127.0.0.1:0", "--data-dir", ""}
	for name, tc := range map[string]struct {
		args []string
		pod  string
		want string
	}{
		"runs until it is stopped":   {good, "main-0", ""},
		"no environment":             {good, "", "POD_NAME is not set"},
		"unknown flag":               {append(good, "--nonsense"), "main-0", "unknown flag"},
		"arguments":                  {append(good, "x"), "main-0", "unknown command"},
		"too fast":                   {append(good, "--poll-interval=1ms"), "main-0", "--poll-interval=1ms: want 500ms to 30s"},
		"too slow":                   {append(good, "--timeout=1h"), "main-0", "--timeout=1h0m0s: want 100ms to 30s"},
		"bad endpoint":               {append(good, "--endpoint=ftp://x"), "main-0", "want http://HOST:PORT"},
		"certificate without key":    {append(good, "--endpoint=https://127.0.0.1:1", "--cert=/x"), "main-0", "both or neither"},
		"no such CA":                 {append(good, "--endpoint=https://127.0.0.1:1", "--cacert=/does/not/exist"), "main-0", "/does/not/exist"},
		"no such kubeconfig":         {append(good, "--kubeconfig=/does/not/exist"), "main-0", "access to the API server"},
		"port in use or not allowed": {append(good, "--health-addr=192.0.2.1:1"), "main-0", "serving health and metrics at 192.0.2.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("POD_NAME", tc.pod)
			t.Setenv("POD_NAMESPACE", "ns")
			_, err := execute(t, tc.args...)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v: want an error with %q", err, tc.want)
			}
		})
	}
}

func TestVersionFlag(t *testing.T) {
	if out, err := execute(t, "--version"); err != nil || !strings.Contains(out, version.String()) {
		t.Errorf("%q, %v", out, err)
	}
}

// TestFlagsAreDocumented: docs/agent.md has every flag.
func TestFlagsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	sidecar, _, err := NewCommand().Find([]string{"sidecar"})
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"endpoint", "cacert", "cert", "key", "server-name", "metrics-url", "data-dir", "member-name", "health-addr", "poll-interval", "timeout", "kubeconfig"} {
		f := sidecar.Flags().Lookup(flag)
		if f == nil {
			t.Errorf("there is no flag --%s any more", flag)
			continue
		}
		if !strings.Contains(string(text), "`--"+flag+"`") {
			t.Errorf("docs/agent.md does not tell of --%s", flag)
		}
		if f.DefValue != "" && !strings.Contains(string(text), "`"+f.DefValue+"`") {
			t.Errorf("docs/agent.md does not tell that --%s is %s by default", flag, f.DefValue)
		}
	}
}
