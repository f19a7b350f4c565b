package cli

import (
	"fmt"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"

	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// clusterKinds are the ways in which a cluster's kind may be written before the slash, in lower case: kubectl's resource,
// kind and short names, with or without group and version.
var clusterKinds = map[string]model.Kind{
	"etcd":                                model.KindEtcd,
	"etcds":                               model.KindEtcd,
	"etcd.druid.gardener.cloud":           model.KindEtcd,
	"etcds.druid.gardener.cloud":          model.KindEtcd,
	"etcd.v1alpha1.druid.gardener.cloud":  model.KindEtcd,
	"etcds.v1alpha1.druid.gardener.cloud": model.KindEtcd,
	"sts":                                 model.KindStatefulSet,
	"statefulset":                         model.KindStatefulSet,
	"statefulsets":                        model.KindStatefulSet,
	"statefulset.apps":                    model.KindStatefulSet,
	"statefulsets.apps":                   model.KindStatefulSet,
	"statefulset.v1.apps":                 model.KindStatefulSet,
	"statefulsets.v1.apps":                model.KindStatefulSet,
}

// parseClusterArg reads an argument that names a cluster: a name alone, or a kind, a slash and a name, as kubectl has it.
// The kind is empty where the argument does not tell.
func parseClusterArg(arg string) (kind model.Kind, name string, err error) {
	typ, name, hasKind := strings.Cut(arg, "/")
	if !hasKind {
		name = arg
	} else if kind = clusterKinds[strings.ToLower(typ)]; kind == "" {
		return "", "", fmt.Errorf("%q does not name a cluster: there is no kind of cluster %q; write NAME, etcd/NAME or sts/NAME", arg, typ)
	}
	if name == "" {
		return "", "", fmt.Errorf("%q does not name a cluster: the name is missing; write NAME, etcd/NAME or sts/NAME", arg)
	}
	if problems := apivalidation.NameIsDNSSubdomain(name, false); len(problems) > 0 {
		return "", "", fmt.Errorf("%q does not name a cluster: %s", arg, strings.Join(problems, ", "))
	}
	return kind, name, nil
}
