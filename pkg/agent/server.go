package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// newHandler answers /healthz, /readyz and /metrics. They are about the agent, not about etcd: an agent whose etcd is down
// does its work.
func newHandler(c *core, m *metrics) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !c.looksRecently(time.Now()) {
			http.Error(w, fmt.Sprintf("no look at etcd has ended within %s: the agent is stuck", lookWithin), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		switch name := c.member(); {
		case name == "":
			http.Error(w, "waiting for the EtcdMember of this pod: there is none", http.StatusServiceUnavailable)
		case !c.isPublished():
			http.Error(w, fmt.Sprintf("nothing has been published to EtcdMember %s yet", name), http.StatusServiceUnavailable)
		case !c.vouches(time.Now()):
			http.Error(w, fmt.Sprintf("the status of EtcdMember %s is out of date: publishing fails", name), http.StatusServiceUnavailable)
		default:
			fmt.Fprintf(w, "ok: publishing to EtcdMember %s\n", name)
		}
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	return mux
}

// serve serves until the context ends.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving health and metrics: %w", err)
	}
	return nil
}
