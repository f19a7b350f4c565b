package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

func init() {
	// gRPC writes connection errors to stderr, where they garble tables and repeat what our errors say. It must be told
	// before its first use, hence init. Its own variable still turns the log on.
	if os.Getenv("GRPC_GO_LOG_SEVERITY_LEVEL") == "" {
		grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	}
}

// DefaultTimeout is how long one question may take, unless Config says otherwise.
const DefaultTimeout = 2 * time.Second

const (
	// keepAliveTime is the shortest that gRPC allows a client, and twice what etcd's default policy
	// (--grpc-keepalive-min-time=5s) punishes with a closed connection.
	keepAliveTime = 10 * time.Second
	// keepAliveTimeout bounds how long a connection that a black hole swallowed is mistaken for a living one.
	keepAliveTimeout = 3 * time.Second
	// maxReconnectDelay bounds how long a member that is back is not noticed. gRPC's default is two minutes.
	maxReconnectDelay = time.Second
	// maxMessage bounds what a member can make us hold in memory. The largest answer is a member list.
	maxMessage = 16 << 20
)

// Dialer opens a connection to host:port, for example through a port-forward.
type Dialer func(ctx context.Context, address string) (net.Conn, error)

// Config says how to reach one member.
type Config struct {
	// Endpoint is the member's client URL, for example https://127.0.0.1:2379. Schemes are http and https.
	Endpoint string
	// TLS is used for https. Nil: the system's CAs and no client certificate.
	TLS TLSSource
	// Timeout is for each single call, connecting included. 0: DefaultTimeout. A caller's shorter deadline wins.
	Timeout time.Duration
	// Dialer opens connections. Nil: TCP, directly: the environment's proxies are never used for etcd.
	Dialer Dialer
	// MetricsURL is where the member serves its metrics, needed for the quota of members before 3.6. Empty: Endpoint plus /metrics.
	MetricsURL string
}

// Client asks one member of an etcd cluster. It is safe for concurrent use, and its methods never take longer than the timeout.
type Client struct {
	endpoint    string
	metricsURL  string
	timeout     time.Duration
	tls         TLSSource
	dialer      Dialer
	conn        *grpc.ClientConn
	kv          pb.KVClient
	cluster     pb.ClusterClient
	maintenance pb.MaintenanceClient
}

// New returns a Client. It does not connect: the first call does, and says if that fails. Errors are wrong
// configurations: an endpoint that is no URL, or TLS files that can't be read now.
func New(config Config) (*Client, error) {
	endpoint, err := url.Parse(config.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("etcd endpoint %q: %w", config.Endpoint, err)
	}
	if endpoint.Scheme != "http" && endpoint.Scheme != "https" || endpoint.Host == "" {
		return nil, fmt.Errorf("etcd endpoint %q: want http://HOST:PORT or https://HOST:PORT", config.Endpoint)
	}
	c := &Client{
		endpoint:   config.Endpoint,
		metricsURL: config.MetricsURL,
		timeout:    config.Timeout,
		tls:        config.TLS,
		dialer:     config.Dialer,
	}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	if c.dialer == nil {
		c.dialer = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	if c.tls == nil {
		c.tls = TLSPEM{}
	}
	if c.metricsURL == "" {
		c.metricsURL = endpoint.JoinPath("metrics").String()
	}

	var transport credentials.TransportCredentials = insecure.NewCredentials()
	if endpoint.Scheme == "https" {
		if _, err := c.tls.TLSConfig(); err != nil {
			return nil, err
		}
		transport = &rotatingCredentials{source: c.tls}
	}
	c.conn, err = grpc.NewClient("passthrough:///"+hostPort(endpoint),
		grpc.WithTransportCredentials(transport),
		grpc.WithContextDialer(c.dialer),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxReconnectDelay},
			MinConnectTimeout: c.timeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAliveTime, Timeout: keepAliveTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, fmt.Errorf("etcd endpoint %q: %w", config.Endpoint, err)
	}
	c.kv, c.cluster, c.maintenance = pb.NewKVClient(c.conn), pb.NewClusterClient(c.conn), pb.NewMaintenanceClient(c.conn)
	return c, nil
}

// hostPort is the address of a URL with its scheme's default port.
func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Endpoint is the client URL that the Client was made for.
func (c *Client) Endpoint() string { return c.endpoint }

// Close closes the connection. Calls that are under way fail.
func (c *Client) Close() error { return c.conn.Close() }

// call runs one question under the timeout and dresses its error.
func call[Req, Resp any](ctx context.Context, c *Client, op string, ask func(context.Context, Req, ...grpc.CallOption) (Resp, error), request Req) (Resp, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := ask(ctx, request)
	if err != nil {
		// Whatever broke when the time was up broke because it was.
		if st, ok := grpcStatus(err); ok && st.Code() == codes.Unavailable && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = status.FromContextError(ctx.Err()).Err()
		}
		return answer, &CallError{Op: op, Endpoint: c.endpoint, Err: err}
	}
	return answer, nil
}

// errNoHeader is an answer that no etcd gives, but something else on its port might.
var errNoHeader = errors.New("the answer has no header: is this an etcd?")
