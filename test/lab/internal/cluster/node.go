package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/host"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/images"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/proc"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/sandbox"
)

// node is a containerd and a kubelet, with directories, an address and cgroups of their own.
type node struct {
	name    string
	address string
	zone    string
	dir     string
}

func (m *Manager) nodes() []node {
	var nodes []node
	for i, name := range m.c.NodeNames() {
		nodes = append(nodes, node{name: name, address: nodeAddress(i), zone: string(rune('a' + i%26)), dir: m.c.Layout.Node(name)})
	}
	return nodes
}

// socket lies on the sandbox's /run, which is short enough for a socket wherever the lab's directory is.
func (n node) socket() string { return "/run/" + n.name + "/containerd.sock" }

const containerdConfig = `version = 2
root = "%[1]s/containerd"
state = "/run/%[2]s"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "%[3]s"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[4]s"
  disable_apparmor = true
  # Without CAP_SYS_RESOURCE, as in many a CI, lowering a score is forbidden and would fail every pod.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%[5]s"
    conf_dir = "%[1]s/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "%[6]s"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
`

// One bridge and one pool of addresses serve the pods of all nodes.
const cniConfig = `{"cniVersion": "0.4.0", "name": "lab", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/cni-addresses"}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
`

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://%[1]s
address: %[2]s
cgroupRoot: %[3]s
cgroupDriver: cgroupfs
# Machines with cgroup v1 are still about.
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: [none]
# The nodes share one disk and one memory, and can't be told to make room on their own.
evictionHard: {memory.available: 100Mi, nodefs.available: 1%%, imagefs.available: 1%%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[4]s/ca.crt}
authorization: {mode: Webhook}
tlsCertFile: %[4]s/kubelet-%[5]s.crt
tlsPrivateKeyFile: %[4]s/kubelet-%[5]s.key
clusterDomain: cluster.local
clusterDNS: [%[6]s]
resolvConf: %[7]s/resolv.conf
enableControllerAttachDetach: false
podLogsDir: %[7]s/pod-logs
volumePluginDir: %[7]s/volume-plugins
healthzPort: 0
# A claim or a Secret that changes should show in a pod within a test's patience.
syncFrequency: 10s
configMapAndSecretChangeDetectionStrategy: Watch
shutdownGracePeriod: 0s
`

// startContainerd starts a node's containerd and imports the images that every pod or every test needs.
func (m *Manager) startContainerd(ctx context.Context, n node) error {
	for _, d := range []string{"containerd", "cni", "pod-logs", "volume-plugins", "kubelet"} {
		if err := os.MkdirAll(filepath.Join(n.dir, d), 0o755); err != nil {
			return fmt.Errorf("making room for %s: %w", n.name, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(n.socket()), 0o711); err != nil {
		return fmt.Errorf("making room for %s: %w", n.name, err)
	}
	for path, text := range map[string]string{
		"containerd.toml":      fmt.Sprintf(containerdConfig, n.dir, n.name, n.socket(), images.Pause, host.CNIPlugins, snapshotter(n.dir)),
		"cni/10-lab.conflist":  fmt.Sprintf(cniConfig, podRange),
		"resolv.conf":          "nameserver " + dnsAddress + "\n",
		"kubelet.yaml":         fmt.Sprintf(kubeletConfig, n.socket(), n.address, sandbox.NodeCgroup(m.c.Layout.ID(), n.name), m.c.Layout.PKI(), n.name, dnsAddress, n.dir),
		"volume-plugins/.keep": "",
	} {
		if err := os.WriteFile(filepath.Join(n.dir, path), []byte(text), 0o644); err != nil {
			return fmt.Errorf("configuring %s: %w", n.name, err)
		}
	}
	err := m.daemons.Start(proc.Daemon{Name: "containerd-" + n.name, Argv: []string{"containerd", "-c", filepath.Join(n.dir, "containerd.toml")}})
	if err != nil {
		return err
	}
	err = until(ctx, "containerd of "+n.name+" answers", func(ctx context.Context) error {
		return run(ctx, "ctr", "--address", n.socket(), "version")
	})
	if err != nil {
		return err
	}
	for _, i := range m.c.Images {
		if err := n.load(ctx, i.Path); err != nil {
			return err
		}
	}
	return nil
}

func (n node) load(ctx context.Context, path string) error {
	if err := run(ctx, "ctr", "--address", n.socket(), "--namespace", "k8s.io", "images", "import", path); err != nil {
		return fmt.Errorf("importing an image on %s: %w", n.name, err)
	}
	return nil
}

func (m *Manager) startKubelet(n node) error {
	d := m.kubernetes("kubelet",
		"--config="+filepath.Join(n.dir, "kubelet.yaml"), "--kubeconfig="+m.kubeconfig("kubelet-"+n.name),
		"--hostname-override="+n.name, "--node-ip="+n.address,
		"--root-dir="+filepath.Join(n.dir, "kubelet"), "--cert-dir="+filepath.Join(n.dir, "kubelet-pki"),
		"--node-labels=topology.kubernetes.io/zone="+n.zone,
	)
	d.Name = "kubelet-" + n.name
	return m.daemons.Start(d)
}

// snapshotter is overlayfs, unless the lab's directory is on an overlay itself, as in a container: overlays don't
// stack, and copying is then the way.
func snapshotter(dir string) string {
	const overlayMagic = 0x794c7630
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err == nil && fs.Type == overlayMagic {
		return "native"
	}
	return "overlayfs"
}
