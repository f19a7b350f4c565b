package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ruleCase is how a rule of a schema is tried: on an example, merged with YAML in which null takes a field away.
type ruleCase struct {
	// example is a file in testdata/api, without what its extension and directory are.
	example string
	// old is what an object is created with before it is updated. Empty: the rule is tried by creating objects.
	old string
	// accepted and refused are what the object becomes, or is created with.
	accepted, refused []string
	// status says that the status is updated, not the rest.
	status bool
	// replace says that the status is not merged but replaced.
	replace bool
}

// ruleCases have each rule of each schema, by the kind, the field that it stands at, and its message.
var ruleCases = map[string]ruleCase{
	"EtcdMember : metadata.name must be no longer than 63 characters: it is a pod's name and the value of a label": {
		example: "etcdmember-stepdown",
		accepted: []string{
			"{metadata: {name: " + strings.Repeat("p", 56) + "-main-0}}",
			"{metadata: {name: " + strings.Repeat("p", 63) + "}, spec: {podName: " + strings.Repeat("p", 63) + "}}",
		},
		refused: []string{"{metadata: {name: " + strings.Repeat("p", 57) + "-main-0}}"},
	},
	"EtcdMember : metadata.name must be spec.podName, or a member name prefix, a hyphen and spec.podName": {
		example:  "etcdmember-stepdown",
		accepted: []string{"{metadata: {name: main-0}}", "{metadata: {name: a-b-main-0}}"},
		refused:  []string{"{metadata: {name: main-1}}", "{metadata: {name: eastmain-0}}", "{metadata: {name: main-0-east}}"},
	},
	"EtcdMember : spec.action may be replaced only after it has finished, see status.action; remove it first to withdraw it": {
		example:  "etcdmember-stepdown",
		old:      "{status: {action: {id: a, type: StepDown, state: InProgress}}}",
		accepted: []string{"{spec: {action: null}}", "{}"},
		refused:  []string{"{spec: {action: {id: b}}}"},
	},
	"EtcdMember spec: bootstrap may be added or removed, not changed: a permit is for one founding of one cluster": {
		example:  "etcdmember-archive",
		old:      "{}",
		accepted: []string{"{spec: {bootstrap: null}}", "{}"},
		refused:  []string{"{spec: {bootstrap: {permit: another}}}", "{spec: {bootstrap: {initialCluster: [main-0]}}}"},
	},
	"EtcdMember spec.action: archive must be set if, and only if, type is Archive": {
		example:  "etcdmember-archive",
		accepted: []string{"{}", "{spec: {action: {type: Hold, archive: null}}}"},
		refused:  []string{"{spec: {action: {archive: null}}}", "{spec: {action: {type: Verify}}}"},
	},
	"EtcdMember spec.action: stepDown may be set only if type is StepDown": {
		example:  "etcdmember-stepdown",
		accepted: []string{"{}", "{spec: {action: {stepDown: null}}}"},
		refused:  []string{"{spec: {action: {type: Defragment}}}"},
	},
	"EtcdMember spec.action: an action is immutable: ask for another one under a new id": {
		example:  "etcdmember-stepdown",
		old:      "{status: {action: {id: a, type: StepDown, state: Succeeded}}}",
		accepted: []string{"{spec: {action: {id: b, type: Hold, stepDown: null}}}"},
		refused:  []string{"{spec: {action: {stepDown: {to: east-main-2}}}}", "{spec: {action: {notAfter: \"2026-12-02T00:00:00Z\"}}}"},
	},
	"EtcdMember spec.action.archive: storeName must be set if, and only if, mode is Store": {
		example:  "etcdmember-archive",
		accepted: []string{"{}", "{spec: {action: {archive: {mode: KeepAside, storeName: null}}}}"},
		refused:  []string{"{spec: {action: {archive: {mode: KeepAside}}}}", "{spec: {action: {archive: {storeName: null}}}}"},
	},
	"EtcdMember spec.clusterRef: clusterRef is immutable: a member does not change its cluster": {
		example:  "etcdmember-stepdown",
		old:      "{}",
		accepted: []string{"{}"},
		refused:  []string{"{spec: {clusterRef: {name: events}}}", "{spec: {clusterRef: {kind: StatefulSet}}}"},
	},
	"EtcdMember spec.podName: podName is immutable: it is the identity that may publish the member's status": {
		example:  "etcdmember-stepdown",
		old:      "{metadata: {name: a-b-0}, spec: {podName: b-0}}",
		accepted: []string{"{metadata: {name: a-b-0}, spec: {podName: b-0}}"},
		refused:  []string{"{metadata: {name: a-b-0}, spec: {podName: a-b-0}}"},
	},

	"EtcdMemberTask : a finished task stays as it ended": {
		example: "etcdmembertask-snapshot", status: true, replace: true,
		old:      "{status: {phase: Failed, reason: a}}",
		accepted: []string{"{status: {phase: Failed, reason: b}}"},
		refused:  []string{"{status: {phase: Running}}", "{status: {phase: Succeeded}}", "{status: {reason: a}}", "{status: null}"},
	},
	"EtcdMemberTask spec: spec is immutable but for desired: create another task": {
		example:  "etcdmembertask-rollvolumes",
		old:      "{}",
		accepted: []string{"{spec: {desired: Paused}}", "{spec: {desired: Aborted}}"},
		refused: []string{
			"{spec: {clusterRef: {name: events}}}", "{spec: {members: [{name: main-0, uid: another}]}}", "{spec: {members: [{name: main-1, uid: a}]}}",
			"{spec: {config: {rollVolumes: {size: 20Gi}}}}", "{spec: {config: {rollVolumes: null, rollPods: {}}}}",
			"{spec: {notAfter: \"2026-12-03T00:00:00Z\"}}", "{spec: {notAfter: null}}",
			"{spec: {progressDeadline: 1h}}", "{spec: {progressDeadline: 31m}}", "{spec: {ttlAfterFinished: 1h}}",
			"{spec: {allowDowntime: false}}", "{spec: {allowDowntime: null}}",
		},
	},
	"EtcdMemberTask spec.desired: an aborted task can't be resumed: create another one": {
		example:  "etcdmembertask-snapshot",
		old:      "{spec: {desired: Aborted}}",
		accepted: []string{"{spec: {desired: Aborted}}"},
		refused:  []string{"{spec: {desired: Run}}", "{spec: {desired: Paused}}", "{spec: {desired: null}}"},
	},
	"EtcdMemberTask spec.progressDeadline: progressDeadline must be at least 10s": {
		example:  "etcdmembertask-snapshot",
		accepted: []string{"{spec: {progressDeadline: 10s}}", "{}"},
		refused:  []string{"{spec: {progressDeadline: 9s}}", "{spec: {progressDeadline: -1h}}"},
	},
	"EtcdMemberTask spec.ttlAfterFinished: ttlAfterFinished must not be negative": {
		example:  "etcdmembertask-snapshot",
		accepted: []string{"{spec: {ttlAfterFinished: 0s}}", "{}"},
		refused:  []string{"{spec: {ttlAfterFinished: -1s}}"},
	},
	"EtcdMemberTask spec.config.archive: storeName must be set if, and only if, mode is Store": {
		example:  "etcdmembertask-archive",
		accepted: []string{"{}", "{spec: {config: {archive: {mode: KeepAside, storeName: null}}}}"},
		refused:  []string{"{spec: {config: {archive: {mode: RetainVolume}}}}", "{spec: {config: {archive: {storeName: null}}}}"},
	},
	"EtcdMemberTask spec.config.archive: volumeSnapshotClassName may be set only if mode is VolumeSnapshot": {
		example:  "etcdmembertask-archive-snapshot",
		accepted: []string{"{}", "{spec: {config: {archive: {volumeSnapshotClassName: null}}}}"},
		refused:  []string{"{spec: {config: {archive: {mode: KeepAside}}}}"},
	},
	"EtcdMemberTask spec.config.restore: archiveName must be set if, and only if, source is Archive": {
		example:  "etcdmembertask-restore",
		accepted: []string{"{}", "{spec: {config: {restore: {source: Survivor, archiveName: null}}}}"},
		refused:  []string{"{spec: {config: {restore: {archiveName: null}}}}", "{spec: {config: {restore: {source: Backup}}}}"},
	},
	"EtcdMemberTask spec.config.restore.archive: storeName must be set if, and only if, mode is Store": {
		example:  "etcdmembertask-restore",
		accepted: []string{"{}", "{spec: {config: {restore: {archive: {mode: KeepAside, storeName: null}}}}}"},
		refused:  []string{"{spec: {config: {restore: {archive: {mode: KeepAside}}}}}", "{spec: {config: {restore: {archive: {storeName: null}}}}}"},
	},
	"EtcdMemberTask spec.config.restore.archive: volumeSnapshotClassName may be set only if mode is VolumeSnapshot": {
		example:  "etcdmembertask-restore-snapshot",
		accepted: []string{"{}", "{spec: {config: {restore: {archive: {volumeSnapshotClassName: null}}}}}"},
		refused:  []string{"{spec: {config: {restore: {archive: {mode: RetainVolume}}}}}"},
	},
	"EtcdMemberTask spec.config.rollPods.soak: soak must be between 0s and 24h": {
		example:  "etcdmembertask-rollpods",
		accepted: []string{"{spec: {config: {rollPods: {soak: 0s}}}}", "{spec: {config: {rollPods: {soak: 24h}}}}", "{spec: {config: {rollPods: {soak: null}}}}"},
		refused:  []string{"{spec: {config: {rollPods: {soak: -1s}}}}", "{spec: {config: {rollPods: {soak: 24h1s}}}}"},
	},
	"EtcdMemberTask spec.config.rollVolumes: at least one of storageClassName, size, volumeAttributesClassName or renew must be given: there is nothing to change": {
		example: "etcdmembertask-rollvolumes-store",
		accepted: []string{
			"{spec: {config: {rollVolumes: {renew: true}}}}", "{spec: {config: {rollVolumes: {renew: null, size: 1Gi}}}}",
			"{spec: {config: {rollVolumes: {renew: null, storageClassName: fast}}}}", "{spec: {config: {rollVolumes: {renew: false, volumeAttributesClassName: gold}}}}",
		},
		refused: []string{"{spec: {config: {rollVolumes: {renew: null}}}}", "{spec: {config: {rollVolumes: {renew: false}}}}"},
	},
	"EtcdMemberTask spec.config.rollVolumes.archive: storeName must be set if, and only if, mode is Store": {
		example:  "etcdmembertask-rollvolumes-store",
		accepted: []string{"{}", "{spec: {config: {rollVolumes: {archive: {mode: RetainVolume, storeName: null}}}}}"},
		refused:  []string{"{spec: {config: {rollVolumes: {archive: {mode: RetainVolume}}}}}", "{spec: {config: {rollVolumes: {archive: {storeName: null}}}}}"},
	},
	"EtcdMemberTask spec.config.rollVolumes.archive: volumeSnapshotClassName may be set only if mode is VolumeSnapshot": {
		example:  "etcdmembertask-rollvolumes",
		accepted: []string{"{}", "{spec: {config: {rollVolumes: {archive: {volumeSnapshotClassName: null}}}}}"},
		refused:  []string{"{spec: {config: {rollVolumes: {archive: {mode: KeepAside}}}}}"},
	},
	"EtcdMemberTask spec.config.rollVolumes.soak: soak must be between 0s and 24h": {
		example:  "etcdmembertask-rollvolumes",
		accepted: []string{"{spec: {config: {rollVolumes: {soak: 0s}}}}", "{spec: {config: {rollVolumes: {soak: 24h}}}}"},
		refused:  []string{"{spec: {config: {rollVolumes: {soak: -1s}}}}", "{spec: {config: {rollVolumes: {soak: 24h1s}}}}"},
	},
}

// rules are all rules of a schema: the field that each stands at, and its message.
func rules(node *apiextensionsv1.JSONSchemaProps, path string) []string {
	var out []string
	for _, r := range node.XValidations {
		out = append(out, path+": "+r.Message)
	}
	for _, name := range slices.Sorted(maps.Keys(node.Properties)) {
		p := node.Properties[name]
		out = append(out, rules(&p, strings.TrimPrefix(path+"."+name, "."))...)
	}
	if node.Items != nil {
		out = append(out, rules(node.Items.Schema, path+"[]")...)
	}
	return out
}

// TestAPIRules tries each CEL rule on the API server, which has also taken what the rules cost it, and wants the rule's own
// message, at the field that it is about, and no other. It fails on a rule of which there is no case, and on a case of
// which there is no rule.
func TestAPIRules(t *testing.T) {
	s := startAPIServer(t)
	if r := s.plugin(t, "crd", "install"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	var all []string
	for kind := range kinds {
		for _, r := range rules(schemaOf(t, kind), "") {
			all = append(all, kind+" "+r)
		}
	}
	slices.Sort(all)
	for _, r := range all {
		if _, ok := ruleCases[r]; !ok {
			t.Errorf("no case of the rule %q", r)
		}
	}
	for n, r := range slices.Sorted(maps.Keys(ruleCases)) {
		if !slices.Contains(all, r) {
			t.Errorf("no rule of the case %q", r)
			continue
		}
		c := ruleCases[r]
		t.Run(r, func(t *testing.T) { s.tryRule(t, s.namespace(t, fmt.Sprintf("rule-%d", n)), r, c) })
	}
}

func (s *apiServer) tryRule(t *testing.T, namespace, rule string, c ruleCase) {
	if len(c.accepted) == 0 || len(c.refused) == 0 {
		t.Fatal("a case needs something that is accepted and something that is refused")
	}
	data, err := os.ReadFile("testdata/api/" + c.example + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	kind, rest, _ := strings.Cut(rule, " ")
	field, message, _ := strings.Cut(rest, ": ")
	if field == "" {
		field = "<nil>"
	}
	resource := s.dynamic.Resource(kinds[kind].resource).Namespace(namespace)
	attempt := func(change string) error {
		obj := parse(t, string(data))
		merge(obj.Object, parse(t, change).Object)
		_, err := resource.Create(t.Context(), obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	if c.old != "" {
		old := parse(t, string(data))
		delete(old.Object, "status")
		merge(old.Object, parse(t, c.old).Object)
		there, err := resource.Create(t.Context(), old, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if status := old.Object["status"]; status != nil {
			there.Object["status"] = status
			if there, err = resource.UpdateStatus(t.Context(), there, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		attempt = func(change string) error {
			obj := there.DeepCopy()
			if c.replace {
				delete(obj.Object, "status")
			}
			merge(obj.Object, parse(t, change).Object)
			update := resource.Update
			if c.status {
				update = func(ctx context.Context, obj *unstructured.Unstructured, opts metav1.UpdateOptions, _ ...string) (*unstructured.Unstructured, error) {
					return resource.UpdateStatus(ctx, obj, opts)
				}
			}
			_, err := update(t.Context(), obj, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
	}
	for _, change := range c.accepted {
		if err := attempt(change); err != nil {
			t.Errorf("%s is refused: %v", change, err)
		}
	}
	for _, change := range c.refused {
		err := attempt(change)
		if err == nil {
			t.Errorf("%s is accepted", change)
			continue
		}
		hit := false
		for _, cause := range causesOf(t, err) {
			if cause.Field == field && strings.HasSuffix(cause.Message, ": "+message) {
				hit = true
			} else {
				t.Errorf("%s is refused for another reason, too: %s: %s", change, cause.Field, cause.Message)
			}
		}
		if !hit {
			t.Errorf("%s is not refused by the rule but with: %v", change, err)
		}
	}
}

// merge puts a JSON merge patch into an object.
func merge(dst, patch map[string]any) {
	for k, v := range patch {
		m, isMap := v.(map[string]any)
		d, hasMap := dst[k].(map[string]any)
		switch {
		case v == nil:
			delete(dst, k)
		case isMap && hasMap:
			merge(d, m)
		default:
			dst[k] = v
		}
	}
}
