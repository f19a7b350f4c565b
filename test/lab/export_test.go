package lab

import (
	"context"
	"net"
	"os"
	"path/filepath"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/layout"
)

// Forwarder dials a port of a pod through a port-forward, whatever the address.
func Forwarder(l *Lab, namespace, pod string, port int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return l.forward(ctx, namespace, pod, port) }
}

// RepoRoot is the checkout that the tests are in.
var RepoRoot = layout.RepoRoot

// LayoutAt is the layout of a lab in dir, with the cache of the lab that the tests run on.
func LayoutAt(dir string) (layout.Layout, error) {
	l, err := layout.Default()
	if err != nil {
		return l, err
	}
	return layout.New(dir, l.Cache)
}

// Environ is the environment for a lab in dir.
func Environ(dir string) []string {
	return append(os.Environ(), layout.EnvDir+"="+dir, "CGO_ENABLED=0")
}

// LabCommand is the path of the `lab` that runs the lab.
func LabCommand(l *Lab) string { return filepath.Join(l.launcher.Layout.Bin(), "lab") }
