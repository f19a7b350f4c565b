// Package apiserver starts a real API server with an etcd of its own and nothing else, for tests and benchmarks.
package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/pki"
)

// Server is a real API server with an etcd of its own and nothing else: no controllers, no nodes. Tests that change what
// belongs to a whole cluster, such as CustomResourceDefinitions, have one to themselves, and need neither root nor the lab.
type Server struct {
	Config     *rest.Config
	Kubeconfig string
	Dynamic    dynamic.Interface
}

// ContextName is the kubeconfig's current context, which is what a person types to confirm.
const ContextName = "test"

// Start starts an API server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	private, public, err := pki.NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	const token = "test-token"
	etcd, etcdPeer, port := FreePort(t), FreePort(t), FreePort(t)
	StartProgram(t, Binary(t, "etcd37", "etcd"), "etcd",
		"--name=e2e", "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=http://"+etcd, "--advertise-client-urls=http://"+etcd,
		"--listen-peer-urls=http://"+etcdPeer, "--initial-advertise-peer-urls=http://"+etcdPeer, "--initial-cluster=e2e=http://"+etcdPeer)
	_, portNumber, _ := net.SplitHostPort(port)
	certs := filepath.Join(dir, "certs")
	StartProgram(t, Binary(t, "k8s", "k8s"), "kube-apiserver",
		"--etcd-servers=http://"+etcd, "--bind-address=127.0.0.1", "--secure-port="+portNumber, "--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", "--cert-dir="+certs, "--service-cluster-ip-range=10.96.0.0/16",
		"--token-auth-file="+write("tokens.csv", []byte(token+",admin,admin,system:masters\n")),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+write("sa.pub", public), "--service-account-signing-key-file="+write("sa.key", private),
		"--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount", "--enable-priority-and-fairness=false")

	cfg := clientcmdapi.NewConfig()
	// The server signs its own certificate, which is its only authority.
	cfg.Clusters[ContextName] = &clientcmdapi.Cluster{Server: "https://" + port, CertificateAuthority: filepath.Join(certs, "apiserver.crt")}
	cfg.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: token}
	cfg.Contexts[ContextName] = &clientcmdapi.Context{Cluster: ContextName, AuthInfo: "admin"}
	cfg.CurrentContext = ContextName
	s := &Server{Kubeconfig: filepath.Join(dir, "kubeconfig")}
	if err := clientcmd.WriteToFile(*cfg, s.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = s.connect(ctx)
		return last == nil, nil
	}); err != nil {
		t.Fatalf("the API server does not become ready: %v: %v", err, last)
	}
	return s
}

// connect makes the clients, once the API server is ready.
func (s *Server) connect(ctx context.Context) error {
	var err error
	if s.Config, err = clientcmd.BuildConfigFromFlags("", s.Kubeconfig); err != nil {
		return err
	}
	s.Config.QPS = -1
	c, err := rest.HTTPClientFor(s.Config)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Config.Host+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz: %s", resp.Status)
	}
	s.Dynamic, err = dynamic.NewForConfig(s.Config)
	return err
}

// StartProgram starts a program under a name, and ends it with the test. What it says is shown if the test fails.
func StartProgram(t testing.TB, path, name string, args ...string) {
	t.Helper()
	var log bytes.Buffer
	cmd := &exec.Cmd{Path: path, Args: append([]string{name}, args...), Stdout: &log, Stderr: &log, SysProcAttr: DieWithParent()}
	if err := cmd.Start(); err != nil {
		t.Fatalf("can't start %s: %v", name, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			const most = 4000
			text := log.Bytes()
			t.Logf("%s said at last:\n%s", name, text[max(0, len(text)-most):])
		}
	})
}

// FreePort is an address on this machine that nobody listens on.
func FreePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Binary finds the newest of a set of binaries that the lab has built.
func Binary(t testing.TB, set, name string) string {
	t.Helper()
	if path := os.Getenv("ETCDMEMBER_TEST_" + set); path != "" {
		return path
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "kubectl-etcdmember", "bin", set+"-*", name))
	if err != nil {
		t.Fatal(err)
	}
	newest, at := "", time.Time{}
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(at) {
			newest, at = path, info.ModTime()
		}
	}
	if newest == "" {
		t.Fatalf("there is no %s of set %s yet: build it by 'make lab-up'", name, set)
	}
	return newest
}
