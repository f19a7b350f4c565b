package health

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

// SnapshotCatchUp is how many entries of its log a leader keeps for followers that are behind, at least
// (DefaultSnapshotCatchUpEntries of etcd). One that is further behind is sent a snapshot of the whole database.
const SnapshotCatchUp = 5000

// liveMember judges a member by what it has just answered. otherwise judges it by what others say, where it could not be
// asked.
func (j *judge) liveMember(m model.Member, set setter, otherwise func() vote) vote {
	l := m.Live.Value
	switch {
	case l.Serves && l.Err != "":
		// Only a voter answers a linearizable read; what else it did not tell is not permitted, or came too late.
		set(MemberHealthy, "", "")
		j.find(MemberNotAsked, Notice, m.Name, "it serves, but has not told its status: "+l.Err, "")
		return voteUp
	case l.Refused && l.Err != "":
		set(MemberUnknown, "PermissionDenied", "it does not permit to be asked: "+l.Err)
		j.find(MemberNotAsked, Warning, m.Name, "it does not permit to be asked, so how it is is not known: "+l.Err, "give the certificate of a user with role root: --cert and --key")
		return voteUnknown
	case l.NotAsked:
		v := otherwise()
		if v == voteUp {
			// What was asked for is what the member itself says.
			set(MemberUnknown, string(MemberNotAsked), "it could not be asked: "+l.Err)
			v = voteUnknown
		}
		j.find(MemberNotAsked, Warning, m.Name, "it could not be asked: "+l.Err, "")
		return v
	case l.Err != "":
		set(MemberUnhealthy, "NotAnswering", "it does not answer: "+l.Err)
		j.find(MemberNotServing, Warning, m.Name, "it does not answer: "+l.Err, "see what etcd says: kubectl logs "+m.Pod+container(m)+j.inNamespace())
		j.brief("it does not answer")
		// Silence is the member's own where its kubelet says the same, or where another one has answered on the same way, in
		// the same time, at the same port: else the way may be slow or broken, or the port be another one.
		if j.podDown(m) || (l.Reached && j.someAnswer) {
			return voteDown
		}
		return voteUnknown
	case l.Learner:
		set(MemberSyncing, string(v1alpha1.SubStateLearner), "it does not vote yet")
		j.find(MemberNotVoting, Warning, m.Name, "it does not vote: it is a learner"+j.progress(m), "wait until it has caught up and is promoted; restart no other member meanwhile")
		return voteNone
	case l.Serves && slices.ContainsFunc(m.Alarms.Value, func(a string) bool { return a != "" }):
		set(MemberUnhealthy, v1alpha1.ReadyReasonAlarm, "it raises alarm "+strings.Join(m.Alarms.Value, " and "))
		return voteUp
	case l.Serves:
		set(MemberHealthy, "", "")
		return voteUp
	default:
		reason, message := "NotServing", "it answers, but not a linearizable read: "+l.ServeErr
		if l.Leader == "" {
			reason, message = "NoLeader", "it knows no leader, so it serves nothing: "+l.ServeErr
		}
		set(MemberUnhealthy, reason, message)
		j.find(MemberNotServing, Warning, m.Name, message, "")
		return voteDown
	}
}

// container is the option of kubectl logs for a member's etcd.
func container(m model.Member) string {
	if name := m.PodState.Value.Etcd.Name; name != "" {
		return " -c " + name
	}
	return ""
}

// podDown says that the member's pod surely does not run etcd, by its kubelet's word.
func (j *judge) podDown(m model.Member) bool {
	p, known := m.PodState.Get()
	return m.NoPod || known && (p.Phase == "Succeeded" || p.Phase == "Failed" || p.Phase == "Pending" ||
		(p.Etcd.Name != "" && !p.Etcd.Ready && p.ContainersReady == "False"))
}

// progress says how far a learner has come.
func (j *judge) progress(m model.Member) string {
	applied, ok := m.RaftAppliedIndex.Get()
	last := j.lastIndex(m.ClusterID.Value)
	if !ok || last == 0 {
		return ""
	}
	text := fmt.Sprintf(", and has applied %d of the %d entries", applied, last)
	if t := lastTransition(m); v1alpha1.MemberSubState(t.SubState) == v1alpha1.SubStateLearner && !t.Time.IsZero() {
		text += ", for " + age(j.Now, t.Time)
	}
	return text
}

// lastIndex is the highest raft index that any member of a cluster has committed, by its own live word.
func (j *judge) lastIndex(clusterID string) int64 {
	var last int64
	for _, m := range j.report.Cluster.Members {
		if m.RaftIndex.Source == model.SourceLive && m.ClusterID.Value == clusterID {
			last = max(last, m.RaftIndex.Value)
		}
	}
	return last
}

// lag fills in how many entries each member is behind. Only answers of the same moment compare.
func (j *judge) lag() {
	for i := range j.report.Members {
		m := &j.report.Members[i]
		applied, ok := m.RaftAppliedIndex.Get()
		last := j.lastIndex(m.ClusterID.Value)
		if !ok || m.RaftAppliedIndex.Source != model.SourceLive || last == 0 {
			continue
		}
		m.Lag = model.Known(max(0, last-applied), model.SourceLive, m.RaftAppliedIndex.Time)
		if m.Lag.Value > SnapshotCatchUp && m.vote != voteNone {
			j.find(MemberLagging, Warning, m.Name, fmt.Sprintf("it is %d entries behind: more than leaders keep, so it may need a snapshot of the whole database", m.Lag.Value), "wait until it has caught up; restart no other member meanwhile")
		}
	}
}

// membership compares the members with the membership that they themselves tell of. It reports whether any has told.
func (j *judge) membership() bool {
	r := &j.report
	reference := -1
	for i := range r.Members {
		m := &r.Members[i]
		if m.Live.Value.List == nil {
			continue
		}
		if reference < 0 || newerView(m.Member, r.Members[reference].Member) {
			reference = i
		}
	}
	if reference < 0 {
		return false
	}
	list := r.Members[reference].Live.Value.List
	teller := r.Members[reference].Name
	j.comparedLists(teller, list)
	if j.strangers() {
		return false
	}

	listed := make([]bool, len(r.Members))
	for _, entry := range list {
		i := j.match(entry)
		if i < 0 && j.elsewhere(entry, r.Members[reference].ClusterID.Value) {
			continue // the split says it all
		}
		if i < 0 {
			r.Members = append(r.Members, j.unmatched(entry, teller))
			listed = append(listed, true)
			continue
		}
		listed[i] = true
		j.entry(&r.Members[i], entry)
	}
	for i := range listed {
		m := &r.Members[i]
		if listed[i] || m.Health == MemberMissing {
			if !listed[i] {
				m.vote = voteNone
			}
			continue
		}
		if m.ClusterID.Source == model.SourceLive && m.ClusterID.Value != r.Members[reference].ClusterID.Value {
			continue
		}
		m.vote = voteNone
		switch {
		case m.Live.Value.Serves || m.Live.Value.Err == "" && m.Live.Known():
			j.find(NotInMembership, Warning, m.Name, fmt.Sprintf("it answers as %s, and %s does not list it: it was removed", m.ID.Or("an unknown ID"), teller), "a removed member does not come back by itself: replace its volume while the others hold quorum")
		default:
			m.Reason, m.Message = string(MemberNotJoined), teller+" does not list it: it has not joined, or was removed"
			if m.Health != MemberUnhealthy {
				m.Health = MemberUnhealthy
			}
			logs := container(m.Member)
			if r.Key.Kind == model.KindEtcd {
				logs = " -c backup-restore" // which is what has druid's members join
			}
			j.find(MemberNotJoined, Warning, m.Name, m.Message, "see what keeps it: kubectl logs "+m.Pod+logs+j.inNamespace())
		}
	}
	slices.SortStableFunc(r.Members, func(a, b MemberReport) int { return model.CompareNatural(a.Name, b.Name) })
	j.waiting()
	j.exactQuorum()
	return true
}

// strangers finds members that all serve and do not know each other: whoever answers a linearizable read is a voter of a
// cluster that has a quorum, and knows its membership. Two that do not list each other are of two clusters, also where both
// have the same ID: --force-new-cluster keeps it.
func (j *judge) strangers() bool {
	lists := func(a, b MemberReport) bool {
		return slices.ContainsFunc(a.Live.Value.List, func(l model.Listed) bool { return l.ID == b.ID.Value })
	}
	var serving []int
	for i, m := range j.report.Members {
		if m.Live.Value.Serves && m.Live.Value.List != nil && m.ID.Source == model.SourceLive {
			serving = append(serving, i)
		}
	}
	views := map[string][]string{}
	found := false
	for _, a := range serving {
		for _, b := range serving {
			x, y := j.report.Members[a], j.report.Members[b]
			if a != b && x.ClusterID.Value == y.ClusterID.Value && !lists(x, y) {
				found = true
			}
		}
		m := j.report.Members[a]
		views[listText(m.Live.Value.List)] = append(views[listText(m.Live.Value.List)], m.Name)
	}
	if !found {
		return false
	}
	var parts []string
	for _, view := range sortedKeys(views) {
		parts = append(parts, strings.Join(views[view], ", "))
	}
	most := 0
	for _, names := range views {
		most = max(most, len(names))
	}
	for _, i := range serving {
		m := &j.report.Members[i]
		if n := len(views[listText(m.Live.Value.List)]); n < most || 2*n <= len(serving) {
			m.Health, m.Reason, m.Message = MemberUnhealthy, string(ClusterSplit), "it serves for a membership that others which serve do not share"
		}
	}
	j.splitFound, j.severalClusters = true, true
	j.find(ClusterSplit, Critical, "", "members that serve do not know each other, so there are several clusters of the same ID: "+strings.Join(parts, "; "), "change nothing until it is clear which cluster has the data; nothing repairs this for you")
	return true
}

// newerView says whether a's view of the membership counts for more than b's: of a cluster's members, the one that serves,
// leads, and has come further.
func newerView(a, b model.Member) bool {
	score := func(m model.Member) (serves, leads int, term, applied int64) {
		if m.Live.Value.Serves {
			serves = 1
		}
		if m.Live.Value.Leader != "" && m.Live.Value.Leader == m.ID.Value {
			leads = 1
		}
		return serves, leads, m.RaftTerm.Value, m.RaftAppliedIndex.Value
	}
	as, al, at, aa := score(a)
	bs, bl, bt, ba := score(b)
	return cmp.Or(cmp.Compare(as, bs), cmp.Compare(at, bt), cmp.Compare(al, bl), cmp.Compare(aa, ba)) > 0
}

// match finds the row of an entry of the member list: by its ID, by its name, or where it was never started, by the host in
// its peer URL.
func (j *judge) match(entry model.Listed) int {
	ms := j.report.Members
	// The ID that a member itself has answered is sure; the one that others remember may be its former self's.
	if i := slices.IndexFunc(ms, func(m MemberReport) bool {
		return m.ID.Source == model.SourceLive && m.ID.Value == entry.ID
	}); i >= 0 {
		return i
	}
	// Another ID by the member's own word: the entry is of a former, or a coming, self.
	free := func(m MemberReport) bool { return m.ID.Source != model.SourceLive }
	if i := slices.IndexFunc(ms, func(m MemberReport) bool { return free(m) && entry.Name != "" && m.Name == entry.Name }); i >= 0 {
		return i
	}
	for _, raw := range slices.Concat(entry.PeerURLs, entry.ClientURLs) {
		u, err := url.Parse(raw)
		if err != nil {
			continue
		}
		host, _, _ := strings.Cut(u.Hostname(), ".")
		if i := slices.IndexFunc(ms, func(m MemberReport) bool { return free(m) && m.Pod == host }); i >= 0 {
			return i
		}
	}
	return slices.IndexFunc(ms, func(m MemberReport) bool { return free(m) && m.ID.Value == entry.ID })
}

// elsewhere says whether the member of an entry's name answers, as one of another cluster.
func (j *judge) elsewhere(entry model.Listed, clusterID string) bool {
	return slices.ContainsFunc(j.report.Members, func(m MemberReport) bool {
		return entry.Name != "" && m.Name == entry.Name && m.ClusterID.Source == model.SourceLive && m.ClusterID.Value != clusterID
	})
}

// entry compares a member with its entry in the member list.
func (j *judge) entry(m *MemberReport, entry model.Listed) {
	m.listed = true
	switch {
	case entry.Name == "":
		m.Reason, m.Message = "Unstarted", "it is in the membership and has never been started"
		m.Health = MemberUnhealthy
		if entry.Learner {
			m.Health, m.vote = MemberSyncing, voteNone
		} else if m.vote != voteUp {
			m.vote = voteDown
		}
		j.find(MemberUnstarted, Warning, m.Name, fmt.Sprintf("it is in the membership as %s and has never been started: nobody can be added until it has", entry.ID), "start it, and restart no other member meanwhile")
	case m.Live.Known() && m.Live.Value.Err == "" && m.Live.Value.Learner != entry.Learner:
		word := map[bool]string{true: "a learner", false: "a voter"}
		j.find(LearnerMismatch, Warning, m.Name, fmt.Sprintf("it says that it is %s, and the membership that it is %s (etcd-io/etcd#18347, #21694)", word[m.Live.Value.Learner], word[entry.Learner]), "wait a minute; if it stays so, restart it while the others hold quorum and no other is a learner, and at last replace its volume")
	case entry.Learner && m.vote != voteUp:
		m.vote = voteNone
		if m.Health == MemberUnknown {
			m.Health, m.Reason, m.Message = MemberSyncing, string(v1alpha1.SubStateLearner), "it does not vote yet"
		}
	}
	if entry.Learner {
		m.Role = cmp.Or(m.Role, string(v1alpha1.SubStateLearner))
	}
	// The membership says what the member advertises, also where it does not answer.
	if !m.PeerTLS.Known() || m.PeerTLS.Source != model.SourceLive {
		if tls, known := peerTLS(entry); known {
			m.PeerTLS = model.Known(tls, model.SourceLive, j.Now)
		}
	}
	for _, raw := range entry.PeerURLs {
		if u, err := url.Parse(raw); err == nil && len(j.report.Members) > 1 && loopback(u.Hostname()) {
			j.find(PeerURLUnexpected, Warning, m.Name, fmt.Sprintf("its peer URL is %s, where no other member reaches it", raw), "its peer URL must be updated before another member can join")
		}
	}
}

func peerTLS(entry model.Listed) (tls, known bool) {
	for _, u := range entry.PeerURLs {
		if !strings.HasPrefix(u, "https://") {
			return false, true
		}
	}
	return len(entry.PeerURLs) > 0, len(entry.PeerURLs) > 0
}

func loopback(host string) bool {
	return host == "localhost" || strings.HasPrefix(host, "127.") || host == "::1"
}

// unmatched is the row of an entry of the member list that nothing else is known of.
func (j *judge) unmatched(entry model.Listed, teller string) MemberReport {
	name := cmp.Or(entry.Name, entry.ID)
	if slices.ContainsFunc(j.report.Members, func(m MemberReport) bool { return m.Name == name }) {
		name = entry.ID // a former self of a member that is there
	}
	m := MemberReport{
		Member: model.Member{Name: name, ID: model.Known(entry.ID, model.SourceLive, j.Now)},
		Health: MemberUnhealthy, Reason: string(MemberWithoutPod), Message: "it is in the membership, and there is no pod of it",
		Basis: model.SourceLive, listed: true, vote: voteUnknown, surplus: true,
	}
	if tls, known := peerTLS(entry); known {
		m.PeerTLS = model.Known(tls, model.SourceLive, j.Now)
	}
	switch {
	case entry.Learner:
		m.vote, m.Role = voteNone, string(v1alpha1.SubStateLearner)
	case j.report.PodsRead:
		m.vote = voteDown
	}
	j.find(MemberWithoutPod, Warning, name, fmt.Sprintf("%s lists it as %s, and there is no pod of it: it is left over, and counts for the quorum all the same", teller, entry.ID), "make sure that it is gone for good before it is removed from the membership")
	return m
}

// comparedLists compares what each member sees.
func (j *judge) comparedLists(teller string, reference []model.Listed) {
	want := listText(reference)
	var differ []string
	for _, m := range j.report.Members {
		if l := m.Live.Value.List; l != nil && listText(l) != want {
			differ = append(differ, m.Name)
		}
	}
	if len(differ) > 0 {
		j.find(MembershipDiffers, Warning, "", fmt.Sprintf("%s and %s do not see the same membership", teller, strings.Join(differ, ", ")), "compare what each sees: kubectl etcdmember status "+j.report.Key.Argument()+" --live -o json"+j.inNamespace())
	}
}

func listText(list []model.Listed) string {
	var parts []string
	for _, e := range list {
		parts = append(parts, fmt.Sprint(e.ID, e.Learner))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// waiting tells of members that can't join because another is on its way: etcd allows but one learner.
func (j *judge) waiting() {
	blocker := ""
	for _, m := range j.report.Members {
		if m.listed && (m.Live.Value.Learner || m.Role == string(v1alpha1.SubStateLearner) || m.Reason == "Unstarted") {
			blocker = m.Name
		}
	}
	for _, m := range j.report.Members {
		if blocker != "" && !m.listed && m.Name != blocker && m.Reason == string(MemberNotJoined) {
			j.find(LearnerBlocks, Notice, m.Name, "it can't join before "+blocker+" votes: a cluster takes one learner at a time", "")
		}
	}
}

// exactQuorum counts the voters of the membership that the members tell of.
func (j *judge) exactQuorum() {
	q := &j.report.Quorum
	*q = Quorum{}
	for _, m := range j.report.Members {
		if !m.listed || m.vote == voteNone {
			continue
		}
		q.Voters++
		switch m.vote {
		case voteUp:
			q.Healthy++
		case voteUnknown:
			q.Unknown++
		}
	}
	q.Needed = q.Voters/2 + 1
	switch {
	case q.Healthy > 0:
		// One linearizable read takes a quorum, whether or not the others can be reached from here.
		q.State = QuorumHeld
	case q.Unknown < q.Needed:
		q.State = QuorumIsLost
	default:
		q.State = QuorumIsUnknown
	}
}

// alarms tells of alarms of members that are in no membership any more, and of what the alarms that there are mean.
func (j *judge) liveAlarms() {
	known := map[string]string{}
	for _, m := range j.report.Members {
		if id, ok := m.ID.Get(); ok {
			known[id] = m.Name
		}
	}
	told := map[model.Alarm]bool{}
	for _, m := range j.report.Members {
		for _, a := range m.Live.Value.Alarms {
			if told[a] {
				continue
			}
			told[a] = true
			name, is := known[a.MemberID]
			if a.Type == "CORRUPT" && !slices.Contains(j.alarmsOf(name), a.Type) {
				j.corruptFound = true
				who := "member " + a.MemberID + ", which is not in the membership any more"
				switch {
				case a.MemberID == "0" || a.MemberID == "":
					who = "nobody in particular (etcd-io/etcd#14849)"
				case is:
					who = name
				}
				j.find(DataCorrupt, Critical, name, fmt.Sprintf("%s says that alarm CORRUPT is raised for %s: members disagree about data; the alarm may name the wrong one", m.Name, who), "disarm nothing and replace nobody before the hashes of all members are compared: add --hash")
				continue
			}
			switch {
			case a.MemberID == "0" || a.MemberID == "":
				j.find(AlarmRaised, Warning, "", "alarm "+a.Type+" is raised and names no member (etcd-io/etcd#14849)", "compare the members' hashes with --hash before any is replaced")
			case !is:
				j.find(AlarmOfRemovedMember, Warning, "", fmt.Sprintf("alarm %s is raised for member %s, which is not in the membership any more", a.Type, a.MemberID), "when no other alarm is raised, disarm it: etcdctl alarm disarm disarms every alarm of every member")
			case !slices.Contains(j.alarmsOf(name), a.Type):
				j.find(AlarmRaised, Warning, name, fmt.Sprintf("%s says that it raises alarm %s", m.Name, a.Type), "")
			}
		}
	}
}

func (j *judge) alarmsOf(name string) []string {
	for _, m := range j.report.Members {
		if m.Name == name {
			return m.Alarms.Value
		}
	}
	return nil
}

// hashes compares checksums of keys. Those of different revisions, or of different compactions, do not compare.
func (j *judge) hashes() {
	type point struct{ revision, compacted int64 }
	groups := map[point]map[uint32][]string{}
	asked := 0
	for _, m := range j.report.Members {
		h := m.Live.Value.Hash
		if h == nil {
			if err := m.Live.Value.HashErr; err != "" {
				asked++
				j.find(HashesNotCompared, Notice, m.Name, "there is no hash of its keys: "+err, "")
			}
			continue
		}
		asked++
		p := point{h.Revision, h.CompactRevision}
		if groups[p] == nil {
			groups[p] = map[uint32][]string{}
		}
		groups[p][h.Hash] = append(groups[p][h.Hash], m.Name)
	}
	if len(groups) > 1 {
		j.find(HashesNotCompared, Notice, "", "the hashes of some members don't compare: they are of different revisions, or the members are compacted at different ones", "ask again in a while")
	}
	points := slices.SortedFunc(maps.Keys(groups), func(a, b point) int {
		return cmp.Or(cmp.Compare(a.revision, b.revision), cmp.Compare(a.compacted, b.compacted))
	})
	for _, p := range points {
		by := groups[p]
		if len(by) < 2 {
			continue
		}
		var parts []string
		for hash, names := range by {
			parts = append(parts, fmt.Sprintf("%s: %x", strings.Join(names, ", "), hash))
		}
		slices.Sort(parts)
		if j.minorVersions() > 1 {
			j.find(HashesNotCompared, Notice, "", "the hashes differ, and so do the versions of etcd, which do not all hash alike: "+strings.Join(parts, "; "), "finish the upgrade, then compare again")
			continue
		}
		j.corruptFound = true
		j.find(HashesDiffer, Critical, "", fmt.Sprintf("the members hold different data at revision %d, compacted at %d: %s", p.revision, p.compacted, strings.Join(parts, "; ")), hashAdvice(by))
	}
	j.report.HashesCompared = asked > 0 && len(groups) == 1
}

// hashAdvice says what to do about different data. Two against one are a hint; one against one is none.
func hashAdvice(by map[uint32][]string) string {
	most, total := 0, 0
	for _, names := range by {
		most, total = max(most, len(names)), total+len(names)
	}
	keep := "keep everybody's data aside, and replace nobody, until it is clear which is right"
	if 2*most > total {
		return keep + "; most likely it is what most members hold. Then replace those that differ, one at a time, while the others hold quorum"
	}
	return keep + ": no majority tells"
}

// minorVersions is how many minor versions of etcd were hashed by: they do not compare (3.5.16 changed what is hashed).
func (j *judge) minorVersions() int {
	minors := map[string]bool{}
	for _, m := range j.report.Members {
		if m.Live.Value.Hash != nil {
			parts := strings.SplitN(m.Version.Value, ".", 3)
			minors[strings.Join(parts[:min(2, len(parts))], ".")] = true
		}
	}
	return len(minors)
}
