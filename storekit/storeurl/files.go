package storeurl

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
)

// ReadPassword reads a password from a file, without one newline at its end. An empty password is
// an error. param is the parameter that names the file. No error contains the password.
func ReadPassword(param, file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", param, err)
	}
	password, _ := strings.CutSuffix(string(text), "\n")
	password, _ = strings.CutSuffix(password, "\r")
	if password == "" {
		return "", fmt.Errorf("%s: there is no password in %s", param, file)
	}
	return password, nil
}

// CheckTLS checks the parameters ca, cert, key and server-name. on says whether the URL asks for
// TLS, and write is what the user writes to ask for it.
func (r *Reading[O]) CheckTLS(on bool, write string) error {
	for _, name := range []string{"ca", "cert", "key", "server-name"} {
		if r.Values[name] != "" && !on {
			return Invalid("%s: you need %s for TLS", name, write)
		}
	}
	if (r.Values["cert"] == "") != (r.Values["key"] == "") {
		return Invalid("cert and key: name both files")
	}
	return nil
}

// TLS reads the files that the parameters of CheckTLS name. A file that cannot be used is
// driver.ErrInvalid.
func (r *Reading[O]) TLS() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: r.Values["server-name"]}
	if file := r.Values["ca"]; file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, Invalid("ca: %v", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, Invalid("ca: there is no certificate in %s", file)
		}
	}
	if cert := r.Values["cert"]; cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, r.Values["key"])
		if err != nil {
			return nil, Invalid("cert and key: %v", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
