package source

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	grpccredentials "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/rest"

	"github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/pki"
)

// fakeEtcd is a member as far as it is asked. It answers as it is told to, which a real one can't be; those are in test/e2e.
type fakeEtcd struct {
	pb.UnimplementedKVServer
	pb.UnimplementedClusterServer
	pb.UnimplementedMaintenanceServer
	id, leader uint64
	learner    bool
	quota      int64
	errors     []string

	mu       sync.Mutex
	revision int64
	compact  int64
	hashed   []int64
	// fail is what becomes of a question: status, list, read or hash. Nil: it is answered. It may wait.
	fail func(ctx context.Context, question string) error
}

func (f *fakeEtcd) ask(ctx context.Context, question string) (*pb.ResponseHeader, error) {
	if f.fail != nil {
		if err := f.fail(ctx, question); err != nil {
			return nil, err
		}
	}
	if f.learner && question != "status" {
		return nil, rpctypes.ErrGRPCNotSupportedForLearner
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &pb.ResponseHeader{ClusterId: 0xc1, MemberId: f.id, Revision: f.revision, RaftTerm: 3}, nil
}

func (f *fakeEtcd) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	h, err := f.ask(ctx, "status")
	if err != nil {
		return nil, err
	}
	return &pb.StatusResponse{
		Header: h, Version: "3.7.3", DbSize: 100, DbSizeInUse: 50, DbSizeQuota: f.quota, Leader: f.leader, RaftTerm: 3, RaftIndex: 9,
		RaftAppliedIndex: 8, IsLearner: f.learner, Errors: f.errors,
	}, nil
}

func (f *fakeEtcd) Range(ctx context.Context, _ *pb.RangeRequest) (*pb.RangeResponse, error) {
	h, err := f.ask(ctx, "read")
	return &pb.RangeResponse{Header: h}, err
}

func (f *fakeEtcd) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	h, err := f.ask(ctx, "list")
	if r.Linearizable {
		err = errors.New("it was asked for the cluster's view, not its own")
	}
	return &pb.MemberListResponse{Header: h, Members: []*pb.Member{
		{ID: 0xa0, Name: "main-0", PeerURLs: []string{"https://main-0:2380"}, ClientURLs: []string{"https://main-0:2379"}},
		{ID: 0xa1, Name: "main-1", PeerURLs: []string{"http://main-1:2380"}},
		{ID: 0xa2, PeerURLs: []string{"https://main-2:2380"}, IsLearner: true},
	}}, err
}

func (f *fakeEtcd) HashKV(ctx context.Context, r *pb.HashKVRequest) (*pb.HashKVResponse, error) {
	h, err := f.ask(ctx, "hash")
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hashed = append(f.hashed, r.Revision)
	switch {
	case r.Revision > f.revision:
		return nil, rpctypes.ErrGRPCFutureRev
	case r.Revision > 0 && r.Revision <= f.compact:
		return nil, rpctypes.ErrGRPCCompacted
	}
	return &pb.HashKVResponse{Header: h, Hash: 0xabcd, CompactRevision: f.compact, HashRevision: r.Revision}, nil
}

// serve serves it, with TLS where a configuration is given.
func (f *fakeEtcd) serve(t *testing.T, config *tls.Config) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	transport := insecure.NewCredentials()
	if config != nil {
		transport = grpccredentials.NewTLS(config)
	}
	g := grpc.NewServer(grpc.Creds(transport))
	pb.RegisterKVServer(g, f)
	pb.RegisterClusterServer(g, f)
	pb.RegisterMaintenanceServer(g, f)
	go func() { _ = g.Serve(listener) }()
	t.Cleanup(g.Stop)
	return listener.Addr().String()
}

// straight is the way to an address.
type straight struct {
	directRoute
	to     string
	closed func()
}

func (r *straight) Dial(ctx context.Context, _ string) (net.Conn, error) {
	return r.directRoute.Dial(ctx, r.to)
}

func (r *straight) Close() {
	if r.closed != nil {
		r.closed()
	}
}

// patience is the timeout of tests in which some member does not answer. All others answer long before.
const patience = 2 * time.Second

// asks makes a Live whose members are at addresses by their pods' names.
func asks(o LiveOptions, addresses map[string]string) *Live {
	if o.Timeout == 0 {
		o.Timeout = inTime
	}
	return &Live{o: o, slots: semaphore.NewWeighted(atOnce), reach: func(_ context.Context, _ *model.Cluster, m *model.Member) route {
		return &straight{to: addresses[m.Pod]}
	}}
}

// clusterOf makes a cluster of members with pods, without TLS.
func clusterOf(pods ...string) *model.Cluster {
	c := &model.Cluster{Key: model.Key{Namespace: "ns", Kind: model.KindStatefulSet, Name: "main"}, Access: model.Access{TLSKnown: true}}
	for _, p := range pods {
		c.Members = append(c.Members, model.Member{Name: p, Pod: p})
	}
	return c
}

// ask asks, and wants the members to say something in any case.
func ask(t *testing.T, l *Live, c *model.Cluster) (took time.Duration) {
	t.Helper()
	begun := time.Now()
	if err := l.Ask(t.Context(), []*model.Cluster{c}); err != nil {
		t.Fatal(err)
	}
	for _, m := range c.Members {
		if m.Live.Source != model.SourceLive || m.Live.Time.Before(begun) {
			t.Errorf("%s: what came of asking it is %+v", m.Name, m.Live)
		}
	}
	return time.Since(begun)
}

func TestLiveFacts(t *testing.T) {
	noLeak(t)
	c := clusterOf("main-0", "main-1", "main-2")
	old := time.Now().Add(time.Hour) // however new: what the member says itself counts
	c.Members[0].Revision = model.Known[int64](1, model.SourceAgent, old)
	c.Members[0].Volume = model.Known(model.Volume{Claim: "data"}, model.SourceAgent, old)
	c.Members[1].DBSizeQuota = model.Known[int64](77, model.SourceAgent, old)
	l := asks(LiveOptions{}, map[string]string{
		"main-0": (&fakeEtcd{id: 0xa0, leader: 0xa0, revision: 7, quota: 200, errors: []string{"memberID:160 alarm:NOSPACE ", "memberID:161 alarm:CORRUPT", "alarm:NOSPACE"}}).serve(t, nil),
		"main-1": (&fakeEtcd{id: 0xa1, leader: 0xa0, revision: 7, errors: []string{"etcdserver: no leader"}}).serve(t, nil),
		"main-2": (&fakeEtcd{id: 0xa2, leader: 0, learner: true, revision: 5}).serve(t, nil),
	})
	ask(t, l, c)
	m := c.Members[0]
	got := []any{
		m.ID.Value, m.ClusterID.Value, m.State.Value, m.SubState.Value, m.DBSize.Value, m.DBSizeInUse.Value, m.DBSizeQuota.Value, m.Revision.Value,
		m.RaftTerm.Value, m.RaftIndex.Value, m.RaftAppliedIndex.Value, m.Version.Value, m.Alarms.Value, m.PeerTLS.Value, m.PeerTLS.Known(), m.Volume.Value.Claim,
	}
	want := []any{
		"a0", "c1", "Started", "Leader", int64(100), int64(50), int64(200), int64(7), int64(3), int64(9), int64(8), "3.7.3", []string{"NOSPACE"}, true, true, "data",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("main-0: %v\nwant    %v", got, want)
	}
	for name, source := range map[string]model.Source{"ID": m.ID.Source, "revision": m.Revision.Source, "alarms": m.Alarms.Source, "peer TLS": m.PeerTLS.Source} {
		if source != model.SourceLive {
			t.Errorf("main-0: %s is of source %q", name, source)
		}
	}
	live := m.Live.Value
	if live.Endpoint != "http://main-0:2379" || live.Err != "" || !live.Reached || live.NotAsked || live.Refused || !live.Serves || live.ServeErr != "" || live.Leader != "a0" ||
		len(live.List) != 3 || live.List[0].ClientURLs[0] != "https://main-0:2379" || live.List[2].ID != "a2" || !live.List[2].Learner ||
		!reflect.DeepEqual(live.Alarms, []model.Alarm{{MemberID: "a0", Type: "NOSPACE"}, {MemberID: "a1", Type: "CORRUPT"}, {Type: "NOSPACE"}}) {
		t.Errorf("main-0: %+v", live)
	}
	m = c.Members[1]
	// Its status has no quota, and no metrics have one: what is known stays.
	if m.SubState.Value != "Follower" || m.PeerTLS.Value || !m.PeerTLS.Known() || m.DBSizeQuota.Value != 77 || m.DBSizeQuota.Source != model.SourceAgent ||
		len(m.Live.Value.Complaints) != 1 || !m.Alarms.Known() || len(m.Alarms.Value) != 0 {
		t.Errorf("main-1: %+v", m)
	}
	m = c.Members[2]
	// That a learner answers nothing but its status is no failure.
	if m.State.Value != "Starting" || m.SubState.Value != "Learner" || m.PeerTLS.Known() || !m.Live.Value.Learner || m.Live.Value.Serves || m.Live.Value.ServeErr != "" ||
		m.Live.Value.List != nil || m.Live.Value.ListErr != "" || m.Live.Value.Err != "" || m.Live.Value.Leader != "" {
		t.Errorf("main-2: %+v", m)
	}
}

// TestLiveOneTimeout: whatever members do not answer, and however many, together they cost the timeout once.
func TestLiveOneTimeout(t *testing.T) {
	hang := func(ctx context.Context, _ string) error {
		<-ctx.Done()
		return ctx.Err()
	}
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = frozen.Close() })
	c := clusterOf("serves", "hangs", "frozen", "unopened", "quorumless", "unacknowledged")
	c.Members[1].Revision = model.Known[int64](1, model.SourceAgent, time.Now())
	l := asks(LiveOptions{Timeout: patience}, map[string]string{
		"serves": (&fakeEtcd{id: 0xa0, leader: 0xa0, revision: 7, quota: 1}).serve(t, nil),
		"hangs":  (&fakeEtcd{fail: hang}).serve(t, nil),
		"frozen": frozen.Addr().String(),
		"quorumless": (&fakeEtcd{id: 0xa1, revision: 6, quota: 1, fail: func(ctx context.Context, question string) error {
			if question == "read" {
				return hang(ctx, question)
			}
			return nil
		}}).serve(t, nil),
	})
	direct := l.reach
	unacknowledged := silentTunnel(t, true)
	l.reach = func(ctx context.Context, c *model.Cluster, m *model.Member) route {
		switch m.Pod {
		case "unopened":
			return &forwardRoute{port: 2379, tunnel: startTunnel(ctx, "pod ns/unopened", waitForEver)}
		case "unacknowledged":
			return &forwardRoute{port: 2379, tunnel: unacknowledged}
		default:
			return direct(ctx, c, m)
		}
	}
	if took := ask(t, l, c); took < patience || took >= 2*patience {
		t.Errorf("it took %s: want one timeout of %s", took, patience)
	}
	for i, want := range []model.Live{
		{Reached: true, Serves: true},
		{Reached: true, Err: "asking etcd at http://hangs:2379 for its status: no answer in time", ServeErr: "asking etcd at http://hangs:2379 for a linearizable read: no answer in time"},
		{Reached: true, Err: "asking etcd at http://frozen:2379 for its status: no answer in time", ServeErr: "asking etcd at http://frozen:2379 for a linearizable read: no answer in time"},
		{NotAsked: true, Err: "opening a port-forward to pod ns/unopened: not done within 2s"},
		{Reached: true, ServeErr: "asking etcd at http://quorumless:2379 for a linearizable read: no answer in time"},
		{NotAsked: true, Err: "the port-forward to pod ns/unacknowledged was not opened in time"},
	} {
		m := c.Members[i]
		got := m.Live.Value
		if got.NotAsked {
			got.ServeErr = "" // of no interest where the way has failed
			// Whether the end of the time is noticed here or there is chance.
			if strings.Contains(got.Err, "pod ns/"+m.Pod+": not done within 2s") || got.Err == "the port-forward to pod ns/"+m.Pod+" was not opened in time" {
				got.Err = want.Err
			}
		}
		if got.Reached != want.Reached || got.Err != want.Err || got.NotAsked != want.NotAsked || got.Serves != want.Serves || got.ServeErr != want.ServeErr {
			t.Errorf("%s: %+v\nwant %+v", m.Name, got, want)
		}
	}
	if m := c.Members[1]; m.Revision.Value != 1 || m.ID.Known() {
		t.Errorf("a member that has not answered: %+v", m)
	}
	if m := c.Members[4]; m.ID.Value != "a1" || m.Live.Value.Leader != "" || len(m.Live.Value.List) != 3 {
		t.Errorf("a member without a quorum: %+v", m)
	}
}

func TestLiveFailures(t *testing.T) {
	nothing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = nothing.Close()
	denied := func(_ context.Context, question string) error { return rpctypes.ErrGRPCUserEmpty }
	statusDenied := func(_ context.Context, question string) error {
		if question == "status" {
			return rpctypes.ErrGRPCPermissionDenied
		}
		return nil
	}
	var reads atomic.Int32
	elected := func(_ context.Context, question string) error {
		if question == "read" && reads.Add(1) == 1 {
			return rpctypes.ErrGRPCLeaderChanged
		}
		return nil
	}
	c := clusterOf("refused", "denied", "status-denied", "elected", "corrupt", "no-pod", "forward-refused", "forward-failed")
	c.Members[5].NoPod = true
	l := asks(LiveOptions{}, map[string]string{
		"refused":       nothing.Addr().String(),
		"denied":        (&fakeEtcd{id: 1, fail: denied}).serve(t, nil),
		"status-denied": (&fakeEtcd{id: 0xa1, fail: statusDenied}).serve(t, nil),
		"elected":       (&fakeEtcd{id: 1, quota: 1, fail: elected}).serve(t, nil),
		"corrupt": (&fakeEtcd{id: 1, quota: 1, fail: func(_ context.Context, question string) error {
			if question == "read" {
				return rpctypes.ErrGRPCCorrupt
			}
			return nil
		}}).serve(t, nil),
	})
	direct := l.reach
	tunnels := map[string]*tunnel{}
	tunnels["forward-refused"] = to(t, &kubelet{serve: refuse})
	tunnels["forward-failed"] = to(t, &kubelet{serve: cantForward})
	l.reach = func(ctx context.Context, c *model.Cluster, m *model.Member) route {
		if tunnel := tunnels[m.Pod]; tunnel != nil {
			return &forwardRoute{port: 2379, tunnel: tunnel}
		}
		return direct(ctx, c, m)
	}
	ask(t, l, c)
	for i, want := range []struct {
		err                                string
		reached, notAsked, refused, serves bool
	}{
		{"connection refused", true, false, false, false},
		{"user name is empty", true, false, true, true}, // a read that is denied has taken its quorum
		{"permission denied", true, false, true, true},
		{"", true, false, false, true},
		{"", true, false, false, false},
		{"it has no pod", false, true, false, false},
		{"nothing listens on port 2379 of pod ns/main-0: connection refused", true, false, false, false},
		{"forwarding to port 2379 of pod ns/main-0: unable to do port forwarding: socat not found", false, true, false, false},
	} {
		m := c.Members[i]
		live := m.Live.Value
		if !strings.Contains(live.Err, want.err) || (live.Err == "") != (want.err == "") || live.Reached != want.reached || live.NotAsked != want.notAsked ||
			live.Refused != want.refused || live.Serves != want.serves {
			t.Errorf("%s: %+v", m.Name, live)
		}
	}
	if m := c.Members[2]; m.ID.Value != "a1" || m.ClusterID.Value != "c1" || m.State.Known() || m.PeerTLS.Value {
		t.Errorf("a member that gives its list alone: %+v", m)
	}
	if live := c.Members[4].Live.Value; !strings.Contains(live.ServeErr, "corrupt") {
		t.Errorf("a corrupt member: %+v", live)
	}
}

func TestLiveHashes(t *testing.T) {
	run := func(t *testing.T, members ...*fakeEtcd) *model.Cluster {
		t.Helper()
		noLeak(t)
		addresses := map[string]string{}
		var pods []string
		for i, m := range members {
			m.quota = 1
			pods = append(pods, fmt.Sprintf("main-%d", i))
			addresses[pods[i]] = m.serve(t, nil)
		}
		c := clusterOf(pods...)
		ask(t, asks(LiveOptions{Hash: true}, addresses), c)
		return c
	}
	hash := func(m model.Member) string {
		h, _ := json.Marshal(m.Live.Value.Hash)
		return string(h) + m.Live.Value.HashErr
	}
	t.Run("at the smallest revision, of voters that answer", func(t *testing.T) {
		down := func(context.Context, string) error { return rpctypes.ErrGRPCNoLeader }
		a, b := &fakeEtcd{id: 1, revision: 9, compact: 3}, &fakeEtcd{id: 2, revision: 7, compact: 3}
		learner, silent := &fakeEtcd{id: 3, revision: 4, learner: true}, &fakeEtcd{id: 4, revision: 5, fail: down}
		c := run(t, a, b, learner, silent)
		for i, want := range []string{`{"Hash":43981,"Revision":7,"CompactRevision":3}`, `{"Hash":43981,"Revision":7,"CompactRevision":3}`, "null", "null"} {
			if got := hash(c.Members[i]); got != want {
				t.Errorf("%s: %s, want %s", c.Members[i].Name, got, want)
			}
		}
	})
	t.Run("once more where a compaction comes between", func(t *testing.T) {
		a, b := &fakeEtcd{id: 1, revision: 9, compact: 3}, &fakeEtcd{id: 2, revision: 9, compact: 3}
		var once sync.Once
		b.fail = func(_ context.Context, question string) error {
			if question == "hash" {
				once.Do(func() {
					for _, m := range []*fakeEtcd{a, b} {
						m.mu.Lock()
						m.revision, m.compact = 12, 10
						m.mu.Unlock()
					}
				})
			}
			return nil
		}
		c := run(t, a, b)
		for _, m := range c.Members {
			if got := hash(m); got != `{"Hash":43981,"Revision":12,"CompactRevision":10}` {
				t.Errorf("%s: %s", m.Name, got)
			}
		}
		if len(b.hashed) != 2 || b.hashed[0] != 9 || b.hashed[1] != 12 {
			t.Errorf("it was asked for revisions %v", b.hashed)
		}
	})
	t.Run("without a number where the newest revision is the compacted one", func(t *testing.T) {
		a, b := &fakeEtcd{id: 1, revision: 9, compact: 9}, &fakeEtcd{id: 2, revision: 9, compact: 9}
		for _, m := range run(t, a, b).Members {
			if got := hash(m); got != `{"Hash":43981,"Revision":9,"CompactRevision":9}` {
				t.Errorf("%s: %s", m.Name, got)
			}
		}
	})
	t.Run("not for ever", func(t *testing.T) {
		a, b := &fakeEtcd{id: 1, revision: 9, compact: 3}, &fakeEtcd{id: 2, revision: 9, compact: 5}
		c := run(t, a, b)
		if len(a.hashed) != 2 || hash(c.Members[0]) == hash(c.Members[1]) {
			t.Errorf("asked for %v: %s, %s", a.hashed, hash(c.Members[0]), hash(c.Members[1]))
		}
	})
}

// TestLiveBound: however many there are, so many are asked at the same time, and no fewer than one cluster's.
func TestLiveBound(t *testing.T) {
	address := (&fakeEtcd{id: 1, quota: 1, fail: func(context.Context, string) error {
		time.Sleep(time.Millisecond)
		return nil
	}}).serve(t, nil)
	for _, hash := range []bool{false, true} {
		l := asks(LiveOptions{Hash: hash}, nil)
		var now, most atomic.Int32
		l.reach = func(context.Context, *model.Cluster, *model.Member) route {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			return &straight{to: address, closed: func() { now.Add(-1) }}
		}
		var clusters []*model.Cluster
		for range 100 {
			clusters = append(clusters, clusterOf("main-0", "main-1", "main-2"))
		}
		if err := l.Ask(t.Context(), clusters); err != nil {
			t.Fatal(err)
		}
		for _, c := range clusters {
			for _, m := range c.Members {
				if !m.Live.Value.Serves {
					t.Fatalf("%+v", m.Live)
				}
			}
		}
		if n := most.Load(); n > atOnce || n < 3 {
			t.Errorf("%d members were asked at the same time: want 3 to %d", n, atOnce)
		}
	}
	// A cluster of more members than may be asked at once is asked all the same.
	big := clusterOf(strings.Fields(strings.Repeat("main-0 ", 2*atOnce))...)
	for _, hash := range []bool{false, true} {
		l := asks(LiveOptions{Hash: hash}, map[string]string{"main-0": address})
		if err := l.Ask(t.Context(), []*model.Cluster{big, big}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLiveInterrupted(t *testing.T) {
	noLeak(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := clusterOf("main-0")
	l := asks(LiveOptions{}, map[string]string{"main-0": (&fakeEtcd{fail: func(ctx context.Context, _ string) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}}).serve(t, nil)})
	if err := l.Ask(ctx, []*model.Cluster{c, clusterOf("main-0")}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestLiveTLS: the credentials are the workload's, or those given, and what can't be had is our failure.
func TestLiveTLS(t *testing.T) {
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	pair, err := issue(t, ca, "main-0.main.ns.svc").TLS()
	if err != nil {
		t.Fatal(err)
	}
	address := (&fakeEtcd{id: 0xa0, quota: 1}).serve(t, &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert})
	plain := (&fakeEtcd{id: 0xa0, quota: 1}).serve(t, nil)
	client, foreign := issue(t, ca), issue(t, other)
	secrets := map[string]map[string][]byte{
		"ca":      {"bundle.crt": ca.Cert},
		"client":  {"tls.crt": client.Cert, "tls.key": client.Key},
		"both":    {"ca.crt": ca.Cert, "tls.crt": client.Cert, "tls.key": client.Key},
		"other":   {"ca.crt": other.Cert},
		"foreign": {"tls.crt": foreign.Cert, "tls.key": foreign.Key},
		"half":    {"tls.crt": client.Cert},
		"junk":    {"ca.crt": []byte("junk")},
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		name, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/ns/secrets/")
		if data := secrets[name]; ok && r.Method == http.MethodGet && data != nil {
			_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "Secret", "data": data})
			return
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"secrets %s is forbidden","reason":"Forbidden","code":403}`, name)
	}))
	t.Cleanup(api.Close)
	given := etcd.TLSPEM{CA: ca.Cert, Cert: client.Cert, Key: client.Key}
	for name, tc := range map[string]struct {
		access            model.Access
		given             etcd.TLSPEM
		plain, inCluster  bool
		err               string
		notAsked, refused bool
	}{
		"of its Secrets":                {access: model.Access{TLS: true, TLSKnown: true, CASecret: "ca", CAKey: "bundle.crt", ClientSecret: "client"}},
		"of one Secret":                 {access: model.Access{TLS: true, TLSKnown: true, CASecret: "both", ClientSecret: "both"}},
		"given, and none is read":       {access: model.Access{TLS: true, TLSKnown: true, CASecret: "secret", ClientSecret: "secret"}, given: given},
		"the CA given":                  {access: model.Access{TLS: true, TLSKnown: true, CASecret: "secret", ClientSecret: "client"}, given: etcd.TLSPEM{CA: ca.Cert}},
		"the certificate given":         {access: model.Access{TLS: true, TLSKnown: true, CASecret: "ca", CAKey: "bundle.crt", ClientSecret: "secret"}, given: etcd.TLSPEM{Cert: client.Cert, Key: client.Key}},
		"not told, but given":           {given: given},
		"not told, and none":            {plain: true},
		"none, whatever is given":       {access: model.Access{TLSKnown: true}, given: given, plain: true},
		"a CA that is not read":         {access: model.Access{TLS: true, TLSKnown: true, CASecret: "secret", ClientSecret: "client"}, err: "can't read Secret ns/secret; give --cacert, or have it permitted: secrets secret is forbidden", notAsked: true},
		"a certificate that is not":     {access: model.Access{TLS: true, TLSKnown: true, CASecret: "both", ClientSecret: "secret"}, err: "give --cert and --key, or have it permitted", notAsked: true},
		"no CA":                         {access: model.Access{TLS: true, TLSKnown: true}, err: "give --cacert", notAsked: true},
		"a Secret without the CA":       {access: model.Access{TLS: true, TLSKnown: true, CASecret: "client"}, err: "there is no ca.crt in Secret ns/client", notAsked: true},
		"a Secret without the key":      {access: model.Access{TLS: true, TLSKnown: true, CASecret: "both", ClientSecret: "half"}, err: "there is no tls.key in Secret ns/half", notAsked: true},
		"a CA that is none":             {access: model.Access{TLS: true, TLSKnown: true, CASecret: "junk"}, err: "no certificate in PEM", notAsked: true},
		"another CA":                    {access: model.Access{TLS: true, TLSKnown: true, CASecret: "other", ClientSecret: "client"}, err: "--cacert names another", notAsked: true},
		"another's certificate":         {access: model.Access{TLS: true, TLSKnown: true, CASecret: "both", ClientSecret: "foreign"}, err: "it does not accept our certificate", refused: true},
		"no certificate":                {access: model.Access{TLS: true, TLSKnown: true, CASecret: "both"}, err: "it does not accept our certificate", refused: true},
		"told, and it has none":         {access: model.Access{TLS: true, TLSKnown: true, CASecret: "both"}, plain: true, err: "it does not use TLS", notAsked: true},
		"not told, and it has":          {err: "it may use TLS, of which its workload says nothing; give --cacert", notAsked: true},
		"in the cluster, names count":   {access: model.Access{TLS: true, TLSKnown: true, CASecret: "both", ClientSecret: "both", Service: "other"}, inCluster: true, err: "--cacert names another", notAsked: true},
		"in the cluster":                {access: model.Access{TLS: true, TLSKnown: true, CASecret: "both", ClientSecret: "both", Service: "main"}, inCluster: true},
		"in the cluster without a name": {access: model.Access{TLS: true, TLSKnown: true, CASecret: "both", ClientSecret: "both"}, inCluster: true, err: "leave out --in-cluster", notAsked: true},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := NewLive(&rest.Config{Host: api.URL}, LiveOptions{Timeout: inTime, TLS: tc.given, InCluster: tc.inCluster})
			if err != nil {
				t.Fatal(err)
			}
			at := address
			if tc.plain {
				at = plain
			}
			l.reach = func(context.Context, *model.Cluster, *model.Member) route { return &straight{to: at} }
			c := clusterOf("main-0")
			c.Access = tc.access
			ask(t, l, c)
			live := c.Members[0].Live.Value
			if !strings.Contains(live.Err, tc.err) || (live.Err == "") != (tc.err == "") || live.NotAsked != tc.notAsked || live.Refused != tc.refused || live.Serves != (tc.err == "") {
				t.Errorf("%+v\nwant %q", live, tc.err)
			}
		})
	}
}

// TestLiveThroughAPIServer: a whole way: Secret, port-forward, TLS, etcd; and what an API server refuses.
func TestLiveThroughAPIServer(t *testing.T) {
	noLeak(t)
	address := (&fakeEtcd{id: 0xa0, quota: 1}).serve(t, nil)
	forbidden := false
	a := &apiServer{websocketStatus: http.StatusForbidden, kubelet: &kubelet{serve: bridge(address)}}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/ns/pods/main-0/portforward" {
			http.NotFound(w, r)
			return
		}
		a.spdyStatus = 0
		if forbidden {
			a.spdyStatus = http.StatusForbidden
		}
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(api.Close)
	l, err := NewLive(&rest.Config{Host: api.URL}, LiveOptions{Timeout: inTime})
	if err != nil {
		t.Fatal(err)
	}
	c := clusterOf("main-0")
	c.Access.Port = 4711
	ask(t, l, c)
	if live := c.Members[0].Live.Value; !live.Serves || live.Err != "" || live.Endpoint != "http://main-0:4711" || a.ports[0] != "4711" {
		t.Errorf("%+v, port %s", live, a.ports)
	}
	forbidden = true
	ask(t, l, c)
	if live := c.Members[0].Live.Value; !live.NotAsked || live.Reached || !strings.Contains(live.Err, "opening a port-forward to pod ns/main-0: ") || !strings.Contains(live.Err, "POST is not wanted") {
		t.Errorf("%+v", live)
	}
}

func TestInClusterNames(t *testing.T) {
	l, err := NewLive(&rest.Config{Host: "http://127.0.0.1:1"}, LiveOptions{InCluster: true})
	if err != nil || l.o.Timeout != etcd.DefaultTimeout {
		t.Fatalf("%+v, %v", l, err)
	}
	l.o.Timeout = inTime
	c := clusterOf("main-0")
	c.Access.Service = "main-peer"
	ask(t, l, c)
	if live := c.Members[0].Live.Value; live.Endpoint != "http://main-0.main-peer.ns.svc:2379" || !live.NotAsked || live.Reached || !strings.Contains(live.Err, "--in-cluster works inside of the cluster alone") {
		t.Errorf("outside of a cluster: %+v", live)
	}
}

func newAuthority(t *testing.T, name string) *pki.Authority {
	t.Helper()
	a, err := pki.NewAuthority(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *pki.Authority, names ...string) pki.Pair {
	t.Helper()
	pair, err := a.Issue(pki.Subject{CommonName: "etcd", Names: names, Server: true, Client: true})
	if err != nil {
		t.Fatal(err)
	}
	return pair
}
