// Package bench measures the budgets of the plugin, each against its rival in the same run.
package bench

import (
	"path/filepath"
	"testing"
)

// BenchmarkVersion is the start-up of the plugin against that of kubectl: budget 0.5 of its time and of its memory. The
// rival is a kubectl of its own, as people have it, not the lab's binary, which holds all of Kubernetes.
func BenchmarkVersion(b *testing.B) {
	dir := b.TempDir()
	plugin, kubectl := buildBoth(b, dir)

	compare(b, here(b, dir), contender{name: "plugin", command: []string{plugin, "version"}},
		contender{name: "kubectl", command: []string{kubectl, "version", "--client"}}, func() {})
}

// buildBoth builds the plugin and a kubectl.
func buildBoth(b *testing.B, dir string) (plugin, kubectl string) {
	b.Helper()
	return build(b, "../..", "./cmd/kubectl-etcdmember", filepath.Join(dir, "kubectl-etcdmember")),
		build(b, "../lab/bin/k8s", "k8s.io/kubernetes/cmd/kubectl", filepath.Join(dir, "kubectl"))
}
