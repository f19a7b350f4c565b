package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/etcdmember/kubectl-etcdmember/pkg/health"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
	"github.com/etcdmember/kubectl-etcdmember/pkg/printer"
)

// watchInterval is how often status -w looks again. Agents publish what matters at once, so a change is seen within this.
const watchInterval = 2 * time.Second

// readTimeout is how long status -w waits for the server before it says that what it shows is old.
const readTimeout = 5 * time.Second

// statusOptions are the flags and arguments of status, and what they are completed to.
type statusOptions struct {
	readOptions
	Watch     bool
	ExitCode  bool
	NoHeaders bool
	output    outputFlags

	printer printers.ResourcePrinter // nil: the table
}

func newStatusCommand(f *Factory) *cobra.Command {
	o := &statusOptions{readOptions: newReadOptions(f)}
	cmd := &cobra.Command{
		Use:     "status [CLUSTER...]",
		GroupID: groupRead,
		Short:   "Show the health of clusters and of each of their members",
		Long: `Show the health of etcd clusters and of each of their members.

For each cluster there is one line with the verdict and the reason for it, and a table of its members. A cluster is
Healthy, Degraded (quorum holds, but something is wrong), Unhealthy (quorum is lost, the cluster is split, or data is
corrupt), Unknown (what can't be observed decides whether quorum holds), or Hibernated (no members are wanted).

Nothing needs to be installed in the cluster. Members that publish an EtcdMember are judged by it, and those of etcd-druid
that do not by their pods and Leases, which proves neither roles nor who has caught up. With --live the members themselves
are asked, of any StatefulSet of etcd. A publication whose publisher was last seen more than a minute ago, or a Lease that
was renewed more than 30 seconds ago, is shown as Unknown, never as healthy.

CLUSTER is the name of an Etcd or a StatefulSet, or etcd/NAME or sts/NAME. Without one, all Etcds and all clusters with
EtcdMembers are shown; a StatefulSet that has neither must be named.

Exit codes: 0 whenever it could print; 2 for an error. With --exit-code: 0 Healthy or Hibernated, 1 Degraded or
Unhealthy, 2 Unknown or nothing found.`,
		Example: `  # All clusters in the namespace
  kubectl etcdmember status

  # One cluster, with more columns
  kubectl etcdmember status main -o wide

  # Any etcd in a StatefulSet: ask its members
  kubectl etcdmember status sts/main --live

  # Do all members hold the same data?
  kubectl etcdmember status main --hash

  # All namespaces, until interrupted
  kubectl etcdmember status -A -w

  # In a script: fails unless the cluster is healthy
  kubectl etcdmember status sts/main --exit-code

  # Which member leads?
  kubectl etcdmember status main -o jsonpath='{.leader}'

  # From files, without a cluster
  kubectl get etcds,etcdmembers.druid.gardener.cloud,leases,statefulsets,pods,pvc,nodes -A -o yaml > dump.yaml
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
	fs.BoolVarP(&o.Watch, "watch", "w", false, "look again until interrupted: redraws on a terminal, prints changed clusters elsewhere")
	fs.BoolVar(&o.ExitCode, "exit-code", false, "let the exit code tell the worst verdict")
	fs.BoolVar(&o.NoHeaders, "no-headers", false, "print rows alone")
	o.readOptions.addFlags(fs)
	o.live.addFlags(fs)
	o.output.add(cmd)
	return cmd
}

func (o *statusOptions) complete(args []string) error {
	if len(o.Files) > 0 && o.Watch {
		return fmt.Errorf("--watch can't be used with -f: files do not change by themselves")
	}
	if o.ExitCode && o.Watch {
		return fmt.Errorf("--exit-code can't be used with --watch, which ends when it is interrupted")
	}
	var err error
	if o.printer, err = o.output.printer(o.NoHeaders); err != nil {
		return err
	}
	o.allPods = o.output.is("wide")
	return o.readOptions.complete(args)
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
	if o.printer == nil { // documents have it among their findings
		o.warnUnreadable(reports)
	}
	if o.output.isTable() {
		o.tellUnproven(reports)
	}
	if err := o.missing(); err != nil {
		return err
	}
	if o.ExitCode {
		return verdictError(reports)
	}
	return nil
}

func (o *statusOptions) print(w io.Writer, reports []health.Report) error {
	if o.output.is("name") {
		for _, r := range reports {
			if _, err := fmt.Fprintln(w, printer.Sanitize(r.Key.Resource())); err != nil {
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
		return printDocument(o.printer, object, w)
	}
	if len(reports) == 0 {
		if o.missing() == nil {
			fmt.Fprintln(o.ErrOut, o.nothing())
		}
		return nil
	}
	return printer.WriteStatus(w, reports, o.tableOptions())
}

func (o *statusOptions) tableOptions() printer.StatusOptions {
	options := o.printerOptions()
	options.Wide, options.NoHeaders = o.output.is("wide"), o.NoHeaders
	return options
}

// document is what -o prints: one cluster that was asked for by name alone is itself, all else is a list, as kubectl has it.
func (o *statusOptions) document(reports []health.Report) (runtime.Object, error) {
	if len(o.clusters) == 1 && len(reports) == 1 {
		return printer.Object(printer.NewClusterStatus(reports[0]))
	}
	return printer.StatusList(reports)
}

// watch prints again and again until it is interrupted. On a terminal it redraws; elsewhere it appends what has changed.
func (o *statusOptions) watch(ctx context.Context) error {
	w := watcher{statusOptions: o, last: map[model.Key]string{}}
	o.keepWarnings = true
	w.redraw = o.printer == nil && !o.output.is("name") && printers.IsTerminal(o.Out) && os.Getenv("TERM") != "dumb"
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		if err := w.look(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// watcher is a watch that goes on.
type watcher struct {
	*statusOptions
	redraw bool
	// last is the fingerprint of each cluster that was printed last.
	last map[model.Key]string
	// shown are the reports that were read last, at what time, and begun says that there are any.
	shown []health.Report
	begun bool
	// failure is what could not be done when it was last tried.
	failure string
	// warned are the warnings about what was read last.
	warned []string
}

// look reads once and prints what there is to print.
func (w *watcher) look(ctx context.Context) error {
	// A server that has stopped answering must not leave on the screen what was true a minute ago.
	bounded, cancel := context.WithTimeout(ctx, readTimeout+w.live.longest())
	reports, err := w.read(bounded)
	cancel()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && !w.begun {
		err = w.missing()
	}
	switch {
	case err != nil && !w.begun:
		return err
	case err != nil:
		return w.failed(err)
	}
	if w.redraw {
		for _, r := range w.shown {
			if err := w.unsure(r.Key); err != nil {
				return w.failed(err)
			}
		}
	}
	w.shown, w.failure = reports, ""
	w.takeWarnings(reports)
	defer func() { w.begun = true }()
	if w.redraw {
		return w.page("")
	}
	return w.printChanged(reports)
}

// takeWarnings takes what could not be read this time. Off a terminal each warning is printed once, until it is another one; a
// page has them below its table.
func (w *watcher) takeWarnings(reports []health.Report) {
	before := w.warned
	w.warned = slices.Clone(w.warnings)
	if w.printer == nil {
		w.warned = append(w.warned, unreadable(reports)...)
	}
	if w.redraw {
		return
	}
	for _, text := range w.warned {
		if !slices.Contains(before, text) {
			w.warn("%s", text)
		}
	}
}

// unsure is an error where a cluster was not found this time, and something could not be read that could have told of it.
func (w *watcher) unsure(key model.Key) error {
	if slices.ContainsFunc(w.found, func(c foundCluster) bool { return c.key == key }) {
		return nil
	}
	if err := w.untold(key.Kind); err != nil {
		return fmt.Errorf("can't find out whether %s in namespace %s is still there: %w%s", key.Argument(), key.Namespace, err, hint(err))
	}
	return nil
}

// failed tells that what was printed last may not be true any more: in the page, or once for each failure.
func (w *watcher) failed(err error) error {
	message := fmt.Sprintf("%v; trying again", err)
	if w.redraw {
		return w.page(message)
	}
	if w.failure != err.Error() {
		w.failure = err.Error()
		w.warn("%s", message)
	}
	return nil
}

// page draws the page anew, under a line that says how old it is where it could not be read.
func (w *watcher) page(failure string) error {
	var text strings.Builder
	if failure != "" && len(w.shown) > 0 {
		fmt.Fprintf(&text, "NOT CURRENT, as of %s: %s\n", w.shown[0].At.Format(time.TimeOnly), printer.Sanitize(failure))
	} else if failure != "" {
		fmt.Fprintf(&text, "NOT CURRENT: %s\n", printer.Sanitize(failure))
	} else if len(w.shown) == 0 {
		fmt.Fprintln(&text, w.nothing())
	}
	if err := printer.WriteStatus(&text, w.shown, w.tableOptions()); err != nil {
		return err
	}
	if len(w.warned) > 0 && text.Len() > 0 {
		fmt.Fprintln(&text)
	}
	for _, warning := range w.warned {
		fmt.Fprintf(&text, "warning: %s\n", printer.Sanitize(warning))
	}
	// Home, the page with each line cleared to its end, then clear what is below: no flicker.
	_, err := fmt.Fprintf(w.Out, "\x1b[H%s\x1b[J", strings.ReplaceAll(text.String(), "\n", "\x1b[K\n"))
	return err
}

// printChanged prints the clusters whose status has changed by more than the passing of time, and tells of those that
// are there no more: the last word about them must not be that they are healthy.
func (w *watcher) printChanged(reports []health.Report) error {
	var changed []health.Report
	there := map[model.Key]bool{}
	for _, r := range reports {
		there[r.Key] = true
		if print := fingerprint(r); w.last[r.Key] != print {
			w.last[r.Key] = print
			changed = append(changed, r)
		}
	}
	for key := range w.last {
		if there[key] {
			continue
		}
		if err := w.unsure(key); err != nil {
			if w.last[key] != unsureFingerprint { // once
				w.last[key] = unsureFingerprint
				w.warn("%v; trying again", err)
			}
		} else {
			delete(w.last, key)
			w.warn("%s in namespace %s is there no more", key.Argument(), key.Namespace)
		}
	}
	if len(changed) == 0 && w.begun {
		return nil
	}
	return w.print(w.Out, changed)
}

// unsureFingerprint is no cluster's: one of which it was not known whether it is there is printed again when it is.
const unsureFingerprint = "?"

// fingerprint is what must differ for a cluster to be worth printing again. Ages and revisions always do.
func fingerprint(r health.Report) string {
	var b strings.Builder
	fmt.Fprintln(&b, r.Verdict, r.Reason, r.Leader, r.Quorum)
	for _, m := range r.Members {
		fmt.Fprintln(&b, m.Name, m.Health, m.Reason, m.Role, m.State.Or(""), m.ID.Or(""), m.PeerTLS.Or(false), m.Alarms.Or(nil), m.Volume.Value.ClaimUID)
	}
	for _, f := range r.Findings {
		fmt.Fprintln(&b, f.Code, f.Severity, f.Subject)
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
