package source

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

const (
	// atOnce is how many members are asked at the same time.
	atOnce = 64
	// afterHandshake is how long a member may take to refuse our certificate. One that does not waits for our first word.
	afterHandshake = 500 * time.Millisecond
)

// LiveOptions say how members are asked.
type LiveOptions struct {
	// Timeout is for all that one member is asked, together, and what it takes to reach it. 0: etcd.DefaultTimeout.
	Timeout time.Duration
	// TLS has what is used instead of what the clusters' Secrets hold: its CA, and its Cert with its Key.
	TLS etcd.TLSPEM
	// Hash asks for a checksum of the keys as well, for which members read their whole database. It takes as long again.
	Hash bool
	// InCluster connects to the pods by their DNS names, without a port-forward.
	InCluster bool
}

// Live asks the members of etcd clusters themselves.
type Live struct {
	o      LiveOptions
	client rest.Interface
	slots  *semaphore.Weighted
	// reach begins to reach a member.
	reach func(ctx context.Context, c *model.Cluster, m *model.Member) route
}

// NewLive makes a Live. It sends nothing yet.
func NewLive(cfg *rest.Config, o LiveOptions) (*Live, error) {
	server, err := NewServer(cfg)
	if err != nil {
		return nil, err
	}
	if o.Timeout <= 0 {
		o.Timeout = etcd.DefaultTimeout
	}
	l := &Live{o: o, client: server.client, slots: semaphore.NewWeighted(atOnce)}
	if o.InCluster {
		l.reach = func(context.Context, *model.Cluster, *model.Member) route { return &directRoute{} }
		return l, nil
	}
	cfg = rest.CopyConfig(cfg)
	l.reach = func(ctx context.Context, c *model.Cluster, m *model.Member) route {
		at := l.client.Post().AbsPath("/" + apiCore).Namespace(c.Key.Namespace).Resource("pods").Name(m.Pod).SubResource("portforward").URL()
		subject := fmt.Sprintf("pod %s/%s", c.Key.Namespace, m.Pod)
		return &forwardRoute{tunnel: openTunnel(ctx, cfg, at, subject), port: port(c)}
	}
	return l, nil
}

func port(c *model.Cluster) int { return cmp.Or(c.Access.Port, defaultClientPort) }

// Ask asks all members of clusters, and writes what they say into them: it counts for more than what others have told. A
// member that does not say something keeps what is known of it. The error is the context's: what members fail to do is in
// their facts.
func (l *Live) Ask(ctx context.Context, clusters []*model.Cluster) error {
	var wg sync.WaitGroup
	for _, c := range clusters {
		// A cluster's members are asked at the same time: their answers are compared.
		slots := min(len(c.Members), atOnce)
		if err := l.slots.Acquire(ctx, int64(slots)); err != nil {
			break
		}
		wg.Go(func() { l.cluster(ctx, c, slots) })
	}
	wg.Wait()
	return ctx.Err()
}

// cluster asks the members of one cluster, and gives the slots back.
func (l *Live) cluster(ctx context.Context, c *model.Cluster, slots int) {
	credentials := l.credentials(ctx, c)
	members := make([]*asked, len(c.Members))
	var wg sync.WaitGroup
	for i := range members {
		m := &asked{Member: &c.Members[i]}
		members[i] = m
		wg.Go(func() {
			l.member(ctx, c, m, credentials)
			if l.o.Hash {
				return
			}
			m.close()
			if i < slots {
				l.slots.Release(1)
			}
		})
	}
	wg.Wait()
	if l.o.Hash {
		l.hashes(ctx, members)
		for _, m := range members {
			m.close()
		}
		l.slots.Release(int64(slots))
	}
	for _, m := range members {
		set(&m.Live, m.live, m.at)
	}
}

// asked is a member that is being asked.
type asked struct {
	*model.Member
	route  route
	client *etcd.Client
	status *etcd.Status
	live   model.Live
	// at is when it has told its status, or has failed to.
	at time.Time
}

func (m *asked) close() {
	if m.client != nil {
		_ = m.client.Close()
	}
	if m.route != nil {
		m.route.Close()
	}
}

// set sets a fact that a member itself has told.
func set[T any](f *model.Fact[T], v T, at time.Time) { *f = model.Known(v, model.SourceLive, at) }

// limited is the context of what is asked of one member together.
func (l *Live) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, l.o.Timeout, fmt.Errorf("not done within %s", l.o.Timeout))
}

// member asks one member for all but its hash.
func (l *Live) member(ctx context.Context, c *model.Cluster, m *asked, credentials *credentials) {
	ctx, cancel := l.limited(ctx)
	defer cancel()
	m.at = time.Now()
	switch {
	case m.NoPod || m.Pod == "":
		m.notAsked(errors.New("it has no pod"))
		return
	case l.o.InCluster && c.Access.Service == "":
		m.notAsked(fmt.Errorf("no headless Service of %s is known, by which its pods have DNS names: leave out --in-cluster", c.Key.Argument()))
		return
	}
	// Reaching it takes longer than reading Secrets.
	m.route = l.reach(ctx, c, m.Member)
	select {
	case <-credentials.read:
	case <-ctx.Done():
		m.notAsked(fmt.Errorf("reading the TLS certificates for %s: %w", c.Key.Argument(), context.Cause(ctx)))
		return
	}
	if credentials.err != nil {
		m.notAsked(credentials.err)
		return
	}
	host := m.Pod
	if l.o.InCluster {
		host = fmt.Sprintf("%s.%s.%s.svc", m.Pod, c.Access.Service, c.Key.Namespace)
	}
	m.live.Endpoint = fmt.Sprintf("%s://%s", credentials.scheme, net.JoinHostPort(host, strconv.Itoa(port(c))))
	var err error
	m.client, err = etcd.New(etcd.Config{Endpoint: m.live.Endpoint, TLS: credentials.tls, Timeout: l.o.Timeout, Dialer: m.route.Dial})
	if err != nil {
		m.notAsked(err)
		return
	}
	m.ask(ctx, credentials)
}

func (m *asked) notAsked(err error) {
	m.at = time.Now()
	m.live.Err, m.live.NotAsked = err.Error(), true
}

// ask asks all questions at once, so that a member which does not answer costs one timeout.
func (m *asked) ask(ctx context.Context, credentials *credentials) {
	var wg sync.WaitGroup
	var statusErr, listErr, readErr error
	var list []etcd.Member
	var header etcd.Header
	wg.Go(func() {
		m.status, statusErr = m.client.Status(ctx)
		m.at = time.Now()
		if statusErr == nil && m.status.DBSizeQuota == 0 {
			// Before 3.6 only the metrics tell it. Where they can't be had it is not known.
			m.status.DBSizeQuota, _ = m.client.MetricsQuota(ctx)
		}
	})
	wg.Go(func() { header, list, listErr = m.client.MemberList(ctx, etcd.Serializable) })
	wg.Go(func() {
		_, readErr = m.client.LinearizableRead(ctx)
		if etcd.IsNoLeader(readErr) {
			// Leadership has just changed hands, or is lost: asking once more tells which.
			_, readErr = m.client.LinearizableRead(ctx)
		}
	})
	wg.Wait()

	m.live.Reached = statusErr == nil || m.route.Reached()
	if statusErr == nil {
		m.tell()
	} else {
		m.failed(ctx, statusErr, credentials)
	}
	switch {
	case listErr == nil:
		m.listed(header, list)
	case !etcd.IsNotSupportedForLearner(listErr):
		m.live.ListErr = listErr.Error()
	}
	switch {
	case readErr == nil:
		m.live.Serves = true
	case !etcd.IsNotSupportedForLearner(readErr):
		m.live.ServeErr = readErr.Error()
	}
}

// tell takes the facts out of a status.
func (m *asked) tell() {
	s := m.status
	set(&m.ID, s.MemberID.String(), m.at)
	set(&m.ClusterID, s.ClusterID.String(), m.at)
	state, subState := v1alpha1.StateStarted, v1alpha1.SubStateFollower
	switch {
	case s.Learner:
		state, subState = v1alpha1.StateStarting, v1alpha1.SubStateLearner
	case s.IsLeader():
		subState = v1alpha1.SubStateLeader
	}
	set(&m.State, string(state), m.at)
	set(&m.SubState, string(subState), m.at)
	set(&m.DBSize, s.DBSize, m.at)
	set(&m.DBSizeInUse, s.DBSizeInUse, m.at)
	if s.DBSizeQuota > 0 {
		set(&m.DBSizeQuota, s.DBSizeQuota, m.at)
	}
	set(&m.Revision, s.Revision, m.at)
	set(&m.RaftTerm, int64(s.RaftTerm), m.at)
	set(&m.RaftIndex, int64(s.RaftIndex), m.at)
	set(&m.RaftAppliedIndex, int64(s.RaftAppliedIndex), m.at)
	set(&m.Version, s.Version, m.at)
	set(&m.Alarms, etcd.OwnAlarms(s.Alarms, s.MemberID), m.at)

	m.live.Learner = s.Learner
	m.live.Leader = idOrNone(s.Leader)
	m.live.Complaints = s.Errors
	for _, a := range s.Alarms {
		m.live.Alarms = append(m.live.Alarms, model.Alarm{MemberID: idOrNone(a.Member), Type: a.Type})
	}
}

func idOrNone(id etcd.ID) string {
	if id == 0 {
		return ""
	}
	return id.String()
}

// listed takes the facts out of a member list. With authentication on, a member may give it that keeps its status to itself.
func (m *asked) listed(h etcd.Header, list []etcd.Member) {
	m.live.List = make([]model.Listed, 0, len(list))
	for _, e := range list {
		m.live.List = append(m.live.List, model.Listed{
			ID: e.ID.String(), Name: e.Name, PeerURLs: e.PeerURLs, ClientURLs: e.ClientURLs, Learner: e.Learner,
		})
		if peerTLS, known := e.PeerTLS(); known && e.ID == h.MemberID {
			set(&m.PeerTLS, peerTLS, m.at)
		}
	}
	if m.status == nil && h.MemberID != 0 {
		set(&m.ID, h.MemberID.String(), m.at)
		set(&m.ClusterID, h.ClusterID.String(), m.at)
	}
}

// failed says what to make of a member that has not told its status.
func (m *asked) failed(ctx context.Context, err error, credentials *credentials) {
	m.live.Err = err.Error()
	if etcd.IsPermissionDenied(err) {
		m.live.Refused = true
		return
	}
	if ours, failure := m.route.Failure(); failure != nil {
		m.live.Err, m.live.NotAsked = failure.Error(), ours
		return
	}
	if !etcd.IsNotAnswering(err) {
		return
	}
	text := err.Error()
	if credentials.tls != nil && !strings.Contains(text, "tls: ") {
		if why := m.handshake(ctx, credentials); why != nil && strings.Contains(why.Error(), remoteAlert) {
			text = fmt.Sprintf("asking etcd at %s: %v", m.live.Endpoint, why)
			m.live.Err = text
		}
	}
	// gRPC passes the errors of a handshake on as text.
	switch {
	case strings.Contains(text, remoteAlert):
		m.live.Refused = true
		m.live.Err += ": it does not accept our certificate"
	case strings.Contains(text, "certificate has expired"):
		// No new client gets in, by our clock; its peers have certificates of their own, so it may well vote.
		m.live.NotAsked = true
		m.live.Err += ": renew it, or compare this machine's clock"
	case strings.Contains(text, "failed to verify certificate: "):
		m.live.NotAsked = true
		m.live.Err += ": the CA that we have is not its own; --cacert names another"
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		m.live.NotAsked = true
		m.live.Err += ": it does not use TLS"
	case credentials.guessed && strings.Contains(text, "error reading server preface"):
		m.live.NotAsked = true
		m.live.Err += ": it may use TLS, of which its workload says nothing; give --cacert, and --cert and --key where it asks for them"
	}
}

// remoteAlert is how crypto/tls begins to say that the other end has refused us.
const remoteAlert = "remote error: tls: "

// handshake does a handshake without a word after it, and returns why that has failed. Since TLS 1.3 a server refuses a
// client's certificate when that has already begun to talk, and may never come to read why its connection has broken.
func (m *asked) handshake(ctx context.Context, credentials *credentials) error {
	ctx, cancel := context.WithTimeout(ctx, afterHandshake)
	defer cancel()
	config, err := credentials.tls.TLSConfig()
	if err != nil {
		return err
	}
	endpoint, err := url.Parse(m.live.Endpoint)
	if err != nil {
		return err
	}
	config.ServerName = endpoint.Hostname()
	raw, err := m.route.Dial(ctx, endpoint.Host)
	if err != nil {
		return err
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// hashes asks the members of a cluster for their hashes at one revision that all of them have.
func (l *Live) hashes(ctx context.Context, all []*asked) {
	ctx, cancel := l.limited(ctx)
	defer cancel()
	// A learner does not answer this.
	members := slices.DeleteFunc(slices.Clone(all), func(m *asked) bool { return m.status == nil || m.status.Learner })
	if len(members) == 0 {
		return
	}
	revision := commonRevision(members)
	if hashAt(ctx, members, revision) {
		return
	}
	// A compaction has come between, or is on its way through the members.
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(func() {
			if s, err := m.client.Status(ctx); err == nil {
				m.status = s
			}
		})
	}
	wg.Wait()
	newer := commonRevision(members)
	if newer == revision {
		newer = 0 // before 3.6 a revision that is the compacted one is not hashed by its number
	}
	hashAt(ctx, members, newer)
}

func commonRevision(members []*asked) int64 {
	return slices.MinFunc(members, func(a, b *asked) int { return cmp.Compare(a.status.Revision, b.status.Revision) }).status.Revision
}

// hashAt asks for hashes at a revision, and says whether asking again would help nothing.
func hashAt(ctx context.Context, members []*asked, revision int64) (settled bool) {
	errs := make([]error, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() {
			m.live.Hash, m.live.HashErr = nil, ""
			h, err := m.client.HashKV(ctx, revision)
			if err != nil {
				errs[i], m.live.HashErr = err, err.Error()
				return
			}
			m.live.Hash = &model.Hash{Hash: h.Hash, Revision: cmp.Or(h.HashRevision, h.Header.Revision), CompactRevision: h.CompactRevision}
		})
	}
	wg.Wait()
	compacted := map[int64]bool{}
	for _, m := range members {
		if m.live.Hash != nil {
			compacted[m.live.Hash.CompactRevision] = true
		}
	}
	return len(compacted) <= 1 && !slices.ContainsFunc(errs, etcd.IsCompacted) && !slices.ContainsFunc(errs, etcd.IsFutureRevision)
}

// credentials are what clients of a cluster show and accept.
type credentials struct {
	// read is closed when the rest is set.
	read   chan struct{}
	scheme string
	tls    etcd.TLSSource
	// guessed: the workload does not tell whether clients use TLS.
	guessed bool
	err     error
}

// credentials begins to read the credentials for a cluster.
func (l *Live) credentials(ctx context.Context, c *model.Cluster) *credentials {
	r := &credentials{read: make(chan struct{}), scheme: "http", guessed: !c.Access.TLSKnown}
	given := l.o.TLS
	if !c.Access.TLS && (c.Access.TLSKnown || (len(given.CA) == 0 && len(given.Cert) == 0)) {
		close(r.read)
		return r
	}
	r.scheme = "https"
	go func() {
		defer close(r.read)
		ctx, cancel := l.limited(ctx)
		defer cancel()
		pem, err := l.readTLS(ctx, c)
		if err != nil {
			r.err = fmt.Errorf("the members of %s use TLS: %w", c.Key.Argument(), err)
			return
		}
		// The certificates are not made for the way through a port-forward, which knows its pod by other means.
		pem.AnyName = !l.o.InCluster
		r.tls = pem
	}()
	return r
}

// readTLS reads what is not given.
func (l *Live) readTLS(ctx context.Context, c *model.Cluster) (etcd.TLSPEM, error) {
	pem, access := l.o.TLS, c.Access
	var wg sync.WaitGroup
	var caErr, certErr error
	if len(pem.CA) == 0 {
		if access.CASecret == "" {
			return pem, errors.New("nothing says which CA their certificates are of: give --cacert")
		}
		wg.Go(func() {
			var data map[string][]byte
			if data, caErr = l.secret(ctx, c.Key.Namespace, access.CASecret, "--cacert"); caErr == nil {
				pem.CA, caErr = entry(data, c.Key.Namespace, access.CASecret, cmp.Or(access.CAKey, "ca.crt"))
			}
		})
	}
	if len(pem.Cert) == 0 && access.ClientSecret != "" {
		wg.Go(func() {
			var data map[string][]byte
			if data, certErr = l.secret(ctx, c.Key.Namespace, access.ClientSecret, "--cert and --key"); certErr != nil {
				return
			}
			if pem.Cert, certErr = entry(data, c.Key.Namespace, access.ClientSecret, "tls.crt"); certErr == nil {
				pem.Key, certErr = entry(data, c.Key.Namespace, access.ClientSecret, "tls.key")
			}
		})
	}
	wg.Wait()
	return pem, cmp.Or(caErr, certErr)
}

// secret reads a Secret. flags are what makes that unnecessary.
func (l *Live) secret(ctx context.Context, namespace, name, flags string) (map[string][]byte, error) {
	// As many Secrets as there are clusters may be read: that is no reason to slow down, and then to run out of time.
	result := l.client.Get().Throttle(flowcontrol.NewFakeAlwaysRateLimiter()).
		AbsPath("/" + apiCore).Namespace(namespace).Resource("secrets").Name(name).Do(ctx)
	raw, err := result.Raw()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else {
			err = result.Error() // says what the server said, which Raw does not
		}
		return nil, fmt.Errorf("can't read Secret %s/%s; give %s, or have it permitted: %w", namespace, name, flags, err)
	}
	var secret struct {
		Data map[string][]byte `json:"data"`
	}
	if err := json.Unmarshal(raw, &secret); err != nil {
		return nil, fmt.Errorf("can't understand Secret %s/%s; give %s: %w", namespace, name, flags, err)
	}
	return secret.Data, nil
}

func entry(data map[string][]byte, namespace, name, key string) ([]byte, error) {
	if len(data[key]) == 0 {
		return nil, fmt.Errorf("there is no %s in Secret %s/%s", key, namespace, name)
	}
	return data[key], nil
}

// route is the way to one member.
type route interface {
	// Dial is an etcd.Dialer.
	Dial(ctx context.Context, address string) (net.Conn, error)
	// Failure is why the way has not led to the member, as far as is known. ours says that this proves nothing about it.
	Failure() (ours bool, failure error)
	// Reached says that it has led to the member's own network.
	Reached() bool
	// Close gives the way up. It does not wait.
	Close()
}

// forwardRoute leads through the API server.
type forwardRoute struct {
	tunnel *tunnel
	port   int

	mu    sync.Mutex
	conns []*forwardedConn
	err   error
}

func (r *forwardRoute) Dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := r.tunnel.Dial(ctx, r.port)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.err = err
		return nil, err
	}
	r.conns = append(r.conns, conn)
	return conn, nil
}

func (r *forwardRoute) Failure() (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range slices.Backward(r.conns) {
		var failure *ForwardError
		if errors.As(c.Failure(), &failure) {
			return !failure.Refused() && !c.answered.Load(), failure
		}
	}
	if len(r.conns) > 0 {
		return false, nil // what comes, or does not, is etcd's
	}
	if r.err != nil && !errors.Is(r.err, context.DeadlineExceeded) && !errors.Is(r.err, context.Canceled) {
		return true, r.err
	}
	return true, fmt.Errorf("the port-forward to %s was not opened in time", r.tunnel.subject)
}

// Reached: a stream is acknowledged by whoever connects inside of the pod's network, whether or not that succeeds.
func (r *forwardRoute) Reached() bool {
	ours, failure := r.Failure()
	return failure == nil || !ours
}

func (r *forwardRoute) Close() { r.tunnel.Close() }

// directRoute leads from pod to pod.
type directRoute struct {
	mu      sync.Mutex
	reached bool
	err     error
}

func (r *directRoute) Dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
	r.reached = r.reached || err == nil || errors.Is(err, syscall.ECONNREFUSED)
	return conn, err
}

func (r *directRoute) Failure() (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var unresolved *net.DNSError
	if errors.As(r.err, &unresolved) {
		return true, fmt.Errorf("%w: --in-cluster works inside of the cluster alone, and where the Service publishes pods that are not ready", r.err)
	}
	return false, nil // a refused connection is etcd's answer, and tells of itself
}

func (r *directRoute) Reached() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reached
}

func (r *directRoute) Close() {}
