package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/etcdmember/kubectl-etcdmember/pkg/printer"
)

type crdUninstallOptions struct {
	factory *Factory
	results *results
	dryRun  dryRun
	yes     bool
	timeout time.Duration

	crds    []*unstructured.Unstructured
	client  dynamic.ResourceInterface
	objects dynamic.Interface
	context string
	host    string
}

func newCRDUninstallCommand(f *Factory) *cobra.Command {
	o := &crdUninstallOptions{factory: f, results: newResults(f.Out)}
	cmd := &cobra.Command{
		Use:   "uninstall [NAME...]",
		Short: "Delete the CustomResourceDefinitions, if they have no objects",
		Long: `Deletes the CustomResourceDefinitions of this plugin and waits until they are gone. Everything is checked before
anything is deleted.

Refused with exit code 3: one that still has objects, in any namespace, because they would be deleted with it; and one
that someone else has made. Objects are looked for again just before the deletion, after you have confirmed it.`,
		Example: `  # Delete them, if no EtcdMember and no EtcdMemberTask is left
  kubectl etcdmember crd uninstall

  # The same in a script
  kubectl etcdmember crd uninstall --yes`,
		ValidArgsFunction: completeCRDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	addDryRunFlag(cmd, &o.dryRun)
	o.results.addNameFlag(cmd)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long to wait until they are gone; the API server may need more than half a minute; 0 does not wait")
	return cmd
}

func (o *crdUninstallOptions) complete(names []string) (err error) {
	if o.timeout < 0 {
		return fmt.Errorf("--timeout is %s; it can't be negative", o.timeout)
	}
	if !o.results.lines() {
		return fmt.Errorf("unknown output format %q; --output may be name", *o.results.flags.OutputFormat)
	}
	if o.crds, err = builtinCRDs(names); err != nil {
		return err
	}
	o.results.suffix = o.dryRun.suffix()
	cfg, err := o.factory.RESTConfig()
	if err != nil {
		return err
	}
	o.host = cfg.Host
	if raw, err := o.factory.Config.ToRawKubeConfigLoader().RawConfig(); err == nil {
		o.context = raw.CurrentContext
	}
	if c := o.factory.Config.Context; c != nil && *c != "" {
		o.context = *c
	}
	o.client, o.objects, err = crdClient(o.factory)
	return err
}

func (o *crdUninstallOptions) run(ctx context.Context) error {
	live, err := o.survey(ctx)
	if err != nil {
		return err
	}
	for _, c := range o.crds {
		if !slices.ContainsFunc(live, func(l *unstructured.Unstructured) bool { return l.GetName() == c.GetName() }) {
			fmt.Fprintf(o.factory.ErrOut, "%s is not installed\n", crdName(c.GetName()))
		}
	}
	if len(live) == 0 {
		return nil
	}
	if o.dryRun == dryRunNone {
		if err := o.confirm(ctx, live); err != nil {
			return err
		}
		// Between the first look and the answer, minutes may have passed.
		if live, err = o.survey(ctx); err != nil {
			return err
		}
	}
	for _, c := range live {
		if o.dryRun != dryRunClient {
			if err := o.delete(ctx, c); err != nil {
				return err
			}
		}
		if err := o.results.add(c, "deleted"); err != nil {
			return err
		}
	}
	if o.dryRun != dryRunNone || o.timeout == 0 {
		return nil
	}
	return o.wait(ctx, live)
}

// survey returns what is installed, or why it must not be deleted.
func (o *crdUninstallOptions) survey(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var live []*unstructured.Unstructured
	for _, want := range o.crds {
		c, err := getCRD(ctx, o.client, want.GetName())
		if err != nil {
			return nil, err
		}
		if c == nil {
			continue
		}
		if owner := ownerOf(c); owner.state != crdOurs {
			return nil, refusef("%s is not this plugin's, so it is not deleted, and nothing was changed: %s; let its owner remove it", crdName(c.GetName()), owner.origin())
		}
		if err := o.checkEmpty(ctx, c); err != nil {
			return nil, err
		}
		live = append(live, c)
	}
	return live, nil
}

// checkEmpty refuses a CustomResourceDefinition that has objects.
func (o *crdUninstallOptions) checkEmpty(ctx context.Context, c *unstructured.Unstructured) error {
	if c.GetDeletionTimestamp() != nil {
		return nil // too late: its objects are being deleted already
	}
	counts, total := map[string]int{}, 0
	list := metav1.ListOptions{Limit: 500}
	for {
		page, err := o.objects.Resource(crdObjects(c)).List(ctx, list)
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("can't tell whether %s has objects, because the API server does not serve them; see 'kubectl describe crd %s'", crdName(c.GetName()), c.GetName())
		}
		if err != nil {
			return explain(err, "list %s in all namespaces, to see whether any is left", c.GetName())
		}
		for i := range page.Items {
			counts[page.Items[i].GetNamespace()]++
			total++
		}
		if list.Continue = page.GetContinue(); list.Continue == "" {
			break
		}
	}
	if total == 0 {
		return nil
	}
	return refusef("%s still has %s, in %s, which would be deleted with it, so nothing was changed; "+
		"see 'kubectl get %s -A', and delete them first", crdName(c.GetName()), plural(total, "object"), namespaces(counts), c.GetName())
}

// namespaces lists counts by namespace, but not more than a person reads.
func namespaces(counts map[string]int) string {
	const most = 10
	names := make([]string, 0, len(counts))
	for ns := range counts {
		names = append(names, ns)
	}
	slices.Sort(names)
	words := make([]string, 0, len(names))
	for i, ns := range names {
		if i == most {
			words = append(words, plural(len(names)-most, "more namespace"))
			break
		}
		words = append(words, fmt.Sprintf("%s (%d)", ns, counts[ns]))
	}
	if len(names) == 1 {
		return "namespace " + words[0]
	}
	return "namespaces " + enumerate(words)
}

// confirm says what will be deleted, and where, and asks.
func (o *crdUninstallOptions) confirm(ctx context.Context, live []*unstructured.Unstructured) error {
	word, where := o.context, fmt.Sprintf("the cluster of context %s (%s)", o.context, o.host)
	if word == "" {
		word, where = o.host, "the cluster at "+o.host
	}
	for _, c := range live {
		fmt.Fprintln(o.factory.ErrOut, printer.Sanitize(fmt.Sprintf("%s will be deleted from %s", crdName(c.GetName()), where)))
	}
	return confirm(ctx, o.factory, o.yes, "delete "+plural(len(live), "CustomResourceDefinition"), word)
}

// delete deletes exactly what was looked at.
func (o *crdUninstallOptions) delete(ctx context.Context, c *unstructured.Unstructured) error {
	uid, rv := types.UID(c.GetUID()), c.GetResourceVersion()
	err := o.client.Delete(ctx, c.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &rv},
		DryRun:        o.dryRun.options(),
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil // someone was faster
	case apierrors.IsConflict(err):
		return fmt.Errorf("can't delete %s: it has been changed since it was looked at; look at it, and try again: %w", crdName(c.GetName()), err)
	case err != nil:
		return explain(err, "delete %s", crdName(c.GetName()))
	}
	return nil
}

// wait waits until all are gone.
func (o *crdUninstallOptions) wait(ctx context.Context, live []*unstructured.Unstructured) error {
	end := time.Now().Add(o.timeout)
	for _, c := range live {
		problem := "the API server has not said why"
		err := poll(ctx, time.Until(end), func(ctx context.Context) (bool, error) {
			now, err := getCRD(ctx, o.client, c.GetName())
			if err != nil {
				return false, err
			}
			if now == nil || now.GetUID() != c.GetUID() {
				return true, nil
			}
			if _, message := crdCondition(now, "Terminating"); message != "" {
				problem = message
			}
			return false, nil
		})
		if errors.Is(err, errTimedOut) {
			return exitWith(ExitTimeout, fmt.Errorf("%s is still being deleted after %s: %s", crdName(c.GetName()), o.timeout, problem))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
