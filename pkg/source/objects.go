package source

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// Group, version and kind of what is read here.
const (
	groupDruid        = "druid.gardener.cloud"
	groupApps         = "apps"
	groupCoordination = "coordination.k8s.io"

	kindEtcdMember = "EtcdMember"
)

// objectMeta is what is read of any object's metadata.
type objectMeta struct {
	Name              lax[string]            `json:"name"`
	Namespace         lax[string]            `json:"namespace"`
	UID               lax[string]            `json:"uid"`
	ResourceVersion   lax[string]            `json:"resourceVersion"`
	Labels            lax[map[string]string] `json:"labels"`
	Annotations       lax[map[string]string] `json:"annotations"`
	Generation        lax[number]            `json:"generation"`
	CreationTimestamp lax[instant]           `json:"creationTimestamp"`
	DeletionTimestamp lax[instant]           `json:"deletionTimestamp"`
	OwnerReferences   lax[[]ownerReference]  `json:"ownerReferences"`
}

type ownerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller"`
}

// key is how objects of one kind are told apart.
func (m objectMeta) key() string { return m.Namespace.Value + "/" + m.Name.Value }

// controller is the owner that manages the object. The zero value: it has none.
func (m objectMeta) controller() ownerReference {
	for _, o := range m.OwnerReferences.Value {
		if o.Controller {
			return o
		}
	}
	return ownerReference{}
}

// typeMeta is an object's type.
type typeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func (t typeMeta) group() string {
	if group, _, ok := strings.Cut(t.APIVersion, "/"); ok {
		return group
	}
	return ""
}

type memberObject struct {
	Metadata objectMeta `json:"metadata"`
	Spec     lax[struct {
		ClusterRef lax[typedReference] `json:"clusterRef"`
		PodName    lax[string]         `json:"podName"`
	}] `json:"spec"`
	Status lax[memberStatus] `json:"status"`
}

type typedReference struct {
	Kind lax[string] `json:"kind"`
	Name lax[string] `json:"name"`
}

type memberStatus struct {
	Conditions     lax[[]lax[condition]] `json:"conditions"`
	ID             lax[etcdID]           `json:"id"`
	ClusterID      lax[etcdID]           `json:"clusterID"`
	State          lax[string]           `json:"state"`
	SubState       lax[string]           `json:"subState"`
	PeerTLSEnabled lax[bool]             `json:"peerTLSEnabled"`
	DBSize         lax[size]             `json:"dbSize"`
	DBSizeInUse    lax[size]             `json:"dbSizeInUse"`
	DBSizeQuota    lax[size]             `json:"dbSizeQuota"`
	Revision       lax[number]           `json:"revision"`
	Raft           lax[struct {
		Term         lax[number] `json:"term"`
		Index        lax[number] `json:"index"`
		AppliedIndex lax[number] `json:"appliedIndex"`
	}] `json:"raft"`
	Version lax[string]   `json:"version"`
	Alarms  lax[[]string] `json:"alarms"`
	Volume  lax[struct {
		Claim        lax[string] `json:"claim"`
		ClaimUID     lax[string] `json:"claimUID"`
		Volume       lax[string] `json:"volume"`
		VolumeHandle lax[string] `json:"volumeHandle"`
		StorageClass lax[string] `json:"storageClass"`
		Capacity     lax[size]   `json:"capacity"`
		Available    lax[size]   `json:"available"`
	}] `json:"volume"`
	VolumeMismatches lax[[]lax[struct {
		VolumeID lax[string]  `json:"volumeID"`
		FixedAt  lax[instant] `json:"fixedAt"`
	}]] `json:"volumeMismatches"`
	Transitions lax[[]lax[struct {
		State          lax[string]  `json:"state"`
		SubState       lax[string]  `json:"subState"`
		Reason         lax[string]  `json:"reason"`
		Message        lax[string]  `json:"message"`
		TransitionTime lax[instant] `json:"transitionTime"`
	}]] `json:"transitions"`
	Snapshots lax[struct {
		LastFull  lax[snapshotObject] `json:"lastFull"`
		LastDelta lax[snapshotObject] `json:"lastDelta"`
	}] `json:"snapshots"`
	PublishedAt lax[instant] `json:"publishedAt"`
	PublishedBy lax[struct {
		Type lax[string] `json:"type"`
	}] `json:"publishedBy"`
}

type condition struct {
	Type               string       `json:"type"`
	Status             string       `json:"status"`
	Reason             lax[string]  `json:"reason"`
	Message            lax[string]  `json:"message"`
	LastTransitionTime lax[instant] `json:"lastTransitionTime"`
	LastUpdateTime     lax[instant] `json:"lastUpdateTime"`
	LastHeartbeatTime  lax[instant] `json:"lastHeartbeatTime"`
}

// snapshotObject is a snapshot in an EtcdMember's status.
type snapshotObject struct {
	Timestamp lax[instant] `json:"timestamp"`
}

// model makes a condition one of the model's.
func (c condition) model() model.Condition {
	return model.Condition{
		Type: c.Type, Status: c.Status, Reason: c.Reason.Value, Message: c.Message.Value,
		Since: time.Time(c.LastTransitionTime.Value),
	}
}

// nodeObject is read for the times in it alone: a node's heartbeat says when a dump was taken.
type nodeObject struct {
	Metadata objectMeta `json:"metadata"`
	Status   lax[struct {
		Conditions lax[[]lax[condition]] `json:"conditions"`
	}] `json:"status"`
}

// addJSON adds one object, or a list of objects. from says where it comes from, for error messages. Objects of kinds that
// have nothing to do with etcd members are passed over.
func (s *Set) addJSON(raw []byte, from string) error {
	var head struct {
		typeMeta
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return fmt.Errorf("%s is not an object of Kubernetes: %w", from, err)
	}
	if itemKind, isList := strings.CutSuffix(head.Kind, "List"); isList && head.Items != nil {
		for i, item := range head.Items {
			// Items of a typed list need not repeat their type; those of kind List do.
			var t typeMeta
			where := fmt.Sprintf("%s, item %d", from, i+1)
			if err := json.Unmarshal(item, &t); err != nil {
				s.problem(where, fmt.Errorf("not an object of Kubernetes: %w", err))
				continue
			}
			if t.Kind == "" {
				t = typeMeta{APIVersion: head.APIVersion, Kind: itemKind}
			}
			if strings.HasSuffix(t.Kind, "List") {
				if err := s.addJSON(item, where); err != nil {
					s.problem(where, err)
				}
				continue
			}
			s.addObject(t, item, where)
		}
		return nil
	}
	if head.Kind == "" {
		return fmt.Errorf("%s is not an object of Kubernetes: it has no kind", from)
	}
	s.addObject(head.typeMeta, raw, from)
	return nil
}

func (s *Set) addObject(t typeMeta, raw []byte, from string) {
	switch group := t.group(); {
	case t.Kind == kindEtcdMember && group == groupDruid:
		add(s, &s.members, raw, from)
	case t.Kind == "Lease" && group == groupCoordination:
		add(s, &s.leases, raw, from)
	case t.Kind == "StatefulSet" && group == groupApps:
		add(s, &s.statefulSets, raw, from)
	case t.Kind == "Etcd" && group == groupDruid:
		add(s, &s.etcds, raw, from)
	case t.Kind == "EtcdOpsTask" && group == groupDruid:
		add(s, &s.tasks, raw, from)
	case t.Kind == "Pod" && t.APIVersion == "v1":
		add(s, &s.pods, raw, from)
	case t.Kind == "PersistentVolumeClaim" && t.APIVersion == "v1":
		add(s, &s.claims, raw, from)
	case t.Kind == "PersistentVolume" && t.APIVersion == "v1":
		add(s, &s.volumes, raw, from)
	case t.Kind == "Node" && t.APIVersion == "v1":
		add(s, &s.nodes, raw, from)
	}
}

func add[T any](s *Set, to *[]T, raw []byte, from string) {
	var o T
	if err := json.Unmarshal(raw, &o); err != nil {
		s.problem(from, fmt.Errorf("can't be read: %w", err))
		return
	}
	*to = append(*to, o)
}

// times are the past-tense times in a list of conditions.
func times(cs lax[[]lax[condition]]) []time.Time {
	var ts []time.Time
	for _, c := range cs.Value {
		for _, t := range []lax[instant]{c.Value.LastUpdateTime, c.Value.LastHeartbeatTime} {
			if t.OK {
				ts = append(ts, time.Time(t.Value))
			}
		}
	}
	return ts
}
