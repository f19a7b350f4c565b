package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"kubectl-etcdmember": func() { os.Exit(Main(context.Background(), NewFactory(), os.Args[1:])) },
	})
}

// TestScripts runs the plugin as a person or a script would, on files alone. In a script, 'run CODE ARGS...' runs it and
// wants that exit code, and 'schema FILE' wants a document of 'status -o json'.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:             "testdata/script",
		UpdateScripts:   os.Getenv("UPDATE_GOLDEN") != "",
		ContinueOnError: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", env.WorkDir+"/no-kubeconfig")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"run":    runPlugin,
			"schema": matchesSchema,
			"clean":  isClean,
		},
	})
}

func runPlugin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: run CODE ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec("kubectl-etcdmember", args[1:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("can't run the plugin: %v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// matchesSchema checks a document against the schema that is published.
func matchesSchema(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: schema FILE")
	}
	schema, err := jsonschema.NewCompiler().Compile(schemaFile)
	ts.Check(err)
	var document any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &document))
	if err := schema.Validate(document); (err == nil) == neg {
		ts.Fatalf("schema: %v", err)
	}
}

// isClean wants no line that ends in a space, and nothing that a terminal would act on.
func isClean(ts *testscript.TestScript, neg bool, args []string) {
	for i, line := range strings.Split(ts.ReadFile(args[0]), "\n") {
		if strings.TrimRight(line, " ") != line {
			ts.Fatalf("line %d ends in a space: %q", i+1, line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			ts.Fatalf("line %d has control characters: %q", i+1, line)
		}
	}
}

var schemaFile = func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return dir + "/../../docs/schema/clusterstatus.v1.schema.json"
}()
