// Package proc keeps the lab's daemons running, and stops and starts single ones on demand: half of the lab's faults
// are a daemon that is not there.
package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrUnknown is returned for a daemon that does not exist.
var ErrUnknown = errors.New("no such component")

// restartDelay keeps a daemon that dies at once from eating a core.
const restartDelay = time.Second

// Daemon is a program to keep running.
type Daemon struct {
	Name string
	Argv []string
	// Argv0, if set, is what the program sees as its own name.
	Argv0 string
	Env   []string
}

// Status of a daemon.
type Status struct {
	Name     string    `json:"name"`
	Running  bool      `json:"running"`
	PID      int       `json:"pid,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts"`
	// Stopped means that somebody stopped it on purpose, so that it is not restarted.
	Stopped  bool   `json:"stopped,omitempty"`
	LastExit string `json:"lastExit,omitempty"`
}

// Group is the lab's daemons.
type Group struct {
	// LogDir gets one file per daemon.
	LogDir string

	mu      sync.Mutex
	daemons map[string]*running
}

type running struct {
	Daemon
	Status
	wanted bool
	cmd    *exec.Cmd
	// gone is closed when the process that cmd is has ended.
	gone chan struct{}
}

// Start starts a daemon and keeps it running from then on.
func (g *Group) Start(d Daemon) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.daemons == nil {
		g.daemons = map[string]*running{}
	}
	if g.daemons[d.Name] != nil {
		return fmt.Errorf("component %s was started before", d.Name)
	}
	r := &running{Daemon: d, Status: Status{Name: d.Name}, wanted: true}
	g.daemons[d.Name] = r
	return g.launch(r)
}

// launch starts the process. The lock is held.
func (g *Group) launch(r *running) error {
	log, err := os.OpenFile(filepath.Join(g.LogDir, r.Name()+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", r.Name(), err)
	}
	defer log.Close()
	cmd := exec.Command(r.Argv[0], r.Argv[1:]...)
	if r.Argv0 != "" {
		cmd.Args[0] = r.Argv0
	}
	cmd.Env = append(os.Environ(), r.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", r.Name(), err)
	}
	r.cmd, r.gone = cmd, make(chan struct{})
	r.Running, r.PID, r.Since, r.Stopped = true, cmd.Process.Pid, time.Now(), false
	go g.wait(r, cmd, r.gone)
	return nil
}

func (r *running) Name() string { return r.Daemon.Name }

// wait sees a process to its end, and restarts the daemon if nobody wanted that end.
func (g *Group) wait(r *running, cmd *exec.Cmd, gone chan struct{}) {
	_ = cmd.Wait()
	g.mu.Lock()
	r.Running, r.PID, r.LastExit = false, 0, cmd.ProcessState.String()
	close(gone)
	wanted := r.wanted
	g.mu.Unlock()
	for wanted {
		time.Sleep(restartDelay)
		g.mu.Lock()
		if !r.wanted || r.Running {
			g.mu.Unlock()
			return
		}
		r.Restarts++
		err := g.launch(r)
		g.mu.Unlock()
		if err == nil {
			return
		}
	}
}

// Stop ends a daemon by signal, and keeps it from being restarted. It returns when the process has ended. One that
// takes longer than grace is killed.
func (g *Group) Stop(ctx context.Context, name string, signal syscall.Signal, grace time.Duration) error {
	g.mu.Lock()
	r := g.daemons[name]
	if r == nil {
		g.mu.Unlock()
		return g.unknown(name)
	}
	r.wanted, r.Stopped = false, true
	cmd, gone, isRunning := r.cmd, r.gone, r.Running
	g.mu.Unlock()
	if !isRunning {
		return nil
	}
	for {
		if err := cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("sending %s to %s: %w", signal, name, err)
		}
		select {
		case <-gone:
			return nil
		case <-time.After(grace):
			signal = syscall.SIGKILL
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to end after %s: %w", name, signal, ctx.Err())
		}
	}
}

// Resume starts a daemon that was stopped. One that runs is left alone.
func (g *Group) Resume(name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.daemons[name]
	if r == nil {
		return g.unknownLocked(name)
	}
	r.wanted = true
	if r.Running {
		return nil
	}
	return g.launch(r)
}

// Status of all daemons, by name.
func (g *Group) Status() []Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]Status, 0, len(g.daemons))
	for _, r := range g.daemons {
		all = append(all, r.Status)
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (g *Group) unknown(name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unknownLocked(name)
}

func (g *Group) unknownLocked(name string) error {
	var names []string
	for n := range g.daemons {
		names = append(names, n)
	}
	slices.Sort(names)
	return fmt.Errorf("%w: %s; there are: %s", ErrUnknown, name, strings.Join(names, ", "))
}
