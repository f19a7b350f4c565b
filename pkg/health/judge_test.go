package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

var now = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// cluster makes a cluster of n fresh and healthy voters, main-0 leading, and lets a test spoil it.
func cluster(n int, spoil ...func(*model.Cluster)) model.Cluster {
	c := model.Cluster{
		Key:    model.Key{Namespace: "default", Kind: model.KindStatefulSet, Name: "main"},
		Wanted: model.Known(n, model.SourceWorkload, time.Time{}),
	}
	for i := range n {
		c.Members = append(c.Members, voter(i))
	}
	for _, f := range spoil {
		f(&c)
	}
	return c
}

func known[T any](v T) model.Fact[T] { return model.Known(v, model.SourceAgent, now.Add(-time.Minute)) }

func voter(i int) model.Member {
	name := fmt.Sprintf("main-%d", i)
	role := "Follower"
	if i == 0 {
		role = "Leader"
	}
	return model.Member{
		Name: name, Pod: name, HasEtcdMember: true, Created: now.Add(-time.Hour),
		ID: known(fmt.Sprintf("%x", 0xa0+i)), ClusterID: known("c1"),
		State: known("Started"), SubState: known(role),
		Ready:   known(model.Condition{Status: "True", Reason: "Serving", Since: now.Add(-time.Hour)}),
		PeerTLS: known(true), DBSize: known(int64(20 << 20)), DBSizeInUse: known(int64(10 << 20)), DBSizeQuota: known(int64(2 << 30)),
		Revision: known(int64(100)), RaftTerm: known(int64(2)), RaftIndex: known(int64(120)), RaftAppliedIndex: known(int64(120)),
		Version: known("3.7.3"), Alarms: known([]string(nil)),
		Volume:    known(model.Volume{Claim: "data-" + name, StorageClass: "fast", Capacity: 1 << 30, Available: 900 << 20, AvailableKnown: true}),
		Heartbeat: model.Known(now.Add(-5*time.Second), model.SourceHeartbeat, now.Add(-5*time.Second)),
		Published: known(now.Add(-time.Minute)),
	}
}

func at(i int, f func(*model.Member)) func(*model.Cluster) {
	return func(c *model.Cluster) { f(&c.Members[i]) }
}

func notServing(reason string) func(*model.Member) {
	return func(m *model.Member) {
		m.Ready = known(model.Condition{Status: "False", Reason: reason, Message: "etcd does not answer", Since: now.Add(-10 * time.Second)})
	}
}

func publisherGone(m *model.Member) {
	t := now.Add(-61 * time.Second)
	m.Heartbeat = model.Known(t, model.SourceHeartbeat, t)
}

func neverPublished(m *model.Member) {
	*m = model.Member{Name: m.Name, Pod: m.Pod, HasEtcdMember: true, Created: m.Created, Heartbeat: model.Known(time.Time{}, model.SourceHeartbeat, time.Time{})}
}

func alarmed(m *model.Member) {
	m.Alarms = known([]string{"NOSPACE"})
	m.Ready = known(model.Condition{Status: "False", Reason: "Alarm", Message: "the member raises NOSPACE", Since: now})
}

func readOnly(m *model.Member) { m.VolumeReadOnly = known(model.Condition{Status: "True"}) }

func inState(state, sub string) func(*model.Member) {
	return func(m *model.Member) {
		m.State, m.SubState = known(state), known(sub)
		if sub == "" {
			m.SubState = model.Fact[string]{}
		}
		m.Ready = known(model.Condition{Status: "False", Reason: "NotStarted"})
	}
}

func TestVerdict(t *testing.T) {
	tests := map[string]struct {
		cluster model.Cluster
		unsure  bool
		verdict Verdict
		reason  Code
		quorum  QuorumState
		// health is each member's first letter: H, U(nhealthy), S(yncing), ? (Unknown), M(issing).
		health string
		leader string
		codes  string
	}{
		"three voters serve": {
			cluster: cluster(3), verdict: Healthy, quorum: QuorumHeld, health: "HHH", leader: "main-0",
		},
		"a single voter serves": {
			cluster: cluster(1), verdict: Healthy, quorum: QuorumHeld, health: "H", leader: "main-0",
		},
		"one of three does not answer": {
			cluster: cluster(3, at(2, notServing("NotAnswering"))),
			verdict: Degraded, reason: MemberNotServing, quorum: QuorumHeld, health: "HHU", leader: "main-0", codes: "MemberNotServing",
		},
		"the leader does not answer, and nobody else leads yet": {
			cluster: cluster(3, at(0, notServing("NotAnswering"))),
			verdict: Degraded, reason: MemberNotServing, quorum: QuorumHeld, health: "UHH", codes: "MemberNotServing NoLeaderKnown",
		},
		"two of three do not answer": {
			cluster: cluster(3, at(0, notServing("NotAnswering")), at(1, notServing("NotAnswering"))),
			verdict: Unhealthy, reason: QuorumLost, quorum: QuorumIsLost, health: "UUH",
			codes: "QuorumLost MemberNotServing MemberNotServing NoLeaderKnown",
		},
		"a single voter does not answer": {
			cluster: cluster(1, at(0, notServing("NotAnswering"))),
			verdict: Unhealthy, reason: QuorumLost, quorum: QuorumIsLost, health: "U", codes: "QuorumLost MemberNotServing NoLeaderKnown",
		},
		"one publisher of three has gone": {
			cluster: cluster(3, at(1, publisherGone)),
			verdict: Degraded, reason: PublisherGone, quorum: QuorumHeld, health: "H?H", leader: "main-0", codes: "PublisherGone",
		},
		"two publishers of three have gone: unknown is not healthy, and not lost": {
			cluster: cluster(3, at(1, publisherGone), at(2, publisherGone)),
			verdict: Unknown, reason: QuorumUnknown, quorum: QuorumIsUnknown, health: "H??", leader: "main-0",
			codes: "QuorumUnknown PublisherGone PublisherGone",
		},
		"one is down and one can't be judged": {
			cluster: cluster(3, at(1, publisherGone), at(2, notServing("NotAnswering"))),
			verdict: Unknown, reason: QuorumUnknown, quorum: QuorumIsUnknown, health: "H?U", leader: "main-0",
			codes: "QuorumUnknown PublisherGone MemberNotServing",
		},
		"two of five are down and one can't be judged": {
			cluster: cluster(5, at(1, publisherGone), at(2, notServing("NotAnswering")), at(3, notServing("NotAnswering"))),
			verdict: Unknown, reason: QuorumUnknown, quorum: QuorumIsUnknown, health: "H?UUH", leader: "main-0",
			codes: "QuorumUnknown PublisherGone MemberNotServing MemberNotServing",
		},
		"three of five are down, whatever the one that can't be judged is": {
			cluster: cluster(5, at(1, publisherGone), at(2, notServing("NotAnswering")), at(3, notServing("NotAnswering")), at(4, notServing("NotAnswering"))),
			verdict: Unhealthy, reason: QuorumLost, quorum: QuorumIsLost, health: "H?UUU", leader: "main-0",
			codes: "QuorumLost PublisherGone MemberNotServing MemberNotServing MemberNotServing",
		},
		"a heartbeat that can't be read is not fresh": {
			cluster: cluster(1, at(0, func(m *model.Member) { m.Heartbeat = model.Fact[time.Time]{} })),
			verdict: Unknown, reason: QuorumUnknown, quorum: QuorumIsUnknown, health: "?", codes: "QuorumUnknown PublisherGone NoLeaderKnown",
		},
		"a heartbeat that was never renewed is not fresh": {
			cluster: cluster(1, at(0, func(m *model.Member) {
				m.Heartbeat = model.Known(time.Time{}, model.SourceHeartbeat, time.Time{})
			})),
			verdict: Unknown, reason: QuorumUnknown, quorum: QuorumIsUnknown, health: "?", codes: "QuorumUnknown PublisherGone NoLeaderKnown",
		},
		"files without a clock prove no freshness": {
			cluster: cluster(3), unsure: true,
			verdict: Unknown, reason: QuorumUnknown, quorum: QuorumIsUnknown, health: "???",
			codes: "QuorumUnknown PublisherGone PublisherGone PublisherGone NoLeaderKnown",
		},
		"nobody has published yet": {
			cluster: cluster(3, at(0, neverPublished), at(1, neverPublished), at(2, neverPublished)),
			verdict: Unknown, reason: QuorumUnknown, quorum: QuorumIsUnknown, health: "???",
			codes: "QuorumUnknown NeverPublished NeverPublished NeverPublished NoLeaderKnown",
		},
		"a learner is not a voter": {
			cluster: cluster(3, at(2, inState("Starting", "Learner"))),
			verdict: Degraded, reason: MemberNotVoting, quorum: QuorumHeld, health: "HHS", leader: "main-0", codes: "MemberNotVoting",
		},
		"a learner does not make up for a voter that is down": {
			cluster: cluster(3, at(1, notServing("NotAnswering")), at(2, inState("Starting", "Learner"))),
			verdict: Unhealthy, reason: QuorumLost, quorum: QuorumIsLost, health: "HUS", leader: "main-0",
			codes: "QuorumLost MemberNotServing MemberNotVoting",
		},
		"scaling from one to three: the one voter's read takes a quorum": {
			cluster: cluster(3, at(1, inState("Starting", "PendingLearner")), at(2, inState("New", ""))),
			verdict: Degraded, reason: MemberNotVoting, quorum: QuorumHeld, health: "HSU", leader: "main-0",
			codes: "MemberNotVoting MemberNotStarted",
		},
		"scaling from one to three, and one can't be judged": {
			cluster: cluster(3, at(1, inState("Starting", "PendingLearner")), at(2, neverPublished)),
			verdict: Unknown, reason: QuorumUnknown, quorum: QuorumIsUnknown, health: "HS?", leader: "main-0",
			codes: "QuorumUnknown MemberNotVoting NeverPublished",
		},
		"two of three have never started, and the third finds no leader": {
			cluster: cluster(3, at(0, notServing("NoLeader")), at(1, inState("New", "")), at(2, inState("New", ""))),
			verdict: Unhealthy, reason: QuorumLost, quorum: QuorumIsLost, health: "UUU",
			codes: "QuorumLost MemberNotServing MemberNotStarted MemberNotStarted NoLeaderKnown",
		},
		"a wanted member has no EtcdMember": {
			cluster: cluster(3, func(c *model.Cluster) { c.Members = c.Members[:2] }),
			verdict: Degraded, reason: MembersMissing, quorum: QuorumHeld, health: "HHM", leader: "main-0", codes: "MembersMissing",
		},
		"two wanted members have no EtcdMember": {
			cluster: cluster(3, func(c *model.Cluster) { c.Members = c.Members[:1] }),
			verdict: Unknown, reason: QuorumUnknown, quorum: QuorumIsUnknown, health: "HMM", leader: "main-0", codes: "QuorumUnknown MembersMissing",
		},
		"there is an EtcdMember too many": {
			cluster: cluster(3, func(c *model.Cluster) { c.Wanted.Value = 2 }),
			verdict: Degraded, reason: MembersSurplus, quorum: QuorumHeld, health: "HHH", leader: "main-0", codes: "MembersSurplus",
		},
		"how many are wanted is not known": {
			cluster: cluster(3, func(c *model.Cluster) { c.Wanted = model.Fact[int]{} }),
			verdict: Degraded, reason: WantedMembersUnsure, quorum: QuorumHeld, health: "HHH", leader: "main-0", codes: "WantedMembersUnsure",
		},
		"how many are wanted is not known, and one of one does not answer": {
			cluster: cluster(1, func(c *model.Cluster) { c.Wanted = model.Fact[int]{} }, at(0, notServing("NoLeader"))),
			verdict: Unknown, reason: QuorumUnknown, quorum: QuorumIsUnknown, health: "U", codes: "QuorumUnknown MemberNotServing WantedMembersUnsure NoLeaderKnown",
		},
		"as many as are wanted, but the wrong ones": {
			cluster: cluster(3, at(0, func(m *model.Member) { m.Name, m.Pod = "main-7", "main-7" })),
			verdict: Degraded, reason: MembersMissing, quorum: QuorumHeld, health: "MHHH", leader: "main-7", codes: "MembersMissing MembersSurplus",
		},
		"left over from before scaling in, and gone: they may have no vote": {
			cluster: cluster(5, func(c *model.Cluster) { c.Wanted.Value = 3 }, at(2, notServing("NotAnswering")), at(3, notServing("NotAnswering")), at(4, notServing("NotAnswering"))),
			verdict: Degraded, reason: MemberNotServing, quorum: QuorumHeld, health: "HHUUU", leader: "main-0",
			codes: "MemberNotServing MemberNotServing MemberNotServing MembersSurplus",
		},
		"two voters that validate their data before they start": {
			cluster: cluster(3, at(1, inState("Initializing", "DBValidationFull")), at(2, inState("Initializing", "DBValidationFull"))),
			verdict: Unhealthy, reason: QuorumLost, quorum: QuorumIsLost, health: "HUU", leader: "main-0", codes: "QuorumLost MemberNotStarted MemberNotStarted",
		},
		"a mistyped number of replicas": {
			cluster: cluster(3, func(c *model.Cluster) { c.Wanted.Value = 2147483647 }),
			verdict: Unknown, reason: QuorumUnknown, quorum: QuorumIsUnknown, health: "HHH" + strings.Repeat("M", 15), leader: "main-0", codes: "QuorumUnknown MembersMissing",
		},
		"a member without a heartbeat Lease": {
			cluster: cluster(3, at(1, func(m *model.Member) { m.Heartbeat, m.NoHeartbeat = model.Fact[time.Time]{}, true })),
			verdict: Degraded, reason: PublisherGone, quorum: QuorumHeld, health: "H?H", leader: "main-0", codes: "PublisherGone",
		},
		"a heartbeat that is far in the future proves nothing": {
			cluster: cluster(3, at(1, func(m *model.Member) {
				m.Heartbeat = model.Known(now.Add(time.Hour), model.SourceHeartbeat, now)
			})),
			verdict: Degraded, reason: PublisherGone, quorum: QuorumHeld, health: "H?H", leader: "main-0", codes: "PublisherGone",
		},
		"hibernated": {
			cluster: cluster(3, func(c *model.Cluster) { c.Wanted.Value = 0 }, at(0, publisherGone), at(1, publisherGone), at(2, publisherGone)),
			verdict: Hibernated, quorum: QuorumIsUnknown, health: "???",
		},
		"a split cluster": {
			cluster: cluster(3, at(2, func(m *model.Member) { m.ClusterID = known("c2"); m.SubState = known("Leader") })),
			verdict: Unhealthy, reason: ClusterSplit, quorum: QuorumIsUnknown, health: "HHU", codes: "ClusterSplit SeveralLeaders",
		},
		"a member that can't be judged proves no split": {
			cluster: cluster(3, at(2, func(m *model.Member) { m.ClusterID = known("c2"); publisherGone(m) })),
			verdict: Degraded, reason: PublisherGone, quorum: QuorumHeld, health: "HH?", leader: "main-0", codes: "PublisherGone",
		},
		"two members with one ID": {
			cluster: cluster(3, at(2, func(m *model.Member) { m.ID = known("a1") })),
			verdict: Unhealthy, reason: DuplicateMemberID, quorum: QuorumIsUnknown, health: "HHH", leader: "main-0", codes: "DuplicateMemberID",
		},
		"a former leader that does not know better": {
			cluster: cluster(3, at(1, func(m *model.Member) { m.SubState, m.RaftTerm = known("Leader"), known(int64(3)) })),
			verdict: Healthy, quorum: QuorumHeld, health: "HHH", leader: "main-1", codes: "SeveralLeaders",
		},
		"alarm NOSPACE": {
			cluster: cluster(3, at(1, func(m *model.Member) { m.Alarms = known([]string{"NOSPACE"}) })),
			verdict: Degraded, reason: AlarmRaised, quorum: QuorumHeld, health: "HHH", leader: "main-0", codes: "AlarmRaised",
		},
		"alarm NOSPACE on all, as agents publish it: they vote all the same": {
			cluster: cluster(3, at(0, alarmed), at(1, alarmed), at(2, alarmed)),
			verdict: Degraded, reason: AlarmRaised, quorum: QuorumHeld, health: "UUU", leader: "main-0", codes: "AlarmRaised AlarmRaised AlarmRaised",
		},
		"read-only volumes on two members that still serve": {
			cluster: cluster(3, at(1, readOnly), at(2, readOnly)),
			verdict: Degraded, reason: DataVolumeReadOnly, quorum: QuorumHeld, health: "HUU", leader: "main-0", codes: "DataVolumeReadOnly DataVolumeReadOnly",
		},
		"read-only volumes on two members whose publishers have gone": {
			cluster: cluster(3, at(1, readOnly), at(2, readOnly), at(1, publisherGone), at(2, publisherGone)),
			verdict: Unknown, reason: QuorumUnknown, quorum: QuorumIsUnknown, health: "HUU", leader: "main-0",
			codes: "QuorumUnknown PublisherGone DataVolumeReadOnly PublisherGone DataVolumeReadOnly",
		},
		"alarm CORRUPT": {
			cluster: cluster(3, at(1, func(m *model.Member) { m.Alarms = known([]string{"CORRUPT"}) })),
			verdict: Unhealthy, reason: DataCorrupt, quorum: QuorumHeld, health: "HUH", leader: "main-0", codes: "DataCorrupt",
		},
		"condition DataCorrupt": {
			cluster: cluster(3, at(1, func(m *model.Member) {
				m.DataCorrupt = known(model.Condition{Status: "True", Message: "bbolt check failed"})
			})),
			verdict: Unhealthy, reason: DataCorrupt, quorum: QuorumHeld, health: "HUH", leader: "main-0", codes: "DataCorrupt",
		},
		"a read-only volume": {
			cluster: cluster(3, at(1, func(m *model.Member) { m.VolumeReadOnly = known(model.Condition{Status: "True"}) })),
			verdict: Degraded, reason: DataVolumeReadOnly, quorum: QuorumHeld, health: "HUH", leader: "main-0", codes: "DataVolumeReadOnly",
		},
		"the wrong volume": {
			cluster: cluster(3, at(1, inState("New", "")), at(1, func(m *model.Member) { m.VolumeMismatch = known("vol-7") })),
			verdict: Degraded, reason: MemberNotStarted, quorum: QuorumHeld, health: "HUH", leader: "main-0", codes: "MemberNotStarted VolumeMismatch",
		},
		"a database near its quota": {
			cluster: cluster(3, at(1, func(m *model.Member) { m.DBSize = known(int64(1700 << 20)) })),
			verdict: Degraded, reason: DatabaseNearQuota, quorum: QuorumHeld, health: "HHH", leader: "main-0", codes: "DatabaseNearQuota",
		},
		"a volume that is nearly full": {
			cluster: cluster(3, at(1, func(m *model.Member) { m.Volume.Value.Available = 0 })),
			verdict: Degraded, reason: DataVolumeFull, quorum: QuorumHeld, health: "HHH", leader: "main-0", codes: "DataVolumeFull",
		},
		"mixed peer TLS": {
			cluster: cluster(3, at(1, func(m *model.Member) { m.PeerTLS = known(false) })),
			verdict: Degraded, reason: PeerTLSMixed, quorum: QuorumHeld, health: "HHH", leader: "main-0", codes: "PeerTLSMixed",
		},
		"mixed versions": {
			cluster: cluster(3, at(1, func(m *model.Member) { m.Version = known("3.6.16") })),
			verdict: Healthy, quorum: QuorumHeld, health: "HHH", leader: "main-0", codes: "VersionsMixed",
		},
		"a clock that is ahead": {
			cluster: cluster(3, at(1, func(m *model.Member) {
				m.Heartbeat = model.Known(now.Add(30*time.Second), model.SourceHeartbeat, now)
			})),
			verdict: Healthy, quorum: QuorumHeld, health: "HHH", leader: "main-0", codes: "HeartbeatInFuture",
		},
		"a state that this version does not know": {
			cluster: cluster(3, at(1, func(m *model.Member) { m.State = known("Transcended") })),
			verdict: Degraded, reason: MemberNotServing, quorum: QuorumHeld, health: "H?H", leader: "main-0", codes: "MemberNotServing",
		},
		"Ready is missing": {
			cluster: cluster(3, at(1, func(m *model.Member) { m.Ready = model.Fact[model.Condition]{} })),
			verdict: Degraded, reason: MemberNotServing, quorum: QuorumHeld, health: "H?H", leader: "main-0", codes: "MemberNotServing",
		},
		"PublisherLost by the controller's word": {
			cluster: cluster(3, at(1, func(m *model.Member) {
				m.Ready = known(model.Condition{Status: "Unknown", Reason: "PublisherLost"})
			})),
			verdict: Degraded, reason: MemberNotServing, quorum: QuorumHeld, health: "H?H", leader: "main-0", codes: "MemberNotServing",
		},
		"something could not be read": {
			cluster: cluster(3, func(c *model.Cluster) {
				c.Problems = append(c.Problems, model.Problem{Subject: "EtcdMember default/main-1", Err: fmt.Errorf("status.dbSize is rubbish")})
			}),
			verdict: Healthy, quorum: QuorumHeld, health: "HHH", leader: "main-0", codes: "Unreadable",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := Judge(tc.cluster, Options{Now: now, FreshnessUnknown: tc.unsure})
			health, codes := glance(t, r)
			check(t, "verdict", r.Verdict, tc.verdict)
			check(t, "reason", r.Reason, tc.reason)
			check(t, "quorum", r.Quorum.State, tc.quorum)
			check(t, "health", health, tc.health)
			check(t, "leader", r.Leader, tc.leader)
			check(t, "findings", codes, tc.codes)
			if t.Failed() {
				t.Logf("message: %s", r.Message)
			}
		})
	}
}

// glance is each member's health as a letter, and the codes of the findings, of which it checks what is true of any report.
func glance(t *testing.T, r Report) (health, codes string) {
	t.Helper()
	var letters, found []string
	for _, m := range r.Members {
		letters = append(letters, map[MemberHealth]string{
			MemberHealthy: "H", MemberUnhealthy: "U", MemberSyncing: "S", MemberUnknown: "?", MemberMissing: "M", MemberStopped: "-",
		}[m.Health])
		if (m.Health == MemberHealthy) != (m.Reason == "") {
			t.Errorf("%s is %s with reason %q: all but the healthy have one", m.Name, m.Health, m.Reason)
		}
	}
	for _, f := range r.Findings {
		found = append(found, string(f.Code))
		if f.Message == "" {
			t.Errorf("finding %s has no message", f.Code)
		}
	}
	return strings.Join(letters, ""), strings.Join(found, " ")
}

func check[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestVerdictClaimsNoMoreThanFactsProve goes through every mixture of members and compares with what a second reading of
// the rules says: quorum may be called Held or Lost only where it is, whatever the members that can't be judged turn out
// to be.
func TestVerdictClaimsNoMoreThanFactsProve(t *testing.T) {
	kinds := []func(*model.Member){
		func(*model.Member) {},         // serves
		notServing("NotAnswering"),     // a voter that is down
		publisherGone,                  // may serve or be down
		inState("Starting", "Learner"), // does not vote
	}
	for _, n := range []int{1, 3, 5} {
		total := 1
		for range n {
			total *= len(kinds)
		}
		for code := range total {
			var serving, down, unknown int
			c := cluster(n)
			for i, rest := 0, code; i < n; i, rest = i+1, rest/len(kinds) {
				kinds[rest%len(kinds)](&c.Members[i])
				switch rest % len(kinds) {
				case 0:
					serving++
				case 1:
					down++
				case 2:
					unknown++
				}
			}
			r := Judge(c, Options{Now: now})
			// A member that was a voter when last seen is still one, or has lost its vote since: both are possible.
			heldInAll, lostInAll := true, true
			for up := 0; up <= unknown; up++ {
				for gone := 0; gone <= unknown-up; gone++ {
					voters := serving + down + unknown - gone
					if voters == 0 {
						continue
					}
					if serving+up >= voters/2+1 {
						lostInAll = false
					} else {
						heldInAll = false
					}
				}
			}
			if serving+down+unknown == 0 {
				heldInAll = false
			}
			if r.Quorum.State == QuorumHeld && !heldInAll {
				t.Errorf("n=%d serving=%d down=%d unknown=%d: quorum is called held, and may be lost", n, serving, down, unknown)
			}
			if r.Quorum.State == QuorumIsLost && !lostInAll {
				t.Errorf("n=%d serving=%d down=%d unknown=%d: quorum is called lost, and may be held", n, serving, down, unknown)
			}
			if r.Verdict == Healthy && serving != n {
				t.Errorf("n=%d serving=%d down=%d unknown=%d: called healthy", n, serving, down, unknown)
			}
			if unknown == 0 && serving+down > 0 && r.Quorum.State == QuorumIsUnknown {
				t.Errorf("n=%d serving=%d down=%d: everything is known, and quorum is called unknown", n, serving, down)
			}
		}
	}
}
