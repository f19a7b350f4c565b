package source

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// Set is a set of objects that facts about clusters can be taken from.
type Set struct {
	members      []memberObject
	leases       []leaseObject
	statefulSets []workloadObject
	etcds        []workloadObject
	nodes        []nodeObject

	// Problems are what could not be read, of the whole set.
	Problems []model.Problem
	// workloadsRead and leasesRead say whether absence from the set means absence. Files may hold anything or nothing.
	workloadsRead, leasesRead bool
}

func (s *Set) problem(subject string, err error) {
	s.Problems = append(s.Problems, model.Problem{Subject: subject, Err: err})
}

// clockTolerance is how much older than the members' own newest word another clock in the files may be and still say when
// they were taken. Kubelets renew their nodes' Leases every 10 s, and etcd-druid looks every 15 s.
const clockTolerance = 30 * time.Second

// Now is the time to measure ages against where a Set was read from files: the newest past-tense time in it. known is
// false where only the members that are to be judged supply it: their own word can't prove that they are fresh.
func (s *Set) Now() (now time.Time, known bool) {
	var own, others time.Time
	newest := func(of *time.Time, t time.Time) {
		if t.After(*of) {
			*of = t
		}
	}
	for _, m := range s.members {
		if m.Status.Value.PublishedAt.OK {
			newest(&own, time.Time(m.Status.Value.PublishedAt.Value))
		}
	}
	for _, l := range s.leases {
		if !l.Spec.Value.RenewTime.OK {
			continue
		}
		switch l.Metadata.Namespace.Value {
		case "kube-node-lease", "kube-system":
			newest(&others, time.Time(l.Spec.Value.RenewTime.Value))
		default:
			newest(&own, time.Time(l.Spec.Value.RenewTime.Value))
		}
	}
	// A cluster's members could be fresh by another cluster's, but which ones are others' differs from cluster to cluster;
	// a node's or an operator's time serves them all.
	for _, cs := range s.conditionLists() {
		for _, t := range times(cs) {
			newest(&others, t)
		}
	}
	now = own
	newest(&now, others)
	return now, !others.IsZero() && own.Sub(others) <= clockTolerance
}

func (s *Set) conditionLists() []lax[[]lax[condition]] {
	var all []lax[[]lax[condition]]
	for _, n := range s.nodes {
		all = append(all, n.Status.Value.Conditions)
	}
	for _, w := range slices.Concat(s.etcds, s.statefulSets) {
		all = append(all, w.Status.Value.Conditions)
	}
	return all
}

// Clusters are the clusters that the set's EtcdMembers belong to, sorted, with all that the set says about each.
func (s *Set) Clusters() []model.Cluster {
	byKey := map[model.Key]*model.Cluster{}
	heartbeats := s.heartbeats()
	for _, o := range s.newestMembers() {
		if !o.Metadata.Name.OK {
			s.problem("an EtcdMember", fmt.Errorf("it has no name"))
			continue
		}
		key := clusterKey(o)
		c := byKey[key]
		if c == nil {
			c = &model.Cluster{Key: key}
			byKey[key] = c
		}
		m, problems := member(o)
		c.Problems = append(c.Problems, problems...)
		lease, ok := heartbeats[key.Namespace+"/"+v1alpha1.HeartbeatLeaseName(m.Name)]
		switch {
		case ok:
			m.Heartbeat = lease
		case s.leasesRead:
			m.NoHeartbeat = true
		}
		c.Members = append(c.Members, m)
	}
	wanted := s.wanted()
	for key, c := range byKey {
		if w, ok := wanted[key]; ok {
			c.Wanted = model.Known(w.replicas, model.SourceWorkload, time.Time{})
			c.FirstOrdinal = w.start
		} else if s.workloadsRead && key.Kind != "" {
			c.Problems = append(c.Problems, model.Problem{
				Subject: fmt.Sprintf("%s %s/%s", key.Kind, key.Namespace, key.Name),
				Err:     fmt.Errorf("there is no such object, so how many members are wanted is not known"),
			})
		}
		model.SortMembers(c.Members)
	}
	keys := slices.SortedFunc(maps.Keys(byKey), model.Key.Compare)
	clusters := make([]model.Cluster, 0, len(keys))
	for _, k := range keys {
		clusters = append(clusters, *byKey[k])
	}
	return clusters
}

// newestMembers are the EtcdMembers, each once: files may hold the same object from several dumps, and the newest counts.
func (s *Set) newestMembers() []*memberObject {
	at := map[string]int{}
	var kept []*memberObject
	for i := range s.members {
		o := &s.members[i]
		key := o.Metadata.Namespace.Value + "/" + o.Metadata.Name.Value
		j, again := at[key]
		switch {
		case !again:
			at[key] = len(kept)
			kept = append(kept, o)
		case time.Time(o.Status.Value.PublishedAt.Value).After(time.Time(kept[j].Status.Value.PublishedAt.Value)):
			kept[j] = o
			fallthrough
		default:
			s.problem("EtcdMember "+key, fmt.Errorf("it is there more than once; the newest is taken"))
		}
	}
	return kept
}

// heartbeats are the renewals of the agents' Leases by namespace/name. A Lease that was never renewed is a known zero.
func (s *Set) heartbeats() map[string]model.Fact[time.Time] {
	hs := make(map[string]model.Fact[time.Time], len(s.leases))
	for _, l := range s.leases {
		if !strings.HasPrefix(l.Metadata.Name.Value, v1alpha1.HeartbeatLeasePrefix) {
			continue
		}
		t := time.Time(l.Spec.Value.RenewTime.Value)
		if bad := cmp.Or(l.Spec.Bad, l.Spec.Value.RenewTime.Bad); bad != "" {
			s.problem(fmt.Sprintf("Lease %s/%s", l.Metadata.Namespace.Value, l.Metadata.Name.Value), fmt.Errorf("spec.renewTime is %s, which is not a time", bad))
		}
		key := l.Metadata.Namespace.Value + "/" + l.Metadata.Name.Value
		if t.Before(hs[key].Value) {
			continue // an older copy of the same Lease
		}
		hs[key] = model.Known(t, model.SourceHeartbeat, t)
	}
	return hs
}

// workload is how many members are asked for, and the number of the first.
type workload struct{ replicas, start int }

// wanted is what each workload asks for.
func (s *Set) wanted() map[model.Key]workload {
	w := make(map[model.Key]workload, len(s.statefulSets)+len(s.etcds))
	put := func(kind model.Kind, os []workloadObject) {
		for _, o := range os {
			key := model.Key{Namespace: o.Metadata.Namespace.Value, Kind: kind, Name: o.Metadata.Name.Value}
			start := int(o.Spec.Value.Ordinals.Value.Start.Value)
			switch r := o.Spec.Value.Replicas; {
			case r.OK:
				w[key] = workload{int(r.Value), start}
			case r.Bad == "" && o.Spec.OK && kind == model.KindStatefulSet:
				w[key] = workload{1, start} // the API's default; an Etcd must say it
			}
		}
	}
	put(model.KindStatefulSet, s.statefulSets)
	put(model.KindEtcd, s.etcds)
	return w
}

var ordinal = regexp.MustCompile(`-\d+$`)

// clusterKey says which cluster an EtcdMember belongs to: by its spec, or where somebody else has written it, by its
// owner, by its labels (DEP-04), or at last by its name.
func clusterKey(o *memberObject) model.Key {
	key := model.Key{Namespace: o.Metadata.Namespace.Value}
	if ref := o.Spec.Value.ClusterRef.Value; ref.Name.OK {
		key.Kind, key.Name = model.Kind(ref.Kind.Value), ref.Name.Value
		return key
	}
	for _, owner := range o.Metadata.OwnerReferences.Value {
		if owner.Kind == string(model.KindEtcd) && strings.HasPrefix(owner.APIVersion, groupDruid+"/") {
			key.Kind, key.Name = model.KindEtcd, owner.Name
			return key
		}
	}
	labels := o.Metadata.Labels.Value
	key.Name = cmp.Or(labels[v1alpha1.LabelPartOf], labels[v1alpha1.LabelOwnedBy], ordinal.ReplaceAllString(o.Metadata.Name.Value, ""))
	return key
}
