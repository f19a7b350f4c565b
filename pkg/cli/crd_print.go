package cli

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sigs.k8s.io/yaml"
)

type crdPrintOptions struct {
	factory *Factory
	names   []string
	output  string

	crds []*unstructured.Unstructured
}

func newCRDPrintCommand(f *Factory) *cobra.Command {
	o := &crdPrintOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "print [NAME...]",
		Short: "Print the built-in CustomResourceDefinitions",
		Long: `Prints the CustomResourceDefinitions that this plugin was built with, to be kept in a repository or applied by
other tools. No cluster is needed.`,
		Example: `  # All of them, as kubectl apply takes them
  kubectl etcdmember crd print | kubectl apply --server-side -f -

  # One of them as JSON
  kubectl etcdmember crd print etcdmembers -o json`,
		ValidArgsFunction: completeCRDs,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			return o.run()
		},
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "yaml", "output format: yaml or json")
	mustComplete(cmd, "output", cobra.FixedCompletions([]cobra.Completion{"yaml", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *crdPrintOptions) complete(args []string) (err error) {
	if o.output != "yaml" && o.output != "json" {
		return fmt.Errorf("unknown output format %q; --output may be yaml or json", o.output)
	}
	o.names = args
	o.crds, err = builtinCRDs(o.names)
	return err
}

func (o *crdPrintOptions) run() error {
	var out []byte
	var err error
	if o.output == "json" {
		out, err = o.json()
	} else {
		out, err = o.yaml()
	}
	if err != nil {
		return fmt.Errorf("can't print the built-in CustomResourceDefinitions: %w", err)
	}
	_, err = o.factory.Out.Write(out)
	return err
}

// yaml is a stream with one document for each.
func (o *crdPrintOptions) yaml() ([]byte, error) {
	var out bytes.Buffer
	for _, c := range o.crds {
		doc, err := yaml.Marshal(c.Object)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(doc)
	}
	return out.Bytes(), nil
}

// json is one document: the one that was asked for, or a List.
func (o *crdPrintOptions) json() ([]byte, error) {
	var doc any = o.crds[0].Object
	if len(o.crds) > 1 {
		items := make([]any, 0, len(o.crds))
		for _, c := range o.crds {
			items = append(items, c.Object)
		}
		doc = map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	}
	out, err := json.MarshalIndent(doc, "", "    ")
	return append(out, '\n'), err
}
