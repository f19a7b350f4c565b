package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/control"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/host"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/launch"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/layout"
)

// EnvLab set to 1 makes tests use the lab although KUBECONFIG is set, as it is after `eval "$(lab env)"`.
const EnvLab = "ETCDMEMBER_LAB"

// startTimeout is for the very first start on a machine, which builds a Kubernetes.
const startTimeout = 40 * time.Minute

// Lab is a cluster to test on.
type Lab struct {
	kubeconfig string
	kubectl    string
	config     *rest.Config
	client     kubernetes.Interface
	// launcher is nil when the cluster is the caller's own.
	launcher *launch.Launcher

	loadOnce sync.Map // image name -> *sync.Once-guarded result
}

var get = sync.OnceValues(func() (*Lab, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return attach(ctx)
})

// Main runs a package's tests on the lab. It starts the lab before the first test, so that no test's time includes that.
func Main(m *testing.M) {
	if _, err := get(); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Get returns the lab, and starts it if nobody did before. The test fails where it can't be had.
func Get(t testing.TB) *Lab {
	t.Helper()
	l, err := get()
	if err != nil {
		t.Fatalf("this test needs the lab: %v", err)
	}
	return l
}

func attach(ctx context.Context) (*Lab, error) {
	where, err := layout.Default()
	if err != nil {
		return nil, err
	}
	launcher := launch.New(where, os.Stderr)
	if own := os.Getenv("KUBECONFIG"); own != "" && os.Getenv(EnvLab) != "1" {
		kubectl, err := exec.LookPath("kubectl")
		if err != nil {
			if kubectl, err = launcher.Kubectl(ctx); err != nil {
				return nil, fmt.Errorf("building a kubectl, since there is none in PATH: %w", err)
			}
		}
		return newLab(own, kubectl, nil)
	}
	s, err := launcher.Client().Status(ctx)
	if err != nil || !s.Ready {
		if err := start(ctx); err != nil {
			return nil, err
		}
	}
	return newLab(where.Kubeconfig(), filepath.Join(where.Bin(), "kubectl"), launcher)
}

// start has the lab's own command start it: what runs in the sandbox is that command's executable, which a test's is not.
// Several packages' tests may do this at once; the command waits for whoever was first.
func start(ctx context.Context) error {
	if err := host.Check(); err != nil {
		return err
	}
	root, err := layout.RepoRoot()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "run", "-trimpath", "./test/lab/cmd/lab", "up")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("starting the lab: %w:\n%s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

func newLab(kubeconfig, kubectl string, launcher *launch.Launcher) (*Lab, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(kubeconfig)}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = 100, 200
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the cluster: %w", err)
	}
	return &Lab{kubeconfig: kubeconfig, kubectl: kubectl, config: config, client: client, launcher: launcher}, nil
}

// RESTConfig is an administrator's. Each call returns a copy that the caller may change.
func (l *Lab) RESTConfig() *rest.Config { return rest.CopyConfig(l.config) }

// Kubeconfig is the path of an administrator's kubeconfig, or a list of paths if KUBECONFIG is one.
func (l *Lab) Kubeconfig() string { return l.kubeconfig }

// Client is an administrator's client.
func (l *Lab) Client() kubernetes.Interface { return l.client }

// KubectlPath is a kubectl that fits the cluster.
func (l *Lab) KubectlPath() string { return l.kubectl }

// IsOwn says whether the cluster is the caller's own rather than the lab.
func (l *Lab) IsOwn() bool { return l.launcher == nil }

// Kubectl runs kubectl and returns what it printed. The test fails if kubectl does.
func (l *Lab) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := l.TryKubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TryKubectl runs kubectl and returns what it printed on its standard output.
func (l *Lab) TryKubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, l.kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.kubeconfig)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return string(out), nil
}

// errOwn tells why a test of a fault can't pass on a cluster that is not the lab.
var errOwn = errors.New("this needs the lab, for it reaches below Kubernetes, and KUBECONFIG names a cluster of your own: unset KUBECONFIG, or set " + EnvLab + "=1")

// control reaches the lab's manager, on the lab only.
func (l *Lab) control() (control.Client, error) {
	if l.IsOwn() {
		return control.Client{}, errOwn
	}
	return l.launcher.Client(), nil
}

// Dial connects to an address in the cluster's network, by IP or by a name that the cluster's DNS knows, past the API
// server and past every kubelet: it works while those are down. Only the lab can do this.
func (l *Lab) Dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := l.control()
	if err != nil {
		return nil, err
	}
	return c.Dial(ctx, address)
}

// LoadImages builds images of the current checkout ("agent", "controller", "etcd:3.6") and gives them to all nodes, once per
// test run. On a cluster of one's own it trusts that they are there.
func (l *Lab) LoadImages(t testing.TB, names ...string) {
	t.Helper()
	if l.IsOwn() {
		return
	}
	for _, name := range names {
		load, _ := l.loadOnce.LoadOrStore(name, sync.OnceValue(func() error {
			_, err := l.launcher.Load(context.Background(), name)
			return err
		}))
		if err := load.(func() error)(); err != nil {
			t.Fatalf("giving the image %s to the lab's nodes: %v", name, err)
		}
	}
}
