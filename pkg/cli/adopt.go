package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/printer"
)

type adoptOptions struct {
	factory        *Factory
	results        *results
	dryRun         dryRun
	fieldManager   string
	forceConflicts bool
	force          bool
	prune          bool
	yes            bool

	namespace string
	args      []clusterArg
	client    dynamic.Interface
}

func newAdoptCommand(f *Factory) *cobra.Command {
	o := &adoptOptions{factory: f, results: newResults(f.Out)}
	cmd := &cobra.Command{
		Use:     "adopt CLUSTER...",
		Short:   "Create the EtcdMembers of a cluster",
		GroupID: groupManage,
		Long: `Creates one EtcdMember for each replica of an Etcd or a StatefulSet, and the Lease beside it that the member's agent
renews. What is there already is left, or made right: it may be repeated at any time. An EtcdMember owns nothing, and no
etcd notices that it has one.

CLUSTER is a name, or etcd/NAME or sts/NAME. A name alone is that of an Etcd if there is one, and of a StatefulSet
otherwise; a StatefulSet that an Etcd owns stands for that Etcd.

All clusters are checked before anything is written. Refused with exit code 3: an EtcdMember or a Lease of that name
that belongs to something else, and a StatefulSet that does not look like etcd (see --force).

With --prune, EtcdMembers of the same cluster that have no replica any more are deleted, with their Leases, but never one
that an unfinished task still needs.`,
		Example: `  # The members of the Etcd, or else the StatefulSet, main
  kubectl etcdmember adopt main

  # See what would be created, and keep it in a repository
  kubectl etcdmember adopt sts/main --dry-run=client -o yaml > members.yaml

  # All of etcd-druid's clusters in a namespace
  kubectl etcdmember adopt -n shoot $(kubectl get etcds.druid.gardener.cloud -n shoot -o name)

  # After scaling in
  kubectl etcdmember adopt main --prune`,
		ValidArgsFunction: validClusterArgs(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	addDryRunFlag(cmd, &o.dryRun)
	o.results.addFlags(cmd)
	cmd.Flags().StringVar(&o.fieldManager, "field-manager", v1alpha1.FieldManagerCLI, "name of the manager used to track field ownership")
	cmd.Flags().BoolVar(&o.forceConflicts, "force-conflicts", false, "take fields over from other managers that have set them differently")
	cmd.Flags().BoolVar(&o.force, "force", false, "adopt a StatefulSet although it does not look like etcd")
	cmd.Flags().BoolVar(&o.prune, "prune", false, "delete EtcdMembers of the cluster that have no replica any more")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask before --prune deletes all EtcdMembers of a hibernated cluster")
	return cmd
}

func (o *adoptOptions) complete(args []string) (err error) {
	if len(args) == 0 {
		return errors.New("no cluster is named; see 'kubectl etcdmember adopt --help'")
	}
	if o.fieldManager == "" {
		return errors.New("--field-manager is empty; leave it out or name a manager")
	}
	for _, arg := range args {
		kind, name, err := parseClusterArg(arg)
		if err != nil {
			return err
		}
		o.args = append(o.args, clusterArg{kind: kind, name: name})
	}
	if err := o.results.validate(); err != nil {
		return err
	}
	o.results.suffix = o.dryRun.suffix()
	if o.namespace, err = o.factory.Namespace(); err != nil {
		return err
	}
	o.client, err = o.factory.Dynamic()
	return err
}

func (o *adoptOptions) run(ctx context.Context) error {
	plans, err := o.plan(ctx)
	if err != nil {
		return err
	}
	for _, p := range plans {
		switch {
		case p.cluster.replicas > 0:
		case o.prune:
			if err := o.confirmPruneAll(ctx, p); err != nil {
				return err
			}
		default:
			o.say("%s in namespace %s is hibernated (spec.replicas is 0): there is no member to adopt", p.cluster, o.namespace)
		}
	}
	// What has been done is told even if the rest fails.
	return errors.Join(o.carryOut(ctx, plans), o.results.flush())
}

// carryOut does what has been planned.
func (o *adoptOptions) carryOut(ctx context.Context, plans []*adoptPlan) error {
	for _, p := range plans {
		if err := o.apply(ctx, p); err != nil {
			return err
		}
	}
	var kept []string
	for _, p := range plans {
		k, err := o.pruneStale(ctx, p)
		if err != nil {
			return err
		}
		kept = append(kept, k...)
	}
	if len(kept) > 0 {
		return refusef("not pruned, because an unfinished task still needs it: %s; see 'kubectl get etcdmembertasks.druid.gardener.cloud -n %s'", enumerate(kept), o.namespace)
	}
	return nil
}

// plan looks at all clusters, and at all that is there of them, and refuses what must not be done.
func (o *adoptOptions) plan(ctx context.Context) ([]*adoptPlan, error) {
	var clusters []*workloadCluster
	for _, arg := range o.args {
		c, err := resolveCluster(ctx, o.client, o.namespace, arg)
		if err != nil {
			return nil, err
		}
		if c.replicas < 0 || c.replicas > mostReplicas {
			return nil, fmt.Errorf("can't adopt %s in namespace %s: it asks for %d replicas, and no etcd has more than %d; correct spec.replicas first", c, o.namespace, c.replicas, mostReplicas)
		}
		if c.standIn != "" {
			o.say("%s belongs to %s, which is adopted", c.standIn, c)
		}
		if !slices.ContainsFunc(clusters, func(d *workloadCluster) bool { return d.kind == c.kind && d.name == c.name }) {
			clusters = append(clusters, c)
		}
	}
	there, err := o.list(ctx)
	if err != nil {
		return nil, err
	}
	plans := make([]*adoptPlan, 0, len(clusters))
	for _, c := range clusters {
		if !c.looksLikeEtcd && !o.force {
			return nil, refusef("%s in namespace %s does not look like etcd: none of its containers has an image or a command of that name, or etcd's ports; "+
				"adopt it with --force if it is one", c, o.namespace)
		}
		p, err := newAdoptPlan(c, o.namespace, there, o.prune)
		if err != nil {
			return nil, err
		}
		plans = append(plans, p)
	}
	return plans, nil
}

// confirmPruneAll asks before the last EtcdMember of a cluster is deleted.
func (o *adoptOptions) confirmPruneAll(ctx context.Context, p *adoptPlan) error {
	n := len(p.staleMembers)
	if n == 0 || o.dryRun != dryRunNone {
		return nil
	}
	o.say("%s in namespace %s is hibernated (spec.replicas is 0): %s will be deleted", p.cluster, o.namespace, plural(n, "EtcdMember"))
	return confirm(ctx, o.factory, o.yes, "delete all EtcdMembers of "+p.cluster.name, p.cluster.name)
}

// say tells people what goes on.
func (o *adoptOptions) say(format string, a ...any) {
	fmt.Fprintln(o.factory.ErrOut, printer.Sanitize(fmt.Sprintf(format, a...)))
}
