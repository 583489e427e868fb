package etcdstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/driver"
)

// FromURL opens the store that a URL names:
//
//	etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/PREFIX]
//	etcds://…                     the same with TLS
//
// A host without a port has port 2379. If any host has a port, the last host also needs a port.
// PREFIX, or the parameter prefix, is the beginning of all keys. The slash before PREFIX is not a
// part of it.
//
// The URL may have these parameters:
//
//	prefix=TEXT          Prefix; only for a URL without a path
//	lazy=yes             Lazy
//	ca=FILE              the authority that signed the certificate of the server
//	cert=FILE, key=FILE  the certificate of this client, and its key
//	tls=yes              TLS, as with the scheme etcds
//	server-name=HOST     the name in the certificate of the server
//	password-file=FILE   the password; read again if the server does not accept the old one
//
// For any other parameter FromURL returns driver.ErrInvalid. opts are applied after the parameters
// of the URL. ctx limits only the opening. No error contains a password.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	t, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	if err := t.secure(); err != nil {
		return nil, err
	}
	return Open(ctx, t.server, append(t.opts, opts...)...)
}

// schemes are the schemes of the store's URLs.
var schemes = []string{"etcd", "etcds"}

const (
	example     = "etcd://localhost:2379/shop/"
	defaultPort = "2379"
)

// A target is what parseURL has read from a URL.
type target struct {
	server Config
	opts   []Option
	tls    bool
	values map[string]string
}

var parameters = []string{"ca", "cert", "key", "lazy", "password-file", "prefix", "server-name", "tls"}

// parseURL reads a URL. It opens no connection and no file.
func parseURL(u *url.URL) (*target, error) {
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return nil, invalid("the parameters of the URL cannot be read")
	case !slices.Contains(schemes, u.Scheme):
		return nil, invalid("the URL begins with etcd: or etcds:, not with %s:", u.Scheme)
	case u.Opaque != "" || u.Fragment != "" || u.Host == "":
		return nil, invalid("the URL has the form %s; in a password, # is written %%23", example)
	}
	t := &target{tls: u.Scheme == "etcds", values: make(map[string]string)}
	for name, values := range query {
		if !slices.Contains(parameters, name) {
			return nil, invalid("there is no parameter %q; there are %s", name, strings.Join(parameters, ", "))
		}
		if len(values) != 1 || values[0] == "" {
			return nil, invalid("the parameter %s needs one value", name)
		}
		t.values[name] = values[0]
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		if host == "" || host[0] == ':' {
			return nil, invalid("the URL has an empty host")
		}
		t.server.Endpoints = append(t.server.Endpoints, endpoint(host))
	}
	return t, t.read(u)
}

// endpoint adds the default port to a host without a port.
func endpoint(host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), defaultPort)
}

func (t *target) read(u *url.URL) error {
	prefix := strings.TrimPrefix(u.Path, "/")
	switch text, both := t.values["prefix"]; {
	case both && prefix != "":
		return invalid("prefix: it is in the path and in a parameter; leave one of them out")
	case both:
		prefix = text
	}
	if prefix != "" {
		t.opts = append(t.opts, Prefix(prefix))
	}
	for _, name := range []string{"tls", "lazy"} {
		if v := t.values[name]; v != "" && v != "yes" && v != "no" {
			return invalid("%s: it is yes or no", name)
		}
	}
	if t.values["lazy"] == "yes" {
		t.opts = append(t.opts, Lazy())
	}
	t.server.User = u.User.Username()
	password, has := u.User.Password()
	t.server.Password = password
	file := t.values["password-file"]
	switch {
	case has && file != "":
		return invalid("the password is in the URL and in a file; leave one of them out")
	case t.server.User == "" && (password != "" || file != ""):
		return invalid("there is a password and no user; write etcd://USER:PASSWORD@HOST")
	case t.server.User != "" && password == "" && file == "":
		return invalid("the user has no password; write USER:PASSWORD@ or password-file=FILE")
	case file != "":
		user := t.server.User
		t.server.Credentials = func(context.Context) (string, string, error) {
			password, err := readPassword(file)
			return user, password, err
		}
	}
	return t.checkTLS()
}

func (t *target) checkTLS() error {
	switch {
	case t.tls && t.values["tls"] == "no":
		return invalid("tls: etcds: means TLS; write etcd: for a connection without")
	case t.values["tls"] == "yes":
		t.tls = true
	}
	for _, name := range []string{"ca", "cert", "key", "server-name"} {
		if t.values[name] != "" && !t.tls {
			return invalid("%s: it goes with TLS only; write etcds:", name)
		}
	}
	if (t.values["cert"] == "") != (t.values["key"] == "") {
		return invalid("cert and key: name both files")
	}
	return nil
}

// secure reads the certificate files and prepares the TLS settings.
func (t *target) secure() error {
	if !t.tls {
		return nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.values["server-name"]}
	if file := t.values["ca"]; file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return invalid("ca: %v", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return invalid("ca: %s contains no certificate", file)
		}
	}
	if cert, key := t.values["cert"], t.values["key"]; cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return invalid("cert and key: %v", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	t.server.TLS = c
	return nil
}

// readPassword reads the password from a file. No error contains the password.
func readPassword(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("password-file: %w", err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", fmt.Errorf("password-file: there is no password in %s", file)
	}
	return password, nil
}

// Scheme describes the URLs of etcd for package open. [FromURL] lists these URLs.
func Scheme() driver.Scheme {
	return driver.Scheme{
		Names:      schemes,
		Help:       "keys with leases in an etcd cluster",
		Example:    example,
		Guarantees: func() driver.Guarantees { return guarantees },
		Open:       openURL,
		Instead:    correctURL,
		Servers:    servers,
		At:         at,
	}
}

func openURL(ctx context.Context, u *url.URL, o driver.Opening) (driver.Store, error) {
	var opts []Option
	if o.Lazy && !u.Query().Has("lazy") || o.Lenient {
		opts = append(opts, Lazy())
	}
	s, err := FromURL(ctx, u, opts...)
	if err != nil {
		return nil, err // do not return s: a nil *Store makes a driver.Store that is not nil
	}
	return s, nil
}

// correctURL recognises the URLs with which other programs name etcd, and returns the form to use
// instead.
func correctURL(text string) string {
	for _, scheme := range []string{"etcd+http", "etcdv3", "etcd3", "etcd+https"} {
		if strings.HasPrefix(text, scheme+":") {
			return "etcd://HOST:2379, or etcds://HOST:2379 for TLS"
		}
	}
	return ""
}

func servers(u *url.URL) (addresses []string, encrypted bool) {
	t, err := parseURL(u)
	if err != nil {
		return nil, false
	}
	return t.server.Endpoints, t.tls
}

func at(u *url.URL, address string) *url.URL {
	addresses, encrypted := servers(u)
	if len(addresses) != 1 {
		return nil
	}
	there, query := *u, u.Query()
	if encrypted && !query.Has("server-name") {
		query.Set("server-name", u.Hostname()) // the certificate is the server's, not the proxy's
	}
	there.Host, there.RawQuery = address, query.Encode()
	return &there
}
