package memcachestore

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
)

const (
	scheme  = "memcached"
	example = "memcached://localhost:11211"
	port    = "11211"
)

// FromURL opens the store that a URL names:
//
//	memcached://[USER:PASSWORD@]HOST[:PORT]
//	memcached:///PATH                        a unix socket
//
// The query may have the parameters
//
//	layout=symfony       SymfonyLayout; the default is layout=hash
//	prefix=TEXT          Prefix
//	lazy=yes             Lazy
//	password-file=FILE   the password, read again for each connection
//	tls=yes              use TLS
//	ca=FILE, server-name=HOST    settings of TLS
//
// Any other parameter, or a second host, is driver.ErrInvalid. opts are applied after the
// parameters of the URL. ctx bounds the opening only. No error contains a password.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	c, own, err := readURL(u)
	if err != nil {
		return nil, err
	}
	return Open(ctx, c, append(own, opts...)...)
}

// settings are the parameters of a URL.
type settings struct {
	opts       []Option
	tls        bool
	ca         string
	serverName string
	password   string // the path of the password file
}

var parameters = map[string]func(s *settings, value string) error{
	"layout": func(s *settings, v string) error {
		if v != "symfony" && v != "hash" {
			return invalid("layout: it is hash or symfony")
		}
		if v == "symfony" {
			s.opts = append(s.opts, SymfonyLayout())
		}
		return nil
	},
	"prefix": func(s *settings, v string) error { s.opts = append(s.opts, Prefix(v)); return nil },
	"lazy": func(s *settings, v string) error {
		lazy, err := yes("lazy", v)
		if lazy {
			s.opts = append(s.opts, Lazy())
		}
		return err
	},
	"tls":           func(s *settings, v string) (err error) { s.tls, err = yes("tls", v); return err },
	"ca":            func(s *settings, v string) error { s.ca = v; return nil },
	"server-name":   func(s *settings, v string) error { s.serverName = v; return nil },
	"password-file": func(s *settings, v string) error { s.password = v; return nil },
}

func yes(name, value string) (bool, error) {
	if value != "yes" && value != "no" {
		return false, invalid("%s: it is yes or no", name)
	}
	return value == "yes", nil
}

func known() []string {
	var names []string
	for name := range parameters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func readURL(u *url.URL) (Config, []Option, error) {
	var c Config
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return c, nil, invalid("the parameters of the URL cannot be read")
	case u.Scheme != scheme:
		return c, nil, invalid("the URL begins with %s:, not with %s:", scheme, u.Scheme)
	case u.Opaque != "" || u.Fragment != "" || u.Host != "" && strings.Trim(u.Path, "/") != "":
		return c, nil, invalid("the URL has the form %s; in a password, # is written %%23", example)
	case u.Hostname() == "" && u.Path == "":
		return c, nil, invalid("the URL names no host: write %s", example)
	case strings.Contains(u.Host, ","):
		return c, nil, invalid(oneServer)
	}
	var s settings
	for name, values := range query {
		read := parameters[name]
		switch {
		case read == nil:
			return c, nil, invalid("there is no parameter %q; there are %s", name, strings.Join(known(), ", "))
		case len(values) != 1:
			return c, nil, invalid("the parameter %s is given more than once", name)
		}
		if err := read(&s, values[0]); err != nil {
			return c, nil, err
		}
	}
	if u.Host == "" {
		c.Socket = u.Path
	} else {
		c.Addr = address(u.Host)
	}
	if err := s.logIn(&c, u); err != nil {
		return c, nil, err
	}
	return c, s.opts, s.encrypt(&c)
}

// address adds the usual port to a host that has none.
func address(host string) string {
	if _, p, err := net.SplitHostPort(host); err == nil && p != "" {
		return host
	}
	return net.JoinHostPort(strings.Trim(strings.TrimSuffix(host, ":"), "[]"), port)
}

func (s *settings) logIn(c *Config, u *url.URL) error {
	c.User = u.User.Username()
	password, both := u.User.Password()
	c.Password = password
	if s.password == "" {
		return nil
	}
	if both {
		return invalid("the password is in the URL and in a file; leave one of them out")
	}
	c.Credentials = func(context.Context) (string, string, error) {
		text, err := os.ReadFile(s.password)
		if err != nil {
			return "", "", fmt.Errorf("password-file: %w", err)
		}
		return u.User.Username(), strings.TrimRight(string(text), "\r\n"), nil
	}
	return nil
}

func (s *settings) encrypt(c *Config) error {
	switch {
	case !s.tls && (s.ca != "" || s.serverName != ""):
		return invalid("ca and server-name need tls=yes")
	case !s.tls:
		return nil
	}
	c.TLS = &tls.Config{ServerName: s.serverName}
	if s.ca == "" {
		return nil
	}
	text, err := os.ReadFile(s.ca)
	if err != nil {
		return invalid("ca: %v", err)
	}
	c.TLS.RootCAs = x509.NewCertPool()
	if !c.TLS.RootCAs.AppendCertsFromPEM(text) {
		return invalid("ca: the file has no certificate in PEM form")
	}
	return nil
}
