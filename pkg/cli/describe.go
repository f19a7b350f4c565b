package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/etcdmember/kubectl-etcdmember/pkg/printer"
)

func newDescribeCommand(f *Factory) *cobra.Command {
	o := newReadOptions(f)
	cmd := &cobra.Command{
		Use:     "describe MEMBER...",
		GroupID: groupRead,
		Short:   "Show all that is known of members",
		Long: `Show all that is known of members: the facts, who has told them and when, what was found, and the last changes of state.

MEMBER is the name of an EtcdMember, of a member of an Etcd, or of a pod of any other StatefulSet that runs etcd.`,
		Example: `  kubectl etcdmember describe main-0`,
		Args:    cobra.MinimumNArgs(1),
		// Members are not clusters, and certainly not files.
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(nil); err != nil {
				return err
			}
			o.allPods = true
			o.live.members = args
			for _, name := range args {
				o.mayMean(name, false, true)
			}
			reports, err := o.read(cmd.Context())
			if err != nil {
				return err
			}
			o.warnUnreadable(reports)
			for i, name := range args {
				r, m, err := o.findMember(reports, name)
				if err != nil {
					return err
				}
				if i > 0 {
					fmt.Fprintln(o.Out)
				}
				if err := printer.WriteMember(o.Out, r, m, o.printerOptions()); err != nil {
					return err
				}
			}
			return nil
		},
	}
	o.addFlags(cmd.Flags())
	o.live.addFlags(cmd.Flags())
	return cmd
}
