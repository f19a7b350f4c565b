package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoDebian is returned where there is no Debian to take etcd 3.4 from.
var ErrNoDebian = errors.New("etcd 3.4 is taken from Debian's package etcd-server, and this machine has no apt-get")

// Etcd34 returns etcd 3.4, which can't be built from Go modules any more: its etcd needs versions of gRPC that its
// module never declared. Debian still ships it. The packages are unpacked into the cache, not installed, for the
// installed package would start a service.
func (b Builder) Etcd34(ctx context.Context) (Built, error) {
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg"} {
		if _, err := exec.LookPath(tool); err != nil {
			return Built{}, ErrNoDebian
		}
	}
	if cached, _ := filepath.Glob(filepath.Join(b.Layout.Binaries(), "etcd34-3.4.*[0-9]")); len(cached) > 0 {
		dir := cached[len(cached)-1]
		return Built{Dir: dir, Version: strings.TrimPrefix(filepath.Base(dir), "etcd34-")}, nil
	}
	version, err := debianVersion(ctx, "etcd-server")
	if err != nil {
		return Built{}, err
	}
	// 3.4.23+dfsg-1+deb12u2 packages etcd 3.4.23.
	upstream, _, _ := strings.Cut(version, "+")
	upstream, _, _ = strings.Cut(upstream, "-")
	if !strings.HasPrefix(upstream, "3.4.") {
		return Built{}, fmt.Errorf("this Debian's etcd-server is %s, not 3.4; the lab's etcd 3.4 needs Debian 12", version)
	}
	built := Built{Dir: filepath.Join(b.Layout.Binaries(), "etcd34-"+upstream), Version: upstream}
	err = b.cached(ctx, built.Dir, "etcd "+upstream+" (from Debian's packages)", func(tmp string) error {
		unpacked := filepath.Join(tmp, "unpacked")
		for _, pkg := range []string{"etcd-server", "etcd-client"} {
			if _, err := output(ctx, tmp, "apt-get", "download", "-q", pkg); err != nil {
				return err
			}
			debs, err := filepath.Glob(filepath.Join(tmp, pkg+"_*.deb"))
			if err != nil || len(debs) != 1 {
				return fmt.Errorf("apt-get download %s left %d files, not one", pkg, len(debs))
			}
			if _, err := output(ctx, tmp, "dpkg", "-x", debs[0], unpacked); err != nil {
				return err
			}
			if err := os.Remove(debs[0]); err != nil {
				return fmt.Errorf("removing a package that is unpacked: %w", err)
			}
		}
		for _, name := range []string{"etcd", "etcdctl"} {
			if err := os.Rename(filepath.Join(unpacked, "usr", "bin", name), filepath.Join(tmp, name)); err != nil {
				return fmt.Errorf("taking %s from Debian's package: %w", name, err)
			}
		}
		return os.RemoveAll(unpacked)
	})
	return built, err
}

func debianVersion(ctx context.Context, pkg string) (string, error) {
	for attempt := 0; ; attempt++ {
		out, err := output(ctx, "", "apt-cache", "show", "--no-all-versions", pkg)
		for line := range strings.Lines(out) {
			if v, ok := strings.CutPrefix(line, "Version: "); ok {
				return strings.TrimSpace(v), nil
			}
		}
		if attempt > 0 {
			return "", fmt.Errorf("apt knows no package %s even after apt-get update: %w", pkg, err)
		}
		if _, err := output(ctx, "", "apt-get", "update", "-q"); err != nil {
			return "", err
		}
	}
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
