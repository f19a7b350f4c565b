package cli

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestAPIDocs keeps the fields in docs/api.md as the schemas have them. UPDATE_GOLDEN=1 writes them.
func TestAPIDocs(t *testing.T) {
	const file = "../../docs/api.md"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	for kind, schema := range builtinSchemas(t) {
		begin, end := "<!-- fields of "+kind+" -->\n", "<!-- end -->\n"
		before, rest, ok1 := strings.Cut(doc, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Fatalf("%s has no %q and %q", file, begin, end)
		}
		var table strings.Builder
		if rules := boundsOf(schema); rules != "" {
			table.WriteString("\n" + rules + "\n")
		}
		table.WriteString("\n| field | type | |\n|---|---|---|\n")
		for _, part := range []string{"spec", "status"} {
			node := schema["properties"].(map[string]any)[part].(map[string]any)
			describeFields(&table, part, node, required(schema, part))
		}
		table.WriteString("\n")
		doc = before + begin + table.String() + end + after
	}
	if doc == string(data) {
		return
	}
	if os.Getenv("UPDATE_GOLDEN") == "" {
		t.Fatalf("%s does not have the fields that the schemas have; write them with UPDATE_GOLDEN=1 go test ./pkg/cli -run TestAPIDocs", file)
	}
	if err := os.WriteFile(file, []byte(doc), 0o644); err != nil {
		t.Fatal(err)
	}
}

// describeFields writes a row for a field and for each below it.
func describeFields(b *strings.Builder, path string, node map[string]any, isRequired bool) {
	description, _ := node["description"].(string)
	text := strings.ReplaceAll(strings.Join(strings.Fields(description), " "), "|", `\|`)
	if isRequired {
		text += " **Required.**"
	}
	if bounds := boundsOf(node); bounds != "" {
		text += " " + bounds
	}
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", path, typeOf(node), text)
	if path == "status.conditions" {
		return // metav1.Condition is everybody's
	}
	if items, ok := node["items"].(map[string]any); ok {
		node, path = items, path+"[]"
	}
	properties, _ := node["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		describeFields(b, path+"."+name, properties[name].(map[string]any), required(node, name))
	}
}

func required(node map[string]any, name string) bool {
	list, _ := node["required"].([]any)
	return slices.Contains(list, any(name))
}

// typeOf is a field's type in a word or two.
func typeOf(node map[string]any) string {
	switch {
	case node["x-kubernetes-int-or-string"] == true:
		return "quantity"
	case node["format"] == "date-time":
		return "time"
	case node["type"] == "array":
		return "list of " + typeOf(node["items"].(map[string]any))
	default:
		return fmt.Sprint(node["type"])
	}
}

// boundsOf are a field's bounds that a person wants to know.
func boundsOf(node map[string]any) string {
	var out []string
	if values, ok := node["enum"].([]any); ok {
		var words []string
		for _, v := range values {
			words = append(words, fmt.Sprintf("`%v`", v))
		}
		out = append(out, "One of "+strings.Join(words, ", ")+".")
	}
	if v, ok := node["default"]; ok {
		out = append(out, fmt.Sprintf("Default `%v`.", v))
	}
	if v, ok := node["maxItems"]; ok {
		out = append(out, fmt.Sprintf("At most %v.", v))
	}
	rules, _ := node["x-kubernetes-validations"].([]any)
	for _, r := range rules {
		out = append(out, fmt.Sprintf("Rule: %v.", r.(map[string]any)["message"]))
	}
	return strings.Join(out, " ")
}
