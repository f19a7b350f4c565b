// Package build makes the lab's binaries, and keeps each under its version and a hash of all that it was made from, so
// that nothing is built twice and nothing stale is used.
package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/layout"
)

// Set is a group of binaries that are built and cached together.
type Set struct {
	// Name is the set's folder in test/lab/bin.
	Name string
	// Pin is the module whose version is the set's version.
	Pin string
	// Packages maps the name of a binary to the package that it is built from.
	Packages map[string]string
	// Links maps names to those of binaries that act by the name that they are called by.
	Links map[string]string
	// Stamp are further linker flags, of the version "v1.2.3".
	Stamp func(version string) []string
}

// The sets that can be built from Go modules.
var (
	Kubernetes = Set{Name: "k8s", Pin: "k8s.io/kubernetes", Packages: map[string]string{"k8s": "."},
		Links: map[string]string{"kubectl": "k8s"}, Stamp: kubernetesStamp}
	CoreDNS = Set{Name: "coredns", Pin: "github.com/coredns/coredns", Packages: map[string]string{"coredns": "."}}
	Etcd35  = etcd("etcd35")
	Etcd36  = etcd("etcd36")
	Etcd37  = etcd("etcd37")
)

func etcd(name string) Set {
	return Set{Name: name, Pin: "go.etcd.io/etcd/server/v3", Packages: map[string]string{
		"etcd":    "go.etcd.io/etcd/server/v3",
		"etcdctl": "go.etcd.io/etcd/etcdctl/v3",
		"etcdutl": "go.etcd.io/etcd/etcdutl/v3",
	}}
}

// kubernetesStamp stamps the version as Kubernetes' own build does: without it, `kubectl version` can't parse the
// server's version and the API server takes itself for version 0.
func kubernetesStamp(version string) []string {
	part := strings.Split(strings.TrimPrefix(version, "v"), ".")
	return []string{
		"-X", "k8s.io/component-base/version.gitVersion=" + version,
		"-X", "k8s.io/component-base/version.gitMajor=" + part[0],
		"-X", "k8s.io/component-base/version.gitMinor=" + part[1],
		"-X", "k8s.io/component-base/version.gitTreeState=clean",
		"-X", "k8s.io/client-go/pkg/version.gitVersion=" + version,
	}
}

// Built is a set in the cache.
type Built struct {
	// Dir holds the binaries by their names.
	Dir string
	// Version is that of the pinned module, without "v".
	Version string
}

// Path of one of the set's binaries.
func (b Built) Path(name string) string { return filepath.Join(b.Dir, name) }

// Builder builds sets from a checkout into a cache.
type Builder struct {
	// Root of the checkout.
	Root   string
	Layout layout.Layout
	// Log gets a line per build; builds that the cache saves are silent.
	Log io.Writer
}

// Version is what the checkout pins for the set.
func (b Builder) Version(s Set) (string, error) {
	return pinned(filepath.Join(b.Root, "test", "lab", "bin", s.Name), s.Pin)
}

// Build returns the set from the cache, or builds it.
func (b Builder) Build(ctx context.Context, s Set) (Built, error) {
	dir := filepath.Join(b.Root, "test", "lab", "bin", s.Name)
	version, err := pinned(dir, s.Pin)
	if err != nil {
		return Built{}, err
	}
	ldflags := []string{"-s", "-w"}
	if s.Stamp != nil {
		ldflags = append(ldflags, s.Stamp(version)...)
	}
	key, err := hashOf(dir, append(append(ldflags, runtime.Version(), runtime.GOARCH), sortedKeys(s.Links)...))
	if err != nil {
		return Built{}, err
	}
	plain := strings.TrimPrefix(version, "v")
	built := Built{Dir: filepath.Join(b.Layout.Binaries(), s.Name+"-"+plain+"-"+key), Version: plain}
	err = b.cached(ctx, built.Dir, s.Name+" "+plain, func(tmp string) error {
		for _, name := range sortedKeys(s.Packages) {
			if err := goBuild(ctx, dir, filepath.Join(tmp, name), s.Packages[name], strings.Join(ldflags, " ")); err != nil {
				return err
			}
		}
		for _, name := range sortedKeys(s.Links) {
			if err := os.Symlink(s.Links[name], filepath.Join(tmp, name)); err != nil {
				return fmt.Errorf("linking %s: %w", name, err)
			}
		}
		return nil
	})
	return built, err
}

// Own builds one of the checkout's own commands. The go command's cache knows better than any hash of ours whether it
// is current, and an up-to-date answer takes it a second.
func (b Builder) Own(ctx context.Context, pkg, out string) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return fmt.Errorf("making room for %s: %w", out, err)
	}
	tmp := fmt.Sprintf("%s.%d", out, os.Getpid())
	defer os.Remove(tmp)
	if err := goBuild(ctx, b.Root, tmp, pkg, "-s -w"); err != nil {
		return err
	}
	if err := os.Rename(tmp, out); err != nil {
		return fmt.Errorf("putting %s in its place: %w", out, err)
	}
	return nil
}

// cached makes dir by fill unless it is there, safely against others who do the same at the same time.
func (b Builder) cached(ctx context.Context, dir, what string, fill func(tmp string) error) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	lock, err := layout.Lock(ctx, dir+".lock", func() {
		fmt.Fprintf(b.Log, "waiting for another process that builds %s\n", what)
	})
	if err != nil {
		return err
	}
	defer lock.Close()
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	start := time.Now()
	fmt.Fprintf(b.Log, "building %s\n", what)
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".building-")
	if err != nil {
		return fmt.Errorf("making a folder to build %s in: %w", what, err)
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fmt.Errorf("building %s: %w", what, err)
	}
	if err := fill(tmp); err != nil {
		return fmt.Errorf("building %s: %w", what, err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return fmt.Errorf("putting %s in the cache: %w", what, err)
	}
	fmt.Fprintf(b.Log, "built %s in %s\n", what, time.Since(start).Round(100*time.Millisecond))
	return nil
}

func goBuild(ctx context.Context, dir, out, pkg, ldflags string) error {
	// The same CGO_ENABLED and -trimpath everywhere, else the go command's cache holds everything twice.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", ldflags, "-o", out, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=", "GOWORK=off")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %s in %s: %w\n%s", pkg, dir, err, strings.TrimSpace(output.String()))
	}
	return nil
}

// pinned is the version of module that dir/go.mod requires.
func pinned(dir, module string) (string, error) {
	path := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading which %s to build: %w", module, err)
	}
	m := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(module) + ` (v[0-9]\S*)`).FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("%s requires no version of %s", path, module)
	}
	return string(m[1]), nil
}

// hashOf covers the files of a pinning module, which are all that its binaries depend on, and what else matters.
func hashOf(dir string, more []string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return "", fmt.Errorf("listing %s: %w", dir, err)
	}
	slices.Sort(files)
	h := sha256.New()
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return "", fmt.Errorf("hashing what %s is built from: %w", dir, err)
		}
		fmt.Fprintf(h, "%s %d\n%s", filepath.Base(f), len(text), text)
	}
	fmt.Fprintf(h, "%q", more)
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Has says whether the set has a binary of that name.
func (b Built) Has(name string) bool {
	_, err := os.Stat(b.Path(name))
	return err == nil
}
