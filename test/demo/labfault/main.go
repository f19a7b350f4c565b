// Command labfault freezes a process from inside its pod, for demos on clusters whose nodes can't be reached. The lab's
// etcd images have it; on the lab itself faults come from outside ('lab fault').
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "labfault:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 || args[0] != "freeze" {
		return fmt.Errorf("usage: labfault freeze PROCESS DURATION")
	}
	d, err := time.ParseDuration(args[2])
	if err != nil || d <= 0 || d > time.Hour {
		return fmt.Errorf("%q is not a duration between 0s and 1h", args[2])
	}
	pid, err := find(args[1])
	if err != nil {
		return err
	}
	if pid == 1 {
		return fmt.Errorf("%s is process 1 of its PID namespace, which nobody inside can freeze: the pod needs shareProcessNamespace", args[1])
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("can't freeze %s, process %d: %w", args[1], pid, err)
	}
	time.Sleep(d)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		return fmt.Errorf("can't let %s go, process %d: %w", args[1], pid, err)
	}
	return nil
}

// find returns the process of a name.
func find(name string) (int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err == nil && strings.TrimSpace(string(raw)) == name {
			return strconv.Atoi(filepath.Base(filepath.Dir(f)))
		}
	}
	return 0, fmt.Errorf("no process is called %s: does the pod share its PID namespace with this container?", name)
}
