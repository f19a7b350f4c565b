package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/etcdmember/kubectl-etcdmember/pkg/health"
)

// druidDir has the objects of clusters of a real etcd-druid: see README.md there.
const druidDir = "testdata/druid"

// druidStates are the names of the states that were captured.
func druidStates(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(objectsOf("*"))
	if err != nil || len(files) < 36 {
		t.Fatalf("of 36 captured states %d are there: %v", len(files), err)
	}
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	return names
}

func objectsOf(state string) string { return filepath.Join(druidDir, state, "objects.yaml") }

// ran is what has come of a run of the plugin.
type ran struct {
	stdout, stderr string
	code           int
}

// here runs the plugin in this process. With files there is neither a cluster nor a clock that it could ask.
func here(t *testing.T, args ...string) ran {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(true)
	*flags.KubeConfig = filepath.Join(t.TempDir(), "none")
	var stdout, stderr bytes.Buffer
	f := &Factory{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr},
		Config:    flags,
		Now: func() time.Time {
			t.Errorf("%q asks what time it is now, and not when the files were written", args)
			return time.Time{}
		},
	}
	code := Main(t.Context(), f, args)
	return ran{stdout.String(), stderr.String(), code}
}

// want wants an exit code, and an exact standard error.
func (r ran) want(t *testing.T, code int, stderr string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	if r.stderr != stderr {
		t.Errorf("stderr %q, want %q", r.stderr, stderr)
	}
}

// unproven is said to people, and not to programs, where a member counts as healthy by its pod and its Lease alone.
const unproven = "note: members that publish nothing are judged by their pods and Leases, which may be old by 45 s: roles, and who has caught up, are proven by --live alone\n"

// golden compares a text with a file beside a state, or writes it.
func golden(t *testing.T, state, name, got string) {
	t.Helper()
	file := filepath.Join(druidDir, state, name+".golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", file, d)
	}
}

// TestDruidGolden prints what the plugin makes of each state, in each format. Whether that is true, TestDruidTruth says.
func TestDruidGolden(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range druidStates(t) {
		t.Run(state, func(t *testing.T) {
			ns := readLive(t, state).Namespace
			status := func(stderr string, more ...string) string {
				t.Helper()
				r := here(t, append([]string{"status", "-f", objectsOf(state), "-n", ns}, more...)...)
				r.want(t, 0, stderr)
				return r.stdout
			}
			document := status("", "-o", "json")
			golden(t, state, "json", document)
			var list struct{ Items []shown }
			if err := json.Unmarshal([]byte(document), &list); err != nil {
				t.Fatal(err)
			}
			note := ""
			var verdicts []health.Verdict
			var names, clusters []string
			for _, c := range list.Items {
				verdicts = append(verdicts, c.Verdict)
				clusters = append(clusters, "etcd/"+c.Metadata.Name+": "+string(c.Verdict)+".")
				for _, m := range c.Members {
					if m.Health == health.MemberHealthy {
						note = unproven
					}
				}
			}
			table := status(note)
			golden(t, state, "table", table)
			golden(t, state, "wide", status(note, "-o", "wide"))

			var read any
			if err := json.Unmarshal([]byte(document), &read); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(read); err != nil {
				t.Error(err)
			}
			// YAML is the same document.
			asYAML, err := yaml.Marshal(read)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(asYAML), status("", "-o", "yaml")); d != "" {
				t.Errorf("yaml (-json +yaml):\n%s", d)
			}
			for name := range readCaptured(t, state)["Etcd"] {
				names = append(names, "etcd.druid.gardener.cloud/"+name+"\n")
			}
			slices.Sort(names)
			if d := cmp.Diff(strings.Join(names, ""), status("", "-o", "name")); d != "" {
				t.Errorf("name (-want +got):\n%s", d)
			}

			doctor := here(t, "doctor", "-f", objectsOf(state), "-n", ns)
			doctor.want(t, codeOf(verdicts), note)
			golden(t, state, "doctor", doctor.stdout)
			if asked := here(t, "status", "-f", objectsOf(state), "-n", ns, "--exit-code", "-o", "name"); asked.code != doctor.code {
				t.Errorf("status --exit-code ends with %d, and doctor with %d", asked.code, doctor.code)
			}
			for _, line := range clusters {
				if !strings.Contains(table, line) {
					t.Errorf("the table does not say %q", line)
				}
			}
			for _, text := range []string{table, doctor.stdout} {
				for line := range strings.Lines(text) {
					if line = strings.TrimSuffix(line, "\n"); strings.TrimRight(line, " ") != line || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
						t.Errorf("a space at the end, or a control character: %q", line)
					}
				}
			}
		})
	}
}

// codeOf is the exit code that is documented for verdicts: Unhealthy counts before Unknown, and Unknown before Degraded.
func codeOf(verdicts []health.Verdict) int {
	for _, c := range []struct {
		v    health.Verdict
		code int
	}{{health.Unhealthy, 1}, {health.Unknown, 2}, {health.Degraded, 1}} {
		if slices.Contains(verdicts, c.v) {
			return c.code
		}
	}
	return 0
}

// TestDruidOutputs prints parts of a state, chosen as kubectl has them chosen.
func TestDruidOutputs(t *testing.T) {
	for state, tests := range map[string][]struct {
		args []string
		want string
	}{
		"03a-member-cut-80s": {
			{[]string{"etcd-main", "-o", "jsonpath={.verdict} {.leader} {range .members[*]}{.health} {end}"}, "Degraded etcd-main-2 Unhealthy Healthy Healthy "},
			{[]string{"-o", "custom-columns=NAME:.metadata.name,VERDICT:.verdict,LEADER:.leader,VOTERS:.quorum.voters"},
				"NAME          VERDICT    LEADER          VOTERS\netcd-events   Healthy    etcd-events-0   1\netcd-main     Degraded   etcd-main-2     3\n"},
			{[]string{"etcd-main", "--no-headers", "-o", "custom-columns=ID:.members[0].id"}, "f7f5d9529d3cd56e\n"},
		},
		"05a-quorum-lost-30s": {
			{[]string{"etcd/etcd-main", "-o", "go-template={{.verdict}}{{range .members}} {{.name}}={{.health}}{{end}}"}, "Unhealthy etcd-main-0=Unhealthy etcd-main-1=Unhealthy etcd-main-2=Unhealthy"},
		},
		"12b-hibernated": {
			{[]string{"etcd-main", "-o", "jsonpath={.verdict}{.wanted}"}, "Hibernated0"},
			{[]string{"-A", "-o", "name"}, "etcd.druid.gardener.cloud/etcd-events\netcd.druid.gardener.cloud/etcd-main\n"},
		},
	} {
		for _, tc := range tests {
			r := here(t, append([]string{"status", "-f", objectsOf(state)}, tc.args...)...)
			r.want(t, 0, "")
			if r.stdout != tc.want {
				t.Errorf("%s %q: got %q, want %q", state, tc.args, r.stdout, tc.want)
			}
		}
	}
	// A StatefulSet of druid's names its Etcd's cluster, and is not another one.
	r := here(t, "status", "-f", objectsOf("01-healthy-3"), "sts/etcd-main", "-o", "name")
	r.want(t, 0, "")
	if r.stdout != "etcd.druid.gardener.cloud/etcd-main\n" {
		t.Errorf("sts/etcd-main: %+v", r)
	}
}
