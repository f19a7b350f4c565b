package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/pki"
)

// The identities that Kubernetes knows by name. What they may do, the API server's own bootstrap policy says.
var identities = []pki.Subject{
	{CommonName: "lab-manager", Organizations: []string{"system:masters"}, Client: true},
	{CommonName: "system:kube-controller-manager", Client: true},
	{CommonName: "system:kube-scheduler", Client: true},
	{CommonName: "system:kube-proxy", Client: true},
	{CommonName: "system:coredns", Client: true},
}

// writePKI makes all keys and certificates, and a kubeconfig for each identity. They are new at every start: an old
// kubeconfig can't be mistaken for a new one.
func (m *Manager) writePKI() error {
	ca, err := pki.NewAuthority("etcdmember-lab")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.c.Layout.PKI(), 0o700); err != nil {
		return fmt.Errorf("making room for certificates: %w", err)
	}
	if err := m.write("ca.crt", ca.Cert); err != nil {
		return err
	}
	private, public, err := pki.NewSigningKey()
	if err != nil {
		return err
	}
	if err := m.write("sa.key", private); err != nil {
		return err
	}
	if err := m.write("sa.pub", public); err != nil {
		return err
	}
	subjects := map[string]pki.Subject{
		"apiserver": {CommonName: "kube-apiserver", Server: true, Names: slices.Concat(
			pki.LocalNames(), []string{hostAddress, serviceAddress}, pki.ServiceNames("kubernetes", "default"))},
		"apiserver-kubelet": {CommonName: "kube-apiserver-kubelet-client", Organizations: []string{"system:masters"}, Client: true},
	}
	for i, node := range m.c.NodeNames() {
		subjects["kubelet-"+node] = pki.Subject{CommonName: "system:node:" + node, Organizations: []string{"system:nodes"},
			Names: []string{node, nodeAddress(i)}, Server: true, Client: true}
	}
	for _, s := range identities {
		subjects[s.CommonName] = s
	}
	for name, s := range subjects {
		pair, err := ca.Issue(s)
		if err != nil {
			return err
		}
		if err := m.write(name+".crt", pair.Cert); err != nil {
			return err
		}
		if err := m.write(name+".key", pair.Key); err != nil {
			return err
		}
		if err := writeKubeconfig(m.kubeconfig(name), "https://"+apiAddress, ca, pair); err != nil {
			return err
		}
	}
	admin, err := ca.Issue(pki.Subject{CommonName: "lab-admin", Organizations: []string{"system:masters"}, Client: true})
	if err != nil {
		return err
	}
	return writeKubeconfig(m.c.Layout.Kubeconfig(), fmt.Sprintf("https://127.0.0.1:%d", m.c.Port), ca, admin)
}

func (m *Manager) pki(name string) string { return filepath.Join(m.c.Layout.PKI(), name) }

func (m *Manager) kubeconfig(name string) string { return m.pki(name + ".kubeconfig") }

func (m *Manager) write(name string, text []byte) error {
	if err := os.WriteFile(m.pki(name), text, 0o600); err != nil {
		return fmt.Errorf("writing a certificate: %w", err)
	}
	return nil
}

// writeKubeconfig writes a kubeconfig with everything in it, so that it can be copied elsewhere.
func writeKubeconfig(path, server string, ca *pki.Authority, pair pki.Pair) error {
	const name = "etcdmember-lab"
	c := api.NewConfig()
	c.Clusters[name] = &api.Cluster{Server: server, CertificateAuthorityData: ca.Cert}
	c.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: pair.Cert, ClientKeyData: pair.Key}
	c.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}
