package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/proc"
)

// etcd of the control plane. It listens on the sandbox's loopback, which no pod reaches.
const etcdURL = "http://127.0.0.1:2379"

// controllers are those that the lab's workloads need. The rest of the controller manager's would only cost memory
// and start-up time.
var controllers = []string{
	"statefulset-controller", "replicaset-controller", "deployment-controller", "daemonset-controller", "job-controller",
	"garbage-collector-controller", "namespace-controller", "pod-garbage-collector-controller",
	"serviceaccount-controller", "serviceaccount-token-controller", "root-ca-certificate-publisher-controller",
	"persistentvolume-binder-controller", "persistentvolume-protection-controller", "persistentvolumeclaim-protection-controller",
	"persistentvolume-expander-controller",
	"endpoints-controller", "endpointslice-controller", "disruption-controller",
	"node-lifecycle-controller", "taint-eviction-controller", "ttl-controller", "ttl-after-finished-controller",
	"clusterrole-aggregation-controller", "resourcequota-controller", "validatingadmissionpolicy-status-controller",
}

func (m *Manager) kubernetes(component string, args ...string) proc.Daemon {
	return proc.Daemon{
		Name:  component,
		Argv:  append([]string{filepath.Join(m.c.Kubernetes, "k8s")}, args...),
		Argv0: component,
	}
}

func (m *Manager) startEtcd() error {
	return m.daemons.Start(proc.Daemon{Name: "etcd", Argv: []string{
		filepath.Join(m.c.Etcd, "etcd"),
		"--name=control-plane",
		"--data-dir=" + filepath.Join(m.c.Layout.Run(), "etcd"),
		// The cluster is thrown away with its data, so there is nothing that a power cut could lose.
		"--unsafe-no-fsync",
		"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
		"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=control-plane=http://127.0.0.1:2380",
		"--log-level=warn",
	}})
}

func (m *Manager) startAPIServer() error {
	return m.daemons.Start(m.kubernetes("kube-apiserver",
		"--etcd-servers="+etcdURL,
		"--bind-address=0.0.0.0", "--secure-port=6443", "--advertise-address="+hostAddress,
		"--tls-cert-file="+m.pki("apiserver.crt"), "--tls-private-key-file="+m.pki("apiserver.key"),
		"--client-ca-file="+m.pki("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP", "--kubelet-certificate-authority="+m.pki("ca.crt"),
		"--kubelet-client-certificate="+m.pki("apiserver-kubelet.crt"), "--kubelet-client-key="+m.pki("apiserver-kubelet.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+m.pki("sa.pub"), "--service-account-signing-key-file="+m.pki("sa.key"),
		"--service-cluster-ip-range="+serviceRange,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		// Fairness between tenants costs memory, and the lab has one tenant.
		"--enable-priority-and-fairness=false",
		"--profiling=false", "--allow-privileged=true",
		// A stopped API server should be gone at once, not after its clients have left.
		"--shutdown-delay-duration=0s",
	))
}

func (m *Manager) startControllers() error {
	for _, d := range []proc.Daemon{
		m.kubernetes("kube-controller-manager", append(m.authentication("system:kube-controller-manager"),
			"--bind-address=127.0.0.1",
			"--service-account-private-key-file="+m.pki("sa.key"), "--root-ca-file="+m.pki("ca.crt"),
			"--use-service-account-credentials=true", "--leader-elect=false", "--profiling=false",
			"--controllers="+strings.Join(controllers, ","),
			// Claims wait for their first pod, which would otherwise find its volume half a minute late.
			"--pvclaimbinder-sync-period=5s",
		)...),
		m.kubernetes("kube-scheduler", append(m.authentication("system:kube-scheduler"),
			"--bind-address=127.0.0.1", "--leader-elect=false", "--profiling=false",
		)...),
		m.kubernetes("kube-proxy",
			"--kubeconfig="+m.kubeconfig("system:kube-proxy"),
			// All nodes share one network namespace, so one proxy serves them all.
			"--hostname-override="+m.c.NodeNames()[0],
			"--proxy-mode=iptables", "--cluster-cidr="+podRange,
			// Pods that share a bridge would answer each other directly, past the proxy's translation.
			"--masquerade-all",
			// These would be settings of the whole machine.
			"--conntrack-max-per-core=0", "--conntrack-min=0",
			"--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
			"--conntrack-udp-timeout=0", "--conntrack-udp-timeout-stream=0",
			"--healthz-bind-address=127.0.0.1:10256", "--metrics-bind-address=127.0.0.1:10249",
			"--iptables-min-sync-period=100ms",
		),
	} {
		if err := m.daemons.Start(d); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manager) authentication(identity string) []string {
	path := m.kubeconfig(identity)
	return []string{"--kubeconfig=" + path, "--authentication-kubeconfig=" + path, "--authorization-kubeconfig=" + path}
}

const corefile = `.:53 {
    bind %s
    errors
    health 127.0.0.1:8080
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa {
        kubeconfig %s
        pods insecure
        ttl 5
    }
    loadbalance
}
`

// startDNS starts CoreDNS beside the nodes rather than in a pod: pods reach it through a Service all the same, and no
// fault of a node takes the DNS along.
func (m *Manager) startDNS() error {
	path := filepath.Join(m.c.Layout.Run(), "Corefile")
	text := fmt.Sprintf(corefile, hostAddress, m.kubeconfig("system:coredns"))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("configuring CoreDNS: %w", err)
	}
	return m.daemons.Start(proc.Daemon{Name: "coredns", Argv: []string{filepath.Join(m.c.CoreDNS, "coredns"), "-conf", path}})
}

// until asks every 50 ms whether it is so, for as long as ctx lasts.
func until(ctx context.Context, what string, isSo func(context.Context) error) error {
	for {
		err := isSo(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w (last: %w)", what, ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// healthy asks a URL that answers 200 when its server is well.
func healthy(config *rest.Config, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			return fmt.Errorf("making a client for %s: %w", url, err)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("asking %s: %w", url, err)
		}
		answer, err := client.Do(request)
		if err != nil {
			return fmt.Errorf("asking %s: %w", url, err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answered %s", url, answer.Status)
		}
		return nil
	}
}
