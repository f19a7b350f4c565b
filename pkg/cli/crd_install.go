package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
)

type crdInstallOptions struct {
	factory        *Factory
	results        *results
	dryRun         dryRun
	fieldManager   string
	forceConflicts bool
	allowDowngrade bool
	timeout        time.Duration

	crds    []*unstructured.Unstructured
	client  dynamic.ResourceInterface
	objects dynamic.Interface
}

func newCRDInstallCommand(f *Factory) *cobra.Command {
	o := &crdInstallOptions{factory: f, results: newResults(f.Out)}
	cmd := &cobra.Command{
		Use:   "install [NAME...]",
		Short: "Install or upgrade the CustomResourceDefinitions",
		Long: `Installs the CustomResourceDefinitions that this plugin was built with by server-side apply, or upgrades them, and
waits until the API server serves them. Everything is checked before anything is written.

A CustomResourceDefinition of the same name that someone else has made is left as it is, and so is one of ours whose
schema is newer than this plugin's. Both end with exit code 3.`,
		Example: `  # Install all of them
  kubectl etcdmember crd install

  # See what would be done, checked by the API server
  kubectl etcdmember crd install --dry-run=server

  # Only one of them
  kubectl etcdmember crd install etcdmembers`,
		ValidArgsFunction: completeCRDs,
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
	cmd.Flags().BoolVar(&o.forceConflicts, "force-conflicts", false, "take fields over from other managers that have changed one of our CustomResourceDefinitions")
	cmd.Flags().BoolVar(&o.allowDowngrade, "allow-downgrade", false, "replace one of our CustomResourceDefinitions whose schema is newer; fields that this version does not know are then lost when an object is next written")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 30*time.Second, "how long to wait until the API server serves them; 0 does not wait")
	return cmd
}

func (o *crdInstallOptions) complete(names []string) (err error) {
	if o.timeout < 0 {
		return fmt.Errorf("--timeout is %s; it can't be negative", o.timeout)
	}
	if o.fieldManager == "" {
		return errors.New("--field-manager is empty; leave it out or name a manager")
	}
	if err := o.results.validate(); err != nil {
		return err
	}
	if o.crds, err = builtinCRDs(names); err != nil {
		return err
	}
	o.results.suffix = o.dryRun.suffix()
	o.client, o.objects, err = crdClient(o.factory)
	return err
}

func (o *crdInstallOptions) run(ctx context.Context) error {
	live := make([]*unstructured.Unstructured, len(o.crds))
	for i, want := range o.crds {
		var err error
		if live[i], err = getCRD(ctx, o.client, want.GetName()); err != nil {
			return err
		}
		if err := o.check(want, live[i]); err != nil {
			return err
		}
	}
	// What has been done is told even if the rest fails.
	if err := errors.Join(o.applyAll(ctx, live), o.results.flush()); err != nil {
		return err
	}
	if o.dryRun != dryRunNone || o.timeout == 0 {
		return nil
	}
	return o.wait(ctx)
}

// applyAll applies one after the other.
func (o *crdInstallOptions) applyAll(ctx context.Context, live []*unstructured.Unstructured) error {
	for i, want := range o.crds {
		after, err := o.apply(ctx, want, live[i])
		if err != nil {
			return err
		}
		if err := o.results.add(after, verbOf(live[i], after)); err != nil {
			return err
		}
	}
	return nil
}

// check refuses what must not be overwritten.
func (o *crdInstallOptions) check(want, live *unstructured.Unstructured) error {
	name := crdName(want.GetName())
	if live != nil && live.GetDeletionTimestamp() != nil {
		return fmt.Errorf("can't install %s: it is being deleted; wait until it is gone, see 'kubectl get crd %s'", name, want.GetName())
	}
	owner, builtin := ownerOf(live), ownerOf(want)
	switch {
	case owner.state == crdForeign:
		return refusef("%s is not this plugin's, so it is left as it is, and nothing was changed: %s; "+
			"the plugin reads its objects as far as it knows their fields, see 'kubectl etcdmember crd diff'; "+
			"to have ours instead, let its owner remove it first", name, owner.origin())
	case owner.state == crdTakenOver && !o.forceConflicts:
		return refusef("%s was this plugin's and has been changed by someone else, so it is left as it is, and nothing was changed: %s; "+
			"see 'kubectl etcdmember crd diff', and take it back with --force-conflicts only if they agree", name, owner.origin())
	case owner.state == crdOurs && (owner.version == 0 || owner.version > builtin.version) && !o.allowDowngrade:
		return refusef("%s has %s and this plugin has %d, so it is left as it is, and nothing was changed; "+
			"upgrade the plugin, or see 'kubectl etcdmember crd diff' and go back with --allow-downgrade", name, owner.schemaVersion(), builtin.version)
	}
	return nil
}

// apply writes one, and returns what it has become, or would.
func (o *crdInstallOptions) apply(ctx context.Context, want, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if o.dryRun == dryRunClient {
		return overlayCRD(live, want), nil
	}
	want = want.DeepCopy()
	if live != nil {
		want.SetUID(live.GetUID()) // that very one, and no other that has taken its place
	}
	after, err := o.client.Apply(ctx, want.GetName(), want, metav1.ApplyOptions{FieldManager: o.fieldManager, Force: o.forceConflicts, DryRun: o.dryRun.options()})
	if isFieldConflict(err) {
		return nil, refusef("%s is left as it is, because others manage some of its fields: %w; "+
			"see 'kubectl etcdmember crd diff', and take the fields over with --force-conflicts only if they agree", crdName(want.GetName()), err)
	}
	if err != nil {
		return nil, explain(err, "apply %s", crdName(want.GetName()))
	}
	return after, nil
}

// wait waits until all are served.
func (o *crdInstallOptions) wait(ctx context.Context) error {
	end := time.Now().Add(o.timeout)
	for _, want := range o.crds {
		name := crdName(want.GetName())
		problem := ""
		err := poll(ctx, time.Until(end), func(ctx context.Context) (bool, error) {
			live, err := getCRD(ctx, o.client, want.GetName())
			if err != nil {
				return false, err
			}
			if live == nil {
				return false, fmt.Errorf("%s is gone again: someone has deleted it", name)
			}
			if status, message := crdCondition(live, "NamesAccepted"); status == "False" {
				return false, fmt.Errorf("%s is installed and can't be served, because another CustomResourceDefinition has one of its names: %s", name, message)
			}
			status, message := crdCondition(live, "Established")
			problem = message
			if status != "True" {
				return false, nil
			}
			_, err = o.objects.Resource(crdObjects(want)).List(ctx, metav1.ListOptions{Limit: 1})
			// Who may not list them has been answered by a server that knows them, as far as anybody can tell.
			return err == nil || apierrors.IsForbidden(err), nil
		})
		switch {
		case err == nil:
		case errors.Is(err, errTimedOut):
			if problem == "" {
				problem = "the API server has not said why"
			}
			return exitWith(ExitTimeout, fmt.Errorf("%s is installed and not served after %s: %s; wait for it with 'kubectl wait --for=condition=Established crd/%s'", name, o.timeout, problem, want.GetName()))
		default:
			return err
		}
	}
	return nil
}

// overlayCRD is what a server-side apply makes of a CustomResourceDefinition: what is built in, in place of what is there,
// and the rest of what is there as it is.
func overlayCRD(live, want *unstructured.Unstructured) *unstructured.Unstructured {
	out := want.DeepCopy()
	if live != nil {
		out = live.DeepCopy()
		overlay(out.Object, want.DeepCopy().Object)
	}
	if _, ok, _ := unstructured.NestedMap(out.Object, "spec", "conversion"); !ok {
		_ = unstructured.SetNestedField(out.Object, "None", "spec", "conversion", "strategy") // the API server's default
	}
	return out
}

// overlay puts the leaves of src into dst. Lists are leaves.
func overlay(dst, src map[string]any) {
	for k, v := range src {
		s, sOK := v.(map[string]any)
		d, dOK := dst[k].(map[string]any)
		if sOK && dOK {
			overlay(d, s)
			continue
		}
		dst[k] = v
	}
}
