package pki_test

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/pki"
)

// A server and a client with certificates of one authority trust each other under each name, and under no other.
func TestIssuedCertificatesHandshake(t *testing.T) {
	ca, err := pki.NewAuthority("test-ca")
	if err != nil {
		t.Fatal(err)
	}
	names := slices.Concat(pki.LocalNames(), pki.ServiceNames("main-client", "ns"), pki.PodNames([]string{"main-0"}, "main-peer", "ns"))
	server := issue(t, ca, pki.Subject{CommonName: "main", Names: names, Server: true})
	client := issue(t, ca, pki.Subject{CommonName: "root", Client: true})

	for name, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "::1": true,
		"main-client.ns.svc": true, "main-client.ns.svc.cluster.local": true,
		"main-0.main-peer.ns.svc": true, "main-7.main-peer.ns.svc.cluster.local": true,
		"main-0.main-peer.other.svc": false, "10.0.0.1": false,
	} {
		t.Run(name, func(t *testing.T) {
			err := handshake(t,
				&tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert},
				&tls.Config{Certificates: []tls.Certificate{client}, RootCAs: ca.Pool(), ServerName: name})
			if got := err == nil; got != want {
				t.Errorf("handshake as %s: %v, want success %v", name, err, want)
			}
		})
	}
}

// A client certificate can't serve: the uses are as narrow as asked for.
func TestUsesAreNarrow(t *testing.T) {
	ca, err := pki.NewAuthority("test-ca")
	if err != nil {
		t.Fatal(err)
	}
	notAServer := issue(t, ca, pki.Subject{CommonName: "x", Names: []string{"localhost"}, Client: true})
	err = handshake(t, &tls.Config{Certificates: []tls.Certificate{notAServer}}, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"})
	if err == nil {
		t.Error("a client certificate was accepted as a server's")
	}
}

// handshake is the client's result. It goes over TCP, not net.Pipe, on which two sides that both write wait for ever.
func handshake(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = tls.Server(conn, server).HandshakeContext(t.Context())
	}()
	conn, err := net.DialTimeout("tcp", listener.Addr().String(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return tls.Client(conn, client).HandshakeContext(ctx)
}

func issue(t *testing.T, ca *pki.Authority, s pki.Subject) tls.Certificate {
	t.Helper()
	pair, err := ca.Issue(s)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
