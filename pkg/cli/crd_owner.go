package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// schemaVersionAnnotation marks a CustomResourceDefinition as ours, however it was installed, and counts the versions of
// its schema. The types' markers set it.
const schemaVersionAnnotation = "etcdmember.github.io/schema-version"

// crdState is whose a CustomResourceDefinition in a cluster is.
type crdState int

const (
	// crdAbsent: there is none.
	crdAbsent crdState = iota
	// crdOurs: this plugin made it, or someone who applied the file that it prints.
	crdOurs
	// crdTakenOver: it was ours, and someone else has since written its versions.
	crdTakenOver
	// crdForeign: it does not carry our annotation.
	crdForeign
)

// crdOwner is what a CustomResourceDefinition in a cluster says of where it comes from.
type crdOwner struct {
	state crdState
	// version is the schema's version, 0 where it can't be read.
	version int
	// writers are the field managers that own its versions.
	writers []string
	// hints are its labels and annotations that tell where it comes from.
	hints []string
}

// originKeys are labels and annotations by which tools mark what they have made.
var originKeys = []string{
	"app.kubernetes.io/managed-by", "app.kubernetes.io/part-of", "app.kubernetes.io/name", "helm.sh/chart",
	"meta.helm.sh/release-name", "meta.helm.sh/release-namespace", "kustomize.toolkit.fluxcd.io/name",
	"argocd.argoproj.io/tracking-id", "resources.gardener.cloud/managed-by", "resources.gardener.cloud/origin", "olm.managed",
}

// ownerOf finds out whose a CustomResourceDefinition is. Our annotation alone does not make it ours: it survives when
// another project's tool patches its own schema over ours. So whoever owns the versions must also own the annotation.
func ownerOf(obj *unstructured.Unstructured) crdOwner {
	if obj == nil {
		return crdOwner{state: crdAbsent}
	}
	o := crdOwner{}
	var stampers []string
	for _, entry := range obj.GetManagedFields() {
		if entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Spec     map[string]json.RawMessage `json:"f:spec"`
			Metadata struct {
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, ok := fields.Spec["f:versions"]; ok && !slices.Contains(o.writers, entry.Manager) {
			o.writers = append(o.writers, entry.Manager)
		}
		if _, ok := fields.Metadata.Annotations["f:"+schemaVersionAnnotation]; ok {
			stampers = append(stampers, entry.Manager)
		}
	}
	for _, key := range originKeys {
		for what, values := range map[string]map[string]string{"label": obj.GetLabels(), "annotation": obj.GetAnnotations()} {
			if v, ok := values[key]; ok {
				o.hints = append(o.hints, fmt.Sprintf("%s %s=%s", what, key, v))
			}
		}
	}
	stamp, stamped := obj.GetAnnotations()[schemaVersionAnnotation]
	switch {
	case !stamped:
		o.state = crdForeign
	case len(o.writers) > 0 && !slices.ContainsFunc(o.writers, func(w string) bool { return slices.Contains(stampers, w) }):
		o.state = crdTakenOver
	default:
		o.state = crdOurs
	}
	if v, err := strconv.Atoi(stamp); err == nil && v > 0 {
		o.version = v
	}
	return o
}

// origin says who made a CustomResourceDefinition, as far as it tells.
func (o crdOwner) origin() string {
	var parts []string
	if len(o.writers) > 0 {
		parts = append(parts, "its versions were written by "+enumerate(o.writers))
	}
	if len(o.hints) > 0 {
		parts = append(parts, "it has "+enumerate(o.hints))
	}
	if len(parts) == 0 {
		return "it does not say whose it is"
	}
	return strings.Join(parts, ", and ")
}

// schemaVersion is the version of the schema of a CustomResourceDefinition, for people.
func (o crdOwner) schemaVersion() string {
	if o.version == 0 {
		return "an unknown schema version"
	}
	return fmt.Sprintf("schema version %d", o.version)
}
