package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/etcdmember/kubectl-etcdmember/pkg/health"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
	"github.com/etcdmember/kubectl-etcdmember/pkg/printer"
	"github.com/etcdmember/kubectl-etcdmember/pkg/source"
)

// readOptions say which clusters are read, and where from: what all commands that show something have in common.
type readOptions struct {
	*Factory
	AllNamespaces bool
	Selector      string
	Files         []string
	At            string
	ChunkSize     int64

	live     liveOptions
	clusters []clusterArg
	// perhaps are StatefulSets that the arguments may mean, by name: each is read as a cluster where nothing else has that name.
	perhaps map[string][]string
	// allPods asks for the pods, claims and volumes also of members that publish.
	allPods bool
	// found are the clusters that were read, before --selector.
	found []foundCluster
	// untold says why a cluster of a kind that was not found may be there all the same. Nil: it is not there.
	untold func(model.Kind) error
	// warnings are what could not be read. They are printed, unless they are kept for whoever prints them in another way.
	warnings     []string
	keepWarnings bool
	flags        *pflag.FlagSet
	selector     labels.Selector
	namespace    string
	now          time.Time
	server       *source.Server
}

func newReadOptions(f *Factory) readOptions { return readOptions{Factory: f, ChunkSize: 500} }

func (o *readOptions) addFlags(fs *pflag.FlagSet) {
	o.flags = fs
	fs.BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "look in all namespaces; --namespace is ignored then")
	fs.StringVarP(&o.Selector, "selector", "l", "", "show only members with these labels; verdicts still count all members")
	fs.StringSliceVarP(&o.Files, "filename", "f", nil, "read objects from files, directories or '-' for standard input; no cluster is contacted")
	fs.StringVar(&o.At, "now", "", "with -f, the time to measure ages against (RFC 3339); by default the newest time in the files")
	fs.Int64Var(&o.ChunkSize, "chunk-size", o.ChunkSize, "how many objects to ask for at once; 0 asks for all")
}

type clusterArg struct {
	kind model.Kind
	name string
}

// foundCluster is what an argument may name a cluster by.
type foundCluster struct {
	key model.Key
	// set says that a StatefulSet of its name may run it. That of an Etcd has the Etcd's name.
	set bool
}

func newFound(c *model.Cluster) foundCluster { return foundCluster{c.Key, !c.NoSet} }

func (a clusterArg) matches(c foundCluster) bool {
	return a.name == c.key.Name && (a.kind == "" || c.key.Kind == "" || a.kind == c.key.Kind || (a.kind == model.KindStatefulSet && c.set))
}

func (o *readOptions) complete(args []string) error {
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
	// An unset variable of a script must not turn files into a live cluster.
	if o.flags.Changed("filename") && (len(o.Files) == 0 || slices.Contains(o.Files, "")) {
		return fmt.Errorf("--filename names no file")
	}
	if o.ChunkSize < 0 {
		return fmt.Errorf("--chunk-size must not be negative, and is %d", o.ChunkSize)
	}
	if err := o.completeLive(); err != nil {
		return err
	}
	if o.At != "" {
		if len(o.Files) == 0 {
			return fmt.Errorf("--now is for -f alone: a cluster is judged by the clock")
		}
		if o.now, err = time.Parse(time.RFC3339, o.At); err != nil {
			return fmt.Errorf("--now %q is not a time like 2026-12-01T15:04:05Z", o.At)
		}
	}
	if len(o.Files) > 0 {
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

// read reads and judges what is asked for.
func (o *readOptions) read(ctx context.Context) ([]health.Report, error) {
	set, judgement, err := o.set(ctx)
	if err != nil {
		return nil, err
	}
	var reports []health.Report
	o.found, o.untold = nil, set.Untold
	clusters := slices.DeleteFunc(o.putTogether(set), func(c model.Cluster) bool { return !o.wants(&c) })
	if err := o.askLive(ctx, clusters, &judgement); err != nil {
		return nil, err
	}
	for _, c := range clusters {
		o.found = append(o.found, newFound(&c))
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
	o.warnings = nil
	for _, p := range set.Problems {
		o.warnings = append(o.warnings, fmt.Sprintf("%s: %v", p.Subject, p.Err))
	}
	if !o.keepWarnings {
		for _, text := range o.warnings {
			o.warn("%s", text)
		}
	}
	return reports, nil
}

// putTogether returns the clusters in a set. Those of StatefulSets that are perhaps meant are among them only where no other
// cluster and no member has the name that was given.
func (o *readOptions) putTogether(set *source.Set) []model.Cluster {
	named := o.statefulSets()
	clusters := set.Clusters(named...)
	more := len(named)
	for name, sets := range o.perhaps {
		kind, cluster, err := parseClusterArg(name)
		if !slices.ContainsFunc(clusters, func(c model.Cluster) bool {
			return o.wants(&c) && (err == nil && clusterArg{kind, cluster}.matches(newFound(&c)) ||
				slices.ContainsFunc(c.Members, func(m model.Member) bool { return m.Name == name }))
		}) {
			for _, s := range sets {
				named = append(named, model.Key{Namespace: o.namespace, Kind: model.KindStatefulSet, Name: s})
			}
		}
	}
	if len(named) == more {
		return clusters
	}
	told := set.Problems // of which there is no need to be told twice
	clusters = set.Clusters(named...)
	set.Problems = told
	return clusters
}

// wants says whether a cluster is asked for.
func (o *readOptions) wants(c *model.Cluster) bool {
	return (o.namespace == "" || c.Key.Namespace == o.namespace) &&
		(len(o.clusters) == 0 || slices.ContainsFunc(o.clusters, func(a clusterArg) bool { return a.matches(newFound(c)) }))
}

// statefulSets are the clusters that are asked for by a name which may be a StatefulSet's: nothing else says that one runs
// etcd where there are no EtcdMembers.
func (o *readOptions) statefulSets() []model.Key {
	var keys []model.Key
	for _, a := range o.clusters {
		if a.kind != model.KindEtcd {
			keys = append(keys, model.Key{Namespace: o.namespace, Kind: model.KindStatefulSet, Name: a.name})
		}
	}
	return keys
}

// mayMean notes which StatefulSets a name of a cluster or of a member may mean: a member's is the pod's, which is the
// StatefulSet's and a number.
func (o *readOptions) mayMean(name string, cluster, member bool) {
	var sets []string
	if kind, n, err := parseClusterArg(name); cluster && err == nil && kind != model.KindEtcd {
		sets = append(sets, n)
	}
	if i := strings.LastIndexByte(name, '-'); member && i > 0 && i < len(name)-1 && strings.Trim(name[i+1:], "0123456789") == "" && !strings.Contains(name, "/") {
		sets = append(sets, name[:i])
	}
	if o.perhaps == nil {
		o.perhaps = map[string][]string{}
	}
	o.perhaps[name] = sets
}

func (o *readOptions) set(ctx context.Context) (*source.Set, health.Options, error) {
	if len(o.Files) > 0 {
		set, err := source.ReadFiles(o.Files, interruptible(ctx, o.In))
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
	sets := o.statefulSets()
	for _, names := range o.perhaps {
		for _, name := range names {
			sets = append(sets, model.Key{Namespace: o.namespace, Kind: model.KindStatefulSet, Name: name})
		}
	}
	set, err := o.server.Read(ctx, source.ReadOptions{
		Namespace: o.namespace, StatefulSets: sets, Pods: o.allPods || o.live.wanted(), Volumes: o.allPods, Now: o.Now(),
	})
	if err != nil {
		return nil, health.Options{}, fmt.Errorf("%w%s", err, hint(err))
	}
	return set, health.Options{Now: o.Now()}, nil
}

func (o *readOptions) warn(format string, a ...any) {
	fmt.Fprintf(o.ErrOut, "warning: %s\n", printer.Sanitize(fmt.Sprintf(format, a...)))
}

// interruptible is a reader that fails when the context ends, although what it reads from may block for ever.
func interruptible(ctx context.Context, in io.Reader) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		w.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	return r
}

// unreadable are the texts of what could not be read of clusters, for output that has no place for it.
func unreadable(reports []health.Report) []string {
	var texts []string
	for _, r := range reports {
		for _, f := range r.Findings {
			if f.Code == health.Unreadable {
				texts = append(texts, f.Message)
			}
		}
	}
	return texts
}

// warnUnreadable tells of what could not be read where the output has no place for it.
func (o *readOptions) warnUnreadable(reports []health.Report) {
	for _, text := range unreadable(reports) {
		o.warn("%s", text)
	}
}

// tellUnproven says where what is shown rests on pods and Leases, which prove neither roles nor who has caught up.
func (o *readOptions) tellUnproven(reports []health.Report) {
	for _, r := range reports {
		for _, m := range r.Members {
			if m.Basis == model.SourcePod && m.Health == health.MemberHealthy {
				fmt.Fprintln(o.ErrOut, "note: members that publish nothing are judged by their pods and Leases, which may be old by 45 s: roles, and who has caught up, are proven by --live alone")
				return
			}
		}
	}
}

// missing is an error for each cluster that was asked for by name and not found, as kubectl has it. Where something could not
// be read that could have told of it, that is the error: nobody knows then that it is not there.
func (o *readOptions) missing() error {
	var names []string
	for _, a := range o.clusters {
		if slices.ContainsFunc(o.found, a.matches) {
			continue
		}
		if err := o.untold(a.kind); err != nil {
			return fmt.Errorf("can't find out whether there is an etcd cluster %s%s: %w%s", model.Key{Kind: a.kind, Name: a.name}.Argument(), o.where(), err, hint(err))
		}
		names = append(names, model.Key{Kind: a.kind, Name: a.name}.Argument())
	}
	if len(names) == 0 {
		return nil
	}
	what := "there is no etcd cluster " + strings.Join(names, ", ") + o.where()
	if len(o.Files) > 0 {
		return fmt.Errorf("%s: neither an Etcd, nor EtcdMembers, nor a StatefulSet of that name", what)
	}
	return fmt.Errorf("%s: neither an Etcd, nor EtcdMembers, nor a StatefulSet of that name; see 'kubectl get etcds,statefulsets'", what)
}

// nothing is what kubectl says where there is nothing, to the letter: scripts look for it.
func (o *readOptions) nothing() string {
	switch {
	case len(o.Files) > 0:
		return "No resources found" + o.where() + "."
	case o.namespace == "":
		return "No resources found"
	default:
		return "No resources found in " + printer.Sanitize(o.namespace) + " namespace."
	}
}

func (o *readOptions) where() string {
	switch {
	case len(o.Files) > 0:
		return " in the files"
	case o.namespace == "":
		return ""
	default:
		return " in namespace " + o.namespace
	}
}

// manyNamespaces says whether what is shown may be of more than one namespace, which must then be named.
func (o *readOptions) manyNamespaces() bool { return o.namespace == "" }

// printerOptions are the options of what is printed that do not depend on the command.
func (o *readOptions) printerOptions() printer.StatusOptions {
	return printer.StatusOptions{Namespaces: o.manyNamespaces(), Color: printer.Color(o.Out)}
}
