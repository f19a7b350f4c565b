package health

import (
	"fmt"
	"strings"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// Limits for what surrounds the members.
const (
	// backupLate is by how much of its interval a full snapshot may be late: a big one takes its time.
	backupLate = 0.1
	// backupStart is how long a new cluster may be without a full snapshot.
	backupStart = 10 * time.Minute
)

// druid tells of what druid says about the cluster, where that is worth knowing: never about the members' health, which its
// conditions lag behind.
func (j *judge) druid() {
	e, known := j.report.Etcd.Get()
	if !known {
		return
	}
	name, ns := j.report.Key.Name, j.inNamespace()
	if !e.Deleting.IsZero() {
		j.find(OperationInProgress, Notice, "", "the Etcd is being deleted", "")
	}
	behind := e.Generation > e.ObservedGeneration
	reconcile := "it may restart members: have druid do it when all of them are well"
	if !j.unwell() && !j.report.NoSet {
		reconcile = "ask druid for it, one change at a time; it may restart members: " + j.annotate(askReconcile)
	}
	switch {
	case e.LastOperation.State == "Error":
		message, brief := "druid could not reconcile the Etcd", "druid could not reconcile the Etcd"
		if n := len(e.LastErrors); n > 0 {
			brief += ": " + e.LastErrors[n-1].Code
			message += fmt.Sprintf(": %s: %s", e.LastErrors[n-1].Code, e.LastErrors[n-1].Description)
		}
		advice := "see druid's errors: kubectl get etcd " + name + " -o jsonpath='{.status.lastErrors}'" + ns
		if strings.Contains(message, "updates to statefulset spec") {
			advice = "the claim template of a StatefulSet can't be changed: put the old storageCapacity back, or roll the volumes"
		}
		j.find(ReconcileFailed, Warning, "", message, advice)
		j.brief(brief)
	case e.Suspended:
		message := "druid is told not to reconcile the Etcd (annotation druid.gardener.cloud/suspend-etcd-spec-reconcile)"
		if behind {
			message += fmt.Sprintf(": generation %d waits, and %d is carried out", e.Generation, e.ObservedGeneration)
		}
		j.find(ReconcileSuspended, Notice, "", message, "")
	case behind && e.ObservedGeneration == 0 && e.LastOperation.State == "":
		j.find(SpecNotReconciled, Warning, "", "druid has not reconciled the Etcd yet: it has no status", "see whether etcd-druid runs, and then "+reconcile)
	case behind:
		// When the spec was changed nobody tells, and where druid reconciles only when asked to, it may rightly wait for days.
		message := fmt.Sprintf("druid has not carried out generation %d of the Etcd: it is at %d", e.Generation, e.ObservedGeneration)
		if !e.LastOperation.Time.IsZero() {
			message += fmt.Sprintf(", and its last operation was %s ago", age(j.Now, e.LastOperation.Time))
		}
		j.find(SpecNotReconciled, Notice, "", message, reconcile)
	}
	switch e.LastOperation.State {
	case "Processing", "Requeue":
		j.find(OperationInProgress, Notice, "", fmt.Sprintf("druid is at work: %s %s, %s", e.LastOperation.Type, e.LastOperation.State, strings.TrimSpace(e.LastOperation.Description)), "")
	}
	for _, t := range j.report.Tasks {
		j.find(OperationInProgress, Notice, "", fmt.Sprintf("EtcdOpsTask %s (%s) is not finished", t.Name, t.Type), "")
	}
	if e.ProtectionDisabled {
		j.find(ProtectionDisabled, Notice, "", "druid's webhook lets anybody change what it manages (annotation druid.gardener.cloud/disable-etcd-component-protection)", "remove the annotation when the work is done")
	}
	n, wantedKnown := j.report.Wanted.Get()
	if wantedKnown && n > 0 && e.ObservedGeneration > 0 && e.StatusMembers != n {
		severity := Notice
		if j.report.NoSet {
			severity = Warning // this is when it matters
		}
		advice := "do not delete the StatefulSet while this is so"
		if j.report.NoSet {
			advice = "keep druid from making it until it counts all members: " + j.annotate(askSuspend)
		}
		j.find(StatusMembersShort, severity, "", fmt.Sprintf("druid counts %d members where %d are wanted (status.members): it would make a missing StatefulSet anew with %d replicas", e.StatusMembers, n, e.StatusMembers), advice)
	}
}

// disagreements tells where druid's conditions say something else, so that nobody wonders which is right.
func (j *judge) disagreements() {
	e, known := j.report.Etcd.Get()
	if !known {
		return
	}
	lag := "druid's conditions lag behind by up to a minute, and count members by their Leases"
	if c, ok := e.Condition("Ready"); ok && c.Status == "True" && j.report.Quorum.State == QuorumIsLost {
		j.find(DruidDisagrees, Notice, "", fmt.Sprintf("druid's condition Ready is still True (%s)", c.Reason), lag)
	}
	if c, ok := e.Condition("AllMembersReady"); ok && c.Status == "True" {
		for _, m := range j.report.Members {
			if m.Health == MemberUnhealthy || m.Health == MemberSyncing || m.Health == MemberMissing {
				j.find(DruidDisagrees, Notice, "", "druid's condition AllMembersReady is still True, and "+m.Name+" is "+string(m.Health), lag)
				break
			}
		}
	}
	if c, ok := e.Condition("AllMembersReady"); ok && c.Status == "False" && j.allUp() {
		j.find(DruidDisagrees, Notice, "", fmt.Sprintf("druid's condition AllMembersReady is False (%s), and all members serve", c.Reason), lag)
	}
}

func (j *judge) allUp() bool {
	for _, m := range j.report.Members {
		if m.vote != voteUp {
			return false
		}
	}
	return len(j.report.Members) > 0
}

// set tells of the StatefulSet.
func (j *judge) set() {
	r := &j.report
	n, wantedKnown := r.Wanted.Get()
	if r.NoSet && wantedKnown && n > 0 && len(r.Cluster.Members) > 0 {
		advice := "find out who has deleted it, and restart no pod"
		if e, druid := r.Etcd.Get(); druid && e.StatusMembers < n {
			// druid makes it with as many replicas as it counts, and its controller then deletes the other pods.
			advice += "; keep druid from making it anew until it counts all members: " + j.annotate(askSuspend)
		} else if druid {
			advice += "; druid makes it anew when it reconciles: " + j.annotate(askReconcile)
		}
		j.find(StatefulSetMissing, Warning, "", "there is no StatefulSet "+r.Key.Name+": a pod that ends does not come back", advice)
	}
	s, known := r.Set.Get()
	if !known {
		return
	}
	if r.Key.Kind == model.KindEtcd && wantedKnown && s.Replicas != n {
		severity := Notice
		if s.Replicas < n {
			severity = Warning // the pods with the highest numbers are being removed
		}
		j.find(ReplicasDiffer, severity, "", fmt.Sprintf("the StatefulSet has %d replicas, and the Etcd wants %d", s.Replicas, n), "wait for druid to reconcile; if it does not, see its last operation: kubectl get etcd "+r.Key.Name+" -o yaml"+j.inNamespace())
	}
	switch old := j.outdated(); {
	case len(old) > 0:
		j.find(RolloutPending, Notice, "", "pods of an older template: "+strings.Join(old, ", "), "restart nothing else until all are of revision "+s.UpdateRevision)
	case s.Generation > s.ObservedGeneration && s.ObservedGeneration > 0:
		j.find(RolloutPending, Notice, "", "the StatefulSet was changed, and its controller has not seen it yet", "")
	}
}

// claim tells of one claim of a member's. Data and WAL share their member's fate.
func (j *judge) claim(m MemberReport, c model.Claim) {
	keep := "treat it as a member that is about to be lost: restart no other"
	if c.Volume != "" {
		keep += ", and keep its volume: kubectl patch pv " + c.Volume + " -p '{\"spec\":{\"persistentVolumeReclaimPolicy\":\"Retain\"}}'"
	}
	switch {
	case !c.Deleting.IsZero():
		j.find(ClaimTerminating, Warning, m.Name, fmt.Sprintf("its claim %s is being deleted: its data is gone once its pod ends", c.Name), keep)
	case c.Phase == "Lost":
		j.find(ClaimPending, Warning, m.Name, fmt.Sprintf("its claim %s is Lost: the volume %s does not exist any more", c.Name, c.Volume), "")
	case c.Phase == "Pending":
		j.find(ClaimPending, Warning, m.Name, fmt.Sprintf("its claim %s is Pending for %s (storage class %s)", c.Name, age(j.Now, c.Created), c.StorageClass), "see why: kubectl describe pvc "+c.Name+j.inNamespace())
	}
}

// claims tells of the members' claims and of those that are left over.
func (j *judge) claims() {
	r := &j.report
	e, druid := r.Etcd.Get()
	unwanted := map[string][]string{} // members by what is not as wanted
	for _, m := range r.Members {
		c, known := m.Claim.Get()
		if !known {
			if m.NoClaim && m.PodState.Known() {
				if m.PodState.Value.Phase == "Running" {
					j.find(ClaimMissing, Warning, m.Name, "its pod runs on a claim that does not exist: its data is gone once the pod ends", "take a full backup, restart nothing, and see whether its volume is still there")
				} else {
					j.find(ClaimMissing, Warning, m.Name, "its pod waits for a claim that does not exist", j.deletePod(m.Member))
				}
			}
			continue
		}
		for _, c := range append([]model.Claim{c}, m.OtherClaims...) {
			j.claim(m, c)
		}
		if v, ok := m.Volume.Get(); ok && v.ClaimUID != "" && c.UID != "" && v.Claim == c.Name && v.ClaimUID != c.UID {
			j.find(ClaimReplaced, Warning, m.Name, fmt.Sprintf("it runs on claim %s with UID %s, and the claim of that name now has UID %s", c.Name, v.ClaimUID, c.UID), "its pod must be made anew to use the new claim, while the others hold quorum")
		}
		if druid && e.StorageCapacity > 0 && c.Requested > 0 && c.Requested != e.StorageCapacity {
			size := fmt.Sprintf("claims ask for %s, and the Etcd wants %s", quantity(c.Requested), quantity(e.StorageCapacity))
			unwanted[size] = append(unwanted[size], m.Name)
		}
		if druid && e.StorageClass != "" && c.StorageClass != "" && c.StorageClass != e.StorageClass {
			class := fmt.Sprintf("claims are of storage class %s, and the Etcd wants %s", c.StorageClass, e.StorageClass)
			unwanted[class] = append(unwanted[class], m.Name)
		}
	}
	for _, what := range sortedKeys(unwanted) {
		j.find(VolumeNotAsWanted, Notice, "", what+": "+strings.Join(unwanted[what], ", "), "roll the volumes, one member at a time")
	}
	var loose []string
	for _, c := range r.LooseClaims {
		loose = append(loose, c.Name)
	}
	if len(loose) > 0 {
		j.find(ClaimWithoutMember, Notice, "", "claims that no member uses: "+strings.Join(loose, ", "), "a member that is added under such a number starts on old data; delete a claim once its data is surely not needed")
	}
}

// changing says that druid is carrying out a change: what is not as wanted is on its way.
func (j *judge) changing() bool {
	e, known := j.report.Etcd.Get()
	if !known {
		return false
	}
	if e.LastOperation.State == "Processing" || e.LastOperation.State == "Requeue" {
		return true
	}
	return len(j.outdated()) > 0
}

// outdated are the members whose pods are of an older template than their StatefulSet's.
func (j *judge) outdated() []string {
	var names []string
	wanted := j.report.Set.Value.UpdateRevision
	for _, m := range j.report.Members {
		if hash := m.PodState.Value.RevisionHash; wanted != "" && hash != "" && hash != wanted {
			names = append(names, m.Name)
		}
	}
	return names
}

// What druid is asked by annotations.
const (
	askReconcile = "druid.gardener.cloud/operation=reconcile"
	askSuspend   = "druid.gardener.cloud/suspend-etcd-spec-reconcile="
)

// annotate is the command that asks druid for something.
func (j *judge) annotate(what string) string {
	return "kubectl annotate etcd " + j.report.Key.Name + " " + what + j.inNamespace()
}

// leases tells of druid's Leases of members that have answered for themselves: they are well, and druid takes them not to be.
func (j *judge) leases() {
	for _, m := range j.report.Members {
		lease, known := m.Lease.Get()
		if j.report.Key.Kind != model.KindEtcd || m.Basis != model.SourceLive || m.vote != voteUp {
			continue
		}
		logs := "see whether its backup sidecar runs: kubectl logs " + m.Pod + " -c backup-restore" + j.inNamespace()
		switch {
		case m.NoLease:
			advice := "druid makes it anew when it reconciles"
			if j.report.NoSet {
				advice = "it must be there again before druid makes the StatefulSet anew: " + logs
			}
			j.find(LeaseMissing, Notice, m.Name, "there is no Lease "+m.Name+", so druid does not count it", advice)
		case known && (lease.IsZero() || j.Now.Sub(lease) > LeaseStaleAfter):
			j.find(LeaseExpired, Notice, m.Name, "its Lease is not renewed, so druid takes it for lost, and its backups may have stopped", logs)
		}
	}
}

// tls compares what is wanted, what is configured and what runs.
func (j *judge) tls() {
	wanted, wantedKnown := j.report.PeerTLSWanted.Get()
	word := map[bool]string{true: "on", false: "off"}
	for _, m := range j.report.Members {
		runs, known := m.PeerTLS.Get()
		if configured, ok := m.PeerTLSConfigured.Get(); ok && known && configured != runs {
			j.find(PeerTLSNotAsConfigured, Notice, m.Name, fmt.Sprintf("peer TLS is %s in its configuration, and the running etcd advertises it %s", word[configured], word[runs]), "druid takes the configuration for the fact: a restart of etcd makes it so")
		}
		if wantedKnown && known && wanted != runs {
			severity, advice := Warning, "restart it while the others hold quorum and none is a learner: it takes a second restart to advertise what it was configured to"
			if j.changing() {
				severity, advice = Notice, "wait: druid is at it"
			}
			j.find(PeerTLSNotAsWanted, severity, m.Name, fmt.Sprintf("peer TLS is to be %s, and the running etcd advertises it %s", word[wanted], word[runs]), advice)
		}
	}
}

// backups tells of backups that are late.
func (j *judge) backups() {
	b, known := j.report.Backups.Get()
	for i := range j.report.Members {
		m := &j.report.Members[i]
		if known && b.Full.Unreadable == "" && b.Delta.Unreadable == "" || j.report.Etcd.Known() && !known {
			m.Backup = model.Known(time.Time{}, model.SourceSnapshotLease, time.Time{})
		}
		for _, f := range []model.Fact[time.Time]{
			{Value: b.Full.Time, Source: model.SourceSnapshotLease}, {Value: b.Delta.Time, Source: model.SourceSnapshotLease}, m.LastFull, m.LastDelta,
		} {
			if f.Value.After(m.Backup.Value) {
				m.Backup = f
			}
		}
	}
	if !known {
		return
	}
	unreadable := func(what string, s model.Snapshot) {
		if s.Unreadable != "" {
			j.find(BackupUnknown, Warning, "", fmt.Sprintf("when the last %s snapshot was taken is not known: %s", what, s.Unreadable), "")
		}
	}
	unreadable("full", b.Full)
	unreadable("delta", b.Delta)
	if j.FreshnessUnknown {
		return
	}
	leader := j.report.Key.Name + "-0"
	for _, m := range j.report.Members {
		if m.Name == j.report.Leader && m.Pod != "" {
			leader = m.Pod
		}
	}
	see := "see what the sidecar of the leader says: kubectl logs " + leader + " -c backup-restore" + j.inNamespace()
	if b.Full.Time.IsZero() && b.Full.Unreadable == "" {
		old := false
		for _, m := range j.report.Members {
			old = old || !m.Created.IsZero() && j.Now.Sub(m.Created) > backupStart
		}
		if old {
			j.find(BackupMissing, Warning, "", "there is no full snapshot", see)
		}
	}
	if limit := time.Duration(float64(b.FullInterval) * (1 + backupLate)); limit > 0 && !b.Full.Time.IsZero() && j.Now.Sub(b.Full.Time) > limit {
		j.find(BackupStale, Warning, "", fmt.Sprintf("the last full snapshot is %s old, and one is due every %s (%s)", age(j.Now, b.Full.Time), b.FullInterval, b.FullSchedule), see)
	}
	// druid's own limit is twice the period; the Lease is renewed also where nothing was written.
	if b.DeltaPeriod > 0 && !b.Delta.Time.IsZero() && j.Now.Sub(b.Delta.Time) > 2*b.DeltaPeriod {
		j.find(BackupStale, Warning, "", fmt.Sprintf("delta snapshots were last looked after %s ago, and are due every %s", age(j.Now, b.Delta.Time), b.DeltaPeriod), see)
	}
}

// quantity is a number of bytes as Kubernetes writes it, where it is a round one.
func quantity(n int64) string {
	for i, unit := range []string{"Ti", "Gi", "Mi", "Ki"} {
		if size := int64(1) << (10 * (4 - i)); n >= size && n%size == 0 {
			return fmt.Sprintf("%d%s", n/size, unit)
		}
	}
	return fmt.Sprint(n)
}
