package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// parallelReads is how many clusters' pods are read at once.
const parallelReads = 8

// fresh is how old a heartbeat may be for its member's pod not to be looked at (DESIGN §3).
const fresh = 60 * time.Second

// readPods reads the pods and claims of clusters: of all, or of those that do not publish all that there is to know.
func (c *Server) readPods(ctx context.Context, s *Set, o ReadOptions) error {
	need := s.needPods(o)
	var mu sync.Mutex
	failed := map[string]error{}
	g, lists := errgroup.WithContext(ctx)
	g.SetLimit(parallelReads)
	inNamespace := map[string][]model.Key{}
	for key, selector := range need {
		inNamespace[key.Namespace] = append(inNamespace[key.Namespace], key)
		g.Go(func() error {
			var objects []podObject
			part := &Set{}
			err := collect(part, c.list(lists, apiCore, key.Namespace, "pods", selector), &objects)
			if lost(err) {
				return fmt.Errorf("can't list Pods%s: %w", in(key.Namespace), err)
			}
			mu.Lock()
			defer mu.Unlock()
			s.Problems, s.pods = append(s.Problems, part.Problems...), append(s.pods, objects...)
			s.podsRead[key] = err == nil
			if err != nil {
				failed["Pods"+in(key.Namespace)] = fmt.Errorf("can't be listed, so what members do that publish nothing is not known: %w", err)
			}
			return nil
		})
	}
	// Claims have the labels of their StatefulSet's selector only where its controller made them, and a selector that druid had
	// before v0.23 was another one: a claim that is not found so may be there all the same.
	for namespace, keys := range inNamespace {
		g.Go(func() error {
			var objects []claimObject
			part := &Set{}
			err := collect(part, c.list(lists, apiCore, namespace, "persistentvolumeclaims", ""), &objects)
			if lost(err) {
				return fmt.Errorf("can't list PersistentVolumeClaims%s: %w", in(namespace), err)
			}
			mu.Lock()
			defer mu.Unlock()
			s.Problems, s.claims = append(s.Problems, part.Problems...), append(s.claims, objects...)
			for _, key := range keys {
				s.claimsRead[key] = err == nil
			}
			if err != nil {
				failed["PersistentVolumeClaims"+in(namespace)] = fmt.Errorf("can't be listed, so what volumes members have is not known: %w", err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for subject, err := range failed {
		s.problem(subject, err)
	}
	if o.Volumes {
		return c.readVolumes(ctx, s, o)
	}
	return nil
}

// readVolumes reads the volumes of the claims one by one: they belong to no namespace, and who may see a few of them may
// not list all. Those that can't be read leave nothing but their reclaim policy and handle unknown.
func (c *Server) readVolumes(ctx context.Context, s *Set, o ReadOptions) error {
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(parallelReads)
	told := s.Problems // which are told of when the clusters are put together for good
	used := map[string]bool{}
	for _, c := range s.Clusters(o.StatefulSets...) {
		for _, m := range c.Members {
			used[m.Claim.Value.Volume] = true
			for _, other := range m.OtherClaims {
				used[other.Volume] = true
			}
		}
		for _, claim := range c.LooseClaims {
			used[claim.Volume] = true
		}
	}
	s.Problems = told
	for name := range used {
		if name == "" {
			continue
		}
		g.Go(func() error {
			result := c.client.Get().AbsPath("/" + apiCore).Resource("persistentvolumes").Name(name).Do(ctx)
			raw, err := result.Raw()
			var answer apierrors.APIStatus
			if err := result.Error(); err != nil && !errors.As(err, &answer) {
				return fmt.Errorf("can't read PersistentVolume %s: %w", name, err)
			}
			var v volumeObject
			if err != nil || json.Unmarshal(raw, &v) != nil {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			s.volumes = append(s.volumes, v)
			return nil
		})
	}
	return g.Wait()
}

// needPods says of which clusters the pods are to be read, with the selector that finds them and their claims.
func (s *Set) needPods(o ReadOptions) map[model.Key]string {
	s.once()
	b := &builder{Set: s, clusters: map[model.Key]*cluster{}, readAt: o.Now}
	b.index()
	published := map[model.Key]int{}
	need := map[model.Key]bool{}
	heartbeats := b.quietHeartbeats()
	for i := range s.members {
		m := &s.members[i]
		key := b.resolve(clusterKey(m))
		beat := heartbeats[key.Namespace+"/"+v1alpha1.HeartbeatLeaseName(m.Metadata.Name.Value)]
		if m.Status.Value.PublishedAt.OK && o.Now.Sub(beat) <= fresh {
			published[key]++
		} else {
			need[key] = true
		}
		need[key] = need[key] || o.Pods
	}
	for i := range s.etcds {
		e := &s.etcds[i]
		key := model.Key{Namespace: e.Metadata.Namespace.Value, Kind: model.KindEtcd, Name: e.Metadata.Name.Value}
		need[key] = need[key] || o.Pods || published[key] < max(1, int(e.Spec.Value.Replicas.Value))
	}
	for _, key := range b.expand(o.StatefulSets) {
		if set := b.sets[key.Namespace+"/"+key.Name]; set != nil && b.etcdOf(set.Metadata.key()) == nil {
			need[key] = need[key] || published[key] == 0
		}
	}
	selectors := map[model.Key]string{}
	for key, needed := range need {
		set := b.sets[key.Namespace+"/"+key.Name]
		if set != nil {
			replicas, _ := set.replicas()
			needed = needed || (set.Status.Value.ObservedGeneration.OK && int(set.Status.Value.ReadyReplicas.Value) < replicas)
		}
		if selector := b.podSelector(key, set); needed && selector != "" {
			selectors[key] = selector
		}
	}
	return selectors
}

// quietHeartbeats are the agents' heartbeats by namespace and name, without telling of problems again.
func (b *builder) quietHeartbeats() map[string]time.Time {
	beats := make(map[string]time.Time, len(b.leases))
	for i := range b.leases {
		beats[b.leases[i].Metadata.key()] = time.Time(b.leases[i].Spec.Value.RenewTime.Value)
	}
	return beats
}

// podSelector finds a cluster's pods, and its claims, which get the same labels from the StatefulSet's controller.
func (b *builder) podSelector(key model.Key, set *statefulSetObject) string {
	if set != nil && len(set.Spec.Value.Selector.Value.MatchLabels.Value) > 0 {
		return labels.SelectorFromSet(set.Spec.Value.Selector.Value.MatchLabels.Value).String()
	}
	if key.Kind != model.KindEtcd {
		return ""
	}
	if e := b.druids[key.Namespace+"/"+key.Name]; e != nil && e.Status.Value.Selector.Value != "" {
		return e.Status.Value.Selector.Value
	}
	return labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: managedByDruid, v1alpha1.LabelPartOf: key.Name}).String()
}
