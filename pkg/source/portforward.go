package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"
	httpspdy "k8s.io/streaming/pkg/httpstream/spdy"
)

const (
	// tunnelProtocol is the websocket subprotocol in which the API server tunnels SPDY since Kubernetes 1.30.
	tunnelProtocol = "SPDY/3.1+" + portforward.PortForwardProtocolV1Name
	// closeGrace is how long the other end may take to part in good order.
	closeGrace = time.Second
	// maxForwardError bounds what an error stream can make us hold in memory.
	maxForwardError = 4 << 10
)

// The headers of a port-forward's streams, and the types of streams, as the kubelet wants them.
const (
	headerStreamType = "streamType"
	headerPort       = "port"
	headerRequestID  = "requestID"

	streamError = "error"
	streamData  = "data"
)

// tunnel is one connection to one pod through the API server. Every connection to a port of the pod is a pair of streams
// in it. Nothing listens on this machine.
type tunnel struct {
	// subject names the pod in errors.
	subject string
	// opened is closed when conn or err is set.
	opened chan struct{}
	conn   httpstream.Connection
	err    error
	// kill breaks the connection without a word. Nil: not possible.
	kill     func()
	requests atomic.Int64
}

// openTunnel begins to open a tunnel and returns at once. Until it is open, the context can end it.
func openTunnel(ctx context.Context, config *rest.Config, at *url.URL, subject string) *tunnel {
	return startTunnel(ctx, subject, func(ctx context.Context) (httpstream.Connection, func(), error) {
		return upgrade(ctx, config, at)
	})
}

// startTunnel is openTunnel with another way to open it.
func startTunnel(ctx context.Context, subject string, open func(context.Context) (httpstream.Connection, func(), error)) *tunnel {
	t := &tunnel{subject: subject, opened: make(chan struct{})}
	type result struct {
		conn httpstream.Connection
		kill func()
		err  error
	}
	// What opens it hears of deadlines, but not always of a context that is cancelled.
	results := make(chan result, 1)
	go func() {
		conn, kill, err := open(ctx)
		results <- result{conn, kill, err}
	}()
	go func() {
		defer close(t.opened)
		select {
		case r := <-results:
			t.conn, t.kill = r.conn, r.kill
			if r.err != nil {
				t.err = fmt.Errorf("opening a port-forward to %s: %w", subject, r.err)
			}
		case <-ctx.Done():
			t.err = fmt.Errorf("opening a port-forward to %s: %w", subject, context.Cause(ctx))
			go func() {
				if r := <-results; r.err == nil {
					part(r.conn, r.kill)
				}
			}()
		}
	}()
	return t
}

// upgrade asks the API server for a connection to a pod as kubectl does: by websocket, and where the server or something
// before it will not have that, or permits only to create port-forwards and not to get them, by SPDY.
func upgrade(ctx context.Context, config *rest.Config, at *url.URL) (httpstream.Connection, func(), error) {
	conn, kill, err := upgradeWebsocket(ctx, config, at)
	if err == nil || apierrors.IsNotFound(cause(err)) || !(httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)) {
		return conn, kill, err
	}
	conn, err = upgradeSPDY(ctx, config, at)
	return conn, nil, err
}

// cause is what an upgrade failed of: its error does not unwrap.
func cause(err error) error {
	var failure *httpstream.UpgradeFailureError
	if errors.As(err, &failure) {
		return failure.Cause
	}
	return err
}

func upgradeWebsocket(ctx context.Context, config *rest.Config, at *url.URL) (httpstream.Connection, func(), error) {
	transport, holder, err := websocket.RoundTripperFor(config)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	socket, err := websocket.Negotiate(transport, holder, request, tunnelProtocol)
	if err != nil {
		return nil, nil, err
	}
	conn, err := httpspdy.NewClientConnection(&frames{Conn: portforward.NewTunnelingConnection("port-forward", socket)})
	return conn, func() { _ = socket.NetConn().Close() }, err
}

// frames writes whole frames of SPDY, whose own library writes each of their fields for itself: as a message of the websocket,
// a record of TLS, and a call of the kernel each, and the same again from the API server to the kubelet.
type frames struct {
	net.Conn
	// pending is the beginning of a frame. The library writes one frame at a time.
	pending []byte
}

// frameHeader is the length of what every frame begins with. Its last three bytes are the length of the rest.
const frameHeader = 8

func (f *frames) Write(p []byte) (int, error) {
	f.pending = append(f.pending, p...)
	whole := 0
	for rest := f.pending; len(rest) >= frameHeader; rest = f.pending[whole:] {
		length := frameHeader + (int(rest[5])<<16 | int(rest[6])<<8 | int(rest[7]))
		if len(rest) < length {
			break
		}
		whole += length
	}
	if whole == 0 {
		return len(p), nil
	}
	if _, err := f.Conn.Write(f.pending[:whole]); err != nil {
		return 0, err
	}
	f.pending = append(f.pending[:0], f.pending[whole:]...)
	return len(p), nil
}

func upgradeSPDY(ctx context.Context, config *rest.Config, at *url.URL) (httpstream.Connection, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), nil)
	if err != nil {
		return nil, err
	}
	conn, protocol, err := spdy.NegotiateStreaming(upgrader, &http.Client{Transport: transport}, request, portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	if protocol != portforward.PortForwardProtocolV1Name {
		_ = conn.Close()
		return nil, fmt.Errorf("the server speaks %q, want %q", protocol, portforward.PortForwardProtocolV1Name)
	}
	return conn, nil
}

// Close parts from the pod. It does not wait for that.
func (t *tunnel) Close() {
	go func() {
		<-t.opened
		if t.conn != nil {
			part(t.conn, t.kill)
		}
	}()
}

// part closes a connection. Streams that the other end has never acknowledged would keep it open for ever, and so would a
// network that takes no more data.
func part(conn httpstream.Connection, kill func()) {
	if kill != nil {
		timer := time.AfterFunc(closeGrace, kill)
		go func() {
			<-conn.CloseChan()
			timer.Stop()
		}()
	}
	conn.SetIdleTimeout(closeGrace)
	_ = conn.Close()
}

// Dial connects to a port of the pod.
func (t *tunnel) Dial(ctx context.Context, port int) (*forwardedConn, error) {
	select {
	case <-t.opened:
	case <-ctx.Done():
		return nil, fmt.Errorf("opening a port-forward to %s: %w", t.subject, context.Cause(ctx))
	}
	if t.err != nil {
		return nil, t.err
	}
	id := t.requests.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Both at once: each is acknowledged only after a round trip.
	failures, data := t.stream(ctx, streamError, port, id), t.stream(ctx, streamData, port, id)
	f, d := <-failures, <-data
	if err := cmp.Or(f.err, d.err); err != nil {
		for _, s := range []created{f, d} {
			if s.err == nil {
				t.drop(s.stream)
			}
		}
		return nil, fmt.Errorf("forwarding to port %d of %s: %w", port, t.subject, err)
	}
	return t.connect(port, f.stream, d.stream), nil
}

// created is a stream, or why there is none.
type created struct {
	stream httpstream.Stream
	err    error
}

// stream makes a stream, for as long as the context lasts.
func (t *tunnel) stream(ctx context.Context, kind string, port int, id int64) <-chan created {
	headers := http.Header{}
	headers.Set(headerStreamType, kind)
	headers.Set(headerPort, strconv.Itoa(port))
	headers.Set(headerRequestID, strconv.FormatInt(id, 10))
	acknowledged, result := make(chan created), make(chan created, 1)
	go func() {
		// This knows no context; it waits for 30 s.
		stream, err := t.conn.CreateStream(headers)
		select {
		case acknowledged <- created{stream, err}:
		case <-ctx.Done():
			if err == nil {
				t.drop(stream)
			}
		}
	}()
	go func() {
		select {
		case c := <-acknowledged:
			result <- c
		case <-ctx.Done():
			result <- created{err: context.Cause(ctx)}
		}
	}()
	return result
}

// drop ends a stream.
func (t *tunnel) drop(streams ...httpstream.Stream) {
	for _, s := range streams {
		_ = s.Reset()
	}
	t.conn.RemoveStreams(streams...)
}

// ForwardError is what the kubelet, or its container runtime, says of a connection that it was to make into a pod.
type ForwardError struct {
	// Subject names the pod.
	Subject string
	Port    int
	// Message is the runtime's own.
	Message string
}

// Error says it; a refused connection, which container runtimes tell of at length, in few words.
func (e *ForwardError) Error() string {
	if e.Refused() {
		return fmt.Sprintf("nothing listens on port %d of %s: connection refused", e.Port, e.Subject)
	}
	return fmt.Sprintf("forwarding to port %d of %s: %s", e.Port, e.Subject, e.Message)
}

// Refused says that the pod was reached, and nothing listens there.
func (e *ForwardError) Refused() bool { return strings.Contains(e.Message, "connection refused") }

// forwardedConn is a connection to a port of a pod.
type forwardedConn struct {
	// Conn is our end of a pipe, which has deadlines; streams have none.
	net.Conn
	tunnel *tunnel
	// answered says that the other end has sent something.
	answered atomic.Bool
	// told is closed when the error stream has ended; failure is then set if there was anything in it.
	told    chan struct{}
	failure error
}

var _ net.Conn = (*forwardedConn)(nil)

// connect makes a connection of a pair of streams.
func (t *tunnel) connect(port int, failures, data httpstream.Stream) *forwardedConn {
	near, far := net.Pipe()
	c := &forwardedConn{Conn: near, tunnel: t, told: make(chan struct{})}
	go func() {
		defer close(c.told)
		_ = failures.Close() // nothing is ever said into it
		message, _ := io.ReadAll(io.LimitReader(failures, maxForwardError))
		if len(message) > 0 {
			c.failure = &ForwardError{Subject: t.subject, Port: port, Message: strings.TrimSpace(string(message))}
		}
		// Left unread, it would hold up other streams.
		_, _ = io.Copy(io.Discard, failures)
	}()
	go func() {
		_, _ = io.Copy(&answering{far, &c.answered}, data)
		// Why the data ended may come a little later than the end.
		timer := time.NewTimer(closeGrace)
		defer timer.Stop()
		select {
		case <-c.told:
		case <-timer.C:
		}
		_ = far.Close()
	}()
	go func() {
		_, _ = io.Copy(data, far)
		_ = far.Close()
		t.drop(data, failures)
	}()
	return c
}

// answering notes that something is written.
type answering struct {
	io.Writer
	yes *atomic.Bool
}

func (a *answering) Write(p []byte) (int, error) {
	a.yes.Store(true)
	return a.Writer.Write(p)
}

// Failure is why the connection has ended, as far as the other end has said. Nil: it has not, or not yet.
func (c *forwardedConn) Failure() error {
	select {
	case <-c.told:
		return c.failure
	default:
		return nil
	}
}

// Read reads; at its end it says why it has ended.
func (c *forwardedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		if failure := c.Failure(); failure != nil {
			return n, failure
		}
		select {
		case <-c.tunnel.conn.CloseChan():
			return n, fmt.Errorf("the port-forward to %s was closed: %w", c.tunnel.subject, io.ErrUnexpectedEOF)
		default:
		}
	}
	return n, err
}
