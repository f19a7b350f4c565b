package source

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// once leaves each object once. Files may hold the same one from several dumps, and two lists of a server's may overlap.
func (s *Set) once() {
	s.pods = onceEach(s, "Pod", s.pods, func(o *podObject) (*objectMeta, time.Time) { return &o.Metadata, time.Time{} })
	if !s.at.IsZero() {
		return // a server's lists of other kinds do not overlap
	}
	s.members = onceEach(s, "EtcdMember", s.members, func(o *memberObject) (*objectMeta, time.Time) {
		return &o.Metadata, time.Time(o.Status.Value.PublishedAt.Value)
	})
	s.leases = onceEach(s, "Lease", s.leases, func(o *leaseObject) (*objectMeta, time.Time) {
		return &o.Metadata, time.Time(o.Spec.Value.RenewTime.Value)
	})
	s.etcds = onceEach(s, "Etcd", s.etcds, func(o *etcdObject) (*objectMeta, time.Time) { return &o.Metadata, time.Time{} })
	s.tasks = onceEach(s, "EtcdOpsTask", s.tasks, func(o *taskObject) (*objectMeta, time.Time) { return &o.Metadata, time.Time{} })
	s.statefulSets = onceEach(s, "StatefulSet", s.statefulSets, func(o *statefulSetObject) (*objectMeta, time.Time) { return &o.Metadata, time.Time{} })
	s.claims = onceEach(s, "PersistentVolumeClaim", s.claims, func(o *claimObject) (*objectMeta, time.Time) { return &o.Metadata, time.Time{} })
	s.volumes = onceEach(s, "PersistentVolume", s.volumes, func(o *volumeObject) (*objectMeta, time.Time) { return &o.Metadata, time.Time{} })
}

// onceEach leaves each object of a kind once: of the same object the newest copy, and of different ones of one name the one
// that was created last. meta returns also when the object itself says that it was written, if it does.
func onceEach[T any](s *Set, kind string, objects []T, meta func(*T) (*objectMeta, time.Time)) []T {
	at := make(map[string]int, len(objects))
	kept := objects[:0]
	var copies, alike, different repeated
	for i := range objects {
		m, written := meta(&objects[i])
		key := m.key()
		j, again := at[key]
		if !again || !m.Name.OK {
			at[key] = len(kept)
			kept = append(kept, objects[i])
			continue
		}
		old, oldWritten := meta(&kept[j])
		newer := false
		if m.UID.OK && old.UID.OK && m.UID.Value != old.UID.Value {
			different.add(key)
			newer = time.Time(m.CreationTimestamp.Value).After(time.Time(old.CreationTimestamp.Value))
		} else {
			order := m.compare(old)
			if order == 0 {
				order = written.Compare(oldWritten)
			}
			newer = order > 0
			if order == 0 && !reflect.DeepEqual(objects[i], kept[j]) {
				alike.add(key)
			} else {
				copies.add(key)
			}
		}
		if newer {
			kept[j] = objects[i]
		}
	}
	if !s.at.IsZero() {
		return kept
	}
	if copies.n > 0 {
		s.problem(copies.subject(kind), fmt.Errorf("%s; the newest is taken", copies.either("it is there more than once", "each is there more than once")))
	}
	if alike.n > 0 {
		s.problem(alike.subject(kind), fmt.Errorf("%s, and nothing says which is the newest (metadata.resourceVersion is missing): the first is taken", alike.either("it is there more than once", "each is there more than once")))
	}
	if different.n > 0 {
		s.problem(different.subject(kind), fmt.Errorf("%s, and the one that was created last is taken: either it was made anew between two dumps, or these are dumps of different clusters, which must not be mixed: read those one by one",
			different.either("there are different objects of this name", "of each of these names there are different objects")))
	}
	return kept
}

// compare says whether an object is a newer copy (1) than another one of the same object, or an older one (-1), by the
// versions that the API server gives. 0: they do not tell.
func (m *objectMeta) compare(old *objectMeta) int {
	version, err := strconv.ParseUint(m.ResourceVersion.Value, 10, 64)
	oldVersion, oldErr := strconv.ParseUint(old.ResourceVersion.Value, 10, 64)
	if err != nil || oldErr != nil {
		return 0
	}
	return cmp.Compare(version, oldVersion)
}

// repeated are objects that are there again: how many, and the first.
type repeated struct {
	n     int
	first string
	seen  map[string]bool
}

func (r *repeated) add(key string) {
	if r.seen == nil {
		r.first, r.seen = strings.TrimPrefix(key, "/"), map[string]bool{}
	}
	if !r.seen[key] {
		r.seen[key] = true
		r.n++
	}
}

// either is one text for one object, and another for several.
func (r *repeated) either(one, several string) string {
	if r.n == 1 {
		return one
	}
	return several
}

// subject names the first, and says how many others there are.
func (r *repeated) subject(kind string) string {
	switch r.n {
	case 1:
		return kind + " " + r.first
	case 2:
		return fmt.Sprintf("%s %s and 1 other", kind, r.first)
	default:
		return fmt.Sprintf("%s %s and %d others", kind, r.first, r.n-1)
	}
}
