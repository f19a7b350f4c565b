package cli

import (
	"github.com/spf13/cobra"

	"github.com/etcdmember/kubectl-etcdmember/pkg/printer"
)

func newDoctorCommand(f *Factory) *cobra.Command {
	o := &statusOptions{readOptions: newReadOptions(f)}
	cmd := &cobra.Command{
		Use:     "doctor [CLUSTER...]",
		GroupID: groupRead,
		Short:   "Say what is wrong with clusters, worst first, and what to do next",
		Long: `Say what is wrong with etcd clusters, worst first, each finding with its evidence and what to do next. It changes nothing.

Exit codes: 0 Healthy or Hibernated, 1 Degraded or Unhealthy, 2 Unknown, nothing found, or an error.`,
		Example: `  # Everything that is wrong in the namespace
  kubectl etcdmember doctor

  # One cluster, for a script
  kubectl etcdmember doctor main -o jsonpath='{range .findings[*]}{.code}{"\n"}{end}'`,
		ValidArgsFunction: validClusterArgs(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			o.allPods = true
			reports, err := o.read(cmd.Context())
			if err != nil {
				return err
			}
			if o.output.isTable() && len(reports) > 0 {
				err = printer.WriteFindings(o.Out, reports, o.printerOptions())
			} else {
				err = o.print(o.Out, reports)
			}
			if err != nil {
				return err
			}
			if o.output.isTable() {
				o.tellUnproven(reports)
			}
			if err := o.missing(); err != nil {
				return err
			}
			return verdictError(reports)
		},
	}
	o.readOptions.addFlags(cmd.Flags())
	o.live.addFlags(cmd.Flags())
	o.output.add(cmd)
	return cmd
}
