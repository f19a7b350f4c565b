package cli

import (
	"errors"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// dryRun is kubectl's --dry-run.
type dryRun string

const (
	dryRunNone   dryRun = "none"
	dryRunClient dryRun = "client"
	dryRunServer dryRun = "server"
)

// addDryRunFlag adds --dry-run as kubectl has it, completion included.
func addDryRunFlag(cmd *cobra.Command, d *dryRun) {
	*d = dryRunNone
	cmd.Flags().Var(d, "dry-run", `must be "none", "client" or "server": client only prints what would be done, server has the API server check it, too, and change nothing`)
	cmd.Flags().Lookup("dry-run").NoOptDefVal = "unchanged"
	mustComplete(cmd, "dry-run", cobra.FixedCompletions([]cobra.Completion{"none", "client", "server"}, cobra.ShellCompDirectiveNoFileComp))
}

// String is the flag's value.
func (d *dryRun) String() string { return string(*d) }

// Type is what help shows as the flag's value.
func (d *dryRun) Type() string { return "string" }

// Set reads the flag's value.
func (d *dryRun) Set(s string) error {
	switch v := dryRun(s); v {
	case dryRunNone, dryRunClient, dryRunServer:
		*d = v
		return nil
	default:
		return errors.New(`a value must be set: "none", "client" or "server"`)
	}
}

// options is what a request's options hold for this value.
func (d dryRun) options() []string {
	if d == dryRunServer {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// suffix is what is printed after what was done to an object.
func (d dryRun) suffix() string {
	switch d {
	case dryRunClient:
		return " (dry run)"
	case dryRunServer:
		return " (server dry run)"
	default:
		return ""
	}
}
