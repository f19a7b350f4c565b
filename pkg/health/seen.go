package health

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// Limits for what is judged by pods and by the Leases of druid's backup sidecar.
const (
	// LeaseStaleAfter is how old a member Lease may be. The sidecar renews it every 10 s, and stops where it finds no leader.
	LeaseStaleAfter = 30 * time.Second
	// StartGrace is how long a container that has just been started may be unready and serve all the same: druid's readiness
	// probe waits for 15 s and then asks every 5 s.
	StartGrace = 60 * time.Second
)

// seenMember judges a member that does not publish, by its pod and by druid's Lease. Roles, and whether a member has caught
// up, can't be proven so.
func (j *judge) seenMember(m model.Member, set setter) vote {
	pod, podKnown := m.PodState.Get()
	druid := j.report.Key.Kind == model.KindEtcd
	down := func(code Code, reason, message, advice string) vote {
		set(MemberUnhealthy, reason, message)
		j.find(code, Warning, m.Name, message, advice)
		return voteDown
	}
	unsure := func(code Code, reason, message, advice string) vote {
		set(MemberUnknown, reason, message)
		j.find(code, Warning, m.Name, message, advice)
		return voteUnknown
	}
	describe := "kubectl describe pod " + m.Pod + j.inNamespace()
	etcd := pod.Etcd
	switch {
	case m.NoPod:
		return down(PodMissing, string(PodMissing), "there is no pod "+m.Pod, "see why it is not created: kubectl describe statefulset "+j.report.Key.Name+j.inNamespace())
	case !podKnown:
		return unsure(PodUnread, string(PodUnread), "what its pod does is not known", "make pods readable, add them to the files, or ask the member itself with --live")
	case pod.Phase == "Succeeded" || pod.Phase == "Failed":
		return down(PodNotRunning, "Pod"+pod.Phase, fmt.Sprintf("its pod has ended: it is %s%s", pod.Phase, because(pod.Reason, pod.Message)), j.deletePod(m))
	case !pod.Deleting.IsZero():
		set(MemberUnhealthy, string(PodTerminating), "its pod is being deleted")
		j.find(PodTerminating, Warning, m.Name, "its pod is being deleted", "wait until it is back, and restart no other member meanwhile")
		if etcd.Ready {
			return voteUnknown // it serves until it stops
		}
		return voteDown
	case pod.Phase == "Pending" && etcd.State != "Running":
		reason, message := cmp.Or(etcd.Reason, pod.Reason, "PodPending"), cmp.Or(etcd.Message, pod.Message)
		v := down(PodNotRunning, reason, "its pod is Pending"+because(reason, message)+j.claimTrouble(m), describe)
		j.brief("its pod is Pending (" + reason + ")")
		return v
	case etcd.Name == "":
		return unsure(PodUnread, "NoEtcdContainer", "no container in its pod "+m.Pod+" is known to run etcd: it needs the name etcd, or to be the only one that starts it", "")
	case etcd.State != "Running" && !etcd.Ready:
		return down(PodNotRunning, cmp.Or(etcd.Reason, "ContainerNotRunning"), fmt.Sprintf("etcd does not run: its container is %s%s, restarted %d times", cmp.Or(etcd.State, "not started"), because(etcd.Reason, etcd.Message), etcd.Restarts), "see what it said last: kubectl logs "+m.Pod+" -c "+etcd.Name+" -p"+j.inNamespace())
	case !etcd.Ready && druid && j.neverJoined(m):
		return down(MemberNotJoined, string(MemberNotJoined), "it runs and has never joined the cluster: its Lease was never held, and etcd is not ready", "see what keeps it: kubectl logs "+m.Pod+" -c backup-restore"+j.inNamespace())
	case !etcd.Ready && druid && !etcd.Since.IsZero() && j.Now.Sub(etcd.Since) <= StartGrace:
		return unsure(MemberNotServing, "JustStarted", fmt.Sprintf("etcd was started %s ago and is not ready yet: its probe may not have come round", age(j.Now, etcd.Since)), "look again in a minute; --live asks it now")
	case !etcd.Ready:
		message := "etcd runs and is not ready"
		if !etcd.Since.IsZero() {
			message = fmt.Sprintf("etcd runs, for %s, and is not ready", age(j.Now, etcd.Since))
		}
		set(MemberUnhealthy, reasonNotReady, message)
		j.find(MemberNotServing, Warning, m.Name, message, "see what etcd says: kubectl logs "+m.Pod+" -c "+etcd.Name+j.inNamespace()+"; --live asks it")
		if !druid || etcd.Since.IsZero() {
			return voteUnknown // what other probes than druid's ask is not known
		}
		return voteDown
	case pod.Ready == "False" && pod.ContainersReady == "True" && pod.ReadyReason != "ReadinessGatesNotReady":
		return unsure(NodeLost, string(NodeLost), "its node "+pod.Node+" has not been heard of: what is known of its pod is old", "see the node: kubectl describe node "+pod.Node)
	case !druid:
		return unsure(NotProven, string(NotProven), "its container is ready, which proves only what its probe asks", "ask the members themselves: add --live")
	}
	return j.leaseMember(m, set, unsure)
}

// leaseMember judges a member of druid's whose etcd is ready.
func (j *judge) leaseMember(m model.Member, set setter, unsure func(Code, string, string, string) vote) vote {
	lease, known := m.Lease.Get()
	logs := "see whether its backup sidecar runs: kubectl logs " + m.Pod + " -c backup-restore" + j.inNamespace() + "; --live asks etcd itself"
	switch {
	case m.NoLease:
		return unsure(LeaseMissing, string(LeaseMissing), "etcd is ready, but there is no Lease "+m.Name, j.leaseAdvice())
	case !known:
		return unsure(LeaseMissing, "LeaseUnread", "etcd is ready, but its Lease is not known", "make Leases readable, or add them to the files; --live asks etcd itself")
	case lease.IsZero():
		return unsure(LeaseExpired, "LeaseUnheld", "etcd is ready, but nobody holds its Lease", logs)
	case j.FreshnessUnknown:
		return unsure(LeaseExpired, "FreshnessUnknown", "how old its Lease is can't be told: the files hold no other clock of that time; give --now", "")
	case lease.Sub(j.Now) > StaleAfter:
		return unsure(LeaseExpired, string(LeaseExpired), fmt.Sprintf("its Lease is %s in the future: the clocks differ", lease.Sub(j.Now).Round(time.Second)), "compare the clocks of its node and of this machine")
	case j.Now.Sub(lease) > LeaseStaleAfter:
		return unsure(LeaseExpired, string(LeaseExpired), fmt.Sprintf("etcd is ready, but its Lease was last renewed %s ago", age(j.Now, lease)), logs)
	}
	if ahead := lease.Sub(j.Now); ahead > SkewTolerated {
		j.find(HeartbeatInFuture, Notice, m.Name, fmt.Sprintf("its Lease is %s in the future: the clocks differ", ahead.Round(time.Second)), "compare the clocks of the node and of this machine")
	}
	set(MemberHealthy, "", "")
	return voteUp
}

// leaseAdvice says what to do about a missing Lease. Where the StatefulSet is missing as well, a reconcile would make one
// that is too small.
func (j *judge) leaseAdvice() string {
	if j.report.NoSet {
		return "--live asks etcd itself; let druid not reconcile while the StatefulSet is missing: it counts members by their Leases"
	}
	return "--live asks etcd itself; druid makes the Lease anew when it reconciles" + j.reconcile()
}

// reconcile is how to have druid reconcile, where that can't make things worse: it also carries out changes that wait, which
// may restart members.
func (j *judge) reconcile() string {
	e, known := j.report.Etcd.Get()
	if !known || e.Generation != e.ObservedGeneration || j.report.NoSet || j.unwell() {
		return "; have it do that when all members are well and no change of the Etcd waits"
	}
	return ": " + j.annotate(askReconcile)
}

// unwell says whether the etcd of any member is known not to be ready.
func (j *judge) unwell() bool {
	return slices.ContainsFunc(j.report.Cluster.Members, func(m model.Member) bool {
		p, known := m.PodState.Get()
		return m.NoPod || (known && (!p.Etcd.Ready || !p.Deleting.IsZero())) || (m.Live.Known() && !m.Live.Value.Serves)
	})
}

// deletePod says how to have a pod made anew, where that happens.
func (j *judge) deletePod(m model.Member) string {
	if j.report.NoSet {
		return "it is not made anew while there is no StatefulSet: delete nothing"
	}
	return "while the others hold quorum and none is a learner, delete it, so that it is made anew: kubectl delete pod " + m.Pod + j.inNamespace()
}

// neverJoined says that druid's sidecar has never told of the member. It renews the Lease once etcd answers.
func (j *judge) neverJoined(m model.Member) bool {
	lease, known := m.Lease.Get()
	return known && lease.IsZero() && !m.LeaseRole.Known() && !m.EtcdStatus.Known()
}

// leaseRole is the role that a member's Lease tells of, as far as it can be the present one: renewed lately, and since etcd
// was last started.
func (j *judge) leaseRole(m model.Member) string {
	lease, known := m.Lease.Get()
	if !known || j.FreshnessUnknown || lease.IsZero() || j.Now.Sub(lease) > LeaseStaleAfter || lease.Before(m.PodState.Value.Etcd.Since) {
		return ""
	}
	if m.LeaseRole.Value == roleLeader && !m.PodState.Value.Etcd.Ready {
		return "" // the last word of a leader that has gone
	}
	return m.LeaseRole.Value
}

// roleLeader and roleMember are the roles in druid's Leases.
const (
	roleLeader = string(v1alpha1.SubStateLeader)
	roleMember = "Member"
)

// reasonNotReady is why a member is Unhealthy whose etcd runs, by the word of a probe.
const reasonNotReady = "NotReady"

// claimTrouble says what is wrong with the claim that a pending pod waits for.
func (j *judge) claimTrouble(m model.Member) string {
	switch c, known := m.Claim.Get(); {
	case m.NoClaim:
		return "; its claim does not exist"
	case known && !c.Deleting.IsZero():
		return "; its claim " + c.Name + " is being deleted"
	case known && c.Phase != "Bound":
		return fmt.Sprintf("; its claim %s is %s (storage class %s)", c.Name, c.Phase, cmp.Or(c.StorageClass, "none"))
	default:
		return ""
	}
}

// because puts reason and message behind a statement, where there are any.
func because(reason, message string) string {
	switch {
	case reason == "" && message == "":
		return ""
	case message == "":
		return " (" + reason + ")"
	case reason == "":
		return " (" + message + ")"
	default:
		return " (" + reason + ": " + message + ")"
	}
}
