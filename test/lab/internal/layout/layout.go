// Package layout says where the lab keeps its files. All of them lie below one directory, so that removing it removes
// the lab, and binaries lie beside it, so that removing the lab does not cost a build.
package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// EnvDir overrides where the lab keeps its state; a second directory is a second, independent lab.
const EnvDir = "ETCDMEMBER_LAB_DIR"

// Layout is the directory of one lab.
type Layout struct {
	// Dir is the lab's own state, absolute.
	Dir string
	// Cache holds what outlives any lab: binaries and image archives.
	Cache string
}

// Default is the layout that the environment asks for.
func Default() (Layout, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Layout{}, fmt.Errorf("finding the user's cache directory: %w; set HOME or XDG_CACHE_HOME", err)
	}
	cache = filepath.Join(cache, "kubectl-etcdmember")
	dir := os.Getenv(EnvDir)
	if dir == "" {
		dir = filepath.Join(cache, "lab")
	}
	return New(dir, cache)
}

// New is the layout with state in dir and the cache in cache.
func New(dir, cache string) (Layout, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Layout{}, fmt.Errorf("making %s absolute: %w", dir, err)
	}
	if cache, err = filepath.Abs(cache); err != nil {
		return Layout{}, fmt.Errorf("making %s absolute: %w", cache, err)
	}
	l := Layout{Dir: dir, Cache: cache}
	// The kernel's limit for the path of a unix socket is 108 bytes with the final zero.
	if len(l.Socket()) > 107 {
		return Layout{}, fmt.Errorf("the path %s is too long for a unix socket (107 bytes at most): set %s to a shorter path", l.Socket(), EnvDir)
	}
	return l, nil
}

// ErrNoCheckout is returned by RepoRoot outside a checkout.
var ErrNoCheckout = errors.New("not inside a checkout of kubectl-etcdmember")

// RepoRoot is the checkout that the working directory is in: the lab builds its binaries from there.
func RepoRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for start := dir; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "lab", "bin", "k8s", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%w: no test/lab/bin/k8s/go.mod in %s or above it", ErrNoCheckout, start)
		}
	}
}

// ID tells this lab's cgroups from those of another lab on the same machine.
func (l Layout) ID() string {
	sum := sha256.Sum256([]byte(l.Dir))
	return hex.EncodeToString(sum[:4])
}

func (l Layout) in(elem ...string) string {
	return filepath.Join(append([]string{l.Dir}, elem...)...)
}

// Run is wiped whenever the lab starts or stops: everything of the running cluster.
func (l Layout) Run() string { return l.in("run") }

// Log is wiped when the lab starts, so that a dead lab can be looked into.
func (l Layout) Log() string { return l.in("log") }

// Bin holds the lab's own executable and kubectl by its usual name.
func (l Layout) Bin() string { return l.in("bin") }

// Kubeconfig is the administrator's, for the host.
func (l Layout) Kubeconfig() string { return l.in("kubeconfig") }

// Socket is where the cluster's manager is told what to do.
func (l Layout) Socket() string { return l.in("control.sock") }

// Port keeps the host's port of the API server, so that it is the same after a restart.
func (l Layout) Port() string { return l.in("port") }

// Config tells the sandbox what to run.
func (l Layout) Config() string { return l.in("config.json") }

// State says which processes are the lab's.
func (l Layout) State() string { return l.in("state.json") }

// UpLock is held while somebody starts or stops the lab.
func (l Layout) UpLock() string { return l.in("up.lock") }

// SupervisorLock is held by the supervisor as long as it lives: the kernel releases it even after kill -9, which no pid
// file can match.
func (l Layout) SupervisorLock() string { return l.in("supervisor.lock") }

// PKI holds the cluster's certificates.
func (l Layout) PKI() string { return l.in("run", "pki") }

// Volumes holds the images and mounts of persistent volumes.
func (l Layout) Volumes() string { return l.in("run", "volumes") }

// Node is the directory of one node.
func (l Layout) Node(name string) string { return l.in("run", "nodes", name) }

// Images holds archives that are handed to the nodes.
func (l Layout) Images() string { return filepath.Join(l.Cache, "images") }

// Binaries holds built binaries, by version.
func (l Layout) Binaries() string { return filepath.Join(l.Cache, "bin") }
