package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// builtinSchemas are the schemas of the built-in CustomResourceDefinitions by kind.
func builtinSchemas(t *testing.T) map[string]map[string]any {
	t.Helper()
	all, err := builtinCRDs(nil)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for _, c := range all {
		kind, _, _ := unstructured.NestedString(c.Object, "spec", "names", "kind")
		versions, _, _ := unstructured.NestedSlice(c.Object, "spec", "versions")
		if len(versions) != 1 {
			t.Fatalf("%s has %d versions: teach this test what they mean", kind, len(versions))
		}
		schema, ok, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema")
		if !ok || err != nil {
			t.Fatalf("%s has no schema: %v", kind, err)
		}
		out[kind] = schema
	}
	return out
}

// TestSchemaIsExplained wants kubectl explain to have something to say about every field, and not in the middle of a word.
func TestSchemaIsExplained(t *testing.T) {
	var check func(t *testing.T, path string, node map[string]any)
	check = func(t *testing.T, path string, node map[string]any) {
		description, _ := node["description"].(string)
		// The API server knows better than any CustomResourceDefinition what metadata is.
		if !strings.Contains(path, ".metadata") && !strings.HasSuffix(path, "[]") {
			switch {
			case strings.TrimSpace(description) == "":
				t.Errorf("%s has no description", path)
			case len(description) >= 1024 || strings.HasSuffix(description, "..."):
				t.Errorf("%s: the description is cut off: %.80q", path, description)
			}
		}
		properties, _ := node["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			check(t, path+"."+name, properties[name].(map[string]any))
		}
		if items, ok := node["items"].(map[string]any); ok {
			check(t, path+"[]", items)
		}
	}
	for kind, schema := range builtinSchemas(t) {
		check(t, kind, schema)
	}
}

// TestSchemaVersion keeps a schema that a release has from changing under its version: an older plugin would take the new
// one for its own. testdata/schema-versions.txt has the versions that releases have, with the hash of their schemas.
func TestSchemaVersion(t *testing.T) {
	all, err := builtinCRDs(nil)
	if err != nil {
		t.Fatal(err)
	}
	version := ownerOf(all[0]).version
	hash := sha256.New()
	for _, c := range all {
		owner := ownerOf(c)
		if owner.state != crdOurs || owner.version != version || version == 0 {
			t.Fatalf("%s has schema version %d and %s has %d: both have the same, which counts from 1", c.GetName(), owner.version, all[0].GetName(), version)
		}
		spec, _, _ := unstructured.NestedMap(c.Object, "spec")
		withoutDescriptions(spec)
		data, err := json.Marshal(spec) // sorts the keys
		if err != nil {
			t.Fatal(err)
		}
		hash.Write(data)
	}
	sum := hex.EncodeToString(hash.Sum(nil))

	const file = "testdata/schema-versions.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		released, want, ok := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(released)
		if !ok || err != nil {
			t.Fatalf("%s: can't understand %q", file, line)
		}
		if n > version {
			t.Errorf("schema version %d is released already, and the types are at %d", n, version)
		}
		if n == version && sum != want {
			t.Errorf("the schema has changed, and a release has schema version %d: raise etcdmember.github.io/schema-version at both types to %d", version, version+1)
		}
	}
	if os.Getenv("RECORD_SCHEMA_VERSION") != "" && !strings.Contains(string(data), "\n"+strconv.Itoa(version)+" ") {
		if err := os.WriteFile(file, append(data, []byte(strconv.Itoa(version)+" "+sum+"\n")...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// withoutDescriptions takes descriptions away, but not fields of that name.
func withoutDescriptions(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["description"].(string); ok {
			delete(v, "description")
		}
		for _, child := range v {
			withoutDescriptions(child)
		}
	case []any:
		for _, child := range v {
			withoutDescriptions(child)
		}
	}
}

func TestOwnerOf(t *testing.T) {
	const ours = `{"f:metadata":{"f:annotations":{"f:etcdmember.github.io/schema-version":{}}},"f:spec":{"f:versions":{}}}`
	const stampOnly = `{"f:metadata":{"f:annotations":{"f:etcdmember.github.io/schema-version":{}}},"f:spec":{"f:group":{}}}`
	const versionsOnly = `{"f:spec":{"f:versions":{}}}`
	const status = `{"f:status":{"f:conditions":{}}}`
	for name, tc := range map[string]struct {
		stamp   string
		managed map[string]string
		want    crdState
		version int
	}{
		"installed by the plugin":                        {"1", map[string]string{"kubectl-etcdmember": ours}, crdOurs, 1},
		"applied by others":                              {"2", map[string]string{"argocd-controller": ours, "kube-apiserver": status}, crdOurs, 2},
		"shared by two":                                  {"1", map[string]string{"kubectl-etcdmember": ours, "helm": ours}, crdOurs, 1},
		"without managed fields":                         {"1", nil, crdOurs, 1},
		"an unreadable version":                          {"one", map[string]string{"kubectl-etcdmember": ours}, crdOurs, 0},
		"a negative version":                             {"-1", map[string]string{"kubectl-etcdmember": ours}, crdOurs, 0},
		"without our annotation":                         {"", map[string]string{"helm": versionsOnly}, crdForeign, 0},
		"another project's schema over our annotation":   {"1", map[string]string{"kubectl-etcdmember": stampOnly, "etcd-druid": versionsOnly}, crdTakenOver, 1},
		"managed fields that can't be understood":        {"1", map[string]string{"kubectl-etcdmember": `{"f:spec":[]}`}, crdOurs, 1},
		"our annotation, and nobody owns it by its name": {"1", map[string]string{"etcd-druid": versionsOnly}, crdTakenOver, 1},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		if tc.stamp != "" {
			obj.SetAnnotations(map[string]string{schemaVersionAnnotation: tc.stamp})
		}
		var entries []any
		for manager, fields := range tc.managed {
			var v any
			if err := json.Unmarshal([]byte(fields), &v); err != nil {
				t.Fatal(err)
			}
			entries = append(entries, map[string]any{"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": v})
		}
		if entries != nil {
			if err := unstructured.SetNestedSlice(obj.Object, entries, "metadata", "managedFields"); err != nil {
				t.Fatal(err)
			}
		}
		if got := ownerOf(obj); got.state != tc.want || got.version != tc.version {
			t.Errorf("%s: state %d, version %d; want %d and %d", name, got.state, got.version, tc.want, tc.version)
		}
	}
	if got := ownerOf(nil); got.state != crdAbsent {
		t.Errorf("nothing: state %d, want %d", got.state, crdAbsent)
	}
}
