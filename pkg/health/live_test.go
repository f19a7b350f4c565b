package health

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// asked makes a healthy cluster of n members that have all been asked, etcd-main-0 leading, and lets a test spoil it.
func asked(n int, spoil ...func(*model.Cluster)) model.Cluster {
	c := druid(n)
	for i := range c.Members {
		m := &c.Members[i]
		role := "Follower"
		if i == 0 {
			role = "Leader"
		}
		m.ID.Source, m.ClusterID.Source = model.SourceLive, model.SourceLive
		m.State, m.SubState = by(model.SourceLive, "Started"), by(model.SourceLive, role)
		m.Revision, m.RaftTerm = by(model.SourceLive, int64(100)), by(model.SourceLive, int64(2))
		m.RaftIndex, m.RaftAppliedIndex = by(model.SourceLive, int64(120)), by(model.SourceLive, int64(120))
		m.DBSize, m.DBSizeInUse = by(model.SourceLive, int64(20<<20)), by(model.SourceLive, int64(10<<20))
		m.Version, m.Alarms, m.PeerTLS = by(model.SourceLive, "3.7.3"), by(model.SourceLive, []string(nil)), by(model.SourceLive, true)
		m.Live = by(model.SourceLive, model.Live{Reached: true, Serves: true, Leader: "a0", List: list(n)})
	}
	for _, f := range spoil {
		f(&c)
	}
	return c
}

func list(n int) []model.Listed {
	var l []model.Listed
	for i := range n {
		l = append(l, model.Listed{
			ID: fmt.Sprintf("%x", 0xa0+i), Name: fmt.Sprintf("etcd-main-%d", i),
			PeerURLs: []string{fmt.Sprintf("https://etcd-main-%d.etcd-main-peer.shoot.svc:2380", i)},
		})
	}
	return l
}

func live(i int, f func(*model.Live)) func(*model.Cluster) {
	return at(i, func(m *model.Member) { f(&m.Live.Value) })
}

// silent makes a member one that does not answer, of which only what druid's objects say is left.
func silent(reached bool) func(*model.Member) {
	return func(m *model.Member) {
		d := sidecar(int(m.Name[len(m.Name)-1] - '0'))
		d.PodState = m.PodState
		*m = d
		m.Live = by(model.SourceLive, model.Live{Reached: reached, Err: "no answer in time"})
	}
}

// cutOff makes a member answer for itself, and find no leader.
func cutOff(m *model.Member) {
	m.SubState = model.Fact[string]{}
	m.Live.Value.Serves, m.Live.Value.ServeErr, m.Live.Value.Leader = false, "no answer in time", ""
	m.Live.Value.Complaints = []string{"etcdserver: no leader"}
}

// lists changes what all members list.
func lists(change func([]model.Listed) []model.Listed) func(*model.Cluster) {
	return func(c *model.Cluster) {
		for i := range c.Members {
			if c.Members[i].Live.Value.List != nil {
				c.Members[i].Live.Value.List = change(slices.Clone(c.Members[i].Live.Value.List))
			}
		}
	}
}

func learner(m *model.Member) {
	m.State, m.SubState = by(model.SourceLive, "Starting"), by(model.SourceLive, "Learner")
	m.Live.Value.Learner, m.Live.Value.Serves, m.Live.Value.List = true, false, nil
}

func hash(i int, h uint32, revision, compacted int64) func(*model.Cluster) {
	return live(i, func(l *model.Live) {
		l.Hash = &model.Hash{Hash: h, Revision: revision, CompactRevision: compacted}
	})
}

// TestLive has the situations of members that were asked themselves.
func TestLive(t *testing.T) {
	for name, s := range map[string]situation{
		"all is well": {
			cluster: asked(3), verdict: Healthy, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0",
		},
		"a member is frozen": {
			cluster: asked(3, at(2, silent(true))),
			verdict: Degraded, reason: MemberNotServing, quorum: "Held 2/3 2", health: "HHU", leader: "etcd-main-0", codes: "MemberNotServing DruidDisagrees",
		},
		"a member is cut off from the others": {
			cluster: asked(3, at(2, cutOff)),
			verdict: Degraded, reason: MemberNotServing, quorum: "Held 2/3 2", health: "HHU", leader: "etcd-main-0", codes: "MemberNotServing DruidDisagrees",
		},
		"a member is not reached from here, and the others serve": {
			cluster: asked(3, at(2, silent(false))),
			verdict: Degraded, reason: MemberNotServing, quorum: "Held 2/3 2", health: "HHU", leader: "etcd-main-0", codes: "MemberNotServing DruidDisagrees",
		},
		"two are not reached from here, and the third serves: that takes a quorum": {
			cluster: asked(3, at(1, silent(false)), at(2, silent(false))),
			verdict: Degraded, reason: MemberNotServing, quorum: "Held 1/3 2", health: "HUU", leader: "etcd-main-0", codes: "MemberNotServing MemberNotServing DruidDisagrees",
		},
		"two are frozen, and the third finds no leader": {
			cluster: asked(3, at(0, silent(true)), at(1, silent(true)), at(2, cutOff)),
			verdict: Unhealthy, reason: QuorumLost, quorum: "Lost 0/3 2", health: "UUU",
			codes: "QuorumLost MemberNotServing MemberNotServing MemberNotServing NoLeaderKnown DruidDisagrees DruidDisagrees",
		},
		"two are not reached, and the third finds no leader: the two may serve elsewhere": {
			cluster: asked(3, at(0, silent(false)), at(1, silent(false)), at(2, cutOff)),
			verdict: Unknown, reason: QuorumUnknown, quorum: "Unknown 0/3 2", health: "UUU",
			codes: "QuorumUnknown MemberNotServing MemberNotServing MemberNotServing NoLeaderKnown DruidDisagrees",
		},
		"two are not reached, and their kubelets say that they are not ready": {
			cluster: asked(3, pod(0, unready(time.Hour)), pod(1, unready(time.Hour)), at(0, silent(false)), at(1, silent(false)), at(2, cutOff)),
			verdict: Unhealthy, reason: QuorumLost, quorum: "Lost 0/3 2", health: "UUU",
			codes: "QuorumLost MemberNotServing MemberNotServing MemberNotServing NoLeaderKnown DruidDisagrees DruidDisagrees",
		},
		"nobody is reached at all": {
			cluster: asked(3, at(0, silent(false)), at(1, silent(false)), at(2, silent(false))),
			verdict: Unknown, reason: QuorumUnknown, quorum: "Unknown 0/3 2", health: "UUU",
			codes: "QuorumUnknown MemberNotServing MemberNotServing MemberNotServing NoLeaderKnown DruidDisagrees",
		},
		"members could not be asked: what was asked for is not known": {
			cluster: druid(3, func(c *model.Cluster) {
				for i := range c.Members {
					c.Members[i].Live = by(model.SourceLive, model.Live{NotAsked: true, Err: "port-forward is forbidden"})
				}
			}),
			verdict: Unknown, reason: QuorumUnknown, quorum: "Unknown 0/3 2", health: "???", codes: "QuorumUnknown MemberNotAsked MemberNotAsked MemberNotAsked NoLeaderKnown",
		},
		"a member has no pod, so it could not be asked": {
			cluster: asked(3, at(2, func(m *model.Member) {
				silent(false)(m)
				m.Live.Value.NotAsked, m.NoPod, m.PodState = true, true, model.Fact[model.Pod]{}
				noLongerStarted(m)
			})),
			verdict: Degraded, reason: PodMissing, quorum: "Held 2/3 2", health: "HHU", leader: "etcd-main-0", codes: "PodMissing MemberNotAsked DruidDisagrees",
		},
		"authentication is on, and Status is for root: whoever serves is healthy": {
			cluster: asked(1, live(0, func(l *model.Live) {
				l.Refused, l.Err, l.ListErr, l.List = true, "permission denied", "permission denied", nil
			})),
			verdict: Healthy, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0", codes: "MemberNotAsked",
		},
		"permission denied is unknown": {
			cluster: druid(1, at(0, func(m *model.Member) {
				m.Live = by(model.SourceLive, model.Live{Reached: true, Refused: true, Err: "permission denied"})
			})),
			verdict: Unknown, reason: QuorumUnknown, quorum: "Unknown 0/1 1", health: "?", codes: "QuorumUnknown MemberNotAsked NoLeaderKnown",
		},
		"etcd-backup-restore#645: a learner is not a voter": {
			cluster: asked(3, at(2, learner), lists(func(l []model.Listed) []model.Listed { l[2].Learner = true; return l })),
			verdict: Degraded, reason: MemberNotVoting, quorum: "Held 2/2 2", health: "HHS", leader: "etcd-main-0", codes: "MemberNotVoting DruidDisagrees",
		},
		"etcd-io/etcd#18347: a promoted member still acts as a learner": {
			cluster: asked(3, at(2, learner)),
			verdict: Degraded, reason: MemberNotVoting, quorum: "Held 2/2 2", health: "HHS", leader: "etcd-main-0", codes: "MemberNotVoting LearnerMismatch DruidDisagrees",
		},
		"etcd-backup-restore#864: a member was added and never started": {
			cluster: asked(3, at(2, silent(true)), lists(func(l []model.Listed) []model.Listed { l[2].Name, l[2].ID = "", "ff"; return l })),
			verdict: Degraded, reason: MemberNotServing, quorum: "Held 2/3 2", health: "HHU", leader: "etcd-main-0", codes: "MemberNotServing MemberUnstarted DruidDisagrees",
		},
		"a learner is on its way, and another waits for it": {
			cluster: asked(3, at(1, learner), at(2, silent(true)), lists(func(l []model.Listed) []model.Listed { l[1].Learner = true; return l[:2] })),
			verdict: Degraded, reason: MemberNotVoting, quorum: "Held 1/1 1", health: "HSU", leader: "etcd-main-0", codes: "MemberNotVoting MemberNotServing MemberNotJoined LearnerBlocks DruidDisagrees",
		},
		"etcd-io/etcd#14805: a member without a pod counts for the quorum": {
			cluster: asked(3, lists(func(l []model.Listed) []model.Listed {
				return append(l, model.Listed{ID: "a9", Name: "etcd-main-9"})
			})),
			verdict: Degraded, reason: MemberWithoutPod, quorum: "Held 3/4 3", health: "HHHU", leader: "etcd-main-0", codes: "MemberWithoutPod DruidDisagrees",
		},
		"a removed member still answers": {
			cluster: asked(3, at(2, cutOff), live(2, func(l *model.Live) { l.List = nil }), lists(func(l []model.Listed) []model.Listed { return l[:2] })),
			verdict: Degraded, reason: MemberNotServing, quorum: "Held 2/2 2", health: "HHU", leader: "etcd-main-0", codes: "MemberNotServing NotInMembership DruidDisagrees",
		},
		"members see different memberships": {
			cluster: asked(3, live(2, func(l *model.Live) { l.List = l.List[:2] })),
			verdict: Degraded, reason: MembershipDiffers, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "MembershipDiffers",
		},
		"etcd-druid#361: a member has bootstrapped a cluster of its own": {
			cluster: asked(3, at(2, func(m *model.Member) {
				m.ClusterID.Value, m.SubState.Value, m.ID.Value = "c2", "Leader", "b2"
				m.Live.Value.Leader = "b2"
				m.Live.Value.List = []model.Listed{{ID: "b2", Name: "etcd-main-2", PeerURLs: []string{"https://etcd-main-2:2380"}}}
			})),
			verdict: Unhealthy, reason: ClusterSplit, quorum: "Unknown 2/2 2", health: "HHU", codes: "ClusterSplit MembershipDiffers SeveralLeaders DruidDisagrees",
		},
		"etcd-backup-restore#531: NOSPACE on one member, and space was freed": {
			cluster: asked(3, at(1, func(m *model.Member) { m.Alarms.Value = []string{"NOSPACE"} }), func(c *model.Cluster) {
				for i := range c.Members {
					c.Members[i].Live.Value.Alarms = []model.Alarm{{MemberID: "a1", Type: "NOSPACE"}}
				}
			}),
			verdict: Degraded, reason: AlarmRaised, quorum: "Held 3/3 2", health: "HUH", leader: "etcd-main-0", codes: "AlarmRaised DruidDisagrees",
		},
		"etcd-operator#474: an alarm of a member that was removed": {
			cluster: asked(3, live(0, func(l *model.Live) { l.Alarms = []model.Alarm{{MemberID: "dead", Type: "CORRUPT"}} })),
			verdict: Unhealthy, reason: DataCorrupt, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "DataCorrupt",
		},
		"an alarm NOSPACE of a member that was removed": {
			cluster: asked(3, live(0, func(l *model.Live) { l.Alarms = []model.Alarm{{MemberID: "dead", Type: "NOSPACE"}} })),
			verdict: Degraded, reason: AlarmOfRemovedMember, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "AlarmOfRemovedMember",
		},
		"CORRUPT of a member that does not answer, by the word of others": {
			cluster: asked(3, at(2, silent(true)), live(0, func(l *model.Live) { l.Alarms = []model.Alarm{{MemberID: "a2", Type: "CORRUPT"}} })),
			verdict: Unhealthy, reason: DataCorrupt, quorum: "Held 2/3 2", health: "HHU", leader: "etcd-main-0", codes: "DataCorrupt MemberNotServing DruidDisagrees",
		},
		"after --force-new-cluster: two clusters of one ID serve": {
			cluster: asked(3, at(0, func(m *model.Member) { m.RaftTerm.Value = 9 }), live(0, func(l *model.Live) { l.List = l.List[:1] })),
			verdict: Unhealthy, reason: ClusterSplit, quorum: "Unknown 3/3 2", health: "UHH", codes: "ClusterSplit MembershipDiffers DruidDisagrees",
		},
		"nobody answers on this way: the way may be slow, or the port another one": {
			cluster: asked(3, at(0, silent(true)), at(1, silent(true)), at(2, silent(true))),
			verdict: Unknown, reason: QuorumUnknown, quorum: "Unknown 0/3 2", health: "UUU",
			codes: "QuorumUnknown MemberNotServing MemberNotServing MemberNotServing NoLeaderKnown DruidDisagrees",
		},
		"etcd-io/etcd#14849: an alarm that names nobody": {
			cluster: asked(3, live(0, func(l *model.Live) { l.Alarms = []model.Alarm{{MemberID: "0", Type: "CORRUPT"}} })),
			verdict: Unhealthy, reason: DataCorrupt, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "DataCorrupt",
		},
		"an alarm of a member that does not tell it itself": {
			cluster: asked(3, live(0, func(l *model.Live) { l.Alarms = []model.Alarm{{MemberID: "a2", Type: "NOSPACE"}} })),
			verdict: Degraded, reason: AlarmRaised, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "AlarmRaised",
		},
		"etcd-druid#420: one member still advertises http": {
			cluster: asked(3, at(1, func(m *model.Member) { m.PeerTLS.Value = false })),
			verdict: Degraded, reason: PeerTLSMixed, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "PeerTLSMixed PeerTLSNotAsWanted PeerTLSNotAsConfigured",
		},
		"etcd-backup-restore#712: the configuration says TLS, and no running etcd does": {
			cluster: asked(1, func(c *model.Cluster) { c.PeerTLSWanted = model.Fact[bool]{} }, at(0, func(m *model.Member) { m.PeerTLS.Value = false })),
			verdict: Healthy, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0", codes: "PeerTLSNotAsConfigured",
		},
		"etcd-backup-restore#533: a peer URL that no other member reaches": {
			cluster: asked(3, lists(func(l []model.Listed) []model.Listed {
				l[0].PeerURLs = []string{"https://localhost:2380"}
				return l
			})),
			verdict: Degraded, reason: PeerURLUnexpected, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "PeerURLUnexpected",
		},
		"a voter that is far behind": {
			cluster: asked(3, at(0, func(m *model.Member) { m.RaftIndex.Value, m.RaftAppliedIndex.Value = 9000, 9000 }), at(1, func(m *model.Member) { m.RaftIndex.Value, m.RaftAppliedIndex.Value = 9000, 9000 })),
			verdict: Degraded, reason: MemberLagging, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "MemberLagging",
		},
		"etcd-io/etcd#13766: the same entries, and other revisions": {
			cluster: asked(3, at(2, func(m *model.Member) { m.Revision.Value = 99 })),
			verdict: Healthy, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "RevisionsDiffer",
		},
		"all hashes are the same": {
			cluster: asked(3, hash(0, 7, 100, 50), hash(1, 7, 100, 50), hash(2, 7, 100, 50)),
			verdict: Healthy, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0",
		},
		"one member holds different data": {
			cluster: asked(3, hash(0, 7, 100, 50), hash(1, 8, 100, 50), hash(2, 7, 100, 50)),
			verdict: Unhealthy, reason: HashesDiffer, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "HashesDiffer",
		},
		"hashes of different compactions don't compare": {
			cluster: asked(3, hash(0, 7, 100, 50), hash(1, 8, 100, 60), hash(2, 7, 100, 50)),
			verdict: Healthy, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "HashesNotCompared",
		},
		"hashes of different minor versions don't compare": {
			cluster: asked(3, hash(0, 7, 100, 50), hash(1, 8, 100, 50), at(1, func(m *model.Member) { m.Version.Value = "3.6.16" })),
			verdict: Healthy, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "VersionsMixed HashesNotCompared",
		},
		"a hash was refused": {
			cluster: asked(3, live(0, func(l *model.Live) { l.HashErr = "permission denied" })),
			verdict: Healthy, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "HashesNotCompared",
		},
		"etcd complains of something": {
			cluster: asked(1, live(0, func(l *model.Live) { l.Complaints = []string{"something is odd"} })),
			verdict: Healthy, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0", codes: "EtcdComplains",
		},
		"the Lease is missing, and the member itself serves": {
			cluster: asked(3, at(1, func(m *model.Member) {
				m.Lease, m.LeaseRole, m.NoLease = model.Fact[time.Time]{}, model.Fact[string]{}, true
			})),
			verdict: Healthy, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "LeaseMissing",
		},
		"druid counts a member that serves as not ready": {
			cluster: asked(3, etcd(func(e *model.Etcd) { e.Conditions[1].Status = "False" })),
			verdict: Healthy, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "DruidDisagrees",
		},
	} {
		t.Run(name, func(t *testing.T) { s.check(t) })
	}
}

// TestLag: entries behind the furthest member of the same cluster, and not known where nobody was asked.
func TestLag(t *testing.T) {
	r := Judge(asked(3, at(1, func(m *model.Member) { m.RaftAppliedIndex.Value = 100 })), Options{Now: now})
	check(t, "lag of one behind", r.Members[1].Lag.Value, 20)
	check(t, "lag of the leader", r.Members[0].Lag, by(model.SourceLive, int64(0)))
	r = Judge(cluster(3), Options{Now: now})
	check(t, "lag by publications", r.Members[0].Lag.Known(), false)
}

// TestLiveQuorumClaimsNoMoreThanAnswersProve goes through every mixture of answers: quorum is called held only where somebody
// serves, and lost only where so many surely do not that the rest can't be a quorum.
func TestLiveQuorumClaimsNoMoreThanAnswersProve(t *testing.T) {
	kinds := []func(*model.Member){func(*model.Member) {}, cutOff, silent(true), silent(false)}
	for _, n := range []int{1, 3, 5} {
		total := 1
		for range n {
			total *= len(kinds)
		}
		for code := range total {
			c := asked(n)
			counts := make([]int, len(kinds))
			for i, rest := 0, code; i < n; i, rest = i+1, rest/len(kinds) {
				kinds[rest%len(kinds)](&c.Members[i])
				counts[rest%len(kinds)]++
			}
			serving, unreached := counts[0], counts[3]
			told := counts[0] + counts[1]
			r := Judge(c, Options{Now: now})
			switch state := r.Quorum.State; {
			case told > 0 && (state == QuorumHeld) != (serving > 0):
				t.Errorf("n=%d %v: %s, and %d serve", n, counts, state, serving)
			case state == QuorumIsLost && unreached >= n/2+1:
				t.Errorf("n=%d %v: called lost, and those not reached are a quorum", n, counts)
			case state == QuorumHeld && serving == 0:
				t.Errorf("n=%d %v: called held, and nobody serves", n, counts)
			}
			if r.Verdict == Healthy && serving != n {
				t.Errorf("n=%d %v: called healthy", n, counts)
			}
		}
	}
}
