// Package house holds the rules of the house: which package may import which.
package house

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/etcdmember/kubectl-etcdmember/"

// mayImport says which packages of the house each may import directly. Arrows point down only, and what is on top never
// imports its neighbours. A package that is not named here fails the test: say where it stands.
var mayImport = map[string][]string{
	"pkg/version":               {},
	"pkg/apis/druid/v1alpha1":   {},
	"config/crd":                {},
	"pkg/model":                 {},
	"pkg/health":                {"pkg/apis", "pkg/model"},
	"pkg/roll":                  {"pkg/apis", "pkg/model"},
	"pkg/task":                  {"pkg/apis", "pkg/model"},
	"pkg/etcd":                  {},
	"pkg/source":                {"pkg/apis", "pkg/model", "pkg/etcd"},
	"pkg/workload":              {"pkg/apis", "pkg/model", "pkg/etcd"},
	"pkg/archive":               {"pkg/apis", "pkg/model", "pkg/etcd"},
	"pkg/printer":               {"pkg/apis", "pkg/model", "pkg/health"},
	"pkg/cli":                   {"pkg/apis", "pkg/model", "pkg/health", "pkg/roll", "pkg/task", "pkg/etcd", "pkg/source", "pkg/workload", "pkg/archive", "pkg/printer", "pkg/version", "config/crd"},
	"pkg/controller":            {"pkg/apis", "pkg/model", "pkg/health", "pkg/roll", "pkg/task", "pkg/etcd", "pkg/source", "pkg/workload", "pkg/archive", "pkg/version"},
	"pkg/agent":                 {"pkg/apis", "pkg/model", "pkg/etcd", "pkg/archive", "pkg/version"},
	"cmd/kubectl-etcdmember":    {"pkg/cli"},
	"hack/docs":                 {"pkg/cli"},
	"cmd/etcdmember-agent":      {"pkg/agent", "pkg/version"},
	"cmd/etcdmember-controller": {"pkg/controller", "pkg/version"},
}

// mayNotDepend are packages that must not be linked in, however indirectly.
var mayNotDepend = map[string][]string{
	// The plugin starts fast and stays small.
	"cmd/kubectl-etcdmember": {"sigs.k8s.io/controller-runtime"},
	// Judging and deciding do no I/O.
	"pkg/model":  {"net/http", "k8s.io/client-go", "go.etcd.io/etcd/client"},
	"pkg/health": {"k8s.io/client-go", "go.etcd.io/etcd/client"},
	"pkg/roll":   {"k8s.io/client-go", "go.etcd.io/etcd/client"},
	"pkg/task":   {"k8s.io/client-go", "go.etcd.io/etcd/client"},
}

type listed struct {
	ImportPath    string
	Imports, Deps []string
}

func TestArrowsPointDown(t *testing.T) {
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(name, "test/") {
			continue
		}
		allowed, known := mayImport[name]
		if !known {
			t.Errorf("%s has no place in the house: say in this test what it may import", name)
		}
		for _, imported := range p.Imports {
			if rest, ours := strings.CutPrefix(imported, module); ours && !matches(rest, allowed) {
				t.Errorf("%s must not import %s", name, rest)
			}
		}
		for _, dep := range p.Deps {
			if matches(dep, mayNotDepend[name]) {
				t.Errorf("%s must not depend on %s", name, dep)
			}
		}
	}
}

// matches says whether a path is one of the prefixes or below one.
func matches(path string, prefixes []string) bool {
	for _, p := range prefixes {
		if path == p || strings.HasPrefix(path, p+"/") {
			return true
		}
	}
	return false
}

func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("can't list the module's packages: %v", err)
	}
	var ps []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	if len(ps) < 10 {
		t.Fatalf("only %d packages were found: the rule would prove nothing", len(ps))
	}
	return ps
}
