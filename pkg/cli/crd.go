package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/etcdmember/kubectl-etcdmember/config/crd"
)

// crdResource addresses CustomResourceDefinitions.
var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func newCRDCommand(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "crd",
		Short:   "Print, install, compare and uninstall the CustomResourceDefinitions",
		GroupID: groupManage,
		Long: `Manages the CustomResourceDefinitions of EtcdMember and EtcdMemberTask that this plugin was built with.

A CustomResourceDefinition of the same name that someone else has made is never overwritten and never deleted.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCRDPrintCommand(f), newCRDInstallCommand(f), newCRDUninstallCommand(f), newCRDDiffCommand(f))
	return cmd
}

// builtinCRDs returns the CustomResourceDefinitions that the plugin was built with: all of them, or those that are named
// by their plural, with or without the group.
func builtinCRDs(names []string) ([]*unstructured.Unstructured, error) {
	files, err := fs.Glob(crd.Files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("can't list the built-in CustomResourceDefinitions: %w", err)
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		data, err := crd.Files.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("can't read the built-in %s: %w", file, err)
		}
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, &obj.Object); err != nil {
			return nil, fmt.Errorf("can't parse the built-in %s: %w", file, err)
		}
		all = append(all, obj)
	}
	if len(names) == 0 {
		return all, nil
	}
	var chosen []*unstructured.Unstructured
	for _, name := range names {
		i := slices.IndexFunc(all, func(obj *unstructured.Unstructured) bool {
			plural, _, _ := strings.Cut(obj.GetName(), ".")
			return name == plural || name == obj.GetName()
		})
		if i < 0 {
			return nil, fmt.Errorf("there is no CustomResourceDefinition %q in this plugin; it has %s", name, enumerate(crdPlurals(all)))
		}
		if !slices.Contains(chosen, all[i]) {
			chosen = append(chosen, all[i])
		}
	}
	return chosen, nil
}

// crdPlurals returns the short names by which CustomResourceDefinitions may be chosen.
func crdPlurals(crds []*unstructured.Unstructured) []string {
	names := make([]string, 0, len(crds))
	for _, c := range crds {
		plural, _, _ := strings.Cut(c.GetName(), ".")
		names = append(names, plural)
	}
	return names
}

// completeCRDs completes the names of CustomResourceDefinitions.
func completeCRDs(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := builtinCRDs(nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(crdPlurals(all), func(n string) bool { return slices.Contains(args, n) }), cobra.ShellCompDirectiveNoFileComp
}

// crdClient returns a client for CustomResourceDefinitions, and one for everything.
func crdClient(f *Factory) (dynamic.ResourceInterface, dynamic.Interface, error) {
	c, err := f.Dynamic()
	if err != nil {
		return nil, nil, err
	}
	return c.Resource(crdResource), c, nil
}

// getCRD reads a CustomResourceDefinition, nil where there is none.
func getCRD(ctx context.Context, c dynamic.ResourceInterface, name string) (*unstructured.Unstructured, error) {
	obj, err := c.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(err, "read %s", crdName(name))
	}
	return obj, nil
}

// crdName is kubectl's name of a CustomResourceDefinition.
func crdName(name string) string { return "customresourcedefinition.apiextensions.k8s.io/" + name }

// crdCondition returns the status and message of a condition of a CustomResourceDefinition, empty where there is none.
func crdCondition(obj *unstructured.Unstructured, typ string) (status, message string) {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == typ {
			status, _, _ = unstructured.NestedString(m, "status")
			message, _, _ = unstructured.NestedString(m, "message")
		}
	}
	return status, message
}

// crdObjects returns the resource that a CustomResourceDefinition's objects are read and written as: the first version
// that is served.
func crdObjects(obj *unstructured.Unstructured) schema.GroupVersionResource {
	gvr := schema.GroupVersionResource{}
	gvr.Group, _, _ = unstructured.NestedString(obj.Object, "spec", "group")
	gvr.Resource, _, _ = unstructured.NestedString(obj.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(obj.Object, "spec", "versions")
	for _, v := range versions {
		m, ok := v.(map[string]any)
		if served, _ := m["served"].(bool); ok && served {
			gvr.Version, _ = m["name"].(string)
			break
		}
	}
	return gvr
}

// crdPollInterval is how often it is looked whether a CustomResourceDefinition is there, or gone.
const crdPollInterval = 100 * time.Millisecond

// errTimedOut is returned by poll when the time is up.
var errTimedOut = errors.New("timed out")

// poll waits until done, and returns errTimedOut if that takes too long: also when it is a request that says so, in
// whatever words.
func poll(ctx context.Context, timeout time.Duration, done func(context.Context) (bool, error)) error {
	deadline := time.Now().Add(timeout)
	limited, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	err := wait.PollUntilContextCancel(limited, crdPollInterval, true, done)
	if err != nil && ctx.Err() == nil && !time.Now().Before(deadline) {
		return errTimedOut
	}
	return err
}
