package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	httpspdy "k8s.io/streaming/pkg/httpstream/spdy"
)

// inTime is for what must happen, however busy the machine is.
const inTime = 30 * time.Second

func eventually(t *testing.T, check func() error) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Since(begun) > inTime {
			t.Fatal(err)
		}
	}
}

// goroutines are those that run, or wait, in this code, by their numbers.
func goroutines() map[string]string {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	found := map[string]string{}
	for g := range strings.SplitSeq(string(stacks), "\n\n") {
		for _, ours := range []string{"pkg/source/portforward.go", "pkg/source/live.go", "spdystream.", "gorilla/websocket"} {
			if strings.Contains(g, ours) {
				number, _, _ := strings.Cut(g, " [")
				found[number] = g
				break
			}
		}
	}
	return found
}

// noLeak fails unless all goroutines that a test begins in this code end. It is to be called before anything is begun.
func noLeak(t *testing.T) {
	t.Helper()
	before := goroutines()
	t.Cleanup(func() {
		eventually(t, func() error {
			left := goroutines()
			maps.DeleteFunc(left, func(number, _ string) bool { return before[number] != "" })
			if len(left) > 0 {
				return fmt.Errorf("%d goroutines are left:\n%s", len(left), strings.Join(slices.Collect(maps.Values(left)), "\n\n"))
			}
			return nil
		})
	})
}

// kubelet is the other end of port-forwards: it pairs streams, and does with each pair as it is told.
type kubelet struct {
	serve func(data, failures httpstream.Stream)
	// open is how many pairs it serves.
	open atomic.Int32

	mu    sync.Mutex
	pairs map[string]map[string]httpstream.Stream
	ports []string
}

func (k *kubelet) stream(s httpstream.Stream, acknowledged <-chan struct{}) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := s.Headers().Get("requestID")
	if k.pairs[id] == nil {
		if k.pairs == nil {
			k.pairs = map[string]map[string]httpstream.Stream{}
		}
		k.pairs[id] = map[string]httpstream.Stream{}
	}
	pair := k.pairs[id]
	pair[s.Headers().Get("streamType")] = s
	if len(pair) == 2 {
		k.ports = append(k.ports, s.Headers().Get("port"))
		go func() {
			k.open.Add(1)
			defer k.open.Add(-1)
			<-acknowledged
			k.serve(pair["data"], pair["error"])
		}()
	}
	return nil
}

func echo(data, failures httpstream.Stream) {
	_, _ = io.Copy(data, data)
	_ = failures.Close()
	_ = data.Close()
}

// refuse is what containerd does where nothing listens.
func refuse(data, failures httpstream.Stream) {
	_, _ = io.WriteString(failures, `error forwarding port 2379 to pod abc, uid : failed to connect to localhost:2379 inside namespace "x", IPv4: dial tcp4 127.0.0.1:2379: connect: connection refused`)
	_ = data.Reset()
	_ = failures.Reset()
}

// cantForward is what a container runtime does that lacks what it needs.
func cantForward(data, failures httpstream.Stream) {
	_, _ = io.WriteString(failures, "unable to do port forwarding: socat not found")
	_ = data.Reset()
	_ = failures.Reset()
}

// bridge connects to an address.
func bridge(address string) func(data, failures httpstream.Stream) {
	return func(data, failures httpstream.Stream) {
		defer failures.Close()
		defer data.Close()
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		defer conn.Close()
		go func() {
			_, _ = io.Copy(conn, data)
			_ = conn.Close()
		}()
		_, _ = io.Copy(data, conn)
	}
}

// waitForEver opens nothing until the context ends.
func waitForEver(ctx context.Context) (httpstream.Connection, func(), error) {
	<-ctx.Done()
	return nil, nil, ctx.Err()
}

// to opens a tunnel to a kubelet past all API servers.
func to(t *testing.T, k *kubelet) *tunnel {
	t.Helper()
	noLeak(t)
	near, far := net.Pipe()
	server, err := httpspdy.NewServerConnection(far, k.stream)
	if err != nil {
		t.Fatal(err)
	}
	tunnel := startTunnel(t.Context(), "pod ns/main-0", func(context.Context) (httpstream.Connection, func(), error) {
		conn, err := httpspdy.NewClientConnection(&frames{Conn: near})
		return conn, func() { _ = near.Close() }, err
	})
	t.Cleanup(func() {
		tunnel.Close()
		_ = server.Close()
	})
	return tunnel
}

func dial(t *testing.T, tunnel *tunnel) *forwardedConn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), inTime)
	defer cancel()
	conn, err := tunnel.Dial(ctx, 2379)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestForwardedConnections(t *testing.T) {
	k := &kubelet{serve: echo}
	tunnel := to(t, k)
	// Several at once, in one tunnel.
	var wg sync.WaitGroup
	var conns []*forwardedConn
	for i := range 8 {
		conn := dial(t, tunnel)
		conns = append(conns, conn)
		wg.Go(func() {
			sent := strings.Repeat(fmt.Sprint(i), 100_000)
			go func() { _, _ = io.WriteString(conn, sent) }()
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != sent {
				t.Errorf("connection %d: %d bytes have come back wrong: %v", i, len(got), err)
			}
			if !conn.answered.Load() || conn.Failure() != nil {
				t.Errorf("connection %d: answered %t, failure %v", i, conn.answered.Load(), conn.Failure())
			}
		})
	}
	wg.Wait()
	// The end of a connection reaches the pod, while the tunnel stays.
	if n := k.open.Load(); n != 8 {
		t.Errorf("%d connections are served: want 8", n)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	eventually(t, func() error {
		if n := k.open.Load(); n > 0 {
			return fmt.Errorf("%d connections are still served", n)
		}
		return nil
	})
	select {
	case <-tunnel.conn.CloseChan():
		t.Error("the tunnel is closed")
	default:
	}
	if len(k.ports) != 8 || k.ports[0] != "2379" {
		t.Errorf("ports %q were forwarded", k.ports)
	}
}

// written is a connection that keeps what is written to it.
type written struct {
	net.Conn
	writes []string
	err    error
}

func (w *written) Write(p []byte) (int, error) {
	w.writes = append(w.writes, string(p))
	return len(p), w.err
}

func TestFrames(t *testing.T) {
	frame := func(n int) string {
		return "abcde" + string([]byte{byte(n >> 16), byte(n >> 8), byte(n)}) + strings.Repeat("x", n)
	}
	w := &written{}
	f := &frames{Conn: w}
	long := frame(70_000)
	for _, piece := range []string{"a", frame(3)[1:9], frame(3)[9:], frame(0), frame(1) + frame(2) + long[:7], long[7:100], long[100:] + "abc"} {
		if n, err := f.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := []string{frame(3), frame(0), frame(1) + frame(2), long}; !slices.Equal(w.writes, want) {
		t.Errorf("%d writes, want %d: %.40q", len(w.writes), len(want), w.writes)
	}
	w.err = io.ErrClosedPipe
	if _, err := f.Write([]byte(frame(1)[3:])); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}

func TestForwardedDeadline(t *testing.T) {
	tunnel := to(t, &kubelet{serve: echo})
	conn := dial(t, tunnel)
	if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("reading what does not come: %v", err)
	}
	// It is not broken by that.
	if err := conn.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	// A reader is woken by the end of its own connection.
	read := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		read <- err
	}()
	_ = conn.Close()
	select {
	case err := <-read:
		if err == nil {
			t.Error("a closed connection can be read")
		}
	case <-time.After(inTime):
		t.Error("a reader is not woken")
	}
}

func TestForwardedRefusal(t *testing.T) {
	tunnel := to(t, &kubelet{serve: refuse})
	conn := dial(t, tunnel)
	_, err := conn.Read(make([]byte, 1))
	var failure *ForwardError
	if !errors.As(err, &failure) || !failure.Refused() || err.Error() != "nothing listens on port 2379 of pod ns/main-0: connection refused" {
		t.Errorf("%v: want what the kubelet has said", err)
	}
	// The next one is none the worse for it.
	if _, err := dial(t, tunnel).Read(make([]byte, 1)); !errors.As(err, &failure) {
		t.Errorf("a second one: %v", err)
	}
}

func TestForwardedEnd(t *testing.T) {
	tunnel := to(t, &kubelet{serve: func(data, failures httpstream.Stream) {
		_, _ = io.WriteString(data, "bye")
		if _, err := data.Read(make([]byte, 1)); err == nil {
			_ = data.Close()
			_ = failures.Close()
		}
	}})
	conn := dial(t, tunnel)
	_, _ = io.WriteString(conn, "x")
	if got, err := io.ReadAll(conn); string(got) != "bye" || err != nil {
		t.Errorf("an orderly end is %q, %v", got, err)
	}
	conn = dial(t, tunnel)
	_, _ = io.ReadFull(conn, make([]byte, 3))
	tunnel.kill()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "the port-forward to pod ns/main-0 was closed") {
		t.Errorf("the end of the tunnel is %v", err)
	}
}

// silentTunnel is a tunnel to a kubelet that takes all, and says nothing.
func silentTunnel(t *testing.T, canKill bool) *tunnel {
	t.Helper()
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	t.Cleanup(func() { _ = far.Close() })
	return startTunnel(t.Context(), "pod ns/unacknowledged", func(context.Context) (httpstream.Connection, func(), error) {
		conn, err := httpspdy.NewClientConnection(&frames{Conn: near})
		if !canKill {
			return conn, nil, err
		}
		return conn, func() { _ = near.Close() }, err
	})
}

// TestUnacknowledged: a kubelet that has stopped holds nobody up, nor the tunnel open, be it by websocket or by SPDY, of which
// nobody has the connection.
func TestUnacknowledged(t *testing.T) {
	for _, canKill := range []bool{true, false} {
		tunnel := silentTunnel(t, canKill)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("not done within 50ms"))
		defer cancel()
		if _, err := tunnel.Dial(ctx, 2379); err == nil || err.Error() != "forwarding to port 2379 of pod ns/unacknowledged: not done within 50ms" {
			t.Errorf("dialling: %v", err)
		}
		tunnel.Close()
		select {
		case <-tunnel.conn.CloseChan():
		case <-time.After(inTime):
			t.Error("the tunnel is not closed")
		}
	}
}

// TestStuckNetwork: nor does a network that takes no more data.
func TestStuckNetwork(t *testing.T) {
	near, far := net.Pipe() // without a reader, a pipe takes nothing
	t.Cleanup(func() { _ = far.Close() })
	tunnel := startTunnel(t.Context(), "pod ns/main-0", func(context.Context) (httpstream.Connection, func(), error) {
		conn, err := httpspdy.NewClientConnection(&frames{Conn: near})
		return conn, func() { _ = near.Close() }, err
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := tunnel.Dial(ctx, 2379); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dialling: %v", err)
	}
	tunnel.Close()
	select {
	case <-tunnel.conn.CloseChan():
	case <-time.After(inTime):
		t.Error("the tunnel is not closed")
	}
}

// apiServer is an API server that upgrades by SPDY alone.
type apiServer struct {
	*kubelet
	websocketStatus, spdyStatus int
	websockets, spdys           atomic.Int32
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(code int) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"%s is not wanted","reason":%q,"code":%d}`, r.Method, strings.ReplaceAll(http.StatusText(code), " ", ""), code)
	}
	if r.Header.Get("Upgrade") == "websocket" {
		a.websockets.Add(1)
		refuse(a.websocketStatus)
		return
	}
	a.spdys.Add(1)
	if a.spdyStatus != 0 {
		refuse(a.spdyStatus)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	conn := httpspdy.NewResponseUpgrader().UpgradeResponse(w, r, a.stream)
	if conn != nil {
		<-conn.CloseChan()
	}
}

func TestUpgradeFallsBack(t *testing.T) {
	for name, tc := range map[string]struct {
		websocket, spdy int
		spdys           int32
		want            string
	}{
		"a server without websockets":    {http.StatusBadRequest, 0, 1, ""},
		"only create is permitted":       {http.StatusForbidden, 0, 1, ""},
		"nothing is permitted":           {http.StatusForbidden, http.StatusForbidden, 1, "opening a port-forward to pod ns/main-0: unable to upgrade connection: POST is not wanted"},
		"no pod is not asked for twice":  {http.StatusNotFound, 0, 0, "GET is not wanted"},
		"nor does the kubelet answer it": {http.StatusInternalServerError, http.StatusInternalServerError, 1, "POST is not wanted"},
	} {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			a := &apiServer{kubelet: &kubelet{serve: echo}, websocketStatus: tc.websocket, spdyStatus: tc.spdy}
			server := httptest.NewServer(a)
			t.Cleanup(server.Close)
			at, err := url.Parse(server.URL + "/api/v1/namespaces/ns/pods/main-0/portforward")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), inTime)
			defer cancel()
			tunnel := openTunnel(ctx, &rest.Config{Host: server.URL}, at, "pod ns/main-0")
			defer tunnel.Close()
			conn, err := tunnel.Dial(ctx, 2379)
			if a.websockets.Load() != 1 || a.spdys.Load() != tc.spdys {
				t.Errorf("%d requests by websocket, %d by SPDY", a.websockets.Load(), a.spdys.Load())
			}
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v: want %q", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "hello")
			if got := make([]byte, 5); true {
				if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
					t.Errorf("%q, %v", got, err)
				}
			}
		})
	}
}

// TestSilentServer: an API server that takes connections and says nothing costs as long as the context lasts.
func TestSilentServer(t *testing.T) {
	noLeak(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	at, err := url.Parse("http://" + listener.Addr().String() + "/api")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	tunnel := openTunnel(ctx, &rest.Config{Host: "http://" + listener.Addr().String()}, at, "pod ns/main-0")
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel(errors.New("not done within 2s"))
	_, err = tunnel.Dial(t.Context(), 2379)
	if err == nil || err.Error() != "opening a port-forward to pod ns/main-0: not done within 2s" {
		t.Errorf("dialling: %v", err)
	}
	tunnel.Close()
}
