package model

import "time"

// SupersededAfter is how much newer a farther source's word must be to count for more than a nearer one's. It is how old
// a heartbeat may be: within it, a nearer source still stands by what it has said.
const SupersededAfter = 60 * time.Second

// Merge chooses between two observations of the same value: the nearer source's, unless the other's is so much newer
// that the nearer one can't be the present any more. An observation without a time is never the newer one.
func Merge[T any](a, b Fact[T]) Fact[T] {
	switch {
	case !a.Known():
		return b
	case !b.Known():
		return a
	}
	if distance(b.Source) < distance(a.Source) {
		a, b = b, a
	}
	if !a.Time.IsZero() && b.Time.Sub(a.Time) > SupersededAfter {
		return b
	}
	return a
}

// distance is how far a source is from the etcd that it tells of.
func distance(s Source) int {
	switch s {
	case SourceLive:
		return 0
	case SourceAgent:
		return 1
	case SourceObserver, SourceEtcdMember:
		return 2
	case SourceMemberLease:
		return 3
	case SourcePod:
		return 4
	case SourceEtcdStatus:
		return 5
	default:
		return 6
	}
}
