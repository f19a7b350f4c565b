package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/etcdmember/kubectl-etcdmember/pkg/health"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
	"github.com/etcdmember/kubectl-etcdmember/pkg/printer"
	"github.com/etcdmember/kubectl-etcdmember/pkg/source"
)

// watchInterval is how often status -w looks again. Agents publish what matters at once, so a change is seen within this.
const watchInterval = 2 * time.Second

// statusOptions are the flags and arguments of status, and what they are completed to.
type statusOptions struct {
	*Factory
	AllNamespaces bool
	Selector      string
	Watch         bool
	Files         []string
	At            string
	ExitCode      bool
	NoHeaders     bool
	ChunkSize     int64
	output        outputFlags

	clusters  []clusterArg
	selector  labels.Selector
	namespace string
	now       time.Time
	printer   printers.ResourcePrinter // nil: the table
	server    *source.Server
}

type clusterArg struct {
	kind model.Kind
	name string
}

func (a clusterArg) matches(k model.Key) bool {
	return a.name == k.Name && (a.kind == "" || k.Kind == "" || a.kind == k.Kind)
}

func newStatusCommand(f *Factory) *cobra.Command {
	o := &statusOptions{Factory: f, ChunkSize: 500}
	cmd := &cobra.Command{
		Use:     "status [CLUSTER...]",
		GroupID: groupRead,
		Short:   "Show the health of clusters and of each of their members",
		Long: `Show the health of etcd clusters and of each of their members, from what the members publish as EtcdMember.

For each cluster there is one line with the verdict and the reason for it, and a table of its members. A cluster is
Healthy, Degraded (quorum holds, but something is wrong), Unhealthy (quorum is lost, the cluster is split, or data is
corrupt), Unknown (what can't be observed decides whether quorum holds), or Hibernated (no members are wanted).

A publication whose publisher was last seen more than a minute ago is shown as Unknown, never as healthy.

CLUSTER is the name of an Etcd or a StatefulSet, or etcd/NAME or sts/NAME.

Exit codes: 0 whenever it could print; 2 for an error. With --exit-code: 0 Healthy or Hibernated, 1 Degraded or
Unhealthy, 2 Unknown or nothing found.`,
		Example: `  # All clusters in the namespace
  kubectl etcdmember status

  # One cluster, with more columns
  kubectl etcdmember status main -o wide

  # All namespaces, until interrupted
  kubectl etcdmember status -A -w

  # In a script: fails unless the cluster is healthy
  kubectl etcdmember status sts/main --exit-code

  # Which member leads?
  kubectl etcdmember status main -o jsonpath='{.leader}'

  # From files, without a cluster
  kubectl get etcdmembers.druid.gardener.cloud,leases,statefulsets,nodes -A -o yaml > dump.yaml
  kubectl etcdmember status -f dump.yaml`,
		ValidArgsFunction: validClusterArgs(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "look in all namespaces; --namespace is ignored then")
	fs.StringVarP(&o.Selector, "selector", "l", "", "show only members with these labels; verdicts still count all members")
	fs.BoolVarP(&o.Watch, "watch", "w", false, "look again until interrupted: redraws on a terminal, prints changed clusters elsewhere")
	fs.StringSliceVarP(&o.Files, "filename", "f", nil, "read objects from files, directories or '-' for standard input; no cluster is contacted")
	fs.StringVar(&o.At, "now", "", "with -f, the time to measure ages against (RFC 3339); by default the newest time in the files")
	fs.BoolVar(&o.ExitCode, "exit-code", false, "let the exit code tell the worst verdict")
	fs.BoolVar(&o.NoHeaders, "no-headers", false, "print rows alone")
	fs.Int64Var(&o.ChunkSize, "chunk-size", o.ChunkSize, "how many objects to ask for at once; 0 asks for all")
	o.output.add(cmd)
	return cmd
}

func (o *statusOptions) complete(args []string) error {
	o.clusters = nil
	for _, a := range args {
		kind, name, err := parseClusterArg(a)
		if err != nil {
			return err
		}
		o.clusters = append(o.clusters, clusterArg{kind, name})
	}
	var err error
	if o.selector, err = labels.Parse(o.Selector); err != nil {
		return fmt.Errorf("--selector %q can't be understood: %w", o.Selector, err)
	}
	if o.ChunkSize < 0 {
		return fmt.Errorf("--chunk-size must not be negative, and is %d", o.ChunkSize)
	}
	if o.At != "" {
		if len(o.Files) == 0 {
			return fmt.Errorf("--now is for -f alone: a cluster is judged by the clock")
		}
		if o.now, err = time.Parse(time.RFC3339, o.At); err != nil {
			return fmt.Errorf("--now %q is not a time like 2026-12-01T15:04:05Z", o.At)
		}
	}
	if o.printer, err = o.output.printer(o.NoHeaders); err != nil {
		return err
	}
	if len(o.Files) > 0 {
		if o.Watch {
			return fmt.Errorf("--watch can't be used with -f: files do not change by themselves")
		}
		if *o.Config.Namespace != "" && !o.AllNamespaces {
			o.namespace = *o.Config.Namespace
		}
		return nil
	}
	if !o.AllNamespaces {
		if o.namespace, err = o.Namespace(); err != nil {
			return err
		}
	}
	cfg, err := o.RESTConfig()
	if err != nil {
		return err
	}
	if o.server, err = source.NewServer(cfg); err != nil {
		return err
	}
	o.server.ChunkSize = o.ChunkSize
	return nil
}

func (o *statusOptions) run(ctx context.Context) error {
	if o.Watch {
		return o.watch(ctx)
	}
	reports, err := o.read(ctx)
	if err != nil {
		return err
	}
	if err := o.print(o.Out, reports); err != nil {
		return err
	}
	o.warnUnreadable(reports)
	if err := o.missing(reports); err != nil {
		return err
	}
	if o.ExitCode {
		return verdictError(reports)
	}
	return nil
}

// read reads and judges what is asked for.
func (o *statusOptions) read(ctx context.Context) ([]health.Report, error) {
	set, judgement, err := o.set(ctx)
	if err != nil {
		return nil, err
	}
	var reports []health.Report
	for _, c := range set.Clusters() {
		if (o.namespace != "" && c.Key.Namespace != o.namespace) ||
			(len(o.clusters) > 0 && !slices.ContainsFunc(o.clusters, func(a clusterArg) bool { return a.matches(c.Key) })) {
			continue
		}
		r := health.Judge(c, judgement)
		// Members that are not selected count for the verdict all the same: half a cluster can't be judged.
		if !o.selector.Empty() {
			r.Members = slices.DeleteFunc(r.Members, func(m health.MemberReport) bool { return !o.selector.Matches(labels.Set(m.Labels)) })
			if len(r.Members) == 0 {
				continue
			}
		}
		reports = append(reports, r)
	}
	for _, p := range set.Problems {
		o.warn("%s: %v", p.Subject, p.Err)
	}
	return reports, nil
}

func (o *statusOptions) set(ctx context.Context) (*source.Set, health.Options, error) {
	if len(o.Files) > 0 {
		set, err := source.ReadFiles(o.Files, o.In)
		if err != nil {
			return nil, health.Options{}, err
		}
		j := health.Options{Now: o.now}
		if o.At == "" {
			known := false
			j.Now, known = set.Now()
			j.FreshnessUnknown = !known
		}
		return set, j, nil
	}
	set, err := o.server.Read(ctx, o.namespace)
	if err != nil {
		return nil, health.Options{}, fmt.Errorf("%w%s", err, hint(err))
	}
	return set, health.Options{Now: o.Now()}, nil
}

func (o *statusOptions) warn(format string, a ...any) {
	fmt.Fprintf(o.ErrOut, "warning: %s\n", printer.SanitizeMultiline(fmt.Sprintf(format, a...)))
}

// warnUnreadable tells of what could not be read where the output does not: documents have it among their findings.
func (o *statusOptions) warnUnreadable(reports []health.Report) {
	if o.printer != nil {
		return
	}
	for _, r := range reports {
		for _, f := range r.Findings {
			if f.Code == health.Unreadable {
				o.warn("%s", f.Message)
			}
		}
	}
}

// missing is an error for each cluster that was asked for by name and not found, as kubectl has it.
func (o *statusOptions) missing(reports []health.Report) error {
	var names []string
	for _, a := range o.clusters {
		if !slices.ContainsFunc(reports, func(r health.Report) bool { return a.matches(r.Key) }) {
			names = append(names, printer.ClusterArgument(model.Key{Kind: a.kind, Name: a.name}))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("no EtcdMember of %s was found%s; 'kubectl etcdmember adopt %s' creates them", strings.Join(names, ", "), o.where(), names[0])
}

// nothing is what kubectl says where there is nothing, to the letter: scripts look for it.
func (o *statusOptions) nothing() string {
	switch {
	case len(o.Files) > 0:
		return "No resources found" + o.where() + "."
	case o.namespace == "":
		return "No resources found"
	default:
		return "No resources found in " + printer.Sanitize(o.namespace) + " namespace."
	}
}

func (o *statusOptions) where() string {
	switch {
	case len(o.Files) > 0:
		return " in the files"
	case o.namespace == "":
		return ""
	default:
		return " in namespace " + o.namespace
	}
}

func (o *statusOptions) print(w io.Writer, reports []health.Report) error {
	if o.output.is("name") {
		for _, r := range reports {
			if _, err := fmt.Fprintln(w, printer.ClusterResource(r.Key)); err != nil {
				return err
			}
		}
		return nil
	}
	if o.printer != nil {
		object, err := o.document(reports)
		if err != nil {
			return err
		}
		if !printers.IsTerminal(w) {
			return o.printer.PrintObj(object, w)
		}
		// YAML and templates print strings as they are. A script gets them so; a terminal must not.
		var document strings.Builder
		if err := o.printer.PrintObj(object, &document); err != nil {
			return err
		}
		_, err = io.WriteString(w, printer.SanitizeMultiline(document.String()))
		return err
	}
	if len(reports) == 0 {
		if len(o.clusters) == 0 {
			fmt.Fprintln(o.ErrOut, o.nothing())
		}
		return nil
	}
	return printer.WriteStatus(w, reports, printer.StatusOptions{
		Wide: o.output.is("wide"), NoHeaders: o.NoHeaders, Namespaces: o.AllNamespaces || (len(o.Files) > 0 && o.namespace == ""),
		Color: printer.Color(o.Out),
	})
}

// document is what -o prints: one cluster that was asked for by name alone is itself, all else is a list, as kubectl has it.
func (o *statusOptions) document(reports []health.Report) (runtime.Object, error) {
	if len(o.clusters) == 1 && len(reports) == 1 {
		return printer.Object(printer.NewClusterStatus(reports[0]))
	}
	return printer.StatusList(reports)
}

// watch prints again and again. On a terminal it redraws; elsewhere it appends the clusters that have changed.
func (o *statusOptions) watch(ctx context.Context) error {
	redraw := o.printer == nil && printers.IsTerminal(o.Out)
	last := map[model.Key]string{}
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		reports, err := o.read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && len(last) == 0:
			return err
		case err != nil:
			// What is on the screen is not lost because the server is away for a moment.
			o.warn("%v; trying again", err)
		case redraw:
			var page strings.Builder
			if err := o.print(&page, reports); err != nil {
				return err
			}
			// Home, the page with each line cleared to its end, then clear what is below: no flicker.
			text := strings.ReplaceAll(page.String(), "\n", "\x1b[K\n")
			if _, err := fmt.Fprintf(o.Out, "\x1b[H%s\x1b[J", text); err != nil {
				return err
			}
			last[model.Key{}] = text
		default:
			if err := o.printChanged(reports, last); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// printChanged prints the clusters whose status has changed by more than the passing of time.
func (o *statusOptions) printChanged(reports []health.Report, last map[model.Key]string) error {
	var changed []health.Report
	for _, r := range reports {
		print := fingerprint(r)
		if last[r.Key] != print {
			last[r.Key] = print
			changed = append(changed, r)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return o.print(o.Out, changed)
}

// fingerprint is what must differ for a cluster to be worth printing again. Ages and revisions always do.
func fingerprint(r health.Report) string {
	var b strings.Builder
	fmt.Fprintln(&b, r.Verdict, r.Reason, r.Leader, r.Quorum)
	for _, m := range r.Members {
		fmt.Fprintln(&b, m.Name, m.Health, m.Reason, m.Role, m.State.Or(""), m.ID.Or(""), m.PeerTLS.Or(false), m.Alarms.Or(nil), m.Volume.Value.ClaimUID)
	}
	return b.String()
}

// verdictError is the exit code of --exit-code: Unhealthy counts before Unknown, and Unknown before Degraded.
func verdictError(reports []health.Report) error {
	if len(reports) == 0 {
		return &CodeError{Code: ExitError}
	}
	has := func(v health.Verdict) bool {
		return slices.ContainsFunc(reports, func(r health.Report) bool { return r.Verdict == v })
	}
	switch {
	case has(health.Unhealthy):
		return &CodeError{Code: ExitFindings}
	case has(health.Unknown):
		return &CodeError{Code: ExitError}
	case has(health.Degraded):
		return &CodeError{Code: ExitFindings}
	default:
		return nil
	}
}
