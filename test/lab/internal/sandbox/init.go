package sandbox

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// doorFD is the listener that the supervisor hands down.
const doorFD = 3

// Init is process 1 of the sandbox: it makes the root, starts the manager and reaps whatever is orphaned. It does
// nothing else, so that the manager can wait for its own children like any program.
func Init(configPath string) error {
	var c Config
	if err := ReadJSON(configPath, &c); err != nil {
		return err
	}
	// Opened now, for the host's /proc is gone in a moment and the sandbox's knows this executable by no path.
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("opening the lab's executable: %w", err)
	}
	readable := []string{c.Layout.Cache, c.Kubernetes, c.Etcd, c.CoreDNS}
	if err := makeRoot([]string{c.Layout.Dir}, readable); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("etcdmember-lab")); err != nil {
		return fmt.Errorf("naming the sandbox: %w", err)
	}
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", doorFD+1), "sandbox", "manage", configPath)
	cmd.Args[0] = "lab"
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(doorFD, "door"), exe}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the manager: %w", err)
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("waiting for the sandbox's processes: %w", err)
		}
		if pid == cmd.Process.Pid {
			return fmt.Errorf("the manager ended: exit status %d, signal %d", status.ExitStatus(), status.Signal())
		}
	}
}

// Door is the listener on the host, as the manager inherits it.
func Door() (net.Listener, error) {
	listener, err := net.FileListener(os.NewFile(doorFD, "door"))
	if err != nil {
		return nil, fmt.Errorf("taking over the lab's port: %w", err)
	}
	return listener, nil
}
