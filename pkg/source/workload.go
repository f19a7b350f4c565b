package source

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// etcdObject is druid's Etcd. Field names are those of its api/core/v1alpha1.
type etcdObject struct {
	Metadata objectMeta `json:"metadata"`
	Spec     lax[struct {
		Replicas            lax[number] `json:"replicas"`
		MemberNamePrefix    lax[string] `json:"memberNamePrefix"`
		VolumeClaimTemplate lax[string] `json:"volumeClaimTemplate"`
		StorageClass        lax[string] `json:"storageClass"`
		StorageCapacity     lax[size]   `json:"storageCapacity"`
		Etcd                lax[struct {
			Quota        lax[size]   `json:"quota"`
			ClientPort   lax[number] `json:"clientPort"`
			ClientURLTLS lax[struct {
				CA     lax[secretReference] `json:"tlsCASecretRef"`
				Client lax[secretReference] `json:"clientTLSSecretRef"`
			}] `json:"clientUrlTls"`
			PeerURLTLS lax[json.RawMessage] `json:"peerUrlTls"`
		}] `json:"etcd"`
		Backup lax[struct {
			Store        lax[json.RawMessage] `json:"store"`
			FullSchedule lax[string]          `json:"fullSnapshotSchedule"`
			DeltaPeriod  lax[string]          `json:"deltaSnapshotPeriod"`
		}] `json:"backup"`
	}] `json:"spec"`
	Status lax[struct {
		Conditions         lax[[]lax[condition]] `json:"conditions"`
		ObservedGeneration lax[number]           `json:"observedGeneration"`
		Members            lax[[]lax[struct {
			Name               lax[string]  `json:"name"`
			ID                 lax[etcdID]  `json:"id"`
			Role               lax[string]  `json:"role"`
			Status             lax[string]  `json:"status"`
			Reason             lax[string]  `json:"reason"`
			LastTransitionTime lax[instant] `json:"lastTransitionTime"`
		}]] `json:"members"`
		LastOperation lax[struct {
			Type           lax[string]  `json:"type"`
			State          lax[string]  `json:"state"`
			Description    lax[string]  `json:"description"`
			LastUpdateTime lax[instant] `json:"lastUpdateTime"`
		}] `json:"lastOperation"`
		LastErrors lax[[]lax[struct {
			Code        lax[string]  `json:"code"`
			Description lax[string]  `json:"description"`
			ObservedAt  lax[instant] `json:"observedAt"`
		}]] `json:"lastErrors"`
		Selector lax[string] `json:"selector"`
	}] `json:"status"`
}

type secretReference struct {
	Name    string `json:"name"`
	DataKey string `json:"dataKey"`
}

// Annotations of druid's, on an Etcd and on a member's Lease (api/core/v1alpha1/constants.go, and br's pkg/health/heartbeat).
const (
	annotationSuspend     = "druid.gardener.cloud/suspend-etcd-spec-reconcile"
	annotationUnprotected = "druid.gardener.cloud/disable-etcd-component-protection"
	annotationOperation   = "druid.gardener.cloud/operation"
	annotationOperationV0 = "gardener.cloud/operation"
	annotationPeerTLS     = "member.etcd.gardener.cloud/tls-enabled"
)

// defaultQuota is what druid gives etcd where the Etcd names no quota.
const defaultQuota = 8 << 30

// defaultClientPort is etcd's.
const defaultClientPort = 2379

// etcd takes the facts out of an Etcd, but for its members.
func (o *etcdObject) etcd() model.Etcd {
	spec, st := o.Spec.Value, o.Status.Value
	has := func(annotation string) bool { _, ok := o.Metadata.Annotations.Value[annotation]; return ok }
	e := model.Etcd{
		UID:                o.Metadata.UID.Value,
		Generation:         int64(o.Metadata.Generation.Value),
		ObservedGeneration: int64(st.ObservedGeneration.Value),
		Suspended:          has(annotationSuspend),
		ProtectionDisabled: has(annotationUnprotected),
		ReconcileAsked:     has(annotationOperation) || has(annotationOperationV0),
		Deleting:           time.Time(o.Metadata.DeletionTimestamp.Value),
		LastOperation: model.Operation{
			Type: st.LastOperation.Value.Type.Value, State: st.LastOperation.Value.State.Value,
			Description: st.LastOperation.Value.Description.Value, Time: time.Time(st.LastOperation.Value.LastUpdateTime.Value),
		},
		StatusMembers: len(st.Members.Value),
		StorageClass:  spec.StorageClass.Value, StorageCapacity: int64(spec.StorageCapacity.Value),
	}
	for _, c := range st.Conditions.Value {
		if c.OK {
			e.Conditions = append(e.Conditions, c.Value.model())
		}
	}
	for _, l := range st.LastErrors.Value {
		if l.OK {
			e.LastErrors = append(e.LastErrors, model.Error{
				Code: l.Value.Code.Value, Description: l.Value.Description.Value, Time: time.Time(l.Value.ObservedAt.Value),
			})
		}
	}
	return e
}

// access is how clients reach an Etcd's members.
func (o *etcdObject) access() model.Access {
	e := o.Spec.Value.Etcd
	a := model.Access{Port: defaultClientPort, Service: o.Metadata.Name.Value + "-peer", TLSKnown: e.OK}
	if e.Value.ClientPort.OK {
		a.Port = int(e.Value.ClientPort.Value)
	}
	if tls := e.Value.ClientURLTLS; tls.OK {
		a.TLS = true
		a.CASecret, a.CAKey = tls.Value.CA.Value.Name, tls.Value.CA.Value.DataKey
		if a.CAKey == "" {
			a.CAKey = "ca.crt" // druid's default
		}
		a.ClientSecret = tls.Value.Client.Value.Name
	}
	return a
}

// peerTLS says whether peers are to use TLS.
func (o *etcdObject) peerTLS() model.Fact[bool] {
	if !o.Spec.Value.Etcd.OK {
		return model.Fact[bool]{}
	}
	return model.Known(o.Spec.Value.Etcd.Value.PeerURLTLS.OK, model.SourceWorkload, time.Time{})
}

// quota is the size at which members refuse writes.
func (o *etcdObject) quota() model.Fact[int64] {
	switch q := o.Spec.Value.Etcd.Value.Quota; {
	case q.OK:
		return model.Known(int64(q.Value), model.SourceWorkload, time.Time{})
	case q.Bad == "" && o.Spec.Value.Etcd.OK:
		return model.Known[int64](defaultQuota, model.SourceWorkload, time.Time{})
	default:
		return model.Fact[int64]{}
	}
}

// claimTemplate is the name of the template of the members' claims.
func (o *etcdObject) claimTemplate() string {
	if t := o.Spec.Value.VolumeClaimTemplate.Value; t != "" {
		return t
	}
	return o.Metadata.Name.Value
}

// backups says what backups are to be taken. Those that were are in the snapshot Leases.
func (o *etcdObject) backups() (model.Backups, bool) {
	b := o.Spec.Value.Backup.Value
	if !b.Store.OK {
		return model.Backups{}, false
	}
	backups := model.Backups{FullSchedule: b.FullSchedule.Value}
	if schedule, err := cron.ParseStandard(b.FullSchedule.Value); err == nil {
		// Schedules need not be even; the next two tell what is usual now.
		first := schedule.Next(time.Unix(0, 0).UTC())
		backups.FullInterval = schedule.Next(first).Sub(first)
	}
	if d, err := time.ParseDuration(b.DeltaPeriod.Value); err == nil && d > 0 {
		backups.DeltaPeriod = d
	}
	return backups, true
}

type statefulSetObject struct {
	Metadata objectMeta `json:"metadata"`
	Spec     lax[struct {
		Replicas lax[number] `json:"replicas"`
		Ordinals lax[struct {
			Start lax[number] `json:"start"`
		}] `json:"ordinals"`
		ServiceName         lax[string] `json:"serviceName"`
		PodManagementPolicy lax[string] `json:"podManagementPolicy"`
		UpdateStrategy      lax[struct {
			Type lax[string] `json:"type"`
		}] `json:"updateStrategy"`
		Selector lax[struct {
			MatchLabels lax[map[string]string] `json:"matchLabels"`
		}] `json:"selector"`
		Template lax[struct {
			Spec lax[podSpec] `json:"spec"`
		}] `json:"template"`
		VolumeClaimTemplates lax[[]claimTemplate] `json:"volumeClaimTemplates"`
	}] `json:"spec"`
	Status lax[struct {
		Conditions         lax[[]lax[condition]] `json:"conditions"`
		ObservedGeneration lax[number]           `json:"observedGeneration"`
		ReadyReplicas      lax[number]           `json:"readyReplicas"`
		CurrentRevision    lax[string]           `json:"currentRevision"`
		UpdateRevision     lax[string]           `json:"updateRevision"`
	}] `json:"status"`
}

type claimTemplate = lax[struct {
	Metadata objectMeta `json:"metadata"`
}]

func (o *statefulSetObject) set() model.StatefulSet {
	spec, st := o.Spec.Value, o.Status.Value
	replicas, _ := o.replicas()
	return model.StatefulSet{
		UID: o.Metadata.UID.Value, Replicas: replicas, ReadyReplicas: int(st.ReadyReplicas.Value),
		CurrentRevision: st.CurrentRevision.Value, UpdateRevision: st.UpdateRevision.Value,
		UpdateStrategy: spec.UpdateStrategy.Value.Type.Value, PodManagement: spec.PodManagementPolicy.Value,
		Generation: int64(o.Metadata.Generation.Value), ObservedGeneration: int64(st.ObservedGeneration.Value),
		Deleting: time.Time(o.Metadata.DeletionTimestamp.Value),
	}
}

// replicas is how many pods are wanted. Absent is one, as the API has it; what can't be understood is not known.
func (o *statefulSetObject) replicas() (int, bool) {
	switch r := o.Spec.Value.Replicas; {
	case r.OK:
		return int(r.Value), true
	case r.Bad == "" && o.Spec.OK:
		return 1, true
	default:
		return 0, false
	}
}

// claimTemplates are the names of the templates of its pods' claims.
func (o *statefulSetObject) claimTemplates() []string {
	var names []string
	for _, t := range o.Spec.Value.VolumeClaimTemplates.Value {
		if t.Value.Metadata.Name.OK {
			names = append(names, t.Value.Metadata.Name.Value)
		}
	}
	return names
}

var (
	clientURL    = regexp.MustCompile(`(?i)advertise[-_]client[-_]urls[=\s"']+(https?)://[^\s,"']*?:(\d+)`)
	peerURL      = regexp.MustCompile(`(?i)initial[-_]advertise[-_]peer[-_]urls[=\s"']+(https?)://`)
	quotaSetting = regexp.MustCompile(`(?i)quota[-_]backend[-_]bytes[=\s"']+(\d+)`)
)

// access is how clients reach the etcd in a pod of this template, as its command line and its environment tell.
func (o *statefulSetObject) access() model.Access {
	c, _ := etcdContainer(o.Spec.Value.Template.Value.Spec.Value.Containers.Value)
	a := model.Access{Port: defaultClientPort, Service: o.Spec.Value.ServiceName.Value}
	if m := clientURL.FindStringSubmatch(c.settings()); m != nil {
		a.TLS, a.TLSKnown = strings.EqualFold(m[1], "https"), true
		if port, err := strconv.Atoi(m[2]); err == nil {
			a.Port = port
		}
		return a
	}
	for _, p := range c.Ports.Value {
		if p.Value.Name.Value == "client" && p.Value.ContainerPort.OK {
			a.Port = int(p.Value.ContainerPort.Value)
		}
	}
	return a
}

func (o *statefulSetObject) peerTLS() model.Fact[bool] {
	c, _ := etcdContainer(o.Spec.Value.Template.Value.Spec.Value.Containers.Value)
	m := peerURL.FindStringSubmatch(c.settings())
	if m == nil {
		return model.Fact[bool]{}
	}
	return model.Known(strings.EqualFold(m[1], "https"), model.SourceWorkload, time.Time{})
}

func (o *statefulSetObject) quota() model.Fact[int64] {
	c, _ := etcdContainer(o.Spec.Value.Template.Value.Spec.Value.Containers.Value)
	m := quotaSetting.FindStringSubmatch(c.settings())
	if m == nil {
		return model.Fact[int64]{}
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n == 0 { // 0 is etcd's default, which depends on its version
		return model.Fact[int64]{}
	}
	return model.Known(n, model.SourceWorkload, time.Time{})
}

// taskObject is druid's EtcdOpsTask.
type taskObject struct {
	Metadata objectMeta `json:"metadata"`
	Spec     lax[struct {
		EtcdName lax[string]                     `json:"etcdName"`
		Config   lax[map[string]json.RawMessage] `json:"config"`
	}] `json:"spec"`
	Status lax[struct {
		State lax[string] `json:"state"`
	}] `json:"status"`
}

// unfinished says whether the task still goes on. The end states are druid's Succeeded, Failed and Rejected; one that this
// version does not know is taken to go on.
func (o *taskObject) unfinished() bool {
	switch o.Status.Value.State.Value {
	case "Succeeded", "Failed", "Rejected":
		return false
	}
	return true
}

func (o *taskObject) task() model.Task {
	t := model.Task{
		Name: o.Metadata.Name.Value, State: o.Status.Value.State.Value,
		Created: time.Time(o.Metadata.CreationTimestamp.Value),
	}
	for typ := range o.Spec.Value.Config.Value {
		t.Type = max(t.Type, typ) // there is but one
	}
	return t
}
