package source

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// Set is a set of objects that facts about clusters can be taken from.
type Set struct {
	members      []memberObject
	leases       []leaseObject
	statefulSets []statefulSetObject
	etcds        []etcdObject
	tasks        []taskObject
	pods         []podObject
	claims       []claimObject
	volumes      []volumeObject
	nodes        []nodeObject

	// Problems are what could not be read, of the whole set.
	Problems []model.Problem
	// workloadsRead and leasesRead say whether absence from the set means absence, and podsRead of which clusters' pods and
	// claims it does. Files may hold anything or nothing.
	workloadsRead, leasesRead bool
	podsRead, claimsRead      map[model.Key]bool
	// at is when it was read from a server. Zero: it was read from files.
	at time.Time
	// unlisted are the lists that could not be read, and that could have told of clusters.
	unlisted []unlisted
}

// unlisted is a list that could not be read, of objects of a kind.
type unlisted struct {
	kind string
	err  error
}

func (s *Set) unlist(kind string, err error) { s.unlisted = append(s.unlisted, unlisted{kind, err}) }

// Untold says why a cluster that is not in the set may be there all the same: the error of a list that could have told of
// it. Kind is that of the cluster, or empty where it may be any. Nil: the set has all of them.
func (s *Set) Untold(kind model.Kind) error {
	for _, l := range s.unlisted {
		if kind == "" || l.kind == kindEtcdMember || l.kind == string(kind) {
			return l.err
		}
	}
	return nil
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
		if l.foreign() {
			newest(&others, time.Time(l.Spec.Value.RenewTime.Value))
		} else {
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
	for i := range s.etcds {
		all = append(all, s.etcds[i].Status.Value.Conditions)
	}
	for i := range s.statefulSets {
		all = append(all, s.statefulSets[i].Status.Value.Conditions)
	}
	return all
}

// heartbeats are the renewals of the agents' Leases by namespace/name. A Lease that was never renewed is a known zero.
func (s *Set) heartbeats() map[string]model.Fact[time.Time] {
	hs := make(map[string]model.Fact[time.Time], len(s.leases))
	for _, l := range s.leases {
		if !strings.HasPrefix(l.Metadata.Name.Value, v1alpha1.HeartbeatLeasePrefix) {
			continue
		}
		t, err := l.renewed()
		if err != nil {
			s.problem(l.subject(), err)
		}
		hs[l.Metadata.key()] = model.Known(t, model.SourceHeartbeat, t)
	}
	return hs
}

var ordinal = regexp.MustCompile(`-\d+$`)

// clusterKey says which cluster an EtcdMember belongs to: by its spec, or where somebody else has written it, by its
// owner, by its labels (DEP-04), or at last by its name.
func clusterKey(o *memberObject) model.Key {
	key := model.Key{Namespace: o.Metadata.Namespace.Value}
	if ref := o.Spec.Value.ClusterRef.Value; ref.Name.OK {
		key.Kind, key.Name = model.Kind(ref.Kind.Value), ref.Name.Value
		for _, kind := range []model.Kind{model.KindEtcd, model.KindStatefulSet} {
			if strings.EqualFold(ref.Kind.Value, string(kind)) {
				key.Kind = kind // kubectl takes kinds in lower case, and so do those who write objects by hand
			}
		}
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
