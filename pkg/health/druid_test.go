package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

func by[T any](source model.Source, v T) model.Fact[T] { return model.Known(v, source, now) }

// druid makes a healthy cluster of n members as today's druid shows it, etcd-main-0 leading, and lets a test spoil it.
func druid(n int, spoil ...func(*model.Cluster)) model.Cluster {
	c := model.Cluster{
		Key:           model.Key{Namespace: "shoot", Kind: model.KindEtcd, Name: "etcd-main"},
		Wanted:        by(model.SourceWorkload, n),
		PodsRead:      true,
		PeerTLSWanted: by(model.SourceWorkload, true),
		Backups: by(model.SourceSnapshotLease, model.Backups{
			Full:         model.Snapshot{Time: now.Add(-2 * time.Hour), Revision: 90},
			Delta:        model.Snapshot{Time: now.Add(-time.Minute), Revision: 100},
			FullSchedule: "0 */24 * * *", FullInterval: 24 * time.Hour, DeltaPeriod: 5 * time.Minute,
		}),
		Etcd: by(model.SourceEtcdStatus, model.Etcd{
			Generation: 3, ObservedGeneration: 3, StatusMembers: n, StorageClass: "fast", StorageCapacity: 1 << 30,
			LastOperation: model.Operation{Type: "Reconcile", State: "Succeeded", Time: now.Add(-time.Hour)},
			Conditions: []model.Condition{
				{Type: "Ready", Status: "True", Reason: "Quorate"}, {Type: "AllMembersReady", Status: "True", Reason: "AllMembersReady"},
			},
		}),
		Set: by(model.SourceWorkload, model.StatefulSet{
			UID: "set", Replicas: n, ReadyReplicas: n, CurrentRevision: "r1", UpdateRevision: "r1", Generation: 1, ObservedGeneration: 1,
		}),
	}
	for i := range n {
		c.Members = append(c.Members, sidecar(i))
	}
	for _, f := range spoil {
		f(&c)
	}
	return c
}

func sidecar(i int) model.Member {
	name := fmt.Sprintf("etcd-main-%d", i)
	role := "Member"
	if i == 0 {
		role = "Leader"
	}
	id := fmt.Sprintf("%x", 0xa0+i)
	return model.Member{
		Name: name, Pod: name, Created: now.Add(-24 * time.Hour),
		ID: by(model.SourceMemberLease, id), ClusterID: by(model.SourceMemberLease, "c1"),
		State:     by(model.SourcePod, "Started"),
		Lease:     model.Known(now.Add(-5*time.Second), model.SourceMemberLease, now.Add(-5*time.Second)),
		LeaseRole: by(model.SourceMemberLease, role), PeerTLSConfigured: by(model.SourceMemberLease, true),
		EtcdStatus:  by(model.SourceEtcdStatus, model.EtcdStatusMember{ID: id, Role: role, Status: "Ready", Reason: "LeaseSucceeded"}),
		DBSizeQuota: by(model.SourceWorkload, int64(8<<30)),
		PodState: by(model.SourcePod, model.Pod{
			UID: "p", Phase: "Running", Node: "node1", Created: now.Add(-24 * time.Hour), Ready: "True", ContainersReady: "True",
			RevisionHash: "r1", OwnerUID: "set",
			Etcd: model.Container{Name: "etcd", Ready: true, State: "Running", Since: now.Add(-24 * time.Hour)},
		}),
		Claim: by(model.SourceClaim, model.Claim{
			Name: "etcd-main-" + name, UID: "u" + name, Phase: "Bound", Volume: "pv-" + name, StorageClass: "fast", Requested: 1 << 30, Capacity: 1 << 30,
		}),
	}
}

func pod(i int, f func(*model.Pod)) func(*model.Cluster) {
	return at(i, func(m *model.Member) { f(&m.PodState.Value) })
}

func unready(since time.Duration) func(*model.Pod) {
	return func(p *model.Pod) {
		p.Ready, p.ContainersReady, p.Etcd.Ready = "False", "False", false
		p.Etcd.Since = now.Add(-since)
	}
}

func noLongerStarted(m *model.Member) { m.State = model.Fact[string]{} }

func lease(age time.Duration) func(*model.Member) {
	return func(m *model.Member) {
		m.Lease = model.Known(now.Add(-age), model.SourceMemberLease, now.Add(-age))
	}
}

func etcd(f func(*model.Etcd)) func(*model.Cluster) {
	return func(c *model.Cluster) { f(&c.Etcd.Value) }
}

func claim(i int, f func(*model.Claim)) func(*model.Cluster) {
	return at(i, func(m *model.Member) { f(&m.Claim.Value) })
}

// situation is a cluster and what is to be said of it.
type situation struct {
	cluster model.Cluster
	verdict Verdict
	reason  Code
	quorum  string // state, healthy/voters, needed
	// health is each member's first letter, in the order of names: H, U, S, ?, M, - (Stopped).
	health, leader, codes string
}

func (s situation) check(t *testing.T) Report {
	t.Helper()
	r := Judge(s.cluster, Options{Now: now})
	health, codes := glance(t, r)
	check(t, "verdict", r.Verdict, s.verdict)
	check(t, "reason", r.Reason, s.reason)
	check(t, "quorum", fmt.Sprintf("%s %d/%d %d", r.Quorum.State, r.Quorum.Healthy, r.Quorum.Voters, r.Quorum.Needed), s.quorum)
	check(t, "health", health, s.health)
	check(t, "leader", r.Leader, s.leader)
	check(t, "findings", codes, s.codes)
	if t.Failed() {
		t.Logf("message: %s", r.Message)
	}
	return r
}

// TestDruid has the situations of members that publish nothing, which are judged by pods and Leases.
func TestDruid(t *testing.T) {
	for name, s := range map[string]situation{
		"all is well": {
			cluster: druid(3), verdict: Healthy, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0",
		},
		"a single member": {
			cluster: druid(1), verdict: Healthy, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0",
		},
		"etcd is not ready for long": {
			cluster: druid(3, pod(2, unready(time.Hour)), at(2, lease(90*time.Second))),
			verdict: Degraded, reason: MemberNotServing, quorum: "Held 2/3 2", health: "HHU", leader: "etcd-main-0", codes: "MemberNotServing DruidDisagrees",
		},
		"etcd has just been started: its probe may not have come round": {
			cluster: druid(1, pod(0, unready(20*time.Second)), at(0, lease(25*time.Second))),
			verdict: Unknown, reason: QuorumUnknown, quorum: "Unknown 0/1 1", health: "?", codes: "QuorumUnknown MemberNotServing NoLeaderKnown",
		},
		"two of three are not ready: quorum is lost, whatever druid says": {
			cluster: druid(3, pod(0, unready(time.Hour)), pod(1, unready(time.Hour)), pod(2, unready(time.Hour)), at(0, lease(40*time.Second)), at(1, lease(40*time.Second)), at(2, lease(40*time.Second))),
			verdict: Unhealthy, reason: QuorumLost, quorum: "Lost 0/3 2", health: "UUU",
			codes: "QuorumLost MemberNotServing MemberNotServing MemberNotServing NoLeaderKnown DruidDisagrees DruidDisagrees",
		},
		"a stale Lease proves nothing": {
			cluster: druid(3, at(1, lease(31*time.Second))),
			verdict: Degraded, reason: LeaseExpired, quorum: "Held 2/3 2", health: "H?H", leader: "etcd-main-0", codes: "LeaseExpired",
		},
		"a Lease of 30 s is fresh": {
			cluster: druid(3, at(1, lease(30*time.Second))), verdict: Healthy, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0",
		},
		"a Lease a little in the future": {
			cluster: druid(3, at(1, lease(-20*time.Second))),
			verdict: Healthy, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "HeartbeatInFuture",
		},
		"a Lease far in the future proves nothing": {
			cluster: druid(3, at(1, lease(-time.Hour))),
			verdict: Degraded, reason: LeaseExpired, quorum: "Held 2/3 2", health: "H?H", leader: "etcd-main-0", codes: "LeaseExpired",
		},
		"etcd-druid#320: a Lease is missing, which does not make its member down": {
			cluster: druid(3, at(1, func(m *model.Member) {
				m.Lease, m.LeaseRole, m.NoLease = model.Fact[time.Time]{}, model.Fact[string]{}, true
			})),
			verdict: Degraded, reason: LeaseMissing, quorum: "Held 2/3 2", health: "H?H", leader: "etcd-main-0", codes: "LeaseMissing",
		},
		"Leases can't be read": {
			cluster: druid(1, at(0, func(m *model.Member) {
				m.Lease, m.LeaseRole = model.Fact[time.Time]{}, model.Fact[string]{}
			})),
			verdict: Unknown, reason: QuorumUnknown, quorum: "Unknown 0/1 1", health: "?", codes: "QuorumUnknown LeaseMissing NoLeaderKnown",
		},
		"the holder of a Lease was cleared": {
			cluster: druid(3, at(1, func(m *model.Member) { m.Lease.Value, m.LeaseRole = time.Time{}, model.Fact[string]{} })),
			verdict: Degraded, reason: LeaseExpired, quorum: "Held 2/3 2", health: "H?H", leader: "etcd-main-0", codes: "LeaseExpired",
		},
		"etcd-druid#557: a member has not joined, and druid says that all are ready": {
			cluster: druid(3, pod(1, unready(time.Hour)), at(1, func(m *model.Member) {
				m.Lease.Value, m.LeaseRole, m.EtcdStatus, m.NotInEtcdStatus = time.Time{}, model.Fact[string]{}, model.Fact[model.EtcdStatusMember]{}, true
				m.ID, m.ClusterID = model.Fact[string]{}, model.Fact[string]{}
				noLongerStarted(m)
			}), etcd(func(e *model.Etcd) { e.StatusMembers = 2 })),
			verdict: Degraded, reason: MemberNotJoined, quorum: "Held 2/3 2", health: "HUH", leader: "etcd-main-0", codes: "MemberNotJoined StatusMembersShort DruidDisagrees",
		},
		"a pod is missing": {
			cluster: druid(3, at(2, func(m *model.Member) {
				m.PodState, m.NoPod = model.Fact[model.Pod]{}, true
				noLongerStarted(m)
			})),
			verdict: Degraded, reason: PodMissing, quorum: "Held 2/3 2", health: "HHU", leader: "etcd-main-0", codes: "PodMissing DruidDisagrees",
		},
		"nothing is there of a wanted member": {
			cluster: druid(3, func(c *model.Cluster) { c.Members = c.Members[:2] }),
			verdict: Degraded, reason: MembersMissing, quorum: "Held 2/3 2", health: "HHM", leader: "etcd-main-0", codes: "MembersMissing DruidDisagrees",
		},
		"pods can't be read": {
			cluster: druid(3, func(c *model.Cluster) {
				c.PodsRead = false
				for i := range c.Members {
					c.Members[i].PodState = model.Fact[model.Pod]{}
					noLongerStarted(&c.Members[i])
				}
			}),
			verdict: Unknown, reason: QuorumUnknown, quorum: "Unknown 0/3 2", health: "???", codes: "QuorumUnknown PodUnread PodUnread PodUnread NoLeaderKnown",
		},
		"etcd-operator#358: a pod is being deleted, and is not healthy any more": {
			cluster: druid(3, pod(2, func(p *model.Pod) { p.Deleting = now.Add(20 * time.Second) })),
			verdict: Degraded, reason: PodTerminating, quorum: "Held 2/3 2", health: "HHU", leader: "etcd-main-0", codes: "PodTerminating DruidDisagrees",
		},
		"cozystack/etcd-operator#368: a pod has Failed with its node's shutdown": {
			cluster: druid(3, pod(2, func(p *model.Pod) { p.Phase, p.Reason, p.Ready, p.Etcd.Ready = "Failed", "Terminated", "False", false }), at(2, noLongerStarted)),
			verdict: Degraded, reason: PodNotRunning, quorum: "Held 2/3 2", health: "HHU", leader: "etcd-main-0", codes: "PodNotRunning DruidDisagrees",
		},
		"a pod waits for a claim that is not bound": {
			cluster: druid(3, pod(2, func(p *model.Pod) {
				p.Phase, p.Ready, p.ContainersReady, p.Etcd, p.Reason = "Pending", "False", "False", model.Container{Name: "etcd"}, "Unschedulable"
			}), claim(2, func(c *model.Claim) { c.Phase, c.Created = "Pending", now.Add(-time.Minute) }), at(2, noLongerStarted)),
			verdict: Degraded, reason: PodNotRunning, quorum: "Held 2/3 2", health: "HHU", leader: "etcd-main-0", codes: "PodNotRunning ClaimPending DruidDisagrees",
		},
		"cozystack/etcd-operator#336: etcd crashes again and again": {
			cluster: druid(3, pod(2, func(p *model.Pod) {
				unready(time.Minute)(p)
				p.Etcd.State, p.Etcd.Reason, p.Etcd.Restarts = "Waiting", "CrashLoopBackOff", 7
			}), at(2, noLongerStarted)),
			verdict: Degraded, reason: PodNotRunning, quorum: "Held 2/3 2", health: "HHU", leader: "etcd-main-0", codes: "PodNotRunning DruidDisagrees",
		},
		"a node is not heard of": {
			cluster: druid(3, pod(2, func(p *model.Pod) { p.Ready = "False" })),
			verdict: Degraded, reason: NodeLost, quorum: "Held 2/3 2", health: "HH?", leader: "etcd-main-0", codes: "NodeLost",
		},
		"two nodes are not heard of: whether quorum holds is not known": {
			cluster: druid(3, pod(2, func(p *model.Pod) { p.Ready = "False" }), pod(1, func(p *model.Pod) { p.Ready = "False" })),
			verdict: Unknown, reason: QuorumUnknown, quorum: "Unknown 1/3 2", health: "H??", leader: "etcd-main-0", codes: "QuorumUnknown NodeLost NodeLost",
		},
		"two Leases say Leader: the one renewed later is right": {
			cluster: druid(3, at(0, lease(22*time.Second)), at(2, func(m *model.Member) { m.LeaseRole.Value = "Leader" })),
			verdict: Healthy, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-2", codes: "SeveralLeaders",
		},
		"the Lease of before a restart says nothing of who leads": {
			cluster: druid(3, pod(0, func(p *model.Pod) { p.Etcd.Since = now.Add(-2 * time.Second) })),
			verdict: Healthy, quorum: "Held 3/3 2", health: "HHH", codes: "NoLeaderKnown",
		},
		"etcd-druid#1022: a split cluster, and druid's conditions look fine": {
			cluster: druid(3, at(2, func(m *model.Member) { m.ClusterID.Value, m.LeaseRole.Value = "c2", "Leader" })),
			verdict: Unhealthy, reason: ClusterSplit, quorum: "Unknown 3/3 2", health: "HHU", codes: "ClusterSplit SeveralLeaders DruidDisagrees",
		},
		"the Lease of before a restore proves no split": {
			cluster: druid(3, pod(2, unready(90*time.Second)), at(2, lease(94*time.Second)), at(2, func(m *model.Member) { m.ClusterID.Value = "c2" }), at(2, noLongerStarted)),
			verdict: Degraded, reason: MemberNotServing, quorum: "Held 2/3 2", health: "HHU", leader: "etcd-main-0", codes: "MemberNotServing DruidDisagrees",
		},
		"an unready member of another cluster, by its fresh Lease": {
			cluster: druid(3, pod(2, unready(90*time.Second)), at(2, func(m *model.Member) { m.ClusterID.Value = "c2" }), at(2, noLongerStarted)),
			verdict: Unhealthy, reason: ClusterSplit, quorum: "Unknown 2/3 2", health: "HHU", codes: "ClusterSplit MemberNotServing DruidDisagrees",
		},
		"a readiness gate is not a lost node": {
			cluster: druid(1, pod(0, func(p *model.Pod) { p.Ready, p.ReadyReason = "False", "ReadinessGatesNotReady" })),
			verdict: Healthy, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0",
		},
		"hibernated: Leases of before are no members": {
			cluster: druid(3, func(c *model.Cluster) {
				c.Wanted.Value, c.Set.Value.Replicas = 0, 0
				for i := range c.Members {
					c.Members[i].PodState, c.Members[i].NoPod = model.Fact[model.Pod]{}, true
				}
			}),
			verdict: Hibernated, quorum: "Unknown 0/3 2", health: "---",
		},
		"asked to hibernate, and still running: what is wrong is told": {
			cluster: druid(3, func(c *model.Cluster) { c.Wanted.Value = 0 }, claim(2, func(c *model.Claim) { c.Deleting = now })),
			verdict: Hibernated, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "ClaimTerminating ReplicasDiffer",
		},
		"it publishes that it serves, and its kubelet says that it crashes": {
			cluster: cluster(3, at(2, func(m *model.Member) {
				m.PodState = by(model.SourcePod, model.Pod{Phase: "Running", Ready: "False", Etcd: model.Container{Name: "etcd", State: "Waiting", Reason: "CrashLoopBackOff", Restarts: 9}})
			})),
			verdict: Degraded, reason: PodNotRunning, quorum: "Held 2/3 2", health: "HHU", leader: "main-0", codes: "PodNotRunning",
		},
		"all publish that they serve, and their kubelets say that they crash": {
			cluster: cluster(3, func(c *model.Cluster) {
				for i := range c.Members {
					c.Members[i].PodState = by(model.SourcePod, model.Pod{Phase: "Running", Ready: "False", Etcd: model.Container{Name: "etcd", State: "Waiting", Reason: "CrashLoopBackOff", Restarts: 9}})
				}
			}),
			verdict: Unknown, reason: QuorumUnknown, quorum: "Unknown 0/3 2", health: "UUU", codes: "QuorumUnknown PodNotRunning PodNotRunning PodNotRunning NoLeaderKnown",
		},
		"it publishes that it serves, and its pod is being deleted": {
			cluster: cluster(3, at(2, func(m *model.Member) {
				m.PodState = by(model.SourcePod, model.Pod{Phase: "Running", Deleting: now, Etcd: model.Container{Name: "etcd", State: "Running", Ready: true}})
			})),
			verdict: Degraded, reason: PodTerminating, quorum: "Held 2/3 2", health: "HHU", leader: "main-0", codes: "PodTerminating",
		},
		"a learner that is said to be Started is a learner all the same": {
			cluster: cluster(3, at(2, func(m *model.Member) { m.SubState = known("Learner") })),
			verdict: Degraded, reason: MemberNotVoting, quorum: "Held 2/2 2", health: "HHS", leader: "main-0", codes: "MemberNotVoting",
		},
		"etcd-io/etcd-operator#193: the StatefulSet has shrunk to what druid counts": {
			cluster: druid(3, func(c *model.Cluster) { c.Set.Value.Replicas = 2 }, pod(2, func(p *model.Pod) { p.Deleting = now.Add(20 * time.Second) }), etcd(func(e *model.Etcd) { e.StatusMembers = 2 })),
			verdict: Degraded, reason: PodTerminating, quorum: "Held 2/3 2", health: "HHU", leader: "etcd-main-0", codes: "PodTerminating ReplicasDiffer StatusMembersShort DruidDisagrees",
		},
		"druid counts too few members, and the StatefulSet is gone: now it matters": {
			cluster: druid(3, func(c *model.Cluster) { c.Set, c.NoSet = model.Fact[model.StatefulSet]{}, true }, etcd(func(e *model.Etcd) { e.StatusMembers = 2 })),
			verdict: Degraded, reason: StatefulSetMissing, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "StatefulSetMissing StatusMembersShort",
		},
		"etcd-io/etcd#14805: members and claims of before scaling in": {
			cluster: druid(3, func(c *model.Cluster) {
				c.Wanted.Value, c.Set.Value.Replicas, c.Etcd.Value.StatusMembers = 1, 1, 1
				c.Members = c.Members[:1]
				c.LooseClaims = []model.Claim{{Name: "etcd-main-etcd-main-1"}}
			}),
			verdict: Healthy, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0", codes: "ClaimWithoutMember",
		},
		"a claim is being deleted under a healthy member": {
			cluster: druid(3, claim(2, func(c *model.Claim) { c.Deleting = now })),
			verdict: Degraded, reason: ClaimTerminating, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "ClaimTerminating",
		},
		"kubernetes#89910: a pod runs on a claim that does not exist": {
			cluster: druid(3, at(2, func(m *model.Member) { m.Claim, m.NoClaim = model.Fact[model.Claim]{}, true })),
			verdict: Degraded, reason: ClaimMissing, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "ClaimMissing",
		},
		"a claim has lost its volume": {
			cluster: druid(3, claim(2, func(c *model.Claim) { c.Phase = "Lost" })),
			verdict: Degraded, reason: ClaimPending, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "ClaimPending",
		},
		"kubernetes#74374: a member runs on a claim that was replaced": {
			cluster: druid(3, at(2, func(m *model.Member) {
				m.Volume = by(model.SourceAgent, model.Volume{Claim: m.Claim.Value.Name, ClaimUID: "old"})
			})),
			verdict: Degraded, reason: ClaimReplaced, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "ClaimReplaced",
		},
		"volumes are not of the wanted size and class": {
			cluster: druid(1, etcd(func(e *model.Etcd) { e.StorageCapacity, e.StorageClass = 2<<30, "faster" })),
			verdict: Healthy, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0", codes: "VolumeNotAsWanted VolumeNotAsWanted",
		},
		"the claim template can't be changed": {
			cluster: druid(1, etcd(func(e *model.Etcd) {
				e.Generation, e.LastOperation.State = 4, "Error"
				e.LastErrors = []model.Error{{Code: "ERR_SYNC_STATEFULSET", Description: "Forbidden: updates to statefulset spec for fields other than 'replicas'"}}
			})),
			verdict: Degraded, reason: ReconcileFailed, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0", codes: "ReconcileFailed",
		},
		"etcd-druid#898: a change is never carried out": {
			cluster: druid(1, etcd(func(e *model.Etcd) { e.Generation = 4 })),
			verdict: Healthy, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0", codes: "SpecNotReconciled",
		},
		"a change has just been made": {
			cluster: druid(1, etcd(func(e *model.Etcd) { e.Generation, e.LastOperation.Time = 4, now.Add(-time.Minute) })),
			verdict: Healthy, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0", codes: "SpecNotReconciled",
		},
		"an Etcd that druid has never looked at": {
			cluster: druid(1, func(c *model.Cluster) {
				c.Etcd.Value = model.Etcd{Generation: 1}
				c.Members = nil
			}),
			verdict: Unhealthy, reason: QuorumLost, quorum: "Lost 0/1 1", health: "M", codes: "QuorumLost MembersMissing NoLeaderKnown SpecNotReconciled",
		},
		"druid is suspended, and a change waits": {
			cluster: druid(1, etcd(func(e *model.Etcd) { e.Generation, e.Suspended, e.ProtectionDisabled = 4, true, true })),
			verdict: Healthy, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0", codes: "ReconcileSuspended ProtectionDisabled",
		},
		"druid and an EtcdOpsTask are at work": {
			cluster: druid(1, etcd(func(e *model.Etcd) { e.LastOperation.State = "Processing" }), func(c *model.Cluster) {
				c.Tasks = []model.Task{{Name: "snap", Type: "onDemandSnapshot", State: "InProgress"}}
			}),
			verdict: Healthy, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0", codes: "OperationInProgress OperationInProgress",
		},
		"etcd-druid#877: a rollout is under way": {
			cluster: druid(3, pod(0, func(p *model.Pod) { p.RevisionHash = "r0" })),
			verdict: Healthy, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "RolloutPending",
		},
		"etcd-backup-restore#678: a full snapshot is overdue": {
			cluster: druid(1, func(c *model.Cluster) { c.Backups.Value.Full.Time = now.Add(-27 * time.Hour) }),
			verdict: Degraded, reason: BackupStale, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0", codes: "BackupStale",
		},
		"etcd-druid#905: delta snapshots are overdue": {
			cluster: druid(1, func(c *model.Cluster) { c.Backups.Value.Delta.Time = now.Add(-11 * time.Minute) }),
			verdict: Degraded, reason: BackupStale, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0", codes: "BackupStale",
		},
		"no full snapshot was ever taken": {
			cluster: druid(1, func(c *model.Cluster) { c.Backups.Value.Full = model.Snapshot{} }),
			verdict: Degraded, reason: BackupMissing, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0", codes: "BackupMissing",
		},
		"a snapshot Lease with rubbish": {
			cluster: druid(1, func(c *model.Cluster) { c.Backups.Value.Full = model.Snapshot{Unreadable: "rubbish"} }),
			verdict: Degraded, reason: BackupUnknown, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0", codes: "BackupUnknown",
		},
		"no backups are wanted": {
			cluster: druid(1, func(c *model.Cluster) { c.Backups = model.Fact[model.Backups]{} }),
			verdict: Healthy, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0",
		},
		"some members have EtcdMembers, and druid's objects tell of the others": {
			cluster: druid(3, at(0, func(m *model.Member) {
				v := voter(0)
				v.Name, v.Pod, v.PodState, v.Lease, v.LeaseRole, v.Claim, v.HasEtcdMember = m.Name, m.Pod, m.PodState, m.Lease, m.LeaseRole, m.Claim, true
				v.ClusterID, v.Volume = known("c1"), model.Fact[model.Volume]{}
				*m = v
			})),
			verdict: Healthy, quorum: "Held 3/3 2", health: "HHH", leader: "etcd-main-0", codes: "EtcdMembersMissing",
		},
		"an EtcdMember whose agent has gone, and the sidecar says that its member is well": {
			cluster: druid(1, at(0, func(m *model.Member) {
				m.HasEtcdMember = true
				m.Published = known(now.Add(-time.Hour))
				m.Heartbeat = model.Known(now.Add(-time.Hour), model.SourceHeartbeat, now.Add(-time.Hour))
			})),
			verdict: Healthy, quorum: "Held 1/1 1", health: "H", leader: "etcd-main-0", codes: "PublisherGone",
		},
		"a fresh publication of a pod that has gone meanwhile": {
			cluster: cluster(3, at(2, func(m *model.Member) { m.HasEtcdMember, m.NoPod = true, true }), func(c *model.Cluster) { c.PodsRead = true }),
			verdict: Degraded, reason: PodMissing, quorum: "Held 2/3 2", health: "HHU", leader: "main-0", codes: "PodMissing",
		},
	} {
		t.Run(name, func(t *testing.T) { s.check(t) })
	}
}

// TestAdviceDoesNoHarm: what to do about one thing must not make another worse.
func TestAdviceDoesNoHarm(t *testing.T) {
	advice := func(c model.Cluster, code Code) string {
		for _, f := range Judge(c, Options{Now: now}).Findings {
			if f.Code == code {
				return f.Advice
			}
		}
		t.Fatalf("there is no finding %s", code)
		return ""
	}
	gone := func(c *model.Cluster) { c.Set, c.NoSet = model.Fact[model.StatefulSet]{}, true }
	short := etcd(func(e *model.Etcd) { e.StatusMembers = 2 })
	noLease := at(1, func(m *model.Member) {
		m.Lease, m.LeaseRole, m.NoLease = model.Fact[time.Time]{}, model.Fact[string]{}, true
	})
	const reconcile = "operation=reconcile"
	for name, c := range map[string]struct {
		cluster model.Cluster
		code    Code
		not     string
		want    string
	}{
		"the set is missing, and druid counts all members":      {druid(3, gone), StatefulSetMissing, "suspend", reconcile},
		"the set is missing, and druid would make it too small": {druid(3, gone, short), StatefulSetMissing, reconcile, "suspend"},
		"a pod has ended, and there is no set to make it anew":  {druid(3, gone, pod(2, func(p *model.Pod) { p.Phase = "Failed" })), PodNotRunning, "kubectl delete", "delete nothing"},
		"a Lease is missing, and a change waits":                {druid(3, noLease, etcd(func(e *model.Etcd) { e.Generation = 9 })), LeaseMissing, "annotate", "no change of the Etcd waits"},
		"a change waits, and a member is down":                  {druid(3, pod(2, unready(time.Hour)), etcd(func(e *model.Etcd) { e.Generation = 9 })), SpecNotReconciled, "annotate", "when all of them are well"},
		"one holds this, and one holds that":                    {asked(2, hash(0, 7, 100, 50), hash(1, 8, 100, 50)), HashesDiffer, "most members", "no majority"},
		"two hold this, and one holds that":                     {asked(3, hash(0, 7, 100, 50), hash(1, 8, 100, 50), hash(2, 7, 100, 50)), HashesDiffer, "no majority", "most members"},
		"the set is missing, and a Lease with it":               {druid(3, gone, short, noLease), LeaseMissing, "annotate", "let druid not reconcile"},
		"a pod runs on a claim that is gone":                    {druid(3, at(2, func(m *model.Member) { m.Claim, m.NoClaim = model.Fact[model.Claim]{}, true })), ClaimMissing, "delete", "restart nothing"},
		"a claim that is being deleted before it was bound":     {druid(3, claim(2, func(c *model.Claim) { c.Deleting, c.Volume = now, "" })), ClaimTerminating, "patch", "restart no other"},
		"peer TLS is being turned on":                           {asked(3, at(1, func(m *model.Member) { m.PeerTLS.Value = false }), etcd(func(e *model.Etcd) { e.LastOperation.State = "Requeue" })), PeerTLSNotAsWanted, "restart", "wait"},
		"the log of a leader with a prefix is in its pod":       {druid(1, func(c *model.Cluster) { c.Backups.Value.Full = model.Snapshot{} }, at(0, func(m *model.Member) { m.Name = "v2-" + m.Name })), BackupMissing, "v2-", "logs etcd-main-0 "},
	} {
		t.Run(name, func(t *testing.T) {
			if got := advice(c.cluster, c.code); strings.Contains(got, c.not) || !strings.Contains(got, c.want) {
				t.Errorf("advice is %q: it must say %q and not %q", got, c.want, c.not)
			}
		})
	}
}

// TestPlainStatefulSet: what a probe of somebody else's asks is not known, so readiness proves nothing.
func TestPlainStatefulSet(t *testing.T) {
	plain := func(spoil ...func(*model.Cluster)) model.Cluster {
		c := druid(3, spoil...)
		c.Key.Kind = model.KindStatefulSet
		c.Etcd, c.Backups, c.PeerTLSWanted = model.Fact[model.Etcd]{}, model.Fact[model.Backups]{}, model.Fact[bool]{}
		for i := range c.Members {
			m := &c.Members[i]
			*m = model.Member{Name: m.Name, Pod: m.Pod, PodState: m.PodState, NoPod: m.NoPod, Claim: m.Claim}
		}
		return c
	}
	for name, s := range map[string]situation{
		"ready pods prove nothing": {
			cluster: plain(), verdict: Unknown, reason: QuorumUnknown, quorum: "Unknown 0/3 2", health: "???", codes: "QuorumUnknown NotProven NotProven NotProven NoLeaderKnown",
		},
		"unready pods prove nothing either": {
			cluster: plain(pod(0, unready(time.Hour)), pod(1, unready(time.Hour)), pod(2, unready(time.Hour))),
			verdict: Unknown, reason: QuorumUnknown, quorum: "Unknown 0/3 2", health: "UUU", codes: "QuorumUnknown MemberNotServing MemberNotServing MemberNotServing NoLeaderKnown",
		},
		"no container is known to run etcd": {
			cluster: plain(pod(0, func(p *model.Pod) { p.Etcd = model.Container{} })),
			verdict: Unknown, reason: QuorumUnknown, quorum: "Unknown 0/3 2", health: "???", codes: "QuorumUnknown PodUnread NotProven NotProven NoLeaderKnown",
		},
	} {
		t.Run(name, func(t *testing.T) { s.check(t) })
	}
}

// TestLeaseMeansNothingWithoutAClock: Leases in files whose time nobody else tells are never fresh.
func TestLeaseMeansNothingWithoutAClock(t *testing.T) {
	r := Judge(druid(3), Options{Now: now, FreshnessUnknown: true})
	check(t, "verdict", r.Verdict, Unknown)
	if slices.ContainsFunc(r.Members, func(m MemberReport) bool { return m.Health == MemberHealthy || m.Role != "" }) {
		t.Errorf("a member is healthy, or has a role: %+v", r.Members)
	}
}
