package web

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestServeOnTheNetwork: on an address that others reach, everything is encrypted and needs a
// token, except for the probes.
func TestServeOnTheNetwork(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const token = "reader-0123456789abcdef"
	cert, key := certificate(t, p)
	s := p.started(p.command("serve", "--listen", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key,
		"--token-file", p.file("tokens", "prometheus "+token+" read\n")))
	// The address that the command prints has the name in the certificate, which no server of names
	// knows.
	here := "127.0.0.1:" + strings.Trim(s.url[strings.LastIndex(s.url, ":")+1:], "/")
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, here)
	}
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	client := &http.Client{Transport: &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	for _, path := range []string{"", "api/locks", "metrics", "events", "name?n=x", "?q=x"} {
		if status, _ := s.get(client, path, ""); status != http.StatusUnauthorized {
			t.Errorf("%q without a token: %d", path, status)
		}
	}
	for _, path := range []string{"", "api/locks", "metrics"} {
		if status, _ := s.get(client, path, token); status != http.StatusOK {
			t.Errorf("%q with the token: %d", path, status)
		}
	}
	if status, _ := s.get(client, "healthz", ""); status != http.StatusOK {
		t.Errorf("/healthz: %d", status)
	}
	plain, err := net.Dial("tcp", here)
	if err != nil {
		t.Fatal(err)
	}
	plain.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"))
	reply := make([]byte, 64)
	if n, _ := plain.Read(reply); strings.Contains(string(reply[:n]), "200") {
		t.Errorf("without TLS: %s", reply[:n])
	}
	plain.Close()
	if log := s.end(); log != "" {
		t.Errorf("the log is %s", log)
	}
}

// TestSocketActivation: systemd opens the socket and passes it on.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	f, err := at.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	padlock := p.command("serve")
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" serve`, padlock.Path)
	cmd.Env, cmd.ExtraFiles = p.env, []*os.File{f}
	s := p.started(cmd)
	if want := "http://" + at.Addr().String() + "/"; s.url != want {
		t.Errorf("it listens on %s, want %s", s.url, want)
	}
	if status, _ := s.get(http.DefaultClient, "healthz", ""); status != http.StatusOK {
		t.Errorf("/healthz: %d", status)
	}
	s.end()
}

// certificate makes a certificate for 127.0.0.1.
func certificate(t *testing.T, p *place) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"locks.example.org"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return p.file("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}))),
		p.file("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})))
}
