package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc/credentials"
)

// TLSSource gives the TLS configuration for one connection. It is asked anew for each, so that rotated certificates and
// CAs are used without a restart.
type TLSSource interface {
	TLSConfig() (*tls.Config, error)
}

// TLSFiles is a TLSSource of PEM files, as a Secret's volume has them. They are read again for every connection.
type TLSFiles struct {
	// CA verifies the member's certificate. Empty: the system's CAs.
	CA string
	// Cert and Key are the client's certificate. Both or neither.
	Cert, Key string
	// ServerName is the name that the member's certificate must have. Empty: the endpoint's host.
	ServerName string
	// AnyName accepts whatever name the member's certificate has, as long as the CA vouches for it: where something else,
	// such as the API server's port-forward, has already led to the right member, by a name that no certificate has. The
	// CA must be given then: some certificate of a public CA everybody has.
	AnyName bool
}

var _ TLSSource = TLSFiles{}

// TLSConfig reads the files. An error names the file that is missing or holds no certificate.
func (f TLSFiles) TLSConfig() (*tls.Config, error) {
	pem := TLSPEM{ServerName: f.ServerName, AnyName: f.AnyName}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("client certificate for etcd: the certificate and its key must be given both or neither")
	}
	for path, target := range map[string]*[]byte{f.CA: &pem.CA, f.Cert: &pem.Cert, f.Key: &pem.Key} {
		if path == "" {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading TLS files for etcd: %w", err)
		}
		*target = content
	}
	config, err := pem.TLSConfig()
	if err != nil {
		return nil, fmt.Errorf("TLS files for etcd (CA %q, certificate %q, key %q): %w", f.CA, f.Cert, f.Key, err)
	}
	return config, nil
}

// TLSPEM is a TLSSource of PEM in memory, as a Secret has it: keys that are read through an API never touch a disk.
type TLSPEM struct {
	// CA verifies the member's certificate. Empty: the system's CAs.
	CA []byte
	// Cert and Key are the client's certificate. Both or neither.
	Cert, Key []byte
	// ServerName is the name that the member's certificate must have. Empty: the endpoint's host.
	ServerName string
	// AnyName accepts whatever name the member's certificate has, as long as the CA vouches for it: where something else,
	// such as the API server's port-forward, has already led to the right member, by a name that no certificate has. The
	// CA must be given then: some certificate of a public CA everybody has.
	AnyName bool
}

var _ TLSSource = TLSPEM{}

// TLSConfig parses the PEM.
func (p TLSPEM) TLSConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: p.ServerName}
	if len(p.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(p.CA) {
			return nil, errors.New("the CA holds no certificate in PEM")
		}
	}
	if len(p.Cert) > 0 || len(p.Key) > 0 {
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		if err != nil {
			return nil, fmt.Errorf("the client certificate and its key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if p.AnyName {
		if config.RootCAs == nil {
			return nil, errors.New("any name of a certificate is accepted only with a CA of one's own, and none is given")
		}
		// It skips the verification of crypto/tls, which can't do without a name, and not ours, which is the same but for that.
		config.InsecureSkipVerify = true
		config.VerifyConnection = verifyChain(config.RootCAs)
	}
	return config, nil
}

// verifyChain verifies all of a server's certificate but its names.
func verifyChain(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return errors.New("the server has shown no certificate")
		}
		intermediates := x509.NewCertPool()
		for _, c := range state.PeerCertificates[1:] {
			intermediates.AddCert(c)
		}
		_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
			Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		})
		if err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
		}
		return nil
	}
}

// rotatingCredentials asks a TLSSource for every handshake. gRPC's own credentials hold one configuration for ever, of
// which only the client certificate can be renewed, not the CA.
type rotatingCredentials struct {
	source TLSSource
	// name is set by gRPC's deprecated OverrideServerName, which nobody here calls.
	name string
}

var _ credentials.TransportCredentials = (*rotatingCredentials)(nil)

func (c *rotatingCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := c.source.TLSConfig()
	if err != nil {
		return nil, nil, err
	}
	// gRPC verifies the name in the authority, whatever the configuration says.
	if c.name != "" {
		authority = c.name
	} else if config.ServerName != "" {
		authority = config.ServerName
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, conn)
}

func (c *rotatingCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a client's")
}

func (c *rotatingCredentials) Info() credentials.ProtocolInfo {
	return credentials.NewTLS(&tls.Config{ServerName: c.name}).Info()
}

func (c *rotatingCredentials) Clone() credentials.TransportCredentials {
	clone := *c
	return &clone
}

func (c *rotatingCredentials) OverrideServerName(name string) error {
	c.name = name
	return nil
}
