package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/etcdmember/kubectl-etcdmember/pkg/printer"
)

type crdDiffOptions struct {
	factory *Factory

	crds   []*unstructured.Unstructured
	client dynamic.ResourceInterface
}

func newCRDDiffCommand(f *Factory) *cobra.Command {
	o := &crdDiffOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "diff [NAME...]",
		Short: "Show what 'crd install' would change",
		Long: `Compares the CustomResourceDefinitions in the cluster with those that this plugin was built with, and shows as a
unified diff what 'crd install' would change. One that is not installed is shown as added in full. It only reads.

The exit code is 0 if there is no difference, 1 if there is one, and 2 if it can't be told.`,
		Example: `  # Is the cluster up to date?
  kubectl etcdmember crd diff && echo up to date`,
		ValidArgsFunction: completeCRDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	return cmd
}

func (o *crdDiffOptions) complete(names []string) (err error) {
	if o.crds, err = builtinCRDs(names); err != nil {
		return err
	}
	o.client, _, err = crdClient(o.factory)
	return err
}

func (o *crdDiffOptions) run(ctx context.Context) error {
	differ := false
	for _, want := range o.crds {
		live, err := getCRD(ctx, o.client, want.GetName())
		if err != nil {
			return err
		}
		switch owner := ownerOf(live); owner.state {
		case crdForeign, crdTakenOver:
			fmt.Fprintln(o.factory.ErrOut, printer.Sanitize(fmt.Sprintf("warning: %s is not as this plugin made it: %s", crdName(want.GetName()), owner.origin())))
		}
		text, err := diffCRD(live, want)
		if err != nil {
			return fmt.Errorf("can't compare %s: %w", crdName(want.GetName()), err)
		}
		if text != "" {
			differ = true
			if _, err := fmt.Fprint(o.factory.Out, printer.SanitizeMultiline(text)); err != nil {
				return err
			}
		}
	}
	if differ {
		return exitWith(ExitFindings, nil)
	}
	return nil
}

// diffCRD is the unified diff between what is in the cluster, nil for nothing, and what an installation would make of it.
func diffCRD(live, want *unstructured.Unstructured) (string, error) {
	from, to, before := "/dev/null", "built-in/"+want.GetName(), ""
	after, err := diffableYAML(overlayCRD(live, want))
	if err != nil {
		return "", err
	}
	if live != nil {
		from = "cluster/" + want.GetName()
		if before, err = diffableYAML(live); err != nil {
			return "", err
		}
	}
	return difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: splitLines(before), B: splitLines(after), FromFile: from, ToFile: to, Context: 3,
	})
}

// splitLines cuts text after its newlines.
func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
}

// diffableYAML is what a person has written of a CustomResourceDefinition.
func diffableYAML(obj *unstructured.Unstructured) (string, error) {
	obj = &unstructured.Unstructured{Object: essence(obj)}
	annotations := obj.GetAnnotations()
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	obj.SetAnnotations(annotations)
	out, err := yaml.Marshal(obj.Object)
	return string(out), err
}
