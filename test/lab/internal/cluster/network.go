package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/control"
)

// The lab's addresses. They exist in its network namespace only. All nodes share that namespace, each with an address
// of its own, and all pods share one bridge.
const (
	hostAddress    = "10.78.0.1"
	apiAddress     = hostAddress + ":6443"
	serviceAddress = "10.96.0.1"
	serviceRange   = "10.96.0.0/16"
	dnsAddress     = "10.96.0.10"
	podRange       = "10.77.0.0/16"
)

func nodeAddress(i int) string { return fmt.Sprintf("10.78.0.%d", 11+i) }

// makeNetwork gives the sandbox its addresses.
func (m *Manager) makeNetwork(ctx context.Context) error {
	commands := [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "link", "add", "lab0", "type", "bridge"},
		{"ip", "addr", "add", hostAddress + "/24", "dev", "lab0"},
		{"ip", "link", "set", "lab0", "up"},
	}
	// Without a route, packets for Services would be refused before kube-proxy could translate them.
	commands = append(commands, []string{"ip", "route", "add", serviceRange, "dev", "lab0"})
	for i := range m.c.Nodes {
		commands = append(commands, []string{"ip", "addr", "add", nodeAddress(i) + "/24", "dev", "lab0"})
	}
	for _, c := range commands {
		if err := run(ctx, c[0], c[1:]...); err != nil {
			return err
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1\n"), 0o644); err != nil {
		return fmt.Errorf("letting the sandbox forward packets: %w", err)
	}
	return nil
}

// forward serves the lab's door: what connects to it on the host is joined to the API server in here. While there is no
// API server, connections are reset, as those to a machine without one would be.
func forward(door net.Listener) {
	for {
		outside, err := door.Accept()
		if err != nil {
			return
		}
		go func() {
			inside, err := net.DialTimeout("tcp", apiAddress, 5*time.Second)
			if err != nil {
				if tcp, ok := outside.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0)
				}
				outside.Close()
				return
			}
			control.Join(outside, inside)
		}()
	}
}

// Dial connects to an address in the sandbox, with names resolved by the cluster's own DNS.
func (m *Manager) Dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second, Resolver: &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var direct net.Dialer
			return direct.DialContext(ctx, network, net.JoinHostPort(hostAddress, "53"))
		},
	}}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("understanding %q: %w", address, err)
	}
	// In here nobody searches domains, as pods do.
	if strings.HasSuffix(host, ".svc") {
		host += ".cluster.local."
	}
	return d.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
}

func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
