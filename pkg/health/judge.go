package health

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// Judge says how a cluster is.
func Judge(c model.Cluster, o Options) Report {
	j := judge{Options: o, report: Report{Cluster: c, At: o.Now}}
	j.someAnswer = slices.ContainsFunc(c.Members, func(m model.Member) bool { return m.Live.Known() && m.Live.Value.Err == "" })
	for _, m := range c.Members {
		j.report.Members = append(j.report.Members, j.member(m))
	}
	j.wanted()
	exact := j.membership()
	j.lag()
	j.identity()
	j.leader()
	j.volumes()
	j.versions()
	j.liveAlarms()
	j.revisions()
	j.hashes()
	j.tls()
	j.leases()
	j.claims()
	j.set()
	j.druid()
	j.backups()
	for _, p := range c.Problems {
		j.find(Unreadable, Notice, "", fmt.Sprintf("%s: %v", p.Subject, p.Err), "")
	}
	if !exact {
		j.quorum()
	}
	if j.splitFound {
		// Members of different clusters don't add up to a quorum of one.
		j.report.Quorum.State = QuorumIsUnknown
	}
	j.disagreements()
	j.verdict()
	j.report.Cluster.Members = nil // they are in the report's own: of ten thousand, one copy is enough
	return j.report
}

type judge struct {
	Options
	report Report
	// splitFound and corruptFound make a cluster Unhealthy although quorum holds.
	splitFound, corruptFound bool
	// someAnswer: a member that was asked has told its status.
	someAnswer bool
	// severalClusters: the members are of more than one.
	severalClusters bool
	// unbounded: there may be voters that nothing is known of, so quorum can't be called lost.
	unbounded bool
}

// inNamespace is what makes advice fit to be typed, wherever one is.
func (j *judge) inNamespace() string { return " -n " + j.report.Key.Namespace }

func (j *judge) find(code Code, s Severity, subject, message, advice string) {
	j.report.Findings = append(j.report.Findings, Finding{Code: code, Severity: s, Subject: subject, Message: message, Advice: advice})
}

// brief makes the last finding short where there is little room.
func (j *judge) brief(text string) { j.report.Findings[len(j.report.Findings)-1].brief = text }

// freshness says whether a member's publication can be taken for the present.
func (j *judge) freshness(m model.Member) (fresh bool, reason Code, message string) {
	beat, known := m.Heartbeat.Get()
	switch {
	case !m.Published.Known() && !m.State.Known() && !m.Ready.Known():
		return false, NeverPublished, "nothing has been published for it yet"
	case j.FreshnessUnknown:
		return false, PublisherGone, "how old its publication is can't be told: the files hold no other clock of that time; give --now"
	case m.NoHeartbeat:
		return false, PublisherGone, "it has no heartbeat Lease " + v1alpha1.HeartbeatLeaseName(m.Name) + ", or one without its labels"
	case !known:
		return false, PublisherGone, "its publisher's heartbeat can't be read"
	case beat.Sub(j.Now) > StaleAfter:
		// How old it really is can't be told, and a publisher that has died is not to be fresh until then.
		return false, PublisherGone, fmt.Sprintf("its heartbeat is %s in the future: the clocks differ", beat.Sub(j.Now).Round(time.Second))
	case beat.IsZero():
		return false, PublisherGone, "its publisher has never given a sign of life"
	case j.Now.Sub(beat) > StaleAfter:
		return false, PublisherGone, fmt.Sprintf("its publisher was last seen %s ago", age(j.Now, beat))
	}
	if ahead := beat.Sub(j.Now); ahead > SkewTolerated {
		j.find(HeartbeatInFuture, Notice, m.Name, fmt.Sprintf("its heartbeat is %s in the future: the clocks differ", ahead.Round(time.Second)), "compare the clocks of the node and of this machine")
	}
	return true, "", ""
}

// setter says how a member is.
type setter func(h MemberHealth, reason, message string)

// member judges one member: by what it has just answered, else by what it publishes, else by its pod and its Lease.
func (j *judge) member(m model.Member) MemberReport {
	r := MemberReport{Member: m}
	switch v1alpha1.MemberSubState(m.SubState.Or("")) {
	case v1alpha1.SubStateLeader, v1alpha1.SubStateFollower, v1alpha1.SubStateLearner:
		r.Role = m.SubState.Value
	}
	set := func(h MemberHealth, reason, message string) { r.Health, r.Reason, r.Message = h, reason, message }
	if m.Lease.Known() && m.Lease.Value.Before(m.PodState.Value.Etcd.Since) {
		// etcd was started since: on a new volume it is another member, of which the Lease tells up to a minute later.
		if m.ID.Source == model.SourceMemberLease {
			r.ID = model.Fact[string]{}
		}
		if m.ClusterID.Source == model.SourceMemberLease {
			r.ClusterID = model.Fact[string]{}
		}
	}
	published := func() vote { return j.publishedMember(m, &r, set) }
	switch {
	case m.Live.Known():
		r.Basis = model.SourceLive
		r.vote = j.liveMember(m, set, published)
		if m.Live.Value.NotAsked {
			r.Role = ""
		}
	default:
		r.vote = published()
	}
	j.data(m, set)
	for _, c := range m.Live.Value.Complaints {
		if !strings.Contains(c, "no leader") { // which is told where it serves nothing
			j.find(EtcdComplains, Notice, m.Name, "etcd says: "+c, "")
		}
	}
	return r
}

// publishedMember judges a member by what it publishes, or where nobody publishes for it, by its pod and its Lease.
func (j *judge) publishedMember(m model.Member, r *MemberReport, set setter) vote {
	isFresh, why, message := j.freshness(m)
	seen := m.PodState.Known() || m.NoPod || m.Lease.Known() || m.NoLease || m.EtcdStatus.Known()
	switch {
	case isFresh && j.gone(m):
		// The publication is from before its pod went, or its etcd.
		r.Basis = model.SourcePod
		v := j.seenMember(m, set)
		if state := m.PodState.Value.Etcd.State; v == voteDown && m.Ready.Value.Status == "True" && (state == "Waiting" || state == "Terminated") {
			v = voteUnknown // its kubelet and its publisher contradict each other, and which is the newer word nobody tells
		}
		return v
	case isFresh && !m.PodState.Value.Deleting.IsZero():
		r.Basis = m.Published.Source
		v := j.freshMember(m, set)
		if v == voteUp {
			v = voteUnknown // it serves until it stops
		}
		set(MemberUnhealthy, string(PodTerminating), "its pod is being deleted")
		j.find(PodTerminating, Warning, m.Name, "its pod is being deleted", "wait until it is back, and restart no other member meanwhile")
		return v
	case isFresh:
		r.Basis = m.Published.Source
		return j.freshMember(m, set)
	case seen && r.wantedNone(j):
		set(MemberStopped, string(Hibernated), "no members are wanted, and it has no pod")
		return voteUnknown
	case seen:
		r.Basis = model.SourcePod
		r.Role = j.leaseRole(m)
		before := len(j.report.Findings)
		v := j.seenMember(m, set)
		if m.HasEtcdMember {
			if r.Health == MemberUnknown || (r.Reason == reasonNotReady && v == voteUnknown) {
				// That nobody publishes is the reason; what its pod does not prove either adds nothing.
				j.report.Findings = j.report.Findings[:before]
				set(MemberUnknown, string(why), message)
			}
			j.notPublished(m, why, message, v)
		}
		return v
	}
	set(MemberUnknown, string(why), message)
	r.Basis = m.Published.Source
	j.notPublished(m, why, message, voteUnknown)
	return voteUnknown
}

// wantedNone says that no members are wanted, and that the member has stopped.
func (r *MemberReport) wantedNone(j *judge) bool {
	n, known := j.report.Wanted.Get()
	return known && n == 0 && !r.PodState.Known()
}

// gone says that the member's pod can't be what its publication tells of any more.
func (j *judge) gone(m model.Member) bool {
	p := m.PodState.Value
	return m.NoPod || p.Phase == "Succeeded" || p.Phase == "Failed" || p.Phase == "Pending" ||
		p.Etcd.State == "Waiting" || p.Etcd.State == "Terminated"
}

// notPublished tells of a member for which nobody publishes. Where it is well by other signs, that is worth a notice.
func (j *judge) notPublished(m model.Member, why Code, message string, v vote) {
	advice := "see whether its pod and the agent in it run: kubectl get pod " + m.Pod + j.inNamespace()
	if m.NoHeartbeat {
		advice = "create it: kubectl etcdmember adopt " + j.report.Key.Argument() + j.inNamespace()
	}
	if why == NeverPublished {
		advice = "see whether its pod has an agent, and what the agent says: kubectl logs " + m.Pod + " -c agent" + j.inNamespace()
	}
	severity := Warning
	if v == voteUp {
		severity = Notice
	}
	j.find(why, severity, m.Name, message, advice)
}

// freshMember judges a member by its own word.
func (j *judge) freshMember(m model.Member, set setter) vote {
	ready, known := m.Ready.Get()
	reason := cmp.Or(ready.Reason, "NotReady")
	said := cmp.Or(ready.Message, "condition Ready is "+cmp.Or(ready.Status, "missing"))
	// How long is what decides whether somebody gets up at night.
	brief := fmt.Sprintf("it does not serve (%s)", reason)
	if ready.Status == "False" && !ready.Since.IsZero() {
		brief = fmt.Sprintf("it has not served for %s (%s)", age(j.Now, ready.Since), reason)
	}
	switch state := v1alpha1.MemberState(m.State.Or("")); {
	case state == v1alpha1.StateNew || state == v1alpha1.StateInitializing:
		last := lastTransition(m)
		set(MemberUnhealthy, cmp.Or(last.Reason, string(state)), cmp.Or(last.Message, "etcd has not been started"))
		j.find(MemberNotStarted, Warning, m.Name, fmt.Sprintf("etcd has not been started: it is %s (%s)", stateText(m), cmp.Or(last.Reason, "no reason given")), "see its last transitions: kubectl get etcdmembers.druid.gardener.cloud "+m.Name+" -o yaml"+j.inNamespace())
		return voteDown
	case state == v1alpha1.StateStarting:
		set(MemberSyncing, m.SubState.Or(string(state)), "it does not vote yet")
		j.find(MemberNotVoting, Warning, m.Name, fmt.Sprintf("it does not vote: it is %s", stateText(m)), "wait until it has caught up and is promoted; restart no other member meanwhile")
		if m.SubState.Or("") == string(v1alpha1.SubStateLearner) {
			return voteNone
		}
		// Its former self may still be in the membership until it is added as a learner.
		return voteDown
	case !known || ready.Status == "Unknown":
		set(MemberUnknown, reason, said)
		j.find(MemberNotServing, Warning, m.Name, "whether it serves is not known: "+said, "")
		return voteUnknown
	case state == v1alpha1.StateStarted && m.SubState.Or("") == string(v1alpha1.SubStateLearner):
		// Not as DEP-04 has it, and clear all the same.
		set(MemberSyncing, m.SubState.Value, "it does not vote yet")
		j.find(MemberNotVoting, Warning, m.Name, "it does not vote: it is a learner", "wait until it has caught up and is promoted; restart no other member meanwhile")
		return voteNone
	case ready.Status == "True" && state == v1alpha1.StateStarted:
		set(MemberHealthy, "", "")
		return voteUp
	case ready.Status == "True":
		set(MemberUnknown, "StateNotUnderstood", fmt.Sprintf("condition Ready is True, and its state is %s, which this version does not know", stateText(m)))
		j.find(MemberNotServing, Warning, m.Name, "it says that it is ready in a state that this version does not know: "+stateText(m), "use a newer kubectl-etcdmember")
		return voteUnknown
	case reason == v1alpha1.ReadyReasonAlarm:
		// It answers and votes; what its alarm means is told with the alarm.
		set(MemberUnhealthy, reason, said)
		return voteUp
	default:
		set(MemberUnhealthy, reason, said)
		j.find(MemberNotServing, Warning, m.Name, brief+": "+said, "see what etcd says: kubectl logs "+m.Pod+" -c etcd"+j.inNamespace())
		j.brief(brief)
		return voteDown
	}
}

// data judges a member's data and volume. What was once seen to be bad does not become good because its publisher has gone.
func (j *judge) data(m model.Member, set setter) {
	if c := m.VolumeReadOnly.Value; c.Status == "True" {
		set(MemberUnhealthy, string(DataVolumeReadOnly), cmp.Or(c.Message, "its data volume is read-only"))
		j.find(DataVolumeReadOnly, Warning, m.Name, "the file system of its data volume is read-only", "look at the node's kernel log; a member with a bad volume can be rolled while the others hold quorum")
	}
	if id, ok := m.VolumeMismatch.Get(); ok {
		set(MemberUnhealthy, string(VolumeMismatch), "it has found the wrong volume mounted")
		j.find(VolumeMismatch, Warning, m.Name, fmt.Sprintf("it has found the wrong volume mounted, %s, and does not start on it", id), "attach its own volume; nothing does that for you")
	}
	for _, alarm := range m.Alarms.Value {
		switch alarm {
		case "CORRUPT":
			set(MemberUnhealthy, string(DataCorrupt), "it raises alarm CORRUPT")
			j.corruptFound = true
			j.find(DataCorrupt, Critical, m.Name, "it raises alarm CORRUPT: members disagree about data; the alarm may name the wrong one", "compare hashes of all members before any is replaced")
		case "NOSPACE":
			message := "it raises alarm NOSPACE: the whole cluster refuses writes until the alarm is disarmed"
			advice := "compact, defragment one member at a time, then disarm the alarm"
			if used, ok := m.DBSizeInUse.Get(); ok && m.DBSizeQuota.Known() && float64(m.DBSize.Value) < QuotaWarning*float64(m.DBSizeQuota.Value) {
				message += fmt.Sprintf("; there is space again: %d%% of the quota are in use", percent(used, m.DBSizeQuota.Value))
				advice = "see that all members have space again, and that none raises CORRUPT: etcdctl alarm disarm disarms every alarm of every member"
			}
			j.find(AlarmRaised, Warning, m.Name, message, advice)
		default:
			j.find(AlarmRaised, Warning, m.Name, "it raises alarm "+alarm, "")
		}
	}
	if c := m.DataCorrupt.Value; c.Status == "True" {
		set(MemberUnhealthy, string(DataCorrupt), cmp.Or(c.Message, "its data is corrupt"))
		j.corruptFound = true
		j.find(DataCorrupt, Critical, m.Name, "its data is corrupt: "+cmp.Or(c.Message, "it says so without a message"), "replace its volume while the others hold quorum")
	}
	size, sizeKnown := m.DBSize.Get()
	quota, quotaKnown := m.DBSizeQuota.Get()
	if sizeKnown && quotaKnown && quota > 0 && float64(size) >= QuotaWarning*float64(quota) {
		message := fmt.Sprintf("its database fills %d%% of its quota; at 100%% etcd refuses writes", percent(size, quota))
		if used, ok := m.DBSizeInUse.Get(); ok {
			message += fmt.Sprintf(", and %d%% of the database is in use", percent(used, size))
			if v := m.Volume.Value; v.AvailableKnown && v.Available < used {
				message += "; its volume has too little space left to defragment"
			}
		}
		j.find(DatabaseNearQuota, Warning, m.Name, message, "compact and defragment, or raise --quota-backend-bytes")
	}
}

// wanted compares the members that there are with those that are wanted, by the names of their pods: as many as are wanted
// may still be the wrong ones.
func (j *judge) wanted() {
	r := &j.report
	n, known := r.Wanted.Get()
	if !known {
		j.unbounded = true
		if len(r.Members) > 0 {
			j.find(WantedMembersUnsure, Warning, "", fmt.Sprintf("how many members are wanted is not known, so there may be more than the %d that are known of", len(r.Members)), "make the StatefulSet or Etcd readable, or add it to the files")
		}
		return
	}
	if n == 0 {
		return
	}
	surplus, have, adopted := 0, map[string]bool{}, map[string]bool{}
	for i := range r.Members {
		m := &r.Members[i]
		if ordinal, ok := ordinalOf(r.Key.Name, m.Pod); ok && ordinal >= r.FirstOrdinal && ordinal < r.FirstOrdinal+n {
			have[m.Pod] = true
			if m.HasEtcdMember {
				adopted[m.Pod] = true
			}
		} else {
			m.surplus = true
			surplus++
		}
	}
	adopt := "create the others: kubectl etcdmember adopt " + r.Key.Argument() + j.inNamespace()
	if missing := n - len(have); missing > 0 {
		j.missing(n, have)
		if len(adopted) > 0 || len(have) == 0 && !r.PodsRead {
			j.find(MembersMissing, Warning, "", fmt.Sprintf("there are EtcdMembers of %d of %d wanted members", len(adopted), n), adopt)
		} else {
			j.find(MembersMissing, Warning, "", fmt.Sprintf("of %d of %d wanted members there is neither a pod nor a Lease", missing, n), "see why: kubectl describe statefulset "+r.Key.Name+j.inNamespace())
		}
		if missing > mostMissing {
			j.unbounded = true
		}
	} else if len(adopted) > 0 && len(adopted) < n {
		j.find(EtcdMembersMissing, Notice, "", fmt.Sprintf("there are EtcdMembers of %d of %d wanted members", len(adopted), n), adopt)
	}
	if surplus > 0 {
		if len(adopted) > 0 {
			j.find(MembersSurplus, Warning, "", fmt.Sprintf("EtcdMembers of no member that is wanted: %d", surplus), "remove those that are gone for good: kubectl etcdmember adopt --prune "+r.Key.Argument()+j.inNamespace())
		} else {
			j.find(MembersSurplus, Warning, "", fmt.Sprintf("members that are not wanted: %d", surplus), "see what is left of them, and whether they are still in the membership: add --live")
		}
	}
}

// ordinalOf is the number of a pod of a StatefulSet.
func ordinalOf(set, pod string) (int, bool) {
	number, ok := strings.CutPrefix(pod, set+"-")
	if !ok {
		return 0, false
	}
	ordinal, err := strconv.Atoi(number)
	return ordinal, err == nil && ordinal >= 0 && strconv.Itoa(ordinal) == number
}

// mostMissing bounds the rows of missing members: a mistyped number of replicas is not to fill the screen, or the memory.
const mostMissing = 15

// missing adds a row for each wanted member of which there is nothing: a gap in a table is easily overlooked.
func (j *judge) missing(n int, have map[string]bool) {
	r := &j.report
	prefix := ""
	for _, m := range r.Members {
		if p, ok := strings.CutSuffix(m.Name, m.Pod); ok {
			prefix = p // a cluster's members all have the same, see Etcd.spec.memberNamePrefix
		}
	}
	added := 0
	for i := r.FirstOrdinal; i < r.FirstOrdinal+n && added < mostMissing; i++ {
		pod := fmt.Sprintf("%s-%d", r.Key.Name, i)
		if have[pod] {
			continue
		}
		added++
		m := MemberReport{
			Member: model.Member{Name: prefix + pod, Pod: pod}, Health: MemberMissing,
			Reason: string(MembersMissing), Message: "it is wanted, and there is nothing of it",
		}
		if r.PodsRead {
			m.vote = voteDown
		}
		r.Members = append(r.Members, m)
	}
	slices.SortStableFunc(r.Members, func(a, b MemberReport) int { return model.CompareNatural(a.Name, b.Name) })
}

// identity compares what members say of who they are.
func (j *judge) identity() {
	clusters := map[string][]string{}
	ids := map[string][]string{}
	for _, m := range j.report.Members {
		// The last word of a publisher that has gone may be of a cluster that was since rebuilt: it proves no split.
		if m.vote == voteUnknown {
			continue
		}
		// Nor does the Lease of before a restart, or of a sidecar that has stopped.
		if id, ok := m.ClusterID.Get(); ok && j.present(m.Member, m.ClusterID.Source) {
			clusters[id] = append(clusters[id], m.Name)
		}
		if id, ok := m.ID.Get(); ok && j.present(m.Member, m.ID.Source) {
			ids[id] = append(ids[id], m.Name)
		}
	}
	if len(clusters) > 1 {
		var parts []string
		for _, id := range sortedKeys(clusters) {
			parts = append(parts, fmt.Sprintf("%s: %s", id, strings.Join(clusters[id], ", ")))
		}
		j.splitFound, j.severalClusters = true, true
		j.apart(clusters)
		j.find(ClusterSplit, Critical, "", "the members are of more than one cluster: "+strings.Join(parts, "; "), "change nothing until it is clear which cluster has the data; nothing repairs this for you")
	}
	for _, id := range sortedKeys(ids) {
		if names := ids[id]; len(names) > 1 {
			j.find(DuplicateMemberID, Critical, "", fmt.Sprintf("%s have the same member ID %s: they run on copies of the same data, or one has published for the other", strings.Join(names, " and "), id), "change nothing until it is clear whose peer URL that ID has: the other one runs on a copy, and its volume is to be replaced while the rest hold quorum")
			j.splitFound = true
		}
	}
}

// present says whether what a source tells of who a member is can be taken for the present.
func (j *judge) present(m model.Member, s model.Source) bool {
	if s != model.SourceMemberLease {
		return true
	}
	lease := m.Lease.Value
	return !j.FreshnessUnknown && !lease.IsZero() && j.Now.Sub(lease) <= LeaseStaleAfter && !lease.Before(m.PodState.Value.Etcd.Since)
}

// apart marks the members that are not of the cluster that most are of: those that serve do so for a cluster of their own.
func (j *judge) apart(clusters map[string][]string) {
	most, total := "", 0
	for id, names := range clusters {
		total += len(names)
		if len(names) > len(clusters[most]) {
			most = id
		}
	}
	if 2*len(clusters[most]) <= total {
		most = ""
	}
	for i := range j.report.Members {
		m := &j.report.Members[i]
		id := m.ClusterID.Value
		if _, counted := clusters[id]; !counted || id == most || m.vote == voteUnknown || !j.present(m.Member, m.ClusterID.Source) {
			continue
		}
		m.Health, m.Reason, m.Message = MemberUnhealthy, string(ClusterSplit), "it is of cluster "+id
		if most != "" {
			m.Message += ", and most members are of " + most
		}
	}
}

// leader finds who leads. A former leader that is cut off says that it leads until it knows better: the higher term is
// right, and of two Leases the one that was renewed later.
func (j *judge) leader() {
	var leaders []*MemberReport
	for i := range j.report.Members {
		if m := &j.report.Members[i]; m.Role == roleLeader && m.vote == voteUp {
			leaders = append(leaders, m)
		}
	}
	compare := func(a, b *MemberReport) int {
		return cmp.Or(cmp.Compare(b.RaftTerm.Or(0), a.RaftTerm.Or(0)), b.Lease.Value.Compare(a.Lease.Value))
	}
	slices.SortStableFunc(leaders, compare)
	if j.severalClusters {
		defer func() { j.report.Leader = "" }() // each of the clusters may have one
	}
	switch len(leaders) {
	case 0:
		if n, known := j.report.Wanted.Get(); len(j.report.Members) > 0 && (!known || n > 0) {
			severity := Warning
			if slices.ContainsFunc(j.report.Members, func(m MemberReport) bool { return m.Basis == model.SourcePod && m.vote == voteUp }) {
				severity = Notice // somebody leads, or etcd would not be ready; Leases tell of it up to 10 s late
			}
			j.find(NoLeaderKnown, severity, "", "no member that can be believed says that it leads", "")
		}
	case 1:
		j.report.Leader = leaders[0].Name
	default:
		if terms := leaders[0].RaftTerm.Known() && leaders[1].RaftTerm.Known(); terms {
			j.find(SeveralLeaders, Notice, "", fmt.Sprintf("%s and %s both say that they lead, in terms %d and %d", leaders[0].Name, leaders[1].Name, leaders[0].RaftTerm.Value, leaders[1].RaftTerm.Value), "")
		} else {
			j.find(SeveralLeaders, Notice, "", fmt.Sprintf("the Leases of %s and %s both say that they lead, renewed %s and %s ago", leaders[0].Name, leaders[1].Name, age(j.Now, leaders[0].Lease.Value), age(j.Now, leaders[1].Lease.Value)), "--live tells who leads")
		}
		if compare(leaders[0], leaders[1]) < 0 {
			j.report.Leader = leaders[0].Name
		}
		for _, m := range leaders {
			if m.Name != j.report.Leader && m.Basis == model.SourcePod {
				m.Role = "" // its Lease is the older one
			}
		}
	}
}

// revisions compares members that have applied the same entries: they hold the same revision, or their data differs
// (etcd-io/etcd#13766). Where writes go on, the two numbers in an answer may be of two moments: it is a hint, not a proof.
func (j *judge) revisions() {
	type point struct {
		cluster string
		applied int64
	}
	at := map[point]map[int64][]string{}
	for _, m := range j.report.Members {
		if m.Revision.Source != model.SourceLive || m.RaftAppliedIndex.Source != model.SourceLive || m.Lag.Value > 0 {
			continue
		}
		p := point{m.ClusterID.Value, m.RaftAppliedIndex.Value}
		if at[p] == nil {
			at[p] = map[int64][]string{}
		}
		at[p][m.Revision.Value] = append(at[p][m.Revision.Value], m.Name)
	}
	points := slices.SortedFunc(maps.Keys(at), func(a, b point) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.applied, b.applied))
	})
	for _, p := range points {
		if by := at[p]; len(by) > 1 {
			var parts []string
			for revision, names := range by {
				parts = append(parts, fmt.Sprintf("%s: %d", strings.Join(names, ", "), revision))
			}
			slices.Sort(parts)
			j.find(RevisionsDiffer, Notice, "", fmt.Sprintf("at raft index %d the members are at different revisions: %s", p.applied, strings.Join(parts, "; ")), "compare their data: add --hash")
		}
	}
}

func (j *judge) volumes() {
	for _, m := range j.report.Members {
		v, ok := m.Volume.Get()
		if ok && v.AvailableKnown && v.Capacity > 0 && float64(v.Available) < VolumeWarning*float64(v.Capacity) {
			j.find(DataVolumeFull, Warning, m.Name, fmt.Sprintf("%d%% of its data volume are left", percent(v.Available, v.Capacity)), "grow the volume, or find out what fills it")
		}
	}
}

// versions compares what should be the same on all members.
func (j *judge) versions() {
	versions, tls := map[string][]string{}, map[bool][]string{}
	for _, m := range j.report.Members {
		if m.vote == voteUnknown {
			continue
		}
		if v, ok := m.Version.Get(); ok {
			versions[v] = append(versions[v], m.Name)
		}
		if v, ok := m.PeerTLS.Get(); ok {
			tls[v] = append(tls[v], m.Name)
		}
	}
	if len(versions) > 1 {
		var parts []string
		for _, v := range sortedKeys(versions) {
			parts = append(parts, fmt.Sprintf("%s: %s", v, strings.Join(versions[v], ", ")))
		}
		j.find(VersionsMixed, Notice, "", "the members run different versions of etcd: "+strings.Join(parts, "; "), "finish the upgrade")
	}
	if len(tls) > 1 {
		j.find(PeerTLSMixed, Warning, "", fmt.Sprintf("peer TLS is on at %s and off at %s", strings.Join(tls[true], ", "), strings.Join(tls[false], ", ")), "wait while druid reconciles or pods are replaced; if it stays so, restart those that are not as wanted, one at a time, while the others hold quorum and none is a learner")
	}
}

// quorum counts voters. The membership itself is not published, so who votes is bounded from both sides:
// at most everybody who is not known to be a learner, at least everybody who has started.
func (j *judge) quorum() {
	q := &j.report.Quorum
	surely := 0
	for i := range j.report.Members {
		m := &j.report.Members[i]
		if m.vote == voteNone {
			continue
		}
		q.Voters++
		// One that is not wanted any more may have been removed from the membership, unless it still serves.
		if m.vote == voteUp || (started(m.Member) && !m.surplus) {
			surely++
		}
		switch m.vote {
		case voteUp:
			q.Healthy++
		case voteUnknown:
			q.Unknown++
		}
	}
	q.Needed = q.Voters/2 + 1
	least := surely/2 + 1
	switch {
	case q.Voters > 0 && q.Healthy >= q.Needed:
		q.State = QuorumHeld
	case q.Unknown == 0 && q.Healthy > 0 && q.Healthy >= least:
		// Everybody who may vote has told of itself, and a linearizable read has just been answered: that takes a quorum.
		q.State = QuorumHeld
		q.Voters, q.Needed = surely, least
	case q.Healthy+q.Unknown < least && !j.unbounded:
		q.State = QuorumIsLost
	default:
		q.State = QuorumIsUnknown
	}
}

func (j *judge) verdict() {
	r := &j.report
	if n, known := r.Wanted.Get(); known && n == 0 {
		r.Verdict, r.Message = Hibernated, "no members are wanted"
		running := 0
		for _, m := range r.Members {
			if m.PodState.Known() || m.vote == voteUp || m.Live.Value.Reached {
				running++
			}
		}
		if running == 0 && r.Set.Value.Replicas == 0 {
			r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return f.Code != Unreadable })
			return
		}
		// It was asked to hibernate, and does not yet: what is wrong meanwhile is still wrong.
		r.Message += fmt.Sprintf("; still running: %d", running)
		j.sort()
		return
	}
	switch {
	case len(r.Members) == 0:
	case r.Quorum.State == QuorumIsLost:
		j.find(QuorumLost, Critical, "", fmt.Sprintf("quorum is lost: %d of %d voters serve, and %d are needed", r.Quorum.Healthy, r.Quorum.Voters, r.Quorum.Needed), "bring members back with their own data first; restore only what can't be brought back")
	case r.Quorum.State == QuorumIsUnknown && !j.splitFound:
		j.find(QuorumUnknown, Critical, "", fmt.Sprintf("whether quorum holds is not known: %d of at most %d voters serve, %d are needed, and %d can't be judged", r.Quorum.Healthy, r.Quorum.Voters, r.Quorum.Needed, r.Quorum.Unknown), "find out about the members that can't be judged")
	}
	j.sort()
	worst := Finding{Severity: Notice}
	if len(r.Findings) > 0 {
		worst = r.Findings[0]
	}
	switch {
	case j.splitFound || j.corruptFound || r.Quorum.State == QuorumIsLost:
		r.Verdict = Unhealthy
	case r.Quorum.State == QuorumIsUnknown:
		r.Verdict = Unknown
	case worst.Severity != Notice:
		r.Verdict = Degraded
	default:
		r.Verdict = Healthy
	}
	r.Message = j.why()
	if r.Verdict != Healthy {
		r.Reason = worst.Code
	}
}

// sort puts the worst finding first.
func (j *judge) sort() {
	slices.SortStableFunc(j.report.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.rank(), b.Severity.rank()), cmp.Compare(leads(b.Code), leads(a.Code)))
	})
}

// started says whether a member has been a voter: validation of its data is what a voter begins with when it restarts.
func started(m model.Member) bool {
	state := v1alpha1.MemberState(m.State.Or(""))
	// druid's sidecar has told of it: it has joined.
	return state == v1alpha1.StateStarted || state == v1alpha1.StateInitializing || m.LeaseRole.Known()
}

// leads puts what a verdict rests on before what merely comes with it.
func leads(c Code) int {
	switch c {
	case ClusterSplit, DuplicateMemberID:
		return 3
	case DataCorrupt:
		return 2
	case QuorumLost, QuorumUnknown:
		return 1
	default:
		return 0
	}
}

// why is the glance at a cluster in one sentence.
func (j *judge) why() string {
	r := &j.report
	by := ""
	if slices.ContainsFunc(r.Members, func(m MemberReport) bool { return m.Basis == model.SourcePod && m.vote == voteUp }) {
		by = " by pods and Leases" // roles, and who has caught up, are not proven
	}
	parts := []string{fmt.Sprintf("%d of %d voters healthy%s, quorum %d", r.Quorum.Healthy, r.Quorum.Voters, by, r.Quorum.Needed)}
	switch {
	case j.splitFound:
		parts = nil // counting voters of two clusters together would be a lie
	case r.Quorum.State == QuorumIsLost:
		parts[0] += " is lost"
	case r.Quorum.State == QuorumIsUnknown:
		parts[0] += " is not known to hold"
	}
	if r.Leader != "" && !j.splitFound {
		parts[0] += ", leader " + r.Leader
	}
	var said []Finding
	for _, f := range r.Findings {
		if f.Severity == Notice || f.Code == QuorumLost || f.Code == QuorumUnknown || f.Code == NoLeaderKnown {
			continue
		}
		f.Message = cmp.Or(f.brief, f.Message)
		if n := len(said) - 1; n >= 0 && said[n].Message == f.Message && f.Subject != "" {
			said[n].Subject += ", " + f.Subject
			continue
		}
		said = append(said, f)
	}
	// The glance is one line: -o json has the rest.
	const most = 3
	for i, f := range said {
		switch {
		case i == most:
			parts = append(parts, fmt.Sprintf("and %d more", len(said)-most))
			return strings.Join(parts, "; ")
		case f.Subject != "":
			parts = append(parts, f.Subject+": "+f.Message)
		default:
			parts = append(parts, f.Message)
		}
	}
	return strings.Join(parts, "; ")
}

func lastTransition(m model.Member) model.Transition {
	if n := len(m.Transitions); n > 0 {
		return m.Transitions[n-1]
	}
	return model.Transition{}
}

func stateText(m model.Member) string {
	state := m.State.Or("in no known state")
	if sub := m.SubState.Or(""); sub != "" {
		return state + "/" + sub
	}
	return state
}

// age is a duration as people read it, in whole seconds.
func age(now, then time.Time) string { return now.Sub(then).Round(time.Second).String() }

func percent(part, whole int64) int64 {
	if whole <= 0 {
		return 0
	}
	return int64(float64(part) / float64(whole) * 100)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
