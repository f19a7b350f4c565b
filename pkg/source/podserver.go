package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// parallelReads is how many clusters' pods are read at once.
const parallelReads = 8

// manyLists is how many clusters or namespaces are read one by one. Of more, one long list is less to wait for than many short
// ones, each of which takes a round trip, and fewer requests for the server.
const manyLists = 10

// readPods reads the pods and claims of clusters: of all, or of those that do not publish all that there is to know.
func (c *Server) readPods(ctx context.Context, s *Set, o ReadOptions) error {
	r := podReading{Server: c, set: s, pods: s.needPods(o), claims: map[string][]model.Key{}, failed: map[string]map[string]error{}}
	for key := range r.pods {
		r.claims[key.Namespace] = append(r.claims[key.Namespace], key)
	}
	if o.Namespace == "" {
		if err := r.allNamespaces(ctx); err != nil {
			return err
		}
	}
	if err := r.oneByOne(ctx); err != nil {
		return err
	}
	r.tell()
	if o.Volumes {
		return c.readVolumes(ctx, s, o)
	}
	return nil
}

// podReading is the reading of pods and claims.
type podReading struct {
	*Server
	// pods are the selectors of the clusters' pods that are yet to be read, and claims the clusters by the namespaces whose
	// claims are.
	pods   map[model.Key]string
	claims map[string][]model.Key

	mu  sync.Mutex
	set *Set
	// failed are what could not be listed, by what is not known then and by namespace.
	failed map[string]map[string]error
}

// allNamespaces reads at once what would take many lists. What may not be listed so is left to be read one by one.
func (r *podReading) allNamespaces(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	const druids = v1alpha1.LabelManagedBy + "=" + managedByDruid
	// Of those that druid runs alone: what else runs in all namespaces may be a hundred times as much.
	selectors := map[string][]labels.Selector{}
	var together []model.Key
	for key, text := range r.pods {
		selector, err := labels.Parse(text)
		if err != nil {
			continue
		}
		if value, ok := selector.RequiresExactMatch(v1alpha1.LabelManagedBy); ok && value == managedByDruid {
			together = append(together, key)
			selectors[key.Namespace] = append(selectors[key.Namespace], selector)
		}
	}
	namespaces := r.claims
	if len(together) > manyLists {
		g.Go(func() error {
			objects, problems, err := listOf(ctx, r.Server, "", "pods", druids, func(o *podObject) bool {
				return slices.ContainsFunc(selectors[o.Metadata.Namespace.Value], func(s labels.Selector) bool { return s.Matches(labels.Set(o.Metadata.Labels.Value)) })
			})
			if lost(err) {
				return fmt.Errorf("can't list Pods%s: %w", in(""), err)
			}
			if err != nil {
				return nil
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.set.pods, r.set.Problems = append(r.set.pods, objects...), append(r.set.Problems, problems...)
			for _, key := range together {
				r.set.podsRead[key] = true
				delete(r.pods, key)
			}
			return nil
		})
	}
	if len(namespaces) > manyLists {
		g.Go(func() error {
			objects, problems, err := listOf(ctx, r.Server, "", "persistentvolumeclaims", "", func(o *claimObject) bool { return namespaces[o.Metadata.Namespace.Value] != nil })
			if lost(err) {
				return fmt.Errorf("can't list PersistentVolumeClaims%s: %w", in(""), err)
			}
			if err != nil {
				return nil
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.set.claims, r.set.Problems = append(r.set.claims, objects...), append(r.set.Problems, problems...)
			for _, keys := range namespaces {
				for _, key := range keys {
					r.set.claimsRead[key] = true
				}
			}
			r.claims = nil
			return nil
		})
	}
	return g.Wait()
}

// oneByOne reads pods cluster by cluster, and claims namespace by namespace.
func (r *podReading) oneByOne(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelReads)
	s := r.set
	for key, selector := range r.pods {
		g.Go(func() error {
			objects, problems, err := listOf[podObject](ctx, r.Server, key.Namespace, "pods", selector, nil)
			if lost(err) {
				return fmt.Errorf("can't list Pods%s: %w", in(key.Namespace), err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			s.pods, s.Problems = append(s.pods, objects...), append(s.Problems, problems...)
			s.podsRead[key] = err == nil
			r.fail("Pods", key.Namespace, err)
			return nil
		})
	}
	// Claims have the labels of their StatefulSet's selector only where its controller made them, and a selector that druid had
	// before v0.23 was another one: a claim that is not found so may be there all the same.
	for namespace, keys := range r.claims {
		g.Go(func() error {
			objects, problems, err := listOf[claimObject](ctx, r.Server, namespace, "persistentvolumeclaims", "", nil)
			if lost(err) {
				return fmt.Errorf("can't list PersistentVolumeClaims%s: %w", in(namespace), err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			s.claims, s.Problems = append(s.claims, objects...), append(s.Problems, problems...)
			for _, key := range keys {
				s.claimsRead[key] = err == nil
			}
			r.fail("PersistentVolumeClaims", namespace, err)
			return nil
		})
	}
	return g.Wait()
}

func (r *podReading) fail(what, namespace string, err error) {
	if err == nil {
		return
	}
	if r.failed[what] == nil {
		r.failed[what] = map[string]error{}
	}
	r.failed[what][namespace] = err
}

// tell tells of what could not be listed: once where it is the same in many namespaces.
func (r *podReading) tell() {
	for _, kind := range []struct{ what, unknown string }{
		{"Pods", "what members do that publish nothing"}, {"PersistentVolumeClaims", "what volumes members have"},
	} {
		failed := r.failed[kind.what]
		namespaces := slices.Sorted(maps.Keys(failed))
		const few = 3
		for i, namespace := range namespaces {
			subject := kind.what + in(namespace)
			if len(namespaces) > few {
				subject = fmt.Sprintf("%s, and in %d other namespaces", subject, len(namespaces)-1)
			}
			r.set.problem(subject, fmt.Errorf("can't be listed, so %s is not known: %w", kind.unknown, failed[namespaces[i]]))
			if len(namespaces) > few {
				break
			}
		}
	}
}

// listOf reads a list. Of a long one only what is wanted is kept.
func listOf[T any](ctx context.Context, c *Server, namespace, resource, selector string, wanted func(*T) bool) ([]T, []model.Problem, error) {
	part := &Set{}
	var kept []T
	l := c.list(ctx, apiCore, namespace, resource, selector)
	for raw := range l.items {
		add(part, &kept, raw, l.name)
		if n := len(kept); n > 0 && wanted != nil && !wanted(&kept[n-1]) {
			kept = kept[:n-1]
		}
	}
	return kept, part.Problems, l.err
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

// needPods says of which clusters the pods are to be read, with the selector that finds them.
func (s *Set) needPods(o ReadOptions) map[model.Key]string {
	s.once()
	b := &builder{Set: s, clusters: map[model.Key]*cluster{}, readAt: o.Now}
	b.index()
	published := map[model.Key]int{}
	need := map[model.Key]bool{}
	told := s.Problems // which are told of when the clusters are put together
	heartbeats := s.heartbeats()
	s.Problems = told
	for i := range s.members {
		m := &s.members[i]
		key := b.resolve(clusterKey(m))
		beat := heartbeats[key.Namespace+"/"+v1alpha1.HeartbeatLeaseName(m.Metadata.Name.Value)]
		if m.Status.Value.PublishedAt.OK && o.Now.Sub(beat.Value) <= model.SupersededAfter {
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

// podSelector finds a cluster's pods.
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
