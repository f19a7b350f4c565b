package etcd

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// quotaMetric is the gauge in which every version of etcd since 3.2 says its quota in bytes.
const quotaMetric = "etcd_server_quota_backend_bytes"

// maxMetrics bounds how much of a member's metrics is read. They are some 100 KiB.
const maxMetrics = 8 << 20

// ErrNoQuota: the metrics do not say a quota.
var ErrNoQuota = errors.New("no metric " + quotaMetric)

// MetricsQuota reads the size in bytes at which the member raises NOSPACE from its metrics. It is for members before 3.6,
// whose Status has no quota. An error means that it is not known, for example because metrics are served elsewhere.
func (c *Client) MetricsQuota(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	quota, err := c.readQuota(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the quota from metrics at %s: %w", c.metricsURL, err)
	}
	return quota, nil
}

func (c *Client) readQuota(ctx context.Context) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.metricsURL, nil)
	if err != nil {
		return 0, err
	}
	// One request every few minutes: a kept connection would be idle, and stale after a rotation.
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, address string) (net.Conn, error) { return c.dialer(ctx, address) },
		DialTLSContext:    c.dialTLS,
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("status %s", response.Status)
	}
	return findQuota(io.LimitReader(response.Body, maxMetrics))
}

func (c *Client) dialTLS(ctx context.Context, _, address string) (net.Conn, error) {
	config, err := c.tls.TLSConfig()
	if err != nil {
		return nil, err
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	raw, err := c.dialer(ctx, address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return conn, nil
}

// findQuota finds the gauge in the text format of Prometheus. A quota that is switched off (negative) is not known.
func findQuota(metrics io.Reader) (int64, error) {
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		value, found := strings.CutPrefix(lines.Text(), quotaMetric+" ")
		if !found {
			continue
		}
		bytes, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(bytes > 0 && bytes < 1<<63) { // NaN is neither.
			return 0, fmt.Errorf("%s is %q: want a positive number of bytes", quotaMetric, value)
		}
		return int64(bytes), nil
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, ErrNoQuota
}
