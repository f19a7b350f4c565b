package agent

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
)

// refreshInterval is how often a status is published that has not changed significantly: for sizes, revision and raft,
// which change all the time and are worth no write of their own.
const refreshInterval = 5 * time.Minute

// jitter spreads d by a tenth to both sides, so that the agents of a fleet do not write at the same moment.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5)
}

// significant names the first field by which what is published differs from what should be, among those that are worth a
// write at once. Empty: there is none. Compared is the object as it is, not what was last written: a value that somebody
// else has written over is put right, too.
func significant(want, seen *v1alpha1.EtcdMemberStatus) string {
	switch {
	case seen.PublishedAt == nil || seen.PublishedBy == nil:
		return "first publication"
	case seen.PublishedBy.Type != want.PublishedBy.Type || seen.PublishedBy.Version != want.PublishedBy.Version:
		return "publishedBy"
	case want.ID != seen.ID:
		return "id"
	case want.ClusterID != seen.ClusterID:
		return "clusterID"
	case want.State != seen.State || want.SubState != seen.SubState:
		return "state"
	case !sameTransitions(want.Transitions, seen.Transitions):
		return "transitions"
	case !equality.Semantic.DeepEqual(want.PeerTLSEnabled, seen.PeerTLSEnabled):
		return "peerTLSEnabled"
	case want.Version != seen.Version:
		return "version"
	case !slices.Equal(slices.Sorted(slices.Values(want.Alarms)), slices.Sorted(slices.Values(seen.Alarms))):
		return "alarms"
	case !equality.Semantic.DeepEqual(want.DBSizeQuota, seen.DBSizeQuota):
		return "dbSizeQuota"
	case volumeIdentity(want.Volume) != volumeIdentity(seen.Volume):
		return "volume"
	case want.ObservedGeneration != seen.ObservedGeneration:
		return "observedGeneration"
	}
	for _, w := range want.Conditions {
		s := meta.FindStatusCondition(seen.Conditions, w.Type)
		if s == nil || s.Status != w.Status || s.Reason != w.Reason {
			return "condition " + w.Type
		}
	}
	return ""
}

func sameTransitions(a, b []v1alpha1.Transition) bool { return slices.EqualFunc(a, b, sameTransition) }

// volumeIdentity is what tells one volume from another.
func volumeIdentity(v *v1alpha1.Volume) string {
	if v == nil {
		v = &v1alpha1.Volume{}
	}
	readOnly := ""
	if v.ReadOnly != nil && *v.ReadOnly {
		readOnly = "ro"
	}
	return strings.Join([]string{v.Claim, string(v.ClaimUID), v.Volume, v.VolumeHandle, v.StorageClass, readOnly}, "\x00")
}

// older says whether resource version a is before b. Those of custom resources compare as numbers; where they can't be
// compared, the last one that came is taken for the newest.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
