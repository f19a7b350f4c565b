package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/health"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
	"github.com/etcdmember/kubectl-etcdmember/pkg/source"
)

// facts writes what a member has answered into what is known of it, as if it had been asked by us.
func (m askedMember) facts(to *model.Member, at time.Time) {
	live := model.Live{Endpoint: m.Endpoint}
	defer func() { to.Live = model.Known(live, model.SourceLive, at) }()
	if m.Status == nil {
		live.Err, live.Reached = m.StatusError, strings.Contains(m.StatusLog, "connection refused")
		return
	}
	live.Reached, live.Serves, live.Learner = true, m.serves(), m.learner()
	if !live.Serves && !live.Learner {
		live.ServeErr = m.Health[0].Error
	}
	s := m.Status
	if s.Leader != 0 {
		live.Leader = hexID(s.Leader)
	}
	live.Complaints = s.Errors
	known := func(f *model.Fact[int64], v int64) { *f = model.Known(v, model.SourceLive, at) }
	known(&to.DBSize, s.DBSize)
	known(&to.DBSizeInUse, s.DBSizeInUse)
	known(&to.Revision, s.Header.Revision)
	known(&to.RaftTerm, s.RaftTerm)
	known(&to.RaftIndex, s.RaftIndex)
	known(&to.RaftAppliedIndex, s.RaftAppliedIndex)
	to.ID = model.Known(m.id(), model.SourceLive, at)
	to.ClusterID = model.Known(hexID(s.Header.ClusterID), model.SourceLive, at)
	to.Version = model.Known(s.Version, model.SourceLive, at)
	state, subState := "Started", "Follower"
	switch {
	case live.Learner:
		state, subState = "Starting", "Learner"
	case s.Leader == s.Header.MemberID:
		subState = "Leader"
	}
	to.State, to.SubState = model.Known(state, model.SourceLive, at), model.Known(subState, model.SourceLive, at)

	if live.ListErr = m.MemberList.Err; m.MemberList.Given {
		live.List = []model.Listed{}
	}
	for _, l := range m.MemberList.Value.Members {
		live.List = append(live.List, model.Listed{ID: hexID(l.ID), Name: l.Name, PeerURLs: l.PeerURLs, ClientURLs: l.ClientURLs, Learner: l.IsLearner})
		if l.ID == s.Header.MemberID {
			http := slices.ContainsFunc(l.PeerURLs, func(u string) bool { return !strings.HasPrefix(u, "https://") })
			to.PeerTLS = model.Known(!http, model.SourceLive, at)
		}
	}
	var own []string
	for _, a := range m.Alarms.Value {
		alarm := model.Alarm{MemberID: hexID(a.MemberID), Type: map[int]string{1: "NOSPACE", 2: "CORRUPT"}[a.Alarm]}
		live.Alarms = append(live.Alarms, alarm)
		if a.MemberID == s.Header.MemberID {
			own = append(own, alarm.Type)
		}
	}
	to.Alarms = model.Known(own, model.SourceLive, at)
	if h := m.HashKV; h.Given {
		live.Hash = &model.Hash{Hash: h.Value.Hash, Revision: h.Value.Header.Revision, CompactRevision: h.Value.CompactRevision}
	} else {
		live.HashErr = h.Err
	}
}

// surroundings are findings that may make a cluster Degraded whose members are all well: of its volumes, of its StatefulSet
// and of druid.
var surroundings = []health.Code{
	health.ReconcileFailed, health.StatefulSetMissing, health.ClaimTerminating, health.ReplicasDiffer,
}

// TestDruidLive judges captured clusters by what their members have answered: role, health and verdict are the truth, and
// nothing that the objects said before changes them.
func TestDruidLive(t *testing.T) {
	for _, state := range druidStates(t) {
		t.Run(state, func(t *testing.T) {
			live, objects := readLive(t, state), readCaptured(t, state)
			wanted := objects.wanted(live.Etcd)
			r := judgeLive(t, state, live)

			leader := live.leader(t)
			if r.Leader != leader {
				t.Errorf("%q is said to lead, and truly %q does", r.Leader, leader)
			}
			for _, m := range r.Members {
				role, is := live.row(m.Name)
				if wanted == 0 {
					role, is = "", health.MemberStopped
				}
				if m.Role != role || m.Health != is {
					t.Errorf("%s is %s, role %q (%s: %s), and truly %s, role %q", m.Name, m.Health, m.Role, m.Reason, m.Message, is, role)
				}
				if id := live.member(m.Name).id(); id != "" && m.ID.Value != id {
					t.Errorf("%s has ID %s, and truly %s", m.Name, m.ID.Value, id)
				}
			}
			if len(r.Members) < max(wanted, len(live.Members)) {
				t.Errorf("there are rows of %d of %d members", len(r.Members), wanted)
			}
			truth := live.verdict(t, wanted)
			var warnings []health.Finding
			beside := true
			for _, f := range r.Findings {
				if f.Severity != health.Notice {
					warnings = append(warnings, f)
					beside = beside && slices.Contains(surroundings, f.Code)
				}
			}
			degradedBeside := truth == health.Healthy && r.Verdict == health.Degraded && len(warnings) > 0 && beside
			if r.Verdict != truth && !degradedBeside {
				t.Errorf("verdict %s (%s), and truly %s; findings %+v", r.Verdict, r.Message, truth, warnings)
			}
			if wanted == 0 {
				return
			}
			voters, serving, needed := live.quorum(t, wanted)
			held := map[bool]health.QuorumState{true: health.QuorumHeld, false: health.QuorumIsLost}[serving >= needed]
			got, want := r.Quorum, health.Quorum{State: held, Voters: voters, Healthy: serving, Needed: needed}
			got.Unknown = 0 // how many of those that don't serve can be reached at all is another question
			if got != want {
				t.Errorf("quorum %+v, and truly %+v", got, want)
			}
			told := map[string]bool{}
			for _, f := range r.Findings {
				told[fmt.Sprint(f.Code, " ", f.Subject)] = true
			}
			for name, why := range live.mustBeTold(t) {
				if !told[name] {
					t.Errorf("nobody is told %q: %s; findings %v", name, why, r.Findings)
				}
			}
		})
	}
}

// judgeLive judges a state's cluster by its objects and by what its members have answered.
func judgeLive(t *testing.T, state string, live askedCluster) health.Report {
	t.Helper()
	set, err := source.ReadFiles([]string{objectsOf(state)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range set.Clusters() {
		if c.Key.Name != live.Etcd {
			continue
		}
		for i := range c.Members {
			if m := live.member(c.Members[i].Name); m.Member != "" {
				m.facts(&c.Members[i], live.Time)
			}
		}
		return health.Judge(c, health.Options{Now: live.Time})
	}
	t.Fatalf("there is no cluster %s", live.Etcd)
	return health.Report{}
}

// row is the true role and health of a member.
func (c askedCluster) row(name string) (role string, is health.MemberHealth) {
	m := c.member(name)
	alarmed := slices.ContainsFunc(m.Alarms.Value, func(a struct {
		MemberID uint64
		Alarm    int
	}) bool {
		return m.Status != nil && a.MemberID == m.Status.Header.MemberID
	})
	switch {
	case m.Status == nil:
		return "", health.MemberUnhealthy
	case m.learner():
		return "Learner", health.MemberSyncing
	case m.Status.Leader == m.Status.Header.MemberID:
		role = "Leader"
	default:
		role = "Follower"
	}
	if !m.serves() || alarmed { // whoever raises an alarm says that its data is in danger
		return role, health.MemberUnhealthy
	}
	return role, health.MemberHealthy
}

// mustBeTold are the findings that follow from the answers alone, each with the reason for it.
func (c askedCluster) mustBeTold(t *testing.T) map[string]string {
	t.Helper()
	told := map[string]string{}
	for _, m := range c.Members {
		switch {
		case m.Status == nil && len(c.list(t)) > 0 && !slices.ContainsFunc(c.list(t), func(l listedMember) bool { return l.Name == m.Member }):
			told["MemberNotJoined "+m.Member] = "it is in no member list"
		case m.Status == nil:
			told["MemberNotServing "+m.Member] = "it does not answer"
		case m.learner():
			told["MemberNotVoting "+m.Member] = "it is a learner"
		case !m.serves():
			told["MemberNotServing "+m.Member] = "it answers no linearizable read"
		}
		for _, a := range m.Alarms.Value {
			if m.Status != nil && a.MemberID == m.Status.Header.MemberID {
				told["AlarmRaised "+m.Member] = "it raises an alarm"
			}
		}
	}
	versions := map[string]bool{}
	for _, m := range c.Members {
		if m.Status != nil {
			versions[m.Status.Version] = true
		}
	}
	if len(versions) > 1 {
		told["VersionsMixed "] = "the members run different versions"
	}
	if c.peerTLSMixed(t) {
		told["PeerTLSMixed "] = "some members advertise http and some https"
	}
	return told
}
