package launch

import (
	"context"
	"fmt"
	"strings"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/build"
)

var sets = []build.Set{build.Kubernetes, build.CoreDNS, build.Etcd37, build.Etcd36, build.Etcd35}

// SetNames are the sets of binaries that can be built from Go modules.
func SetNames() []string {
	var names []string
	for _, s := range sets {
		names = append(names, s.Name)
	}
	return names
}

// BuildSets builds sets of binaries into the cache, and nothing else. Unlike a lab this takes neither root nor Debian.
func (l *Launcher) BuildSets(ctx context.Context, names ...string) error {
	b, err := l.builder()
	if err != nil {
		return err
	}
next:
	for _, name := range names {
		for _, s := range sets {
			if s.Name == name {
				if _, err := b.Build(ctx, s); err != nil {
					return err
				}
				continue next
			}
		}
		return fmt.Errorf("there is no set of binaries called %q; there are %s", name, strings.Join(SetNames(), ", "))
	}
	return nil
}

// Kubectl builds a kubectl, which takes neither root nor Debian, and returns its path.
func (l *Launcher) Kubectl(ctx context.Context) (string, error) {
	b, err := l.builder()
	if err != nil {
		return "", err
	}
	built, err := b.Build(ctx, build.Kubernetes)
	return built.Path("kubectl"), err
}
