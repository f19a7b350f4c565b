package cli

import (
	"fmt"
	"io"
	"reflect"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// results prints what was done to objects as kubectl does: a line for each, its name alone with -o name, or the objects
// themselves in the other formats, as one document.
type results struct {
	flags   *genericclioptions.PrintFlags
	out     io.Writer
	suffix  string
	objects []unstructured.Unstructured
}

// newResults returns results that are printed to out.
func newResults(out io.Writer) *results {
	return &results{flags: genericclioptions.NewPrintFlags(""), out: out}
}

// addFlags adds -o and what belongs to it.
func (r *results) addFlags(cmd *cobra.Command) {
	r.flags.AddFlags(cmd)
	mustComplete(cmd, "output", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return r.flags.AllowedFormats(), cobra.ShellCompDirectiveNoFileComp
	})
}

// addNameFlag adds -o for what is no longer there to be printed.
func (r *results) addNameFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(r.flags.OutputFormat, "output", "o", "", "output format: name")
	mustComplete(cmd, "output", cobra.FixedCompletions([]cobra.Completion{"name"}, cobra.ShellCompDirectiveNoFileComp))
}

// validate says whether there is a printer for -o, before anything is done.
func (r *results) validate() error {
	_, err := r.flags.ToPrinter()
	return err
}

// lines says whether each object is a line of its own.
func (r *results) lines() bool { return *r.flags.OutputFormat == "" || *r.flags.OutputFormat == "name" }

// add prints, or keeps for flush, an object that something was done to.
func (r *results) add(obj *unstructured.Unstructured, verb string) error {
	if !r.lines() {
		r.objects = append(r.objects, *obj.DeepCopy())
		return nil
	}
	r.flags.NamePrintFlags.Operation = verb + r.suffix
	p, err := r.flags.ToPrinter()
	if err != nil {
		return err
	}
	if err := p.PrintObj(obj, r.out); err != nil {
		return fmt.Errorf("can't print %s: %w", objectName(obj), err)
	}
	return nil
}

// flush prints the objects that add has kept: one as it is, several as a List.
func (r *results) flush() error {
	if len(r.objects) == 0 {
		return nil
	}
	p, err := r.flags.ToPrinter()
	if err != nil {
		return err
	}
	if len(r.objects) == 1 {
		return p.PrintObj(&r.objects[0], r.out)
	}
	list := &unstructured.UnstructuredList{
		Object: map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{}},
		Items:  r.objects,
	}
	return p.PrintObj(list, r.out)
}

// verbOf is kubectl's word for what an apply has done. before is nil where there was nothing.
func verbOf(before, after *unstructured.Unstructured) string {
	switch {
	case before == nil:
		return "created"
	case reflect.DeepEqual(essence(before), essence(after)):
		return "unchanged"
	default:
		return "configured"
	}
}

// essence is what a person has written of an object: without what the server keeps about it, and without its status.
func essence(obj *unstructured.Unstructured) map[string]any {
	o := obj.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "status")
	return o.Object
}

// objectName is kubectl's name of an object: its kind in lower case with the group, a slash and its name.
func objectName(obj *unstructured.Unstructured) string {
	return resourceName(obj.GroupVersionKind().GroupKind().String(), obj.GetName())
}

// addDeleted prints that an object was deleted. The formats that print objects leave it out: they show what is there.
func (r *results) addDeleted(obj *unstructured.Unstructured) error {
	if !r.lines() {
		return nil
	}
	return r.add(obj, "deleted")
}
