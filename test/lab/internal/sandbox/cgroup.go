package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const cgroupMount = "/sys/fs/cgroup"

// CgroupRoot is where a lab's cgroups begin, in each hierarchy.
func CgroupRoot(id string) string { return "/etcdmember-lab-" + id }

// NodeCgroup is where the cgroups of a node begin.
func NodeCgroup(id, node string) string { return CgroupRoot(id) + "/" + node }

// cgroupHierarchies are the mount points below which groups are made: one for cgroup v2, one per controller for v1.
func cgroupHierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		return []string{cgroupMount}, nil
	}
	entries, err := os.ReadDir(cgroupMount)
	if err != nil {
		return nil, fmt.Errorf("listing cgroup hierarchies: %w", err)
	}
	var dirs []string
	for _, e := range entries {
		dir := filepath.Join(cgroupMount, e.Name())
		// Joint controllers have symbolic links beside them ("cpu" -> "cpu,cpuacct"); following one is enough.
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil && e.Type()&fs.ModeSymlink == 0 {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("%s holds no cgroup hierarchy: mount cgroup v2 there", cgroupMount)
	}
	return dirs, nil
}

// makeCgroups makes the groups that the kubelets are rooted in.
func makeCgroups(id string, nodes []string) error {
	hierarchies, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		groups := []string{CgroupRoot(id)}
		for _, n := range nodes {
			groups = append(groups, NodeCgroup(id, n))
		}
		for _, g := range groups {
			dir := filepath.Join(h, g)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return fmt.Errorf("making a cgroup: %w", err)
			}
			if err := inheritCPUs(dir); err != nil {
				return err
			}
			if err := enableControllers(filepath.Dir(dir)); err != nil {
				return err
			}
		}
	}
	return nil
}

// inheritCPUs copies the CPUs and memory nodes of the parent: a new group of the v1 cpuset hierarchy has none, and no
// process can enter it until it does.
func inheritCPUs(dir string) error {
	for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil || strings.TrimSpace(string(own)) != "" || isV2(dir) {
			continue
		}
		parents, err := os.ReadFile(filepath.Join(filepath.Dir(dir), f))
		if err != nil {
			return fmt.Errorf("reading the parent's CPUs: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), parents, 0o644); err != nil {
			return fmt.Errorf("giving a cgroup its CPUs: %w", err)
		}
	}
	return nil
}

// enableControllers lets the children of a cgroup v2 group have limits. Controllers that the kernel or the group's
// own parent withholds are left out: the kubelet says what it misses.
func enableControllers(dir string) error {
	available, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil // v1
	}
	for c := range strings.FieldsSeq(string(available)) {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0o644)
	}
	return nil
}

func isV2(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.controllers"))
	return err == nil
}

// removeCgroups removes the lab's groups. Processes that were killed leave their groups a moment later, so it tries for
// a while.
func removeCgroups(id string) error {
	hierarchies, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	var failed error
	for attempt := 0; attempt < 50; attempt++ {
		failed = nil
		for _, h := range hierarchies {
			failed = errors.Join(failed, removeTree(filepath.Join(h, CgroupRoot(id))))
		}
		if failed == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("removing the lab's cgroups: %w", failed)
}

// removeTree removes a group and the groups in it, the deepest first. Their files vanish with them.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var failed error
	for _, e := range entries {
		if e.IsDir() {
			failed = errors.Join(failed, removeTree(filepath.Join(dir, e.Name())))
		}
	}
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, syscall.ENOENT) {
		failed = errors.Join(failed, &fs.PathError{Op: "rmdir", Path: dir, Err: err})
	}
	return failed
}
