// Package host checks that this machine can carry the lab, and installs the packages that it lacks.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// ErrUnfit is returned where the lab can't run.
var ErrUnfit = errors.New("the lab can't run here")

// OwnCluster tells how to do without the lab.
const OwnCluster = `To use a cluster of your own instead, set KUBECONFIG to it and leave ETCDMEMBER_LAB unset, for example with kind:
  kind create cluster
  kind get kubeconfig > kind.kubeconfig && export KUBECONFIG=$PWD/kind.kubeconfig
  go run ./test/lab/cmd/lab images save /tmp/images && for f in /tmp/images/*.tar; do kind load image-archive $f; done`

// needed maps each command that the lab runs to the Debian package that has it. The CNI plugins are not in PATH, so
// they are given by their full path.
var needed = map[string]string{
	"containerd":               "containerd",
	"ctr":                      "containerd",
	"containerd-shim-runc-v2":  "containerd",
	"runc":                     "runc",
	CNIPlugins + "/bridge":     "containernetworking-plugins",
	CNIPlugins + "/host-local": "containernetworking-plugins",
	CNIPlugins + "/portmap":    "containernetworking-plugins",
	"iptables":                 "iptables",
	"conntrack":                "conntrack",
	"mkfs.ext4":                "e2fsprogs",
	"mkfs.xfs":                 "xfsprogs",
	"xfs_growfs":               "xfsprogs",
	"ip":                       "iproute2",
	"mount":                    "mount",
	"losetup":                  "mount",
	"nsenter":                  "util-linux",
}

// CNIPlugins is where Debian's containernetworking-plugins puts them.
const CNIPlugins = "/usr/lib/cni"

// Path is the PATH that the lab's processes get, whatever the caller's is.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Check says whether the lab can run here at all.
func Check() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%w: it needs Linux's namespaces, and this is %s.\n%s", ErrUnfit, runtime.GOOS, OwnCluster)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: it makes namespaces, mounts and loop devices of its own, which needs root, and this is user %d. Try again as root (sudo -E).\n%s",
			ErrUnfit, os.Geteuid(), OwnCluster)
	}
	return nil
}

// missing lists the commands that are not there.
func missing() []string {
	var names []string
	for name := range needed {
		if lookPath(name) == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func lookPath(name string) string {
	dirs := filepath.SplitList(Path)
	if filepath.IsAbs(name) {
		dirs, name = []string{filepath.Dir(name)}, filepath.Base(name)
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			return path
		}
	}
	return ""
}

// Install installs what is missing, and sees to it that no service starts because of that: neither now nor at the
// machine's next start.
func Install(ctx context.Context, log io.Writer) error {
	lacking := missing()
	if len(lacking) == 0 {
		return nil
	}
	if lookPath("apt-get") == "" {
		return fmt.Errorf("%w: these commands are missing, and there is no apt-get to install them: %s. Install them by hand (Debian has them in: %s).\n%s",
			ErrUnfit, strings.Join(lacking, ", "), strings.Join(packagesOf(lacking), ", "), OwnCluster)
	}
	packages := packagesOf(lacking)
	start := time.Now()
	fmt.Fprintf(log, "installing Debian packages: %s\n", strings.Join(packages, " "))

	restore, err := forbidServices()
	if err != nil {
		return err
	}
	defer restore()

	install := append([]string{"install", "-y", "-q", "--no-install-recommends"}, packages...)
	if err := aptGet(ctx, install...); err != nil {
		// The package lists of a fresh machine are empty or old.
		if err := aptGet(ctx, "update", "-q"); err != nil {
			return err
		}
		if err := aptGet(ctx, install...); err != nil {
			return err
		}
	}
	if still := missing(); len(still) > 0 {
		return fmt.Errorf("%w: after installing %s these commands are still missing: %s", ErrUnfit, strings.Join(packages, ", "), strings.Join(still, ", "))
	}
	if slices.Contains(packages, "containerd") {
		if err := silenceContainerd(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(log, "installed packages in %s\n", time.Since(start).Round(100*time.Millisecond))
	return nil
}

func packagesOf(commands []string) []string {
	var packages []string
	for _, c := range commands {
		packages = append(packages, needed[c])
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// policyFile is asked by invoke-rc.d whether a service may be started; 101 means that it may not.
const (
	policyFile = "/usr/sbin/policy-rc.d"
	policy     = "#!/bin/sh\n# Written by the etcdmember lab while it installs packages.\nexit 101\n"
)

// forbidServices puts a policy in place that forbids every start of a service, and returns how to undo that.
func forbidServices() (restore func(), err error) {
	kept := policyFile + ".etcdmember-lab"
	// A run that was killed half-way may have left its policy behind.
	if text, err := os.ReadFile(policyFile); err == nil && string(text) == policy {
		if err := os.Remove(policyFile); err != nil {
			return nil, fmt.Errorf("removing a stale policy: %w", err)
		}
	}
	if _, err := os.Stat(kept); err == nil {
		if err := os.Rename(kept, policyFile); err != nil {
			return nil, fmt.Errorf("restoring %s: %w", policyFile, err)
		}
	}
	err = os.Rename(policyFile, kept)
	had := err == nil
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("setting %s aside: %w", policyFile, err)
	}
	restore = func() {
		if had {
			_ = os.Rename(kept, policyFile)
		} else {
			_ = os.Remove(policyFile)
		}
	}
	if err := os.WriteFile(policyFile, []byte(policy), 0o755); err != nil {
		restore()
		return nil, fmt.Errorf("forbidding services to start: %w", err)
	}
	return restore, nil
}

// silenceContainerd undoes what containerd's package does for its service. It was not installed a moment ago, so nobody
// else can want that service.
func silenceContainerd(ctx context.Context) error {
	if lookPath("deb-systemd-helper") != "" {
		// The helper serves packages' own scripts only, and asks in whose name it is called.
		if err := runWith(ctx, []string{"DPKG_MAINTSCRIPT_PACKAGE=containerd"}, "deb-systemd-helper", "disable", "containerd.service"); err != nil {
			return fmt.Errorf("keeping containerd's service from starting with the machine: %w", err)
		}
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return nil
	}
	if run(ctx, "systemctl", "is-active", "--quiet", "containerd.service") == nil {
		if err := run(ctx, "systemctl", "stop", "containerd.service"); err != nil {
			return fmt.Errorf("stopping the service that the package started against its orders: %w", err)
		}
	}
	return nil
}

func aptGet(ctx context.Context, args ...string) error {
	return run(ctx, "apt-get", args...)
}

func run(ctx context.Context, name string, args ...string) error {
	return runWith(ctx, nil, name, args...)
}

func runWith(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, lookPath(name), args...)
	cmd.Env = append(append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "PATH="+Path), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, tail(string(out), 20))
	}
	return nil
}

func tail(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
