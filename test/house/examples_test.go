package house

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/etcdmember/kubectl-etcdmember/pkg/cli"
)

// capturedDir has the files that examples in the docs are of.
const capturedDir = "../../pkg/cli/testdata/druid"

// consoleBlock is an example of what a terminal shows. A comment above it may name the files that it is of, where the
// commands in it have no -f.
var consoleBlock = regexp.MustCompile("(?:<!-- files: (\\S+) -->\n)?```console\n((?:.*\n)*?)```")

// TestExamples: what the docs show is what the plugin prints, wherever an example is of files that are here.
func TestExamples(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range consoleBlock.FindAllStringSubmatch(string(text), -1) {
			for _, example := range strings.Split("\n"+block[2], "\n$ ")[1:] {
				command, want, _ := strings.Cut(strings.TrimSuffix(example, "\n"), "\n")
				args := words(command)
				if block[1] != "" {
					args = append(args, "-f", block[1])
				}
				if len(args) < 3 || args[0] != "kubectl" || args[1] != "etcdmember" || !ofCaptured(args) {
					continue
				}
				ran++
				if got := strings.TrimSuffix(run(t, args[2:]), "\n"); got != want {
					t.Errorf("%s: '%s' prints\n%s\nand the page has\n%s", page, command, got, want)
				}
			}
		}
	}
	if ran < 6 {
		t.Fatalf("only %d examples were run: the rule would prove nothing", ran)
	}
}

// ofCaptured finds the file after -f below capturedDir, and replaces it by where it is.
func ofCaptured(args []string) bool {
	for i := 1; i < len(args); i++ {
		path := filepath.Join(capturedDir, args[i])
		if _, err := os.Stat(path); args[i-1] == "-f" && err == nil {
			args[i] = path
			return true
		}
	}
	return false
}

// words splits a command line as a shell does, as far as examples need it: single quotes.
func words(line string) []string {
	var all []string
	for _, w := range regexp.MustCompile(`(?:'[^']*'|[^\s'])+`).FindAllString(line, -1) {
		all = append(all, strings.ReplaceAll(w, "'", ""))
	}
	return all
}

// run runs the plugin, and returns what a terminal would show.
func run(t *testing.T, args []string) string {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(true)
	*flags.KubeConfig = filepath.Join(t.TempDir(), "none")
	var out, errOut bytes.Buffer
	cli.Main(t.Context(), &cli.Factory{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut},
		Config:    flags,
		Now:       time.Now,
	}, args)
	return out.String() + errOut.String()
}
