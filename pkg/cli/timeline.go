package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/etcdmember/kubectl-etcdmember/pkg/health"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
	"github.com/etcdmember/kubectl-etcdmember/pkg/printer"
)

type timelineOptions struct {
	readOptions
	NoHeaders bool
	output    outputFlags

	printer printers.ResourcePrinter // nil: the table
	names   []string
}

func newTimelineCommand(f *Factory) *cobra.Command {
	o := &timelineOptions{readOptions: newReadOptions(f)}
	cmd := &cobra.Command{
		Use:     "timeline [CLUSTER|MEMBER...]",
		GroupID: groupRead,
		Short:   "Show how members came to be in the state that they are in",
		Long: `Show the last changes of the members' states, oldest first: of all members in the namespace, of the members of the
clusters given, or of the members given. Each member keeps its last 20 changes, in its EtcdMember; of members without one
there is nothing to show.`,
		Example: `  # All members of a cluster
  kubectl etcdmember timeline main

  # One member
  kubectl etcdmember timeline main-0`,
		ValidArgsFunction: validClusterArgs(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	o.readOptions.addFlags(fs)
	fs.BoolVar(&o.NoHeaders, "no-headers", false, "print rows alone")
	o.output.add(cmd)
	return cmd
}

func (o *timelineOptions) complete(args []string) error {
	var err error
	if o.printer, err = o.output.printer(o.NoHeaders); err != nil {
		return err
	}
	if o.output.is("name") || o.output.is("wide") {
		return fmt.Errorf("--output %s is not for timeline: a change of state is no object", o.output.format)
	}
	// A name may be a cluster's or a member's, which only reading tells: all are read.
	o.names = args
	for _, a := range args {
		if _, _, err := parseClusterArg(a); err != nil {
			return err
		}
		o.mayMean(a, true, true)
	}
	return o.readOptions.complete(nil)
}

func (o *timelineOptions) run(ctx context.Context) error {
	reports, err := o.read(ctx)
	if err != nil {
		return err
	}
	if reports, err = o.narrow(reports); err != nil {
		return err
	}
	if o.printer == nil {
		o.warnUnreadable(reports)
	}
	entries := printer.Timeline(reports)
	if o.printer != nil {
		list, err := printer.TimelineList(entries)
		if err != nil {
			return err
		}
		return printDocument(o.printer, list, o.Out)
	}
	if len(entries) == 0 {
		if len(reports) > 0 {
			fmt.Fprintln(o.ErrOut, "No changes of state are known: only members that publish an EtcdMember tell of them.")
		} else {
			fmt.Fprintln(o.ErrOut, o.nothing())
		}
		return nil
	}
	return printer.WriteTimeline(o.Out, entries, reports[0].At, printer.StatusOptions{
		NoHeaders: o.NoHeaders, Namespaces: o.manyNamespaces(),
	})
}

// narrow leaves the clusters, and of them the members, that are named. Each name must be one or the other.
func (o *timelineOptions) narrow(reports []health.Report) ([]health.Report, error) {
	names := o.names
	if len(names) == 0 {
		return reports, nil
	}
	found := map[string]bool{}
	var left []health.Report
	for _, r := range reports {
		whole := false
		for _, n := range names {
			if kind, name, err := parseClusterArg(n); err == nil && (clusterArg{kind, name}).matches(newFound(&r.Cluster)) {
				found[n], whole = true, true
			}
		}
		members := slices.DeleteFunc(slices.Clone(r.Members), func(m health.MemberReport) bool {
			if slices.Contains(names, m.Name) {
				found[m.Name] = true
				return false
			}
			return !whole
		})
		if len(members) > 0 {
			r.Members = members
			left = append(left, r)
		}
	}
	for _, n := range names {
		if found[n] {
			continue
		}
		kind, _, _ := parseClusterArg(n)
		if err := o.untold(kind); err != nil {
			return nil, fmt.Errorf("can't find out what %s is%s: %w%s", n, o.where(), err, hint(err))
		}
		return nil, fmt.Errorf("%s is neither an etcd cluster nor a member of one%s", n, o.where())
	}
	return left, nil
}

// findMember returns the member of a name and its cluster.
func (o *readOptions) findMember(reports []health.Report, name string) (health.Report, health.MemberReport, error) {
	var clusters []model.Key
	var report health.Report
	var member health.MemberReport
	for _, r := range reports {
		for _, m := range r.Members {
			if m.Name == name {
				report, member = r, m
				clusters = append(clusters, r.Key)
			}
		}
	}
	switch len(clusters) {
	case 1:
		return report, member, nil
	case 0:
		if err := o.untold(""); err != nil {
			return report, member, fmt.Errorf("can't find out whether there is a member %s%s: %w%s", name, o.where(), err, hint(err))
		}
		return report, member, fmt.Errorf("there is no member %s%s", name, o.where())
	default:
		return report, member, fmt.Errorf("there is a member %s of %s in namespace %s and one of %s in namespace %s: say which with --namespace",
			name, clusters[0].Argument(), clusters[0].Namespace, clusters[1].Argument(), clusters[1].Namespace)
	}
}
