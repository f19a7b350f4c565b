package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/host"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/layout"
)

// Supervise runs the sandbox until ctx ends or the sandbox does, and leaves nothing behind.
func Supervise(ctx context.Context, l layout.Layout) error {
	lock, err := layout.TryLock(l.SupervisorLock())
	if err != nil {
		return fmt.Errorf("becoming the lab's supervisor: %w", err)
	}
	defer lock.Close()
	var c Config
	if err := ReadJSON(l.Config(), &c); err != nil {
		return err
	}
	// The listener is opened here, in the host's network namespace, and served in there, by the manager: the
	// sandbox needs no link to the host at all.
	listener, err := listen(l)
	if err != nil {
		return err
	}
	defer listener.Close()
	c.Port = listener.Addr().(*net.TCPAddr).Port
	if err := WriteJSON(l.Config(), c); err != nil {
		return err
	}
	if err := os.WriteFile(l.Port(), []byte(strconv.Itoa(c.Port)+"\n"), 0o644); err != nil {
		return fmt.Errorf("keeping the API server's port: %w", err)
	}
	if err := makeCgroups(l.ID(), c.NodeNames()); err != nil {
		return err
	}
	failed := runInit(ctx, c, listener)
	return errors.Join(failed, Clean(l))
}

// Clean removes what a dead sandbox leaves: empty cgroups and files. The caller holds the supervisor's lock.
func Clean(l layout.Layout) error {
	failed := removeCgroups(l.ID())
	for _, path := range []string{l.State(), l.Socket()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("removing what the lab left: %w", err))
		}
	}
	if err := os.RemoveAll(l.Run()); err != nil {
		failed = errors.Join(failed, fmt.Errorf("removing what the lab left: %w", err))
	}
	return failed
}

// listen opens the port that the lab had before, or any other if somebody else has that now.
func listen(l layout.Layout) (*net.TCPListener, error) {
	port := 0
	if text, err := os.ReadFile(l.Port()); err == nil {
		port, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	loopback := net.IPv4(127, 0, 0, 1)
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: loopback, Port: port})
	if err != nil && port != 0 {
		listener, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: loopback})
	}
	if err != nil {
		return nil, fmt.Errorf("opening the lab's port on 127.0.0.1: %w", err)
	}
	return listener, nil
}

// runInit starts process 1 of the sandbox and waits for its end.
func runInit(ctx context.Context, c Config, listener *net.TCPListener) error {
	door, err := listener.File()
	if err != nil {
		return fmt.Errorf("handing the listener to the sandbox: %w", err)
	}
	defer door.Close()
	// The death signal is sent when the thread that started the process ends, so that thread must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", "sandbox", "init", c.Layout.Config())
	cmd.Env = []string{"PATH=" + host.Path, "HOME=/root"}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{door}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the sandbox in namespaces of its own: %w", err)
	}
	state := State{Supervisor: os.Getpid(), Init: cmd.Process.Pid, Port: c.Port}
	if err := WriteJSON(c.Layout.State(), state); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return fmt.Errorf("the sandbox ended by itself: %w", err)
	case <-ctx.Done():
		// Process 1's end is everyone's. Wait returns when the namespace is empty.
		if err := cmd.Process.Kill(); err != nil {
			return fmt.Errorf("ending the sandbox: %w", err)
		}
		<-ended
		return nil
	}
}
