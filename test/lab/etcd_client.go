package lab

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// Client connects to the members with these pods, or to all. It is closed when the test ends.
//
// On the lab it dials the pods' addresses themselves, past the API server and the kubelets, so that what it sees is etcd
// and the pod's network alone. On a cluster of one's own it goes through port-forwards.
func (e *Etcd) Client(t testing.TB, pods ...string) *clientv3.Client {
	t.Helper()
	if len(pods) == 0 {
		pods = e.Pods()
	}
	config := clientv3.Config{
		DialTimeout: 5 * time.Second,
		Logger:      zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(e.dial)},
	}
	for _, p := range pods {
		config.Endpoints = append(config.Endpoints, e.Endpoint(p))
	}
	if e.tls != nil {
		config.TLS = e.TLSConfig(t)
	}
	c, err := clientv3.New(config)
	if err != nil {
		t.Fatalf("making a client of etcd %s/%s: %v", e.Namespace, e.Name, err)
	}
	t.Cleanup(func() { _ = c.Close() }) // its context has ended, which it reports as an error
	return c
}

// TLSConfig is that of a client of the cluster, which must have TLS.
func (e *Etcd) TLSConfig(t testing.TB) *tls.Config {
	t.Helper()
	cert, err := e.tls.client.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: e.tls.ca.Pool()}
}

func (e *Etcd) dial(ctx context.Context, address string) (net.Conn, error) {
	if !e.lab.IsOwn() {
		return e.lab.Dial(ctx, address)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("understanding %q: %w", address, err)
	}
	pod, _, _ := strings.Cut(host, ".")
	return e.lab.forward(ctx, e.Namespace, pod, 2379)
}

// forward connects to a port of a pod through the API server.
func (l *Lab) forward(ctx context.Context, namespace, pod string, port int) (net.Conn, error) {
	transport, upgrader, err := spdy.RoundTripperFor(l.config)
	if err != nil {
		return nil, fmt.Errorf("forwarding a port of pod %s/%s: %w", namespace, pod, err)
	}
	url := l.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	stop, ready, failed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.New(dialer, []string{fmt.Sprintf("0:%d", port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, fmt.Errorf("forwarding a port of pod %s/%s: %w", namespace, pod, err)
	}
	go func() { failed <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-failed:
		return nil, fmt.Errorf("forwarding a port of pod %s/%s: %w", namespace, pod, err)
	case <-ctx.Done():
		close(stop)
		return nil, ctx.Err()
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		close(stop)
		return nil, fmt.Errorf("forwarding a port of pod %s/%s: %w", namespace, pod, err)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	if err != nil {
		close(stop)
		return nil, fmt.Errorf("forwarding a port of pod %s/%s: %w", namespace, pod, err)
	}
	return &forwarded{Conn: conn, stop: stop}, nil
}

// forwarded ends its port-forward with itself.
type forwarded struct {
	net.Conn
	stop chan struct{}
}

func (f *forwarded) Close() error {
	close(f.stop)
	return f.Conn.Close()
}

// Leader is the pod of the leader, by a majority member's own word. The test fails if there is none within a while.
func (e *Etcd) Leader(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var failed error
	for ctx.Err() == nil {
		failed = nil
		for _, pod := range e.Pods() {
			leads, err := e.leads(ctx, t, pod)
			if leads {
				return pod
			}
			failed = errors.Join(failed, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatalf("etcd %s/%s has no leader: %v", e.Namespace, e.Name, failed)
	return ""
}

func (e *Etcd) leads(ctx context.Context, t testing.TB, pod string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	c := e.Client(t, pod)
	defer c.Close()
	s, err := c.Status(ctx, e.Endpoint(pod))
	if err != nil {
		return false, fmt.Errorf("%s: %w", pod, err)
	}
	return s.Leader == s.Header.MemberId && s.Leader != 0, nil
}

// Ready says whether a pod is ready.
func Ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
