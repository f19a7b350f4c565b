package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// The sandbox sees the host's programs but not its state: its root is a fresh tmpfs in which the host's top-level
// folders are mounted read-only. /var, /run and /tmp are the sandbox's own, because the kubelet, containerd and the CNI
// plugins write to fixed places there (/var/log/containers, /var/lib/kubelet/device-plugins, /var/lib/cni), and so the
// host's stay untouched. What the lab may write of the host's is its own directory and /dev.
var ownFolders = []string{"proc", "sys", "run", "var", "tmp", "lost+found"}

// pretended are host-wide kernel settings that the kubelet insists on. The sandbox shows it files that already hold
// the value that it wants, so that it changes none of the host's.
var pretended = map[string]string{
	"/proc/sys/vm/overcommit_memory":      "1\n",
	"/proc/sys/vm/panic_on_oom":           "0\n",
	"/proc/sys/kernel/panic":              "10\n",
	"/proc/sys/kernel/panic_on_oops":      "1\n",
	"/proc/sys/kernel/keys/root_maxkeys":  "1000000\n",
	"/proc/sys/kernel/keys/root_maxbytes": "25000000\n",
}

// makeRoot builds the sandbox's root and moves the calling process into it. It must run in a mount namespace of its own.
// Paths in writable are the host's own, writable.
func makeRoot(writable, readable []string) error {
	// Nothing that is mounted in here may show on the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("detaching the sandbox's mounts from the host's: %w", err)
	}
	// /proc is the one folder that the host surely has and the sandbox surely does not need: it gets its own.
	root := "/proc"
	if err := unix.Mount("lab-root", root, "tmpfs", 0, "mode=0755,size=512m"); err != nil {
		return fmt.Errorf("mounting the sandbox's root: %w", err)
	}
	if err := bindHost(root); err != nil {
		return err
	}
	for _, dir := range []string{"run", "run/lock", "run/netns", "var", "var/lib", "var/log", "var/tmp", "tmp", "proc", "sys"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return fmt.Errorf("making the sandbox's /%s: %w", dir, err)
		}
	}
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o1777); err != nil {
		return fmt.Errorf("opening the sandbox's /tmp: %w", err)
	}
	for _, path := range readable {
		if err := bind(path, filepath.Join(root, path), false); err != nil {
			return err
		}
	}
	for _, path := range writable {
		if err := bind(path, filepath.Join(root, path), true); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", filepath.Join(root, "proc"), "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting the sandbox's /proc: %w", err)
	}
	// A sysfs of its own shows the sandbox's network devices; the cgroups are the host's.
	if err := unix.Mount("sysfs", filepath.Join(root, "sys"), "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mounting the sandbox's /sys: %w", err)
	}
	if err := unix.Mount(cgroupMount, filepath.Join(root, cgroupMount), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mounting the cgroups in the sandbox: %w", err)
	}
	if err := enter(root); err != nil {
		return err
	}
	// The kubelet wants its mounts to be shared, which they are among the sandbox's processes.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing mounts within the sandbox: %w", err)
	}
	return pretend()
}

// bindHost mounts the host's top-level folders in root: /dev as it is, all others read-only.
func bindHost(root string) error {
	entries, err := os.ReadDir("/")
	if err != nil {
		return fmt.Errorf("listing the host's root: %w", err)
	}
	for _, e := range entries {
		host, in := filepath.Join("/", e.Name()), filepath.Join(root, e.Name())
		switch {
		case slices.Contains(ownFolders, e.Name()):
		case e.Type()&os.ModeSymlink != 0:
			target, err := os.Readlink(host)
			if err != nil {
				return fmt.Errorf("reading the host's link %s: %w", host, err)
			}
			if err := os.Symlink(target, in); err != nil {
				return fmt.Errorf("linking in the sandbox: %w", err)
			}
		case e.IsDir():
			if err := bind(host, in, e.Name() == "dev"); err != nil {
				return err
			}
		}
	}
	return nil
}

// bind mounts a folder of the host at in.
func bind(host, in string, writable bool) error {
	// Inside a read-only folder the mount point is there already: it is the host's folder itself.
	if err := os.MkdirAll(in, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("making the mount point for %s in the sandbox: %w", host, err)
	}
	if err := unix.Mount(host, in, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mounting %s in the sandbox: %w", host, err)
	}
	if writable {
		return nil
	}
	// An old kernel, or a mount that is locked against it, leaves the folder writable: no reason not to go on.
	_ = unix.MountSetattr(unix.AT_FDCWD, in, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	return nil
}

// enter makes root the process's root and lets go of the old one.
func enter(root string) error {
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("entering the sandbox: %w", err)
	}
	// Both the new and the put-old path may be ".": the old root is then mounted over the new one, and taken off.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("entering the sandbox: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("letting go of the host's root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("entering the sandbox: %w", err)
	}
	return nil
}

// pretend hides host-wide kernel settings behind files of the sandbox's own.
func pretend() error {
	dir := "/run/pretended"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making room for pretended settings: %w", err)
	}
	for setting, value := range pretended {
		if _, err := os.Stat(setting); err != nil {
			continue
		}
		file := filepath.Join(dir, filepath.Base(setting))
		if err := os.WriteFile(file, []byte(value), 0o644); err != nil {
			return fmt.Errorf("pretending %s: %w", setting, err)
		}
		if err := unix.Mount(file, setting, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("pretending %s: %w", setting, err)
		}
	}
	return nil
}
