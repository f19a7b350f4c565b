// Package sandbox runs the lab's cluster in namespaces and cgroups of its own.
//
// Three processes nest. The supervisor, on the host, holds the lab's lock, its listener and its cgroups. Its child, the
// init, is process 1 of a new PID namespace, in new mount, network, UTS and IPC namespaces; the kernel kills it when
// the supervisor dies, however that dies, and with it every process in the namespace, whereupon the mounts, links and
// loop devices go too. Init's child, the manager, runs the cluster (package cluster).
package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/images"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/layout"
)

// Config says what to run. It is written by `lab up` and read by the processes in the sandbox.
type Config struct {
	Layout layout.Layout
	// Nodes is how many there are.
	Nodes int
	// Kubernetes, Etcd and CoreDNS are folders with binaries.
	Kubernetes, Etcd, CoreDNS string
	// Images are imported when the nodes start. The first one is the pause image.
	Images []images.Archive
	// Port of the host that the API server is reached at.
	Port int
}

// NodeNames are node1, node2 and so on.
func (c Config) NodeNames() []string {
	names := make([]string, c.Nodes)
	for i := range names {
		names[i] = fmt.Sprintf("node%d", i+1)
	}
	return names
}

// State says which processes are the lab's, for those who look at it from the host.
type State struct {
	Supervisor int `json:"supervisor"`
	Init       int `json:"init"`
	Port       int `json:"port"`
}

// ReadJSON reads v from path.
func ReadJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the lab's state: %w", err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("understanding %s: %w", path, err)
	}
	return nil
}

// WriteJSON writes v to path, so that a reader sees all of it or nothing.
func WriteJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the lab's state: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making room for the lab's state: %w", err)
	}
	if err := os.WriteFile(path+".tmp", append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the lab's state: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("writing the lab's state: %w", err)
	}
	return nil
}
