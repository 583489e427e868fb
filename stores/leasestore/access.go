package leasestore

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/padlock-go/padlock/storekit"
)

// An access says how to reach an API server.
type access struct {
	base       *url.URL
	namespace  string // unless the Config has one
	ca         []byte // the certificates to trust; nil for those of the system
	serverName string // in the certificate of the server; "" for the host
	cert       []tls.Certificate
	certFile   string // with keyFile: the files of cert, or ""
	keyFile    string
	token      func() (string, error) // nil if there is none; a func, so that nothing prints a token
}

// sign adds the token to a request.
func (a *access) sign(q *http.Request, _ []byte) error {
	if a.token == nil {
		return nil
	}
	token, err := a.token()
	if err != nil {
		return fmt.Errorf("the token: %w", err)
	}
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// fromFile reads a token for each request, since tokens change.
func fromFile(name string) func() (string, error) {
	return func() (string, error) {
		text, err := os.ReadFile(name)
		return strings.TrimSpace(string(text)), err
	}
}

// transport returns a transport with the certificates, or nil if the usual one will do.
func (a *access) transport() (http.RoundTripper, error) {
	if a.ca == nil && a.cert == nil && a.serverName == "" {
		return nil, nil
	}
	c := &tls.Config{Certificates: a.cert, ServerName: a.serverName}
	if a.ca != nil {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(a.ca) {
			return nil, storekit.Invalidf("the certificates to trust (ca-file, or the kubeconfig's certificate-authority): there is none")
		}
	}
	if a.certFile != "" {
		// The files are read for each connection, since certificates end and are renewed. After an
		// answer 401, package overhttp makes a new connection.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(a.certFile, a.keyFile)
			if err != nil {
				pair = a.cert[0] // half of the pair may be new
			}
			return &pair, nil
		}
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.TLSClientConfig = 64, c
	// All requests share one connection. If it is dead, a call must notice before its time is
	// up.
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: time.Second, PingTimeout: time.Second}
	return t, nil
}
