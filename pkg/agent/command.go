package agent

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
	"github.com/etcdmember/kubectl-etcdmember/pkg/version"
)

// options are the flags of the sidecar command.
type options struct {
	endpoint, caCert, cert, key, serverName, metricsURL string
	pollInterval, timeout                               time.Duration
	dataDir, memberName, healthAddress, kubeconfig      string
}

// NewCommand returns the command etcdmember-agent.
func NewCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "etcdmember-agent",
		Short:         "Publishes the state of the etcd member beside it as the status of its EtcdMember",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version.String(),
	}
	logging := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(logging)
	root.PersistentFlags().AddGoFlag(logging.Lookup("v"))
	root.AddCommand(newSidecarCommand())
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

func newSidecarCommand() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "sidecar",
		Short: "Publish the state of an etcd that somebody else starts",
		Long: `Publish the state of an etcd that somebody else starts, as the status of the EtcdMember of this pod.

The agent creates nothing: it waits for its EtcdMember, which "kubectl etcdmember adopt" creates.
It needs the environment variables POD_NAME and POD_NAMESPACE, and should have POD_UID, all from the downward API.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := o.config(os.Getenv)
			if err != nil {
				return err
			}
			return Run(command.Context(), config, klog.Background())
		},
	}
	f := command.Flags()
	f.StringVar(&o.endpoint, "endpoint", "https://127.0.0.1:2379", "the member's client URL, http or https")
	f.StringVar(&o.caCert, "cacert", "", "file with the CA that signs the member's server certificate, PEM; default: the system's CAs")
	f.StringVar(&o.cert, "cert", "", "file with the agent's client certificate, PEM")
	f.StringVar(&o.key, "key", "", "file with the key of --cert, PEM")
	f.StringVar(&o.serverName, "server-name", "", "the name that the member's server certificate must have; default: the host of --endpoint")
	f.StringVar(&o.metricsURL, "metrics-url", "", "where a member before 3.6 serves its metrics, for its quota; default: --endpoint plus /metrics")
	f.StringVar(&o.dataDir, "data-dir", "/var/lib/etcd/data", "etcd's data directory as it is mounted here, for the volume's facts; empty: none are published")
	f.StringVar(&o.memberName, "member-name", "", "the EtcdMember's name; default: the one whose spec.podName is $POD_NAME")
	f.StringVar(&o.healthAddress, "health-addr", ":9980", "where to serve /healthz, /readyz and /metrics")
	f.DurationVar(&o.pollInterval, "poll-interval", 2*time.Second, "how often to look at the member, 500ms to 30s")
	f.DurationVar(&o.timeout, "timeout", etcd.DefaultTimeout, "how long one question to the member may take, 100ms to 30s")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "access to the API server from outside of a pod; default: the pod's own")
	return command
}

// config checks the flags and the environment.
func (o *options) config(env func(string) string) (Config, error) {
	var problems []error
	bounded := func(name string, value, least, most time.Duration) {
		if value < least || value > most {
			problems = append(problems, fmt.Errorf("--%s=%s: want %s to %s", name, value, least, most))
		}
	}
	bounded("poll-interval", o.pollInterval, 500*time.Millisecond, 30*time.Second)
	bounded("timeout", o.timeout, 100*time.Millisecond, 30*time.Second)
	required := func(name string) string {
		value := env(name)
		if value == "" {
			problems = append(problems, fmt.Errorf("environment variable %s is not set: set it by the downward API", name))
		}
		return value
	}
	c := Config{
		Etcd: etcd.Config{
			Endpoint:   o.endpoint,
			TLS:        etcd.TLSFiles{CA: o.caCert, Cert: o.cert, Key: o.key, ServerName: o.serverName},
			Timeout:    o.timeout,
			MetricsURL: o.metricsURL,
		},
		PollInterval:  o.pollInterval,
		DataDir:       o.dataDir,
		MemberName:    o.memberName,
		PodName:       required("POD_NAME"),
		PodNamespace:  required("POD_NAMESPACE"),
		PodUID:        env("POD_UID"),
		HealthAddress: o.healthAddress,
	}
	if len(problems) > 0 {
		return Config{}, errors.Join(problems...)
	}
	kubernetes, err := restConfig(o.kubeconfig)
	if err != nil {
		return Config{}, fmt.Errorf("access to the API server: %w", err)
	}
	kubernetes.UserAgent = "etcdmember-agent/" + version.Version
	// The publisher has its own limits, which are far lower.
	kubernetes.QPS, kubernetes.Burst = 10, 20
	c.Kubernetes = kubernetes
	return c, nil
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}
