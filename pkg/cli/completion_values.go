package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// completionTimeout is how long a person who has pressed Tab is kept waiting.
const completionTimeout = 2 * time.Second

// mustComplete sets how a flag's value is completed. It panics on a flag that is not there, which is a mistake in the code.
func mustComplete(cmd *cobra.Command, flag string, fn cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, fn); err != nil {
		panic(err)
	}
}

// completeConfigFlags sets how kubectl's flags for reaching a cluster are completed.
func completeConfigFlags(cmd *cobra.Command, f *Factory) {
	kubeconfig := func(names func(clientcmdapi.Config) []string) cobra.CompletionFunc {
		return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			cfg, err := f.Config.ToRawKubeConfigLoader().RawConfig()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(cfg), cobra.ShellCompDirectiveNoFileComp
		}
	}
	mustComplete(cmd, "context", kubeconfig(func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Contexts)) }))
	mustComplete(cmd, "cluster", kubeconfig(func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Clusters)) }))
	mustComplete(cmd, "user", kubeconfig(func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.AuthInfos)) }))
	mustComplete(cmd, "namespace", func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var names []string
		for _, ns := range listForCompletion(cmd, f, "", schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})[0] {
			names = append(names, ns.GetName())
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}

// validClusterArgs completes arguments that name clusters: by their names, or after etcd/ and sts/ by those of that kind.
func validClusterArgs(f *Factory) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		namespace, err := f.Namespace()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		prefix, only := "", model.Kind("")
		if typ, _, ok := strings.Cut(toComplete, "/"); ok {
			if only = clusterKinds[strings.ToLower(typ)]; only == "" {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			prefix = typ + "/"
		}
		lists := listForCompletion(cmd, f, namespace, v1alpha1.EtcdMemberResource, etcdResource, statefulSetResource)
		var names []string
		add := func(kind model.Kind, name string) {
			if n := prefix + name; name != "" && (only == "" || only == kind) && !slices.Contains(names, n) && !slices.Contains(args, n) {
				names = append(names, n)
			}
		}
		for _, m := range lists[0] {
			kind, _, _ := unstructured.NestedString(m.Object, "spec", "clusterRef", "kind")
			name, _, _ := unstructured.NestedString(m.Object, "spec", "clusterRef", "name")
			add(model.Kind(kind), name)
		}
		for _, e := range lists[1] {
			add(model.KindEtcd, e.GetName())
		}
		for _, s := range lists[2] {
			set := &appsv1.StatefulSet{}
			if runtime.DefaultUnstructuredConverter.FromUnstructured(s.Object, set) == nil && looksLikeEtcd(set.Spec.Template.Spec) {
				add(model.KindStatefulSet, s.GetName())
			}
		}
		slices.SortFunc(names, model.CompareNatural)
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// listForCompletion lists resources at the same time, and has nothing to say where one can't be listed in time: a person
// in the middle of a command line can't use an error.
func listForCompletion(cmd *cobra.Command, f *Factory, namespace string, resources ...schema.GroupVersionResource) [][]unstructured.Unstructured {
	lists := make([][]unstructured.Unstructured, len(resources))
	cfg, err := f.RESTConfig()
	if err != nil {
		return lists
	}
	cfg.WarningHandler = rest.NoWarnings{}
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return lists
	}
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completionTimeout)
	defer cancel()
	type found struct {
		i     int
		items []unstructured.Unstructured
	}
	results := make(chan found, len(resources))
	for i, r := range resources {
		go func() {
			list, err := c.Resource(r).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 500})
			if err != nil {
				results <- found{i: i}
				return
			}
			results <- found{i, list.Items}
		}()
	}
	for range resources {
		r := <-results
		lists[r.i] = r.items
	}
	return lists
}
