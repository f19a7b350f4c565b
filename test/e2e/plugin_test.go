package e2e

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/etcdmember/kubectl-etcdmember/pkg/cli"
)

// run is one run of the plugin.
type run struct {
	stdout, stderr string
	code           int
}

// plugin runs the plugin against an API server as a person or a script would, in this process.
func (s *apiServer) plugin(t *testing.T, args ...string) run {
	t.Helper()
	return s.pluginOn(t, strings.NewReader(""), args...)
}

// pluginOn is plugin with a standard input of the test's.
func (s *apiServer) pluginOn(t *testing.T, in io.Reader, args ...string) run {
	t.Helper()
	return invocation{kubeconfig: s.kubeconfig, in: in}.run(t, args...)
}

// invocation is what the plugin is run with.
type invocation struct {
	kubeconfig string
	in         io.Reader
	// onStderr is called with each piece that is written to standard error.
	onStderr func(string)
}

// Write is standard error.
func (i invocation) Write(p []byte) (int, error) {
	if i.onStderr != nil {
		i.onStderr(string(p))
	}
	return len(p), nil
}

// run runs the plugin.
func (i invocation) run(t *testing.T, args ...string) run {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := i.runTo(t.Context(), &stdout, &stderr, args...)
	return run{stdout.String(), stderr.String(), code}
}

// runTo runs the plugin until ctx ends, and writes what it says while it says it.
func (i invocation) runTo(ctx context.Context, stdout, stderr io.Writer, args ...string) int {
	flags := genericclioptions.NewConfigFlags(true)
	*flags.KubeConfig = i.kubeconfig
	if i.in == nil {
		i.in = strings.NewReader("")
	}
	f := &cli.Factory{
		IOStreams: genericiooptions.IOStreams{In: i.in, Out: stdout, ErrOut: io.MultiWriter(stderr, i)},
		Config:    flags,
		Now:       time.Now,
	}
	return cli.Main(ctx, f, args)
}

// syncBuffer is a buffer that one goroutine reads while another writes.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// want compares a run with what it has to be, to the letter.
func (r run) want(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	if d := cmp.Diff(stdout, r.stdout); d != "" {
		t.Errorf("stdout (-want +got):\n%s", d)
	}
	if d := cmp.Diff(stderr, r.stderr); d != "" {
		t.Errorf("stderr (-want +got):\n%s", d)
	}
	for _, text := range []string{r.stdout, r.stderr} {
		if strings.ContainsAny(text, "\x1b\r\x07") {
			t.Errorf("control characters reach the terminal: %q", text)
		}
	}
}

// lines joins lines, each with its newline.
func lines(ls ...string) string {
	if len(ls) == 0 {
		return ""
	}
	return strings.Join(ls, "\n") + "\n"
}

// terminal is a pseudo-terminal on which the answers are typed.
func terminal(t *testing.T, typed string) *os.File {
	t.Helper()
	user, program := openTerminal(t)
	if _, err := user.WriteString(typed); err != nil {
		t.Fatal(err)
	}
	return program
}
