package agent

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
	"github.com/etcdmember/kubectl-etcdmember/pkg/version"
)

// Config is what an agent in sidecar mode needs.
type Config struct {
	// Etcd says how to reach the member beside the agent.
	Etcd etcd.Config
	// PollInterval is how often the member is looked at.
	PollInterval time.Duration
	// DataDir is etcd's data directory as the agent has it mounted. Empty: nothing is known of the file system.
	DataDir string
	// MemberName is the EtcdMember's name. Empty: it is the one whose spec.podName is PodName.
	MemberName string
	// PodName, PodNamespace and PodUID are the agent's own pod.
	PodName, PodNamespace, PodUID string
	// HealthAddress is where /healthz, /readyz and /metrics are served, for example :9980.
	HealthAddress string
	// Kubernetes is access to the API server.
	Kubernetes *rest.Config
}

// Run runs an agent in sidecar mode until the context ends, which is no error. Errors are those of its configuration and of its
// port; that etcd or the API server can't be reached is none.
func Run(ctx context.Context, config Config, log logr.Logger) error {
	client, err := etcd.New(config.Etcd)
	if err != nil {
		return err
	}
	defer client.Close()
	api, err := newKube(config.Kubernetes, config.PodNamespace)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", config.HealthAddress)
	if err != nil {
		return fmt.Errorf("serving health and metrics at %s: %w", config.HealthAddress, err)
	}
	defer listener.Close()
	log.Info("Starting in sidecar mode", "version", version.String(), "etcd", config.Etcd.Endpoint, "pod", config.PodNamespace+"/"+config.PodName)

	var (
		c    = &core{version: version.Version, looked: time.Now(), identifying: config.DataDir != ""}
		m    = newMetrics()
		wake = make(chan struct{}, 1)
		lost = make(chan struct{}, 1)
	)
	o := &observer{core: c, etcd: client, metrics: m, log: log.WithName("observer"), interval: config.PollInterval, wake: wake}
	f := &follower{core: c, api: api, log: log.WithName("follower"), pod: config.PodName, name: config.MemberName, wake: wake, lost: lost}
	p := &publisher{core: c, api: api, metrics: m, log: log.WithName("publisher"), wake: wake, gone: func() { signal(lost) }}
	h := &heartbeat{core: c, api: api, metrics: m, log: log.WithName("heartbeat"), holder: config.PodName + "_" + config.PodUID}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var loops sync.WaitGroup
	runs := []func(context.Context){o.run, f.run, p.run, h.run}
	if config.DataDir != "" {
		o.fileSystem = (&fileSystemReader{dir: config.DataDir}).read
		i := &identifier{core: c, api: api, log: log.WithName("volume"), pod: config.PodName, dataDir: config.DataDir, wake: wake}
		runs = append(runs, i.run)
	}
	for _, run := range runs {
		loops.Go(func() { run(ctx) })
	}
	err = serve(ctx, listener, newHandler(c, m))
	cancel()
	loops.Wait()
	log.Info("Stopped")
	return err
}
