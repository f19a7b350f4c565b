package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/etcdmember/kubectl-etcdmember/pkg/health"
)

// answer is what etcdctl has got for one question: a value, or an error.
type answer[T any] struct {
	Value T
	Err   string
	// Given says that the question was asked and answered.
	Given bool
}

func (a *answer[T]) UnmarshalJSON(b []byte) error {
	var failed struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(b, &failed) == nil && failed.Error != "" {
		a.Err = failed.Error
		return nil
	}
	a.Given = true
	return json.Unmarshal(b, &a.Value)
}

// header is in every answer of etcd's.
type header struct {
	ClusterID uint64 `json:"cluster_id"`
	MemberID  uint64 `json:"member_id"`
	Revision  int64  `json:"revision"`
}

// askedMember is what one member has answered.
type askedMember struct {
	Member, Endpoint string
	StatusError      string
	StatusLog        string
	Status           *struct {
		Header           header
		Version          string
		DBSize           int64
		DBSizeInUse      int64
		Leader           uint64
		RaftTerm         int64
		RaftIndex        int64
		RaftAppliedIndex int64
		IsLearner        bool
		Errors           []string
	}
	MemberList answer[struct {
		Header  header
		Members []listedMember
	}]
	HashKV answer[struct {
		Header          header
		Hash            uint32
		CompactRevision int64 `json:"compact_revision"`
	}]
	Alarms answer[[]struct {
		MemberID uint64
		Alarm    int
	}]
	// Health is what 'etcdctl endpoint health' says: a linearizable read, and after it whether there are alarms.
	Health []struct {
		Health bool
		Error  string
	}
}

type listedMember struct {
	ID                   uint64
	Name                 string
	PeerURLs, ClientURLs []string
	IsLearner            bool
}

// askedCluster is one cluster's truth at one time.
type askedCluster struct {
	Etcd, Namespace string
	Time            time.Time
	Members         []askedMember
}

// serves says whether the member has answered a linearizable read.
func (m askedMember) serves() bool {
	return len(m.Health) == 1 && (m.Health[0].Health || strings.HasPrefix(m.Health[0].Error, "Active Alarm"))
}

func (m askedMember) learner() bool { return m.Status != nil && m.Status.IsLearner }

// healthy says that the member votes and serves.
func (m askedMember) healthy() bool { return m.Status != nil && m.serves() && !m.learner() }

func (m askedMember) id() string {
	if m.Status == nil {
		return ""
	}
	return hexID(m.Status.Header.MemberID)
}

func hexID(id uint64) string { return strconv.FormatUint(id, 16) }

// readLive reads what the members of a state's cluster have answered.
func readLive(t *testing.T, state string) askedCluster {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(druidDir, state, "live.json"))
	if err != nil {
		t.Fatal(err)
	}
	var clusters []askedCluster
	if err := json.Unmarshal(data, &clusters); err != nil || len(clusters) != 1 {
		t.Fatalf("live.json has %d clusters: %v", len(clusters), err)
	}
	return clusters[0]
}

// member is the answer of a member. The zero value: it was not asked.
func (c askedCluster) member(name string) askedMember {
	for _, m := range c.Members {
		if m.Member == name {
			return m
		}
	}
	return askedMember{}
}

// list is the membership: as those see it who serve, or where nobody serves, as anybody does.
func (c askedCluster) list(t *testing.T) []listedMember {
	t.Helper()
	var of, any []listedMember
	for _, m := range c.Members {
		if !m.MemberList.Given {
			continue
		}
		list := m.MemberList.Value.Members
		any = list
		if !m.serves() {
			continue
		}
		if of != nil && fmt.Sprint(of) != fmt.Sprint(list) {
			t.Fatalf("members that serve see different memberships: %v and %v", of, list)
		}
		of = list
	}
	if of == nil {
		return any
	}
	return of
}

// leader is the name of the member that leads by the word of all that serve.
func (c askedCluster) leader(t *testing.T) string {
	t.Helper()
	leader := ""
	for _, m := range c.Members {
		if !m.serves() || m.Status.Leader == 0 {
			continue
		}
		for _, other := range c.Members {
			if other.id() == hexID(m.Status.Leader) {
				if leader != "" && leader != other.Member {
					t.Fatalf("%s and %s both lead", leader, other.Member)
				}
				leader = other.Member
			}
		}
	}
	return leader
}

// quorum counts: the voters of the membership, those of them that serve, and how many are needed. Where nobody has told the
// membership, it is all members that are wanted.
func (c askedCluster) quorum(t *testing.T, wanted int) (voters, serving, needed int) {
	t.Helper()
	list := c.list(t)
	if list == nil {
		return wanted, 0, wanted/2 + 1
	}
	for _, l := range list {
		if l.IsLearner {
			continue
		}
		voters++
		for _, m := range c.Members {
			if m.id() == hexID(l.ID) && m.healthy() {
				serving++
			}
		}
	}
	return voters, serving, voters/2 + 1
}

// verdict is the true one: by what the members have answered, and by how many of them are wanted.
func (c askedCluster) verdict(t *testing.T, wanted int) health.Verdict {
	t.Helper()
	if wanted == 0 {
		return health.Hibernated
	}
	voters, serving, needed := c.quorum(t, wanted)
	switch {
	case serving < needed:
		return health.Unhealthy
	case serving < voters || voters != wanted || c.alarmed() || c.peerTLSMixed(t):
		return health.Degraded
	default:
		return health.Healthy
	}
}

// alarmed says that some member raises an alarm.
func (c askedCluster) alarmed() bool {
	return slices.ContainsFunc(c.Members, func(m askedMember) bool { return len(m.Alarms.Value) > 0 })
}

// peerTLSMixed says that some members advertise https to their peers, and some http.
func (c askedCluster) peerTLSMixed(t *testing.T) bool {
	t.Helper()
	schemes := map[string]bool{}
	for _, l := range c.list(t) {
		for _, u := range l.PeerURLs {
			scheme, _, _ := strings.Cut(u, "://")
			schemes[scheme] = true
		}
	}
	return len(schemes) > 1
}

// seen is what the objects say of a member, read without the code that is tested.
type seen struct {
	now time.Time
	// lease says that there is one, and renewed and holder what is in it.
	lease   bool
	renewed time.Time
	holder  string
	// pod says that there is one, ready that its etcd container is, since started.
	pod, ready, deleting bool
	started              time.Time
	// claimDeleting and claimBound are of the claim that the pod uses.
	claimDeleting, claimBound bool
}

// role is what the Lease says.
func (s seen) role() string { return s.holder[strings.LastIndex(s.holder, ":")+1:] }

// current says that the Lease may be the present: renewed in the last 30 s, and since etcd was last started.
func (s seen) current() bool {
	return s.lease && s.holder != "" && s.now.Sub(s.renewed) <= 30*time.Second && !s.renewed.Before(s.started)
}

// grounded says that the objects give grounds to take the member for healthy: a Lease of the last 30 s, and a ready container
// in a pod that stays. It may be gone all the same.
func (s seen) grounded() bool {
	return s.lease && s.holder != "" && s.now.Sub(s.renewed) <= 30*time.Second && s.pod && s.ready && !s.deleting
}

// doubtful says why the objects let a member that serves be in doubt. Empty: they don't.
func (s seen) doubtful() string {
	switch {
	case !s.pod:
		return "there is no pod"
	case s.deleting:
		return "its pod is being deleted"
	case !s.ready:
		return "its etcd container is not ready"
	case !s.lease || s.renewed.IsZero():
		return "there is no Lease, or it was never renewed"
	case s.holder == "":
		return "nobody holds its Lease"
	case s.now.Sub(s.renewed) > 30*time.Second:
		return "its Lease is older than 30 s"
	case s.now.Sub(s.started) < 60*time.Second:
		return "its etcd container was started in the last minute"
	}
	return ""
}

// captured are a state's objects, by kind and name.
type captured map[string]map[string]map[string]any

func readCaptured(t *testing.T, state string) captured {
	t.Helper()
	data, err := os.ReadFile(objectsOf(state))
	if err != nil {
		t.Fatal(err)
	}
	c := captured{}
	for _, text := range strings.Split(string(data), "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		kind := at[string](o, "kind")
		if c[kind] == nil {
			c[kind] = map[string]map[string]any{}
		}
		c[kind][at[string](o, "metadata", "name")] = o
	}
	return c
}

// at is what is at a path in an object, or the zero value.
func at[T any](o map[string]any, path ...string) T {
	var zero T
	var v any = o
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return zero
		}
		v = m[p]
	}
	if t, ok := v.(T); ok {
		return t
	}
	return zero
}

func timeAt(t *testing.T, o map[string]any, path ...string) time.Time {
	t.Helper()
	text := at[string](o, path...)
	if text == "" {
		return time.Time{}
	}
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// now is when the objects were read: the newest time at which somebody said that he has looked.
func (c captured) now(t *testing.T) time.Time {
	t.Helper()
	var newest time.Time
	var walk func(key string, value any)
	walk = func(key string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for k, inner := range v {
				walk(k, inner)
			}
		case []any:
			for _, inner := range v {
				walk(key, inner)
			}
		case string:
			if key != "renewTime" && key != "lastUpdateTime" && key != "lastHeartbeatTime" {
				return
			}
			if when := timeAt(t, map[string]any{key: v}, key); when.After(newest) {
				newest = when
			}
		}
	}
	for _, byName := range c {
		for _, o := range byName {
			walk("", o)
		}
	}
	return newest
}

// wanted is how many members the Etcd wants.
func (c captured) wanted(etcd string) int {
	return int(at[float64](c["Etcd"][etcd], "spec", "replicas"))
}

func (c captured) member(t *testing.T, name string) seen {
	t.Helper()
	s := seen{now: c.now(t)}
	if lease, ok := c["Lease"][name]; ok {
		s.lease, s.holder, s.renewed = true, at[string](lease, "spec", "holderIdentity"), timeAt(t, lease, "spec", "renewTime")
	}
	pod, ok := c["Pod"][name]
	if !ok {
		return s
	}
	s.pod, s.deleting = true, at[string](pod, "metadata", "deletionTimestamp") != ""
	for _, status := range at[[]any](pod, "status", "containerStatuses") {
		container := status.(map[string]any)
		if at[string](container, "name") == "etcd" {
			s.ready = at[bool](container, "ready")
			s.started = timeAt(t, container, "state", "running", "startedAt")
		}
	}
	for _, v := range at[[]any](pod, "spec", "volumes") {
		claim := c["PersistentVolumeClaim"][at[string](v.(map[string]any), "persistentVolumeClaim", "claimName")]
		s.claimDeleting = at[string](claim, "metadata", "deletionTimestamp") != ""
		s.claimBound = at[string](claim, "status", "phase") == "Bound"
	}
	return s
}

// unremarkable says that there is nothing in the objects of a cluster that anybody would have to be told of.
func (c captured) unremarkable(t *testing.T, etcd string) bool {
	t.Helper()
	e := c["Etcd"][etcd]
	if at[string](e, "status", "lastOperation", "state") != "Succeeded" ||
		at[float64](e, "metadata", "generation") != at[float64](e, "status", "observedGeneration") ||
		at[float64](c["StatefulSet"][etcd], "spec", "replicas") != at[float64](e, "spec", "replicas") {
		return false
	}
	leaders := 0
	for i := range c.wanted(etcd) {
		s := c.member(t, fmt.Sprintf("%s-%d", etcd, i))
		if s.doubtful() != "" || s.claimDeleting || !s.claimBound {
			return false
		}
		if s.role() == "Leader" {
			leaders++
		}
	}
	return leaders == 1
}

// shown is what 'status -o json' prints of a cluster, as far as the truth can tell it wrong.
type shown struct {
	Metadata struct{ Name, Namespace string }
	Verdict  health.Verdict
	Reason   string
	Leader   string
	Wanted   int
	Quorum   struct {
		State                            health.QuorumState
		Voters, Healthy, Unknown, Needed int
	}
	Members []struct {
		Name, Role, ID, ClusterID, Reason string
		Health                            health.MemberHealth
	}
	Findings []struct {
		Code, Subject string
		Severity      health.Severity
	}
}

// TestDruidTruth compares what the plugin makes of captured objects with what the members themselves answered a few seconds
// later. The objects don't tell everything: a member may be Unknown, but only for a reason that can be found in them, and one
// that has gone may be taken to be healthy, but only while nothing in them tells that it has.
func TestDruidTruth(t *testing.T) {
	for _, state := range druidStates(t) {
		t.Run(state, func(t *testing.T) {
			live, objects := readLive(t, state), readCaptured(t, state)
			r := here(t, "status", "-f", objectsOf(state), "-n", live.Namespace, "etcd/"+live.Etcd, "-o", "json")
			r.want(t, 0, "")
			var got shown
			if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
				t.Fatalf("%v: %s", err, r.stdout)
			}
			wanted := objects.wanted(live.Etcd)
			if got.Wanted != wanted || got.Metadata.Name != live.Etcd {
				t.Errorf("%s wants %d members, and %s is shown to want %d", live.Etcd, wanted, got.Metadata.Name, got.Wanted)
			}
			truthOfMembers(t, got, live, objects)
			truthOfLeader(t, got, live, objects)
			truthOfVerdict(t, got, live, objects)
		})
	}
}

func truthOfMembers(t *testing.T, got shown, live askedCluster, objects captured) {
	t.Helper()
	rows := map[string]bool{}
	ids := map[string]string{}
	for _, row := range got.Members {
		rows[row.Name] = true
		m, s := live.member(row.Name), objects.member(t, row.Name)
		if other, again := ids[row.ID]; again && row.ID != "" {
			t.Errorf("%s and %s have the same ID %s", other, row.Name, row.ID)
		}
		ids[row.ID] = row.Name
		switch {
		case row.Health == health.MemberHealthy && m.learner():
			t.Errorf("%s is Healthy, and truly it is a learner: %+v", row.Name, s)
		case row.Health == health.MemberHealthy && !s.grounded():
			t.Errorf("%s is Healthy without grounds in the objects: %+v", row.Name, s)
		case row.Health != health.MemberHealthy && m.healthy():
			if row.Health != health.MemberUnknown {
				t.Errorf("%s is %s (%s), and truly it serves: it may be Healthy, or Unknown because %s", row.Name, row.Health, row.Reason, cmp.Or(s.doubtful(), "nothing lets it be in doubt"))
			} else if s.doubtful() == "" {
				t.Errorf("%s is Unknown (%s), and nothing in the objects lets it be in doubt: %+v", row.Name, row.Reason, s)
			}
		}
		// An ID in a Lease that was renewed since etcd was started is the running etcd's.
		if m.Status != nil && s.current() && s.ready {
			if row.ID != m.id() {
				t.Errorf("%s has ID %q, and truly it is %s", row.Name, row.ID, m.id())
			}
			if cluster := hexID(m.Status.Header.ClusterID); row.ClusterID != cluster {
				t.Errorf("%s has cluster ID %q, and truly it is %s", row.Name, row.ClusterID, cluster)
			}
		}
	}
	for i := range objects.wanted(live.Etcd) {
		if name := fmt.Sprintf("%s-%d", live.Etcd, i); !rows[name] {
			t.Errorf("there is no row of %s; there are of %v", name, slices.Sorted(maps.Keys(rows)))
		}
	}
}

// changeShows is how long it may take until a change of leadership is in all Leases: the sidecars renew them every 10 s, and
// take some time for it.
const changeShows = 15 * time.Second

func truthOfLeader(t *testing.T, got shown, live askedCluster, objects captured) {
	t.Helper()
	leader := live.leader(t)
	leaders := 0
	for _, row := range got.Members {
		s := objects.member(t, row.Name)
		switch row.Role {
		case "Leader":
			if leaders++; leaders > 1 {
				t.Errorf("%s is shown to lead, and another one too", row.Name)
			}
			if row.Name != leader && (!s.current() || live.Time.Sub(s.renewed) < changeShows) {
				t.Errorf("%s is shown to lead, by a Lease of %s before it was asked, and truly %q does", row.Name, live.Time.Sub(s.renewed), leader)
			}
		case "Member", "":
			if row.Name == leader && s.current() && s.ready && s.role() == "Leader" {
				t.Errorf("%s leads, and its Lease says so, and its role is %q", row.Name, row.Role)
			}
		default:
			// A Lease says Member of a learner, too.
			t.Errorf("%s has role %q, which no object proves", row.Name, row.Role)
		}
	}
	if got.Leader == "" || got.Leader == leader {
		return
	}
	if s := objects.member(t, got.Leader); !s.current() || live.Time.Sub(s.renewed) < changeShows {
		t.Errorf("%s is said to lead, and truly %q does", got.Leader, leader)
	}
}

func truthOfVerdict(t *testing.T, got shown, live askedCluster, objects captured) {
	t.Helper()
	wanted := objects.wanted(live.Etcd)
	truth := live.verdict(t, wanted)
	voters, serving, needed := live.quorum(t, wanted)
	// What the objects can't tell: members that are gone and look alive, and members that are alive and in doubt.
	deceptive, doubtful := 0, 0
	for i := range wanted {
		name := fmt.Sprintf("%s-%d", live.Etcd, i)
		m, s := live.member(name), objects.member(t, name)
		switch {
		case !m.healthy() && s.grounded():
			deceptive++
		case m.healthy() && s.doubtful() != "":
			doubtful++
		}
	}
	var allowed []health.Verdict
	switch truth {
	case health.Hibernated:
		allowed = append(allowed, health.Hibernated)
	case health.Healthy:
		allowed = append(allowed, health.Healthy)
		if !objects.unremarkable(t, live.Etcd) {
			allowed = append(allowed, health.Degraded)
		}
	case health.Degraded:
		allowed = append(allowed, health.Degraded)
		// No object of druid's tells of an alarm, or of what a running etcd advertises to its peers.
		if serving+deceptive >= voters && voters == wanted {
			allowed = append(allowed, health.Healthy)
		}
	case health.Unhealthy:
		// That a member is lost can't always be told from its being restarted.
		allowed = append(allowed, health.Unhealthy, health.Unknown)
		if serving+deceptive >= needed {
			allowed = append(allowed, health.Degraded)
		}
	}
	if serving >= needed && serving-doubtful < needed {
		allowed = append(allowed, health.Unknown)
	}
	if !slices.Contains(allowed, got.Verdict) {
		t.Errorf("verdict %s (%s), truly %s: %d of %d voters serve; with %d members that only look alive, and %d in doubt, it may be %v",
			got.Verdict, got.Reason, truth, serving, voters, deceptive, doubtful, allowed)
	}
	if truth == health.Hibernated {
		return
	}
	if got.Quorum.State == health.QuorumHeld && serving+deceptive < needed {
		t.Errorf("quorum is Held, and truly %d of %d voters serve", serving, voters)
	}
	if got.Quorum.State == health.QuorumIsLost && serving >= needed {
		t.Errorf("quorum is Lost, and truly %d of %d voters serve", serving, voters)
	}
}
