package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
	"github.com/etcdmember/kubectl-etcdmember/test/lab"
)

// settled is within which a cluster that has just started, or has just lost a member, is what it will be.
const settled = time.Minute

// BenchmarkStatusLive asks three members through the API server, against what people do without the plugin, which is etcdctl in
// a member's pod: budget 0.6 of its time. The memory of etcdctl itself, which is the pod's, is not in the rival's.
func BenchmarkStatusLive(b *testing.B) {
	c := startLive(b, b.TempDir())
	compare(b, c.measure, c.plugin(""), c.rival(""), func() {})
}

// BenchmarkStatusLiveFrozen is the same with a member whose process is stopped: budget 1.1 of the time that one member has.
func BenchmarkStatusLiveFrozen(b *testing.B) {
	c := startLive(b, b.TempDir())
	c.compareWithout(b, func(pod string) { c.lab.Freeze(b, c.Namespace, pod, lab.EtcdContainer) })
}

// BenchmarkStatusLiveBlackHole is the same with a member all of whose packets are dropped, with the same budget.
func BenchmarkStatusLiveBlackHole(b *testing.B) {
	c := startLive(b, b.TempDir())
	c.compareWithout(b, func(pod string) { c.lab.BlackHole(b, c.Namespace, pod) })
}

// BenchmarkStatusInCluster asks three members by their names from inside of the cluster's network, against etcdctl there:
// budget 1.5 of its time, since the plugin asks Kubernetes as well.
func BenchmarkStatusInCluster(b *testing.B) {
	l := lab.Get(b)
	if l.IsOwn() {
		b.Fatalf("this needs the lab, whose network it enters, and KUBECONFIG names a cluster of your own: unset KUBECONFIG, or set %s=1", lab.EnvLab)
	}
	// In there the machine's files are the same, but not /tmp.
	dir, err := os.MkdirTemp(filepath.Dir(l.Kubeconfig()), "bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) }) // if it stays, it is in the way of nothing
	c := startLive(b, dir)
	c.measure = inside(b, c, dir)

	args := []string{c.pluginPath, "status", "sts/" + c.Name, "--in-cluster", "-n", c.Namespace}
	rival := []string{filepath.Join(filepath.Dir(l.KubectlPath()), "etcdctl"), "--endpoints=" + c.Endpoint(c.Pod(0))}
	plugin := contender{name: "plugin", command: append(args, c.certificates...), check: c.wantPlugin("")}
	etcdctl := contender{name: "etcdctl", command: append(append(rival, c.certificates...), endpointStatus...), check: c.wantRival("")}
	c.becomes(b, plugin)
	compare(b, c.measure, plugin, etcdctl, func() {})
}

// endpointStatus is the rival of 'status --live'.
var endpointStatus = []string{"endpoint", "status", "--cluster", "-w", "table"}

// live is an etcd cluster with TLS, all of whose members are healthy, and what asks it.
type live struct {
	*lab.Etcd
	lab                     *lab.Lab
	pluginPath, kubectlPath string
	certificates            []string
	measure                 measurer
}

func startLive(b *testing.B, dir string) *live {
	b.Helper()
	l := lab.Get(b)
	c := &live{lab: l, measure: here(b, dir)}
	c.pluginPath, c.kubectlPath = buildBoth(b, dir)
	c.Etcd = l.StartEtcd(b, l.Namespace(b), lab.EtcdOptions{TLS: true})
	secret, err := l.Client().CoreV1().Secrets(c.Namespace).Get(b.Context(), c.Name+"-client-tls", metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range [][2]string{{"cacert", "ca.crt"}, {"cert", "tls.crt"}, {"key", "tls.key"}} {
		file := filepath.Join(dir, f[1])
		if err := os.WriteFile(file, secret.Data[f[1]], 0o600); err != nil {
			b.Fatal(err)
		}
		c.certificates = append(c.certificates, "--"+f[0]+"="+file)
	}
	c.becomes(b, c.plugin(""))
	return c
}

// plugin is the command that is measured, while the pod named does not answer.
func (c *live) plugin(silent string) contender {
	command := []string{c.pluginPath, "status", "sts/" + c.Name, "--live", "--kubeconfig=" + c.lab.Kubeconfig(), "-n", c.Namespace}
	return contender{name: "plugin", command: append(command, c.certificates...), check: c.wantPlugin(silent)}
}

// rival is etcdctl in a pod that answers, whose own certificates it uses.
func (c *live) rival(silent string) contender {
	pod := c.Pod(0)
	if pod == silent {
		pod = c.Pod(1)
	}
	const certificates = "/etc/etcd/tls/client/"
	command := []string{
		c.kubectlPath, "--kubeconfig=" + c.lab.Kubeconfig(), "exec", "-n", c.Namespace, pod, "-c", lab.EtcdContainer, "--",
		"etcdctl", "--endpoints=https://127.0.0.1:2379", "--cacert=" + certificates + "ca.crt", "--cert=" + certificates + "tls.crt", "--key=" + certificates + "tls.key",
	}
	return contender{name: "kubectl-exec", command: append(command, endpointStatus...), check: c.wantRival(silent)}
}

// wantPlugin wants every member's row, and all of them Healthy but the one that is silent.
func (c *live) wantPlugin(silent string) func(turn) error {
	return func(t turn) error {
		if t.ExitCode != 0 {
			return fmt.Errorf("exit code %d", t.ExitCode)
		}
		for _, pod := range c.Pods() {
			want := "Healthy"
			if pod == silent {
				want = "Unhealthy"
			}
			if !regexp.MustCompile(`(?m)^\s*` + pod + `\s.*\s` + want + `\s`).MatchString(t.Standard) {
				return fmt.Errorf("%s is not %s", pod, want)
			}
		}
		return nil
	}
}

// wantRival wants the row of every member but the silent one. What is silent makes etcdctl fail, after it has printed the others.
func (c *live) wantRival(silent string) func(turn) error {
	return func(t turn) error {
		if t.ExitCode != 0 && (silent == "" || t.ExitCode != 1) {
			return fmt.Errorf("exit code %d", t.ExitCode)
		}
		for _, pod := range c.Pods() {
			if listed := strings.Contains(t.Standard, " "+c.Endpoint(pod)+" "); listed == (pod == silent) {
				return fmt.Errorf("%s is in the table: %t", pod, listed)
			}
		}
		return nil
	}
}

// becomes runs a command until it does what it should.
func (c *live) becomes(b *testing.B, wanted contender) {
	b.Helper()
	for begun := time.Now(); ; time.Sleep(time.Second) {
		t := c.measure(b, wanted.command)[0]
		err := wanted.judge(t)
		if err == nil {
			return
		}
		if time.Since(begun) > settled {
			b.Fatalf("%v: %s", err, t)
		}
	}
}

// compareWithout compares while a follower is silenced, so that no election is in the way, and reports how much of the time that
// one member has the plugin took.
func (c *live) compareWithout(b *testing.B, silence func(pod string)) {
	b.Helper()
	silent, leader := c.Pod(2), c.Leader(b)
	if silent == leader {
		silent = c.Pod(1)
	}
	silence(silent)
	c.becomes(b, c.plugin(silent))
	times := compare(b, c.measure, c.plugin(silent), c.rival(silent), func() {})
	b.ReportMetric(times[0]/etcd.DefaultTimeout.Seconds(), "timeout-ratio")
}

// inside measures in the lab's network with the names that a pod in the cluster's namespace knows. Entering it is not measured.
func inside(b *testing.B, c *live, dir string) measurer {
	b.Helper()
	dns, err := c.lab.Client().CoreV1().Services(metav1.NamespaceSystem).Get(b.Context(), "kube-dns", metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	resolv := filepath.Join(dir, "resolv.conf")
	const domain = "svc.cluster.local"
	// As the kubelet writes it.
	text := fmt.Sprintf("search %s.%s %s cluster.local\nnameserver %s\noptions ndots:5\n", c.Namespace, domain, domain, dns.Spec.ClusterIP)
	if err := os.WriteFile(resolv, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	// The lab's own copy of its command is the one that fits it. The names are for this command alone.
	enter := []string{filepath.Join(filepath.Dir(c.lab.KubectlPath()), "lab"), "exec", "--"}
	named := []string{"unshare", "--mount", "sh", "-c", `mount --bind "$1" /etc/resolv.conf && shift && exec "$@"`, "sh", resolv}
	return measureBy(append(append(enter, named...), filepath.Join(dir, "measure"))...)
}
