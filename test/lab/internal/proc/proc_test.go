package proc_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/proc"
)

func start(t *testing.T, script string) *proc.Group {
	t.Helper()
	g := &proc.Group{LogDir: t.TempDir()}
	if err := g.Start(proc.Daemon{Name: "d", Argv: []string{"/bin/sh", "-c", script}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Stop(context.Background(), "d", syscall.SIGKILL, time.Second) })
	return g
}

// A daemon that ends by itself is restarted; one that was stopped is not, until it is resumed.
func TestRestart(t *testing.T) {
	g := start(t, "sleep 60")
	first := g.Status()[0].PID
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if s := g.Status()[0]; s.Running && s.PID != first {
			if s.Restarts != 1 || !strings.Contains(s.LastExit, "killed") {
				t.Errorf("after one death it is %+v", s)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it was not restarted: %+v", g.Status())
		}
	}
	if err := g.Stop(t.Context(), "d", syscall.SIGTERM, time.Second); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1500 * time.Millisecond)
	if s := g.Status()[0]; s.Running || !s.Stopped {
		t.Errorf("stopped, it is %+v", s)
	}
	if err := g.Resume("d"); err != nil {
		t.Fatal(err)
	}
	if s := g.Status()[0]; !s.Running || s.Stopped {
		t.Errorf("resumed, it is %+v", s)
	}
}

// A daemon that does not heed the signal is killed after the grace.
func TestStopKillsAfterTheGrace(t *testing.T) {
	g := start(t, "trap '' TERM; while :; do sleep 1; done")
	time.Sleep(200 * time.Millisecond) // until the trap is set
	begin := time.Now()
	if err := g.Stop(t.Context(), "d", syscall.SIGTERM, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 300*time.Millisecond || took > 5*time.Second {
		t.Errorf("it ended after %s, want soon after the grace", took)
	}
}

// What does not exist is an error that says what does.
func TestUnknown(t *testing.T) {
	g := start(t, "sleep 60")
	for _, err := range []error{g.Stop(t.Context(), "x", syscall.SIGTERM, time.Second), g.Resume("x")} {
		if !errors.Is(err, proc.ErrUnknown) || !strings.Contains(err.Error(), "there are: d") {
			t.Errorf("got %v", err)
		}
	}
}
