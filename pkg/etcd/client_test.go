package etcd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// server is a member of etcd's API as far as the Client asks it. It fails on purpose, which a real etcd can't be told to; the
// real ones are in test/e2e.
type server struct {
	pb.UnimplementedKVServer
	pb.UnimplementedClusterServer
	pb.UnimplementedMaintenanceServer
	fail  atomic.Pointer[error]
	hang  atomic.Bool
	calls atomic.Int32
}

func (s *server) answer(ctx context.Context) error {
	s.calls.Add(1)
	if s.hang.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := s.fail.Load(); err != nil {
		return *err
	}
	return nil
}

var header = &pb.ResponseHeader{ClusterId: 0xc1, MemberId: 0xa1, Revision: 7, RaftTerm: 3}

func (s *server) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{
		Header: header, Version: "3.7.3", DbSize: 100, DbSizeInUse: 50, DbSizeQuota: 200, Leader: 0xb2, RaftIndex: 9, RaftAppliedIndex: 8, RaftTerm: 4,
		Errors: []string{"memberID:161 alarm:NOSPACE ", "etcdserver: no leader"},
	}, s.answer(ctx)
}

func (s *server) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if r.Serializable || !r.CountOnly {
		return nil, status.Error(codes.InvalidArgument, "not a linearizable read of a count")
	}
	return &pb.RangeResponse{Header: header}, s.answer(ctx)
}

func (s *server) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return &pb.MemberListResponse{Header: header, Members: []*pb.Member{
		{ID: 0xb2, Name: fmt.Sprintf("linearizable=%t", r.Linearizable), PeerURLs: []string{"http://b:2380"}},
		{ID: 0xa1, Name: "a", PeerURLs: []string{"https://a:2380"}, ClientURLs: []string{"https://a:2379"}, IsLearner: true},
	}}, s.answer(ctx)
}

func (s *server) HashKV(ctx context.Context, _ *pb.HashKVRequest) (*pb.HashKVResponse, error) {
	return &pb.HashKVResponse{Header: header, Hash: 0xabcd, CompactRevision: 2}, s.answer(ctx)
}

func (s *server) MoveLeader(ctx context.Context, _ *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	return &pb.MoveLeaderResponse{}, s.answer(ctx)
}

// start serves, with TLS if config is given, and returns the host and port.
func start(t *testing.T, s *server, config *tls.Config) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	transport := insecure.NewCredentials()
	if config != nil {
		transport = credentials.NewTLS(config)
	}
	g := grpc.NewServer(grpc.Creds(transport))
	pb.RegisterKVServer(g, s)
	pb.RegisterClusterServer(g, s)
	pb.RegisterMaintenanceServer(g, s)
	go func() { _ = g.Serve(listener) }()
	t.Cleanup(g.Stop)
	return listener.Addr().String()
}

func client(t *testing.T, config Config) *Client {
	t.Helper()
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestAnswers(t *testing.T) {
	c := client(t, Config{Endpoint: "http://" + start(t, &server{}, nil)})
	ctx := t.Context()

	s, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if s.MemberID != 0xa1 || s.ClusterID != 0xc1 || s.Revision != 7 || s.RaftTerm != 4 || s.Leader != 0xb2 || s.IsLeader() || s.DBSizeQuota != 200 ||
		len(s.Alarms) != 1 || s.Alarms[0].Member != 0xa1 || len(s.Errors) != 1 {
		t.Errorf("status is %+v", s)
	}
	for consistency, want := range map[Consistency]string{Serializable: "linearizable=false", Linearizable: "linearizable=true"} {
		_, members, err := c.MemberList(ctx, consistency)
		if err != nil || len(members) != 2 || members[0].ID != 0xa1 || members[1].Name != want || !members[0].Learner {
			t.Errorf("members are %+v, %v", members, err)
		}
	}
	if h, err := c.LinearizableRead(ctx); err != nil || h.Revision != 7 {
		t.Errorf("read: %+v, %v", h, err)
	}
	if h, err := c.HashKV(ctx, 5); err != nil || h.Hash != 0xabcd || h.CompactRevision != 2 || h.HashRevision != 5 {
		t.Errorf("hash: %+v, %v", h, err)
	}
	if err := c.MoveLeader(ctx, 0xb2); err != nil {
		t.Error(err)
	}
}

func TestPeerTLS(t *testing.T) {
	for urls, want := range map[string][2]bool{
		"":                        {false, false},
		"https://a:2380":          {true, true},
		"HTTPS://a:2380":          {true, true},
		"http://a:2380":           {false, true},
		"https://a:1 http://a:2":  {false, true},
		"https://a:1 https://b:2": {true, true},
	} {
		enabled, known := Member{PeerURLs: strings.Fields(urls)}.PeerTLS()
		if enabled != want[0] || known != want[1] {
			t.Errorf("%q: %t, %t: want %v", urls, enabled, known, want)
		}
	}
}

// TestErrors: each error of etcd's as each predicate sees it, through a real connection.
func TestErrors(t *testing.T) {
	s := &server{}
	c := client(t, Config{Endpoint: "http://" + start(t, s, nil)})
	predicates := map[string]func(error) bool{
		"learner": IsNotSupportedForLearner, "denied": IsPermissionDenied, "silent": IsNotAnswering, "leaderless": IsNoLeader,
		"not leader": IsNotLeader, "corrupt": IsCorrupt, "compacted": IsCompacted, "future": IsFutureRevision,
	}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{rpctypes.ErrGRPCNotSupportedForLearner, "learner"},
		{status.Error(codes.Unavailable, "etcdserver: rpc not supported for learner"), "learner"}, // 3.4, 3.5
		{rpctypes.ErrGRPCPermissionDenied, "denied"},
		{rpctypes.ErrGRPCUserEmpty, "denied"},
		{rpctypes.ErrGRPCInvalidAuthToken, "denied"},
		{rpctypes.ErrGRPCNoLeader, "leaderless"},
		{rpctypes.ErrGRPCLeaderChanged, "leaderless"},
		{rpctypes.ErrGRPCNotLeader, "not leader"},
		{rpctypes.ErrGRPCCorrupt, "corrupt"},
		{rpctypes.ErrGRPCCompacted, "compacted"},
		{rpctypes.ErrGRPCFutureRev, "future"},
		{status.Error(codes.Unavailable, "connection error"), "silent"},
		{status.Error(codes.DeadlineExceeded, "too late"), "silent"},
		{rpctypes.ErrGRPCTimeout, ""},
		{status.Error(codes.Internal, "bug"), ""},
	} {
		t.Run(tc.err.Error(), func(t *testing.T) {
			s.fail.Store(&tc.err)
			_, err := c.HashKV(t.Context(), 1)
			wrapped := fmt.Errorf("while comparing: %w", err)
			for name, is := range predicates {
				if got := is(wrapped); got != (name == tc.want) {
					t.Errorf("%q: %s is %t", wrapped, name, got)
				}
			}
			var call *CallError
			if !errors.As(wrapped, &call) || call.Op == "" || call.Endpoint != c.Endpoint() {
				t.Errorf("%#v is no CallError", err)
			}
		})
	}
	for name, is := range predicates {
		if is(nil) || is(errors.New("other")) {
			t.Errorf("%s is true of nothing", name)
		}
	}
}

// TestDeniedReadHasAnswered: etcd checks permissions after the quorum has confirmed.
func TestDeniedReadHasAnswered(t *testing.T) {
	s := &server{}
	c := client(t, Config{Endpoint: "http://" + start(t, s, nil)})
	for _, err := range []error{rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCUserEmpty} {
		s.fail.Store(&err)
		if _, err := c.LinearizableRead(t.Context()); err != nil {
			t.Errorf("%v: want none", err)
		}
	}
}

// TestTimeout: a member that takes the question and never answers costs the timeout, and one question, not more.
func TestTimeout(t *testing.T) {
	s := &server{}
	s.hang.Store(true)
	c := client(t, Config{Endpoint: "http://" + start(t, s, nil), Timeout: 200 * time.Millisecond})
	begun := time.Now()
	_, err := c.Status(t.Context())
	if took := time.Since(begun); !IsNotAnswering(err) || took > time.Second || took < 200*time.Millisecond {
		t.Errorf("%v after %s: want no answer after 200 ms", err, took)
	}
	if got := err.Error(); !strings.HasSuffix(got, "for its status: no answer in time") {
		t.Errorf("error is %q", got)
	}
	if n := s.calls.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	s.hang.Store(false)
	if _, err := c.Status(t.Context()); err != nil {
		t.Errorf("after it thawed: %v", err)
	}
}

// TestNothingListens: a refused connection is an answer at once, and a member that comes back is found soon.
func TestNothingListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	c := client(t, Config{Endpoint: "http://" + address})
	begun := time.Now()
	_, err = c.Status(t.Context())
	if !IsNotAnswering(err) || time.Since(begun) > time.Second {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
	if got, want := err.Error(), "asking etcd at http://"+address+" for its status: dial tcp "+address+": connect: connection refused"; got != want {
		t.Errorf("error is %q: want %q", got, want)
	}
	if listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	pb.RegisterMaintenanceServer(g, &server{})
	go func() { _ = g.Serve(listener) }()
	defer g.Stop()
	for begun = time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if _, err := c.Status(t.Context()); err == nil {
			break
		} else if time.Since(begun) > 5*time.Second {
			t.Fatalf("not found again after %s: %v", time.Since(begun), err)
		}
	}
}

func TestDialer(t *testing.T) {
	address := start(t, &server{}, nil)
	var asked atomic.Value
	c := client(t, Config{Endpoint: "http://main-0.main.ns.svc:2379", Dialer: func(ctx context.Context, to string) (net.Conn, error) {
		asked.Store(to)
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}})
	if _, err := c.Status(t.Context()); err != nil || asked.Load() != "main-0.main.ns.svc:2379" {
		t.Errorf("dialled %v, %v", asked.Load(), err)
	}
}

func TestWrongConfig(t *testing.T) {
	for endpoint, want := range map[string]string{
		"":                     "want http://HOST:PORT",
		"127.0.0.1:2379":       "etcd endpoint",
		"unix:///tmp/etcd":     "want http://HOST:PORT",
		"https://":             "want http://HOST:PORT",
		"http://a b":           "etcd endpoint",
		"https://example:2379": "reading TLS files",
	} {
		_, err := New(Config{Endpoint: endpoint, TLS: TLSFiles{CA: "/does/not/exist"}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v: want an error with %q", endpoint, err, want)
		}
	}
}

// authority is a CA of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a *authority) issue(t *testing.T, dnsNames ...string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: dnsNames,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if len(dnsNames) == 0 {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

func (a *authority) server(t *testing.T, dnsNames ...string) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(a.issue(t, dnsNames...))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

func write(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRotation: a new CA, with a client certificate of it, is used for the next connection without a new Client.
func TestRotation(t *testing.T) {
	old, renewed := newAuthority(t, "old"), newAuthority(t, "new")
	oldAddress, newAddress := start(t, &server{}, old.server(t)), start(t, &server{}, renewed.server(t))
	dir := t.TempDir()
	cert, key := old.issue(t)
	files := TLSFiles{CA: write(t, filepath.Join(dir, "ca.crt"), old.pem), Cert: write(t, filepath.Join(dir, "tls.crt"), cert), Key: write(t, filepath.Join(dir, "tls.key"), key)}

	var address atomic.Value
	var conn atomic.Value
	address.Store(oldAddress)
	c := client(t, Config{Endpoint: "https://127.0.0.1:2379", TLS: files, Dialer: func(ctx context.Context, _ string) (net.Conn, error) {
		opened, err := new(net.Dialer).DialContext(ctx, "tcp", address.Load().(string))
		if err == nil {
			conn.Store(opened)
		}
		return opened, err
	}})
	if _, err := c.Status(t.Context()); err != nil {
		t.Fatal(err)
	}

	address.Store(newAddress)
	_ = conn.Load().(net.Conn).Close()
	eventually(t, func() error {
		if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
			return fmt.Errorf("with the old files: %v: want an error about a certificate", err)
		}
		return nil
	})
	cert, key = renewed.issue(t)
	write(t, files.CA, renewed.pem)
	write(t, files.Cert, cert)
	write(t, files.Key, key)
	eventually(t, func() error { _, err := c.Status(t.Context()); return err })
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatal(err)
		}
	}
}

func TestServerName(t *testing.T) {
	ca := newAuthority(t, "ca")
	address := start(t, &server{}, ca.server(t, "main-0.main.ns.svc"))
	cert, key := ca.issue(t)
	for name, ok := range map[string]bool{"": false, "main-0.main.ns.svc": true, "main-1.main.ns.svc": false} {
		c := client(t, Config{Endpoint: "https://" + address, TLS: TLSPEM{CA: ca.pem, Cert: cert, Key: key, ServerName: name}})
		if _, err := c.Status(t.Context()); (err == nil) != ok {
			t.Errorf("server name %q: %v", name, err)
		}
	}
}

// TestAnyName: any name is accepted, and nothing else: neither another CA, nor a certificate that is no server's, nor an old one.
func TestAnyName(t *testing.T) {
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	cert, key := ca.issue(t)
	dir := t.TempDir()
	caFile, otherFile := write(t, filepath.Join(dir, "ca"), ca.pem), write(t, filepath.Join(dir, "other"), other.pem)
	certFile, keyFile := write(t, filepath.Join(dir, "cert"), cert), write(t, filepath.Join(dir, "key"), key)
	good := start(t, &server{}, ca.server(t, "main-0.main.ns.svc"))
	expired, clients := ca.server(t, "main-0.main.ns.svc"), ca.server(t, "main-0.main.ns.svc")
	expired.Certificates = []tls.Certificate{ca.pair(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })}
	clients.Certificates = []tls.Certificate{ca.pair(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })}
	for name, tc := range map[string]struct {
		address string
		tls     TLSSource
		want    string
	}{
		"a name":               {good, TLSPEM{CA: ca.pem, Cert: cert, Key: key, AnyName: true}, ""},
		"a name, by files":     {good, TLSFiles{CA: caFile, Cert: certFile, Key: keyFile, AnyName: true}, ""},
		"not unless asked for": {good, TLSPEM{CA: ca.pem, Cert: cert, Key: key}, "doesn't contain any IP SANs"},
		"another CA":           {good, TLSFiles{CA: otherFile, Cert: certFile, Key: keyFile, AnyName: true}, "unknown authority"},
		"expired":              {start(t, &server{}, expired), TLSPEM{CA: ca.pem, Cert: cert, Key: key, AnyName: true}, "expired"},
		"a client's":           {start(t, &server{}, clients), TLSPEM{CA: ca.pem, Cert: cert, Key: key, AnyName: true}, "incompatible key usage"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client(t, Config{Endpoint: "https://" + tc.address, TLS: tc.tls}).Status(t.Context())
			if (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v: want %q", err, tc.want)
			}
		})
	}
	if _, err := New(Config{Endpoint: "https://" + good, TLS: TLSPEM{AnyName: true}}); err == nil {
		t.Error("any name of any public CA is accepted")
	}
}

// pair is a server's certificate with a change.
func (a *authority) pair(t *testing.T, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"main-0.main.ns.svc"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestTLSFileErrors(t *testing.T) {
	dir := t.TempDir()
	junk := write(t, filepath.Join(dir, "junk"), []byte("junk"))
	ca := newAuthority(t, "ca")
	cert, key := ca.issue(t)
	_, otherKey := ca.issue(t)
	certFile, keyFile := write(t, filepath.Join(dir, "c"), cert), write(t, filepath.Join(dir, "k"), key)
	for want, files := range map[string]TLSFiles{
		"no such file":           {CA: filepath.Join(dir, "missing")},
		"no certificate in PEM":  {CA: junk},
		"both or neither":        {Cert: certFile},
		"failed to find any PEM": {Cert: junk, Key: keyFile},
		"does not match":         {Cert: certFile, Key: write(t, filepath.Join(dir, "o"), otherKey)},
	} {
		if _, err := files.TLSConfig(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v: want an error with %q", files, err, want)
		}
	}
	if config, err := (TLSFiles{}).TLSConfig(); err != nil || config.RootCAs != nil {
		t.Errorf("without files: %v, %v: want the system's CAs", config, err)
	}
}

func TestMetricsQuota(t *testing.T) {
	ca := newAuthority(t, "ca")
	body := atomic.Value{}
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, body.Load())
	}))
	web.TLS = ca.server(t)
	web.StartTLS()
	defer web.Close()
	cert, key := ca.issue(t)
	c := client(t, Config{Endpoint: web.URL, TLS: TLSPEM{CA: ca.pem, Cert: cert, Key: key}})
	for text, want := range map[string]int64{
		"# TYPE etcd_server_quota_backend_bytes gauge\netcd_server_quota_backend_bytes 2.147483648e+09\n": 2 << 30,
		"x 1\netcd_server_quota_backend_bytes 8589934592\ny 2\n":                                          8 << 30,
		"etcd_server_quota_backend_bytes -1\n":                                                            0,
		"etcd_server_quota_backend_bytes NaN\n":                                                           0,
		"etcd_server_quota_backend_bytes_other 5\n":                                                       0,
		"": 0,
	} {
		body.Store(text)
		if got, err := c.MetricsQuota(t.Context()); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v: want %d", text, got, err, want)
		}
	}
	elsewhere := client(t, Config{Endpoint: web.URL, TLS: TLSPEM{CA: ca.pem, Cert: cert, Key: key}, MetricsURL: web.URL + "/other"})
	if _, err := elsewhere.MetricsQuota(t.Context()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("%v: want 404", err)
	}
}
