package source_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/etcdmember/kubectl-etcdmember/pkg/health"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
	"github.com/etcdmember/kubectl-etcdmember/pkg/printer"
	"github.com/etcdmember/kubectl-etcdmember/pkg/source"
)

// captured are the files of real clusters, by state.
func captured(f *testing.F) map[string][]byte {
	f.Helper()
	files, err := filepath.Glob("../cli/testdata/druid/*/objects.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("there are no captured objects: %v", err)
	}
	states := map[string][]byte{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		states[filepath.Base(filepath.Dir(file))] = data
	}
	return states
}

// FuzzReadFiles reads any file, judges what is in it, and prints that.
func FuzzReadFiles(f *testing.F) {
	seen := map[string]bool{}
	states := captured(f)
	for _, state := range slices.Sorted(maps.Keys(states)) {
		for _, document := range bytes.Split(states[state], []byte("\n---\n")) {
			// One of each kind: a fuzzer gets farther with small files.
			kind := string(document[bytes.Index(document, []byte("kind: ")):][:16])
			if !seen[kind] {
				seen[kind] = true
				f.Add(document)
			}
		}
	}
	f.Add(states["19a-single-restoring"])
	for _, text := range []string{
		"", "---", "null", "42", "[]", "{}", "kind: List", "{kind: List, items: [1, null, [], {}, {kind: List, items: []}]}", "kind: [\n", "\x00", "\xff\xfe",
		"apiVersion: druid.gardener.cloud/v1alpha1\nkind: Etcd\nmetadata: {name: a}\nspec: {replicas: 9223372036854775807}\n",
		"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {replicas: 3, ordinals: {start: 9223372036854775807}}\n",
		"apiVersion: druid.gardener.cloud/v1alpha1\nkind: EtcdMember\nmetadata: {name: a-0}\nspec: {clusterRef: {kind: Etcd, name: a}}\nstatus: {id: 1}\n",
		"&a [*a]", "{a: &a {<<: *a}}", "{\"kind\":\"Etcd\",\"apiVersion\":\"druid.gardener.cloud/v1alpha1\"}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) { readAndJudge(t, data) })
}

// FuzzClusters changes one value in a real cluster's objects, and may add the result to the objects as they were, as a
// second dump. Nothing can come of it but a judgement.
func FuzzClusters(f *testing.F) {
	states := captured(f)
	names := slices.Sorted(maps.Keys(states))
	var objects [][]any
	for i, name := range names {
		var list []any
		for _, document := range strings.Split(string(states[name]), "\n---\n") {
			var o any
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				f.Fatal(err)
			}
			list = append(list, o)
		}
		objects = append(objects, list)
		f.Add(uint8(i), uint16(40*i), `null`, false)
		f.Add(uint8(i), uint16(41*i+7), `"etcd-other"`, true)
	}
	for _, replacement := range []string{`-1`, `9223372036854775807`, `1e400`, `""`, `[]`, `{}`, `[null]`, `true`, `"9999-12-31T23:59:59Z"`, `"0001-01-01T00:00:00Z"`, "\x1b[2J"} {
		f.Add(uint8(0), uint16(99), replacement, true)
	}
	f.Fuzz(func(t *testing.T, state uint8, node uint16, replacement string, again bool) {
		original := objects[int(state)%len(objects)]
		var value any = replacement
		_ = json.Unmarshal([]byte(replacement), &value) // what is no JSON is text
		left := int(node) + 1                           // the list itself stays
		changed := replace(original, &left, value).([]any)
		items := changed
		if again {
			items = slices.Concat(original, changed)
		}
		data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
		if err != nil {
			t.Fatal(err)
		}
		readAndJudge(t, data)
	})
}

// replace is a value with one node in it replaced: the one at which nothing is left to be passed. Nodes are counted in the
// order of their keys, so that a failure can be repeated.
func replace(value any, left *int, by any) any {
	if *left == 0 {
		*left = -1
		return by
	}
	*left--
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out[k] = v[k]
			if *left >= 0 {
				out[k] = replace(v[k], left, by)
			}
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i := range v {
			if *left >= 0 {
				out[i] = replace(v[i], left, by)
			}
		}
		return out
	default:
		return value
	}
}

// readAndJudge does with a file what status does, and wants a judgement that does not contradict itself.
func readAndJudge(t *testing.T, data []byte) {
	t.Helper()
	set, err := source.ReadFiles([]string{"-"}, bytes.NewReader(data))
	if err != nil {
		return
	}
	options := health.Options{Now: time.Date(2026, 12, 1, 3, 40, 0, 0, time.UTC)}
	now, known := set.Now()
	for _, o := range []health.Options{options, {Now: now, FreshnessUnknown: !known}} {
		var reports []health.Report
		for _, c := range set.Clusters(model.Key{Kind: model.KindStatefulSet, Namespace: "shoot--lab--a", Name: "etcd-main"}, model.Key{Name: "a"}) {
			r := health.Judge(c, o)
			reports = append(reports, r)
			switch r.Verdict {
			case health.Healthy:
				if r.Quorum.State != health.QuorumHeld || r.Quorum.Healthy < r.Quorum.Needed || r.Reason != "" {
					t.Errorf("Healthy, with quorum %+v and reason %q", r.Quorum, r.Reason)
				}
				for _, m := range r.Members {
					if m.Health != health.MemberHealthy {
						t.Errorf("Healthy, and %s is %s", m.Name, m.Health)
					}
				}
			case health.Degraded:
				if r.Quorum.State != health.QuorumHeld {
					t.Errorf("Degraded, with quorum %+v", r.Quorum)
				}
			case health.Unhealthy, health.Unknown, health.Hibernated:
			default:
				t.Errorf("verdict %q", r.Verdict)
			}
		}
		if err := printer.WriteStatus(io.Discard, reports, printer.StatusOptions{Namespaces: true, Wide: true}); err != nil {
			t.Error(err)
		}
		if err := printer.WriteFindings(io.Discard, reports, printer.StatusOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := printer.StatusList(reports); err != nil {
			t.Error(err)
		}
	}
}
