package e2e

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
)

// kinds are the kinds whose schemas are tested.
var kinds = map[string]struct {
	crd      string
	resource schema.GroupVersionResource
}{
	"EtcdMember":     {membersCRD, v1alpha1.EtcdMemberResource},
	"EtcdMemberTask": {tasksCRD, v1alpha1.EtcdMemberTaskResource},
}

// schemaOf is the schema of a kind as it is in the repository.
func schemaOf(t *testing.T, kind string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	var def apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(builtin(t, kinds[kind].crd).Object, &def); err != nil {
		t.Fatal(err)
	}
	if len(def.Spec.Versions) != 1 {
		t.Fatalf("%s has %d versions: teach this test which one is meant", kind, len(def.Spec.Versions))
	}
	return def.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// examples are objects that together have every field there is.
func examples(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob("testdata/api/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	var out []*unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, parse(t, string(data)))
	}
	return out
}

// TestAPIBounds takes examples of objects and breaks each bound of each of their fields alone, as the schema in the
// repository has it, and wants the API server to refuse that very field. What is just within a bound it has to take. It
// fails on a field of which there is no example.
func TestAPIBounds(t *testing.T) {
	s := startAPIServer(t)
	if r := s.plugin(t, "crd", "install"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	seen, count := map[string]bool{}, 0
	for _, example := range examples(t) {
		kind := example.GetKind()
		resource := s.dynamic.Resource(kinds[kind].resource).Namespace("default")
		created, err := resource.Create(t.Context(), example, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("%s %s is refused: %v", kind, example.GetName(), err)
		}
		if example.Object["status"] != nil {
			created.Object["status"] = example.Object["status"]
			if created, err = resource.UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
				t.Fatalf("the status of %s %s is refused: %v", kind, example.GetName(), err)
			}
			// Nothing of it is pruned: the type and the schema have the same fields.
			for _, missing := range missingFields(example.Object["status"], created.Object["status"], "status") {
				t.Errorf("%s of %s is not kept", missing, kind)
			}
		}
		walk(schemaOf(t, kind), example.Object, nil, func(node *apiextensionsv1.JSONSchemaProps, value any, path fieldPath, required bool) {
			if len(path) == 0 || path[0] == "metadata" || path[0] == "kind" || path[0] == "apiVersion" {
				return
			}
			seen[kind+"."+path.generic()] = true
			for _, b := range breaches(node, value, required) {
				count++
				attempt := func(value any) []metav1.StatusCause {
					obj := example.DeepCopy()
					put(obj.Object, path, value)
					var err error
					if path[0] == "status" {
						obj.SetResourceVersion(created.GetResourceVersion())
						obj.Object["spec"] = created.Object["spec"]
						_, err = resource.UpdateStatus(t.Context(), obj, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
					} else {
						obj.SetName("breach-" + obj.GetName())
						_, err = resource.Create(t.Context(), obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
					}
					return causesOf(t, err)
				}
				hit := func(c metav1.StatusCause) bool { return c.Type == b.cause && strings.HasPrefix(c.Field, path.String()) }
				if causes := attempt(b.beyond); !slices.ContainsFunc(causes, hit) {
					t.Errorf("%s %s: %s is broken by %.80v, and the API server says %v; want %s", kind, path, b.bound, b.beyond, causes, b.cause)
				}
				for _, within := range b.within {
					if causes := attempt(within); slices.ContainsFunc(causes, hit) {
						t.Errorf("%s %s: %s is kept by %.80v, and the API server says %v", kind, path, b.bound, within, causes)
					}
				}
			}
		})
	}
	for kind := range kinds {
		for _, path := range slices.Sorted(maps.Keys(properties(schemaOf(t, kind), ""))) {
			if !seen[kind+"."+path] {
				t.Errorf("%s has a field %s and no file in testdata/api has it", kind, path)
			}
		}
	}
	if count < 200 {
		t.Errorf("only %d bounds were tried: the test does not see the schema", count)
	}
	t.Logf("%d bounds broken one by one", count)
}

// fieldPath leads to a value: names of fields and indexes of lists.
type fieldPath []any

// String is the path as the API server writes it.
func (p fieldPath) String() string {
	var b strings.Builder
	for i, e := range p {
		switch e := e.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", e)
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			fmt.Fprint(&b, e)
		}
	}
	return b.String()
}

// generic is the path without the indexes' values.
func (p fieldPath) generic() string {
	var parts []string
	for _, e := range p {
		if _, ok := e.(int); ok {
			parts[len(parts)-1] += "[]"
			continue
		}
		parts = append(parts, e.(string))
	}
	return strings.Join(parts, ".")
}

// walk visits a value and everything below it with the schema for it.
func walk(node *apiextensionsv1.JSONSchemaProps, value any, path fieldPath, visit func(*apiextensionsv1.JSONSchemaProps, any, fieldPath, bool)) {
	walkField(node, value, path, false, visit)
}

func walkField(node *apiextensionsv1.JSONSchemaProps, value any, path fieldPath, required bool, visit func(*apiextensionsv1.JSONSchemaProps, any, fieldPath, bool)) {
	visit(node, value, path, required)
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(node.Properties)) {
			if child, ok := v[name]; ok {
				p := node.Properties[name]
				walkField(&p, child, append(slices.Clone(path), name), slices.Contains(node.Required, name), visit)
			}
		}
	case []any:
		if len(v) > 0 && node.Items != nil {
			walkField(node.Items.Schema, v[0], append(slices.Clone(path), 0), false, visit)
		}
	}
}

// properties are the paths of all fields of a schema but metadata and the type's.
func properties(node *apiextensionsv1.JSONSchemaProps, prefix string) map[string]bool {
	out := map[string]bool{}
	for name, p := range node.Properties {
		if prefix == "" && name != "spec" && name != "status" {
			continue
		}
		path := strings.TrimPrefix(prefix+"."+name, ".")
		out[path] = true
		maps.Copy(out, properties(&p, path))
		if p.Items != nil {
			out[path+"[]"] = true
			maps.Copy(out, properties(p.Items.Schema, path+"[]"))
		}
	}
	return out
}

// breach is a value that breaks one bound, and values that just keep it.
type breach struct {
	bound  string
	beyond any
	cause  metav1.CauseType
	within []any
}

// absent as a value takes a field away.
type absent struct{}

const (
	invalid   = metav1.CauseTypeFieldValueInvalid
	tooLong   = metav1.CauseType("FieldValueTooLong")
	tooMany   = metav1.CauseType("FieldValueTooMany")
	duplicate = metav1.CauseTypeFieldValueDuplicate
)

// breaches are all the ways to break a schema's bounds on a value.
func breaches(node *apiextensionsv1.JSONSchemaProps, value any, required bool) []breach {
	var out []breach
	add := func(bound string, cause metav1.CauseType, beyond any, within ...any) {
		out = append(out, breach{bound, beyond, cause, within})
	}
	if required {
		add("required", metav1.CauseTypeFieldValueRequired, absent{})
	}
	if len(node.Enum) > 0 {
		var all []any
		for _, e := range node.Enum {
			all = append(all, strings.Trim(string(e.Raw), `"`))
		}
		add("enum", metav1.CauseTypeFieldValueNotSupported, "Nonsense", all...)
	}
	if node.Pattern != "" {
		add("pattern", invalid, "!", value)
	}
	if node.Format == "date-time" {
		add("format", metav1.CauseTypeTypeInvalid, "yesterday", value)
	}
	if n := node.MaxLength; n != nil {
		// Zeros are in every pattern's alphabet but for qualified names and words that begin with a letter.
		add("maxLength", tooLong, strings.Repeat("0", int(*n)+1), strings.Repeat("0", int(*n)))
	}
	if n := node.MinLength; n != nil && *n > 0 {
		add("minLength", invalid, strings.Repeat("0", int(*n)-1))
	}
	if m := node.Minimum; m != nil {
		add("minimum", invalid, int64(math.Ceil(*m))-1, int64(*m))
	}
	if m := node.Maximum; m != nil {
		add("maximum", invalid, int64(*m)+1, int64(*m))
	}
	if list, ok := value.([]any); ok {
		if n := node.MaxItems; n != nil {
			add("maxItems", tooMany, grow(node, list, int(*n)+1), grow(node, list, int(*n)))
		}
		if n := node.MinItems; n != nil && *n > 0 {
			add("minItems", invalid, []any{})
		}
		if lt := node.XListType; lt != nil && *lt != "atomic" {
			add("listType "+*lt, duplicate, []any{list[0], list[0]}, grow(node, list, 2))
		}
	}
	if m, ok := value.(map[string]any); ok {
		if n := node.MinProperties; n != nil && *n > 0 {
			add("minProperties", invalid, map[string]any{}, m)
		}
		if n := node.MaxProperties; n != nil {
			more := maps.Clone(m)
			for name := range node.Properties {
				if len(more) > int(*n) {
					break
				}
				if _, ok := more[name]; !ok {
					more[name] = map[string]any{}
				}
			}
			add("maxProperties", tooMany, more, m)
		}
	}
	return out
}

// grow makes a list of n different items like its first.
func grow(node *apiextensionsv1.JSONSchemaProps, list []any, n int) []any {
	out := make([]any, 0, n)
	for i := range n {
		switch item := runtime.DeepCopyJSONValue(list[0]).(type) {
		case map[string]any:
			for _, key := range node.XListMapKeys {
				item[key] = fmt.Sprintf("%s%d", item[key], i)
			}
			out = append(out, item)
		default:
			out = append(out, fmt.Sprintf("%s%d", item, i))
		}
	}
	return out
}

// put sets a value, or takes it away.
func put(root any, path fieldPath, value any) {
	for _, e := range path[:len(path)-1] {
		switch e := e.(type) {
		case int:
			root = root.([]any)[e]
		default:
			root = root.(map[string]any)[e.(string)]
		}
	}
	switch last := path[len(path)-1].(type) {
	case int:
		root.([]any)[last] = value
	default:
		if _, ok := value.(absent); ok {
			delete(root.(map[string]any), last.(string))
			return
		}
		root.(map[string]any)[last.(string)] = value
	}
}

// causesOf are the reasons for which the API server refuses an object, none if it does not.
func causesOf(t *testing.T, err error) []metav1.StatusCause {
	t.Helper()
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		t.Fatalf("no refusal: %v", err)
	}
	return status.Status().Details.Causes
}

// missingFields are the fields that a has and b has not.
func missingFields(a, b any, path string) []string {
	switch a := a.(type) {
	case map[string]any:
		m, ok := b.(map[string]any)
		if !ok {
			return []string{path}
		}
		var out []string
		for name, v := range a {
			if _, ok := m[name]; !ok {
				out = append(out, path+"."+name)
				continue
			}
			out = append(out, missingFields(v, m[name], path+"."+name)...)
		}
		return out
	case []any:
		l, ok := b.([]any)
		if !ok || len(l) != len(a) {
			return []string{path}
		}
		var out []string
		for i := range a {
			out = append(out, missingFields(a[i], l[i], fmt.Sprintf("%s[%d]", path, i))...)
		}
		return out
	default:
		return nil
	}
}
