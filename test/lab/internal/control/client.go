package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
)

// ErrDown is returned when no lab answers.
var ErrDown = errors.New("the lab is not up")

// Client talks to a lab's manager.
type Client struct {
	// Socket is the path of the lab's control socket.
	Socket string
}

// Status asks for the lab's status.
func (c Client) Status(ctx context.Context) (Status, error) {
	var s Status
	return s, c.do(ctx, http.MethodGet, "/status", nil, &s)
}

// Load imports an image on all nodes. A node that has that content of it already is left alone.
func (c Client) Load(ctx context.Context, i Image) error {
	return c.do(ctx, http.MethodPost, "/images", i, nil)
}

// Inject does what the fault says, and returns it with its ID if it lasts.
func (c Client) Inject(ctx context.Context, f Fault) (Fault, error) {
	return f, c.do(ctx, http.MethodPost, "/faults", f, &f)
}

// Heal undoes a fault. Healing what is healed is no error.
func (c Client) Heal(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, "/faults/"+url.PathEscape(id), nil, nil)
}

// VolumeOf says what a claim's file system holds.
func (c Client) VolumeOf(ctx context.Context, namespace, claim string) (Volume, error) {
	var v Volume
	return v, c.do(ctx, http.MethodGet, "/volumes/"+url.PathEscape(namespace)+"/"+url.PathEscape(claim), nil, &v)
}

// Dial connects to an address of the lab's own network, by IP or by a name that the cluster's DNS knows.
func (c Client) Dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", address, address); err != nil {
		conn.Close()
		return nil, fmt.Errorf("asking the lab for a connection to %s: %w", address, err)
	}
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("asking the lab for a connection to %s: %w", address, err)
	}
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
		conn.Close()
		return nil, fmt.Errorf("connecting to %s in the lab: %s", address, bytes.TrimSpace(text))
	}
	return &buffered{Conn: conn, reader: reader}, nil
}

// buffered reads what was read ahead first.
type buffered struct {
	net.Conn
	reader *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.reader.Read(p) }

func (c Client) connect(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.Socket)
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%w (nobody listens on %s)", ErrDown, c.Socket)
	}
	if err != nil {
		return nil, fmt.Errorf("reaching the lab: %w", err)
	}
	return conn, nil
}

func (c Client) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encoding a request to the lab: %w", err)
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://lab"+path, body)
	if err != nil {
		return fmt.Errorf("making a request to the lab: %w", err)
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return c.connect(ctx) },
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("asking the lab to %s %s: %w", method, path, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("reading the lab's answer to %s %s: %w", method, path, err)
	}
	if answer.StatusCode/100 != 2 {
		var f failure
		if json.Unmarshal(text, &f) != nil || f.Error == "" {
			f.Error = answer.Status
		}
		return errors.New(f.Error)
	}
	if out == nil || len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("understanding the lab's answer to %s %s: %w", method, path, err)
	}
	return nil
}
