package health

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docsDir has a page for each code of a finding.
const docsDir = "../../docs/findings"

// pageSections are what each page has, in this order. Public issues may follow.
var pageSections = []string{"What it means", "How it is found", "What to do", "When it can be wrong"}

var severityWords = []Severity{Critical, Warning, Notice}

// TestEveryCodeHasAPage: whoever is woken by a finding finds out what to do.
func TestEveryCodeHasAPage(t *testing.T) {
	codes := codesInSource(t)
	files, err := filepath.Glob(docsDir + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".md"); name != "README" {
			pages = append(pages, name)
		}
	}
	for _, code := range codes {
		if !slices.Contains(pages, code) {
			t.Errorf("there is no page docs/findings/%s.md", code)
		}
	}
	used := severitiesInSource(t, codes)
	for _, page := range pages {
		if !slices.Contains(codes, page) {
			t.Errorf("docs/findings/%s.md is of no code", page)
			continue
		}
		text := readDoc(t, page)
		if err := checkPage(page, text); err != nil {
			t.Errorf("docs/findings/%s.md %v", page, err)
		}
		for _, s := range used[page] {
			if !slices.Contains(pageSeverities(text), s) {
				t.Errorf("docs/findings/%s.md does not say that it can be %s", page, s)
			}
		}
	}
}

// TestIndexOfFindings: the index has each code once, in the order of types.go, with the severities that its page has.
func TestIndexOfFindings(t *testing.T) {
	var listed []string
	for _, row := range regexp.MustCompile(`(?m)^\| \[(\w+)\]\((\w+)\.md\) \| ([^|]*) \| ([^|]+) \|$`).FindAllStringSubmatch(readDoc(t, "README"), -1) {
		listed = append(listed, row[1])
		var words []string
		for _, s := range pageSeverities(readDoc(t, row[2])) {
			words = append(words, string(s))
		}
		if row[1] != row[2] || row[3] != strings.Join(words, ", ") {
			t.Errorf("the index has %q, and the page of that code says %v", row[0], words)
		}
	}
	if codes := codesInSource(t); !slices.Equal(listed, codes) {
		t.Errorf("the index lists\n%v, and types.go has\n%v", listed, codes)
	}
}

// TestLinksOfFindings: links from page to page lead somewhere.
func TestLinksOfFindings(t *testing.T) {
	files, _ := filepath.Glob(docsDir + "/*.md")
	for _, f := range files {
		text := readDoc(t, strings.TrimSuffix(filepath.Base(f), ".md"))
		for _, link := range regexp.MustCompile(`\]\(([\w-]*(?:\.md)?)(?:#([\w-]+))?\)`).FindAllStringSubmatch(text, -1) {
			target := text
			if link[1] != "" {
				target = readDoc(t, strings.TrimSuffix(link[1], ".md"))
			}
			if link[2] != "" && !slices.Contains(anchors(target), link[2]) {
				t.Errorf("%s: %s leads to no heading", f, link[0])
			}
		}
	}
}

// TestPageChecks: the checks above find what they are for.
func TestPageChecks(t *testing.T) {
	good := "# QuorumLost\n\nSeverity: **Critical**\n"
	for _, s := range pageSections {
		good += "\n## " + s + "\n\ntext\n"
	}
	if err := checkPage("QuorumLost", good); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"another title": strings.Replace(good, "# QuorumLost", "# QuorumFound", 1),
		"no severity":   strings.Replace(good, "**Critical**", "bad", 1),
		"no section":    strings.Replace(good, "## What to do\n", "", 1),
		"empty section": strings.Replace(good, "## What to do\n\ntext", "## What to do\n", 1),
		"empty at end":  strings.TrimSuffix(good, "text\n"),
		"wrong order":   strings.NewReplacer("What to do", "What it means", "What it means", "What to do").Replace(good),
		"unknown":       good + "\n## Whatever\n\ntext\n",
	} {
		if checkPage("QuorumLost", bad) == nil {
			t.Errorf("%s is not found:\n%s", name, bad)
		}
	}
}

// checkPage says what is wrong with a page.
func checkPage(code, text string) error {
	if !strings.HasPrefix(text, "# "+code+"\n\nSeverity: ") {
		return fmt.Errorf("does not begin with '# %s' and a line 'Severity: …'", code)
	}
	if len(pageSeverities(text)) == 0 {
		return fmt.Errorf("names no severity")
	}
	parts := strings.Split(text, "\n## ")[1:]
	for i, part := range parts {
		title, body, _ := strings.Cut(part, "\n")
		switch {
		case i < len(pageSections) && title != pageSections[i], i >= len(pageSections) && title != "Public issues":
			return fmt.Errorf("has section %q where another belongs: %v", title, pageSections)
		case strings.TrimSpace(body) == "":
			return fmt.Errorf("has nothing in section %q", title)
		}
	}
	if len(parts) < len(pageSections) {
		return fmt.Errorf("has no section %q", pageSections[len(parts)])
	}
	return nil
}

// pageSeverities are the severities that a page names above its first section, worst first.
func pageSeverities(text string) []Severity {
	head, _, _ := strings.Cut(text, "\n## ")
	var named []Severity
	for _, s := range severityWords {
		if strings.Contains(head, "**"+string(s)+"**") {
			named = append(named, s)
		}
	}
	return named
}

// anchors are what the headings of a page can be linked by.
func anchors(text string) []string {
	var all []string
	for _, h := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		slug := strings.ReplaceAll(strings.ToLower(h[1]), " ", "-")
		all = append(all, regexp.MustCompile(`[^\w-]`).ReplaceAllString(slug, ""))
	}
	return all
}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docsDir, name+".md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// codesInSource are the constants of type Code in types.go, in their order.
func codesInSource(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "types.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, s := range decl.Specs {
			spec := s.(*ast.ValueSpec)
			if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "Code" {
				continue
			}
			for i, name := range spec.Names {
				if value, ok := spec.Values[i].(*ast.BasicLit); !ok || value.Value != `"`+name.Name+`"` {
					t.Errorf("code %s is not written as it is named", name.Name)
				}
				codes = append(codes, name.Name)
			}
		}
	}
	if len(codes) < 60 {
		t.Fatalf("only %d codes were found: the rule would prove nothing", len(codes))
	}
	return codes
}

// severitiesInSource are the severities that findings of each code are made with, as far as they stand beside the code:
// find(Code, Severity, …), and the closures down and unsure, which are for warnings.
func severitiesInSource(t *testing.T, codes []string) map[string][]Severity {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]Severity{}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 {
				return true
			}
			code := identifier(call.Args[0])
			if !slices.Contains(codes, code) {
				return true
			}
			switch fun := call.Fun.(type) {
			case *ast.SelectorExpr:
				if s := Severity(identifier(call.Args[1])); fun.Sel.Name == "find" && slices.Contains(severityWords, s) {
					found[code] = append(found[code], s)
				}
			case *ast.Ident:
				if fun.Name == "down" || fun.Name == "unsure" {
					found[code] = append(found[code], Warning)
				}
			}
			return true
		})
	}
	if len(found) < 50 {
		t.Fatalf("the severities of only %d codes were found: the rule would prove nothing", len(found))
	}
	return found
}

func identifier(e ast.Expr) string {
	if i, ok := e.(*ast.Ident); ok {
		return i.Name
	}
	return ""
}
