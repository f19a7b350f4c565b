// Package control is how the lab is told what to do from the host: HTTP over a unix socket in the lab's directory,
// served by the manager in the sandbox. A file is no address, so the forwarder on 127.0.0.1 stays the only port.
package control

import (
	"time"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/proc"
)

// Status of the lab.
type Status struct {
	// Ready is set once everything is up.
	Ready bool `json:"ready"`
	// Failed says why the lab will not become ready.
	Failed     string        `json:"failed,omitempty"`
	Started    time.Time     `json:"started"`
	Steps      []Step        `json:"steps"`
	Kubernetes string        `json:"kubernetes"`
	Components []proc.Status `json:"components"`
	Faults     []Fault       `json:"faults"`
	Images     []Image       `json:"images"`
}

// Step is one part of starting the lab.
type Step struct {
	Name string `json:"name"`
	// Took is how long the step itself took, At when it was done, both since the start.
	Took time.Duration `json:"took"`
	At   time.Duration `json:"at"`
}

// Image is one that all nodes have.
type Image struct {
	Ref    string `json:"ref"`
	Path   string `json:"path,omitempty"`
	Digest string `json:"digest"`
}

// FaultKind is what is done to a pod.
type FaultKind string

// The faults that last until they are healed. Their effects are in package fault.
const (
	Freeze    FaultKind = "Freeze"
	BlackHole FaultKind = "BlackHole"
	Partition FaultKind = "Partition"
	Fill      FaultKind = "Fill"
	Stop      FaultKind = "Stop"
)

// The faults that happen once.
const (
	Kill    FaultKind = "Kill"
	Corrupt FaultKind = "Corrupt"
)

// Fault is a fault asked for, or in force.
type Fault struct {
	// ID is given by the lab.
	ID        string    `json:"id,omitempty"`
	Kind      FaultKind `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Pod       string    `json:"pod,omitempty"`
	// Container, for Freeze and Kill.
	Container string `json:"container,omitempty"`
	// Component of the cluster, for Stop.
	Component string `json:"component,omitempty"`
	// Signal, for Kill and Stop.
	Signal int `json:"signal,omitempty"`
	// From limits a Partition to these pods of the same namespace.
	From []string `json:"from,omitempty"`
	// Volume of the pod's spec, for Fill and Corrupt.
	Volume string `json:"volume,omitempty"`
	// Leave is how many bytes Fill leaves free.
	Leave int64 `json:"leave,omitempty"`
	// Corruption says how Corrupt does it.
	Corruption *Corruption `json:"corruption,omitempty"`
	// For heals the fault by itself after that time, even if whoever asked for it is gone by then.
	For   time.Duration `json:"for,omitempty"`
	Since time.Time     `json:"since,omitzero"`
}

// Corruption is one way to damage an etcd database file.
type Corruption struct {
	Kind CorruptionKind `json:"kind"`
	// Path of the file in the volume.
	Path string `json:"path"`
	// From and To, for Value: the bytes to be replaced, and those that replace them, of the same length.
	From []byte `json:"from,omitempty"`
	To   []byte `json:"to,omitempty"`
}

// CorruptionKind names a way to damage a file.
type CorruptionKind string

const (
	// CorruptValue replaces bytes wherever they occur. The file stays sound; what it holds is another thing than what
	// other members hold. This is the corruption that only comparing hashes finds.
	CorruptValue CorruptionKind = "Value"
	// CorruptPages overwrites the middle third of what the database uses with noise.
	CorruptPages CorruptionKind = "Pages"
	// CorruptMeta zeroes both of bbolt's meta pages: the file can't be opened any more.
	CorruptMeta CorruptionKind = "Meta"
	// CorruptTruncate cuts the file to half of what the database uses.
	CorruptTruncate CorruptionKind = "Truncate"
)

// Volume is the file system behind a claim.
type Volume struct {
	Node      string `json:"node"`
	Path      string `json:"path"`
	Size      uint64 `json:"size"`
	Available uint64 `json:"available"`
}

// failure is the body of an answer that is not a success.
type failure struct {
	Error string `json:"error"`
}
