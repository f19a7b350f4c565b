// Package pki makes the certificates that the lab's Kubernetes and the etcd clusters in it need. It is a package of
// its own, without dependencies, so that tests and the demo can make certificates for any cluster, not only the lab's.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// Clocks of a laptop and of a virtual machine differ by more than one expects, so certificates begin in the past.
const (
	backdate = time.Hour
	lifetime = 365 * 24 * time.Hour
)

// Pair is a certificate and its key, both PEM-encoded.
type Pair struct {
	Cert, Key []byte
}

// TLS is the pair as crypto/tls wants it.
func (p Pair) TLS() (tls.Certificate, error) {
	c, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		return c, fmt.Errorf("reading a certificate and its key: %w", err)
	}
	return c, nil
}

// Authority signs certificates.
type Authority struct {
	Pair
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Subject is what a certificate is for.
type Subject struct {
	CommonName    string
	Organizations []string
	// Names are the DNS names and IP addresses that a server with this certificate is reached by.
	Names []string
	// Server and Client are the uses allowed. etcd's peers need both: they dial each other with the
	// certificate that they serve with.
	Server, Client bool
}

// NewAuthority makes a self-signed authority.
func NewAuthority(commonName string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the key of authority %s: %w", commonName, err)
	}
	template, err := newTemplate(pkix.Name{CommonName: commonName})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing authority %s: %w", commonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing authority %s: %w", commonName, err)
	}
	pair, err := encode(der, key)
	if err != nil {
		return nil, err
	}
	return &Authority{Pair: pair, cert: cert, key: key}, nil
}

// Issue signs a certificate with a new key.
func (a *Authority) Issue(s Subject) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generating the key of %s: %w", s.CommonName, err)
	}
	template, err := newTemplate(pkix.Name{CommonName: s.CommonName, Organization: s.Organizations})
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if s.Server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if s.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	for _, name := range s.Names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing a certificate for %s: %w", s.CommonName, err)
	}
	return encode(der, key)
}

// Pool holds the authority alone, as the roots of a TLS client or server.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// NewSigningKey makes the PEM-encoded key pair that signs and verifies service-account tokens.
func NewSigningKey() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating a signing key: %w", err)
	}
	privateDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a private key: %w", err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateDER}),
		pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER}), nil
}

func newTemplate(name pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      name,
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(lifetime),
	}, nil
}

func encode(der []byte, key *ecdsa.PrivateKey) (Pair, error) {
	// SEC 1 rather than PKCS 8: openssl's command line shows what kind of key it is.
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encoding a key: %w", err)
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

// LocalNames are the names by which a server is reached on its own machine. An etcd container's agent and a
// port-forward use these.
func LocalNames() []string {
	return []string{"localhost", "127.0.0.1", "::1"}
}

// ServiceNames are the names by which a Service is reached in a Kubernetes cluster.
func ServiceNames(service, namespace string) []string {
	base := service + "." + namespace + ".svc"
	return []string{service, service + "." + namespace, base, base + ".cluster.local"}
}

// PodNames are the names by which the pods of a StatefulSet are reached through its headless Service. They are listed
// one by one as well as by wildcard: etcd checks a peer's certificate against the address that it dials from, and
// resolves listed names forwards but wildcards only backwards, which needs pointer records.
func PodNames(pods []string, service, namespace string) []string {
	var names []string
	for _, base := range ServiceNames(service, namespace)[1:] {
		names = append(names, "*."+base)
		for _, pod := range pods {
			names = append(names, pod+"."+base)
		}
	}
	return slices.Compact(names)
}
