package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Reader reads a URL. It keeps the first error. After an error, its other fields do not matter.
type Reader struct {
	u      *url.URL
	config Config
	own    map[string]Parameter
	err    error

	tls        bool
	secret     string // file of the password
	sentinel   string // file of the password for the sentinels
	ca         string
	cert, key  string
	serverName string
	noVerify   bool
	db         string // from the path or from db=N
}

// Parameter reads a parameter of the URL.
type Parameter func(r *Reader, name, value string)

// ReadURL reads the URL of a Redis, as redisstore.FromURL describes it. The map has the additional
// parameters of the caller, with the functions that read them. No error contains a password. A
// wrong URL is driver.ErrInvalid.
func ReadURL(u *url.URL, own map[string]Parameter) (*Server, error) {
	r := Reader{u: u, own: own}
	r.read()
	if r.err != nil {
		return nil, r.err
	}
	return New(r.config)
}

// Fail makes ReadURL return an error, which is driver.ErrInvalid.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = invalid(format, args...)
	}
}

func (r *Reader) read() {
	if r.u.Opaque != "" || r.u.Fragment != "" {
		r.Fail("the URL has the form redis://HOST:PORT/DB; in a password, # is written %%23")
		return
	}
	r.user()
	r.place()
	query, err := url.ParseQuery(r.u.RawQuery)
	if err != nil {
		r.Fail("the parameters of the URL cannot be read")
		return
	}
	for name, values := range query {
		r.parameter(name, values)
	}
	if c := &r.config; len(c.Addrs) > 1 && !c.Cluster && c.Sentinel.MasterName == "" {
		r.Fail("%s: names one host; there are redis+cluster: and redis+sentinel:", r.u.Scheme)
	}
	if r.db != "" {
		r.config.DB = r.Number("db", r.db)
	}
	r.finishTLS()
	r.finishLogin()
}

func (r *Reader) user() {
	if r.u.User == nil {
		return
	}
	r.config.Password, _ = r.u.User.Password()
	r.config.User = r.u.User.Username()
}

// place reads the host and the path of the URL. Their meaning depends on the scheme.
func (r *Reader) place() {
	path, scheme := strings.TrimPrefix(r.u.Path, "/"), r.u.Scheme
	if rest, ok := strings.CutPrefix(scheme, "rediss+"); ok && rest != "unix" {
		r.tls, scheme = true, "redis+"+rest
	}
	switch scheme {
	case "redis+unix":
		r.socket()
	case "redis", "rediss":
		r.tls = r.u.Scheme == "rediss"
		if r.u.Host == "" {
			r.socket()
			return
		}
		r.hosts("6379")
		r.db = path
	case "redis+sentinel":
		r.hosts("26379")
		r.config.Sentinel.MasterName, r.db, _ = strings.Cut(path, "/")
		if r.config.Sentinel.MasterName == "" {
			r.Fail("the URL does not say what Sentinel calls the primary: redis+sentinel://HOST,HOST/SET")
		}
	case "redis+cluster":
		r.config.Cluster = true
		r.hosts("6379")
		if path != "" {
			r.Fail("a cluster has one database only, so the URL has no path")
		}
	default:
		r.Fail("the URL must begin with redis:, redis+unix:, redis+sentinel: or redis+cluster:, or with rediss instead of redis for TLS")
	}
}

func (r *Reader) socket() {
	if r.u.Host != "" || len(r.u.Path) < 2 || r.u.Scheme == "rediss" {
		r.Fail("the URL of a unix socket has a path and no host: redis+unix:///run/redis/redis.sock")
		return
	}
	if _, err := strconv.Atoi(r.u.Path[1:]); err == nil {
		r.Fail("the URL has no host; write redis://localhost%s", r.u.Path)
	}
	r.config.Socket = r.u.Path
}

func (r *Reader) hosts(port string) {
	if r.u.Host == "" {
		r.Fail("the URL has no host")
		return
	}
	for host := range strings.SplitSeq(r.u.Host, ",") {
		r.host(host, port)
	}
}

func (r *Reader) host(text, port string) {
	host := strings.Trim(text, "[]")
	if h, given, err := net.SplitHostPort(text); err == nil {
		host, port = h, given
	}
	if host == "" || port == "" {
		r.Fail("an address in the URL has no host or no port")
	}
	r.config.Addrs = append(r.config.Addrs, net.JoinHostPort(host, port))
}

func (r *Reader) parameter(name string, values []string) {
	if name == "node" {
		for _, v := range values {
			if _, _, err := net.SplitHostPort(v); err != nil {
				r.Fail("node: write HOST:PORT")
			}
			r.config.Addrs = append(r.config.Addrs, v)
		}
		return
	}
	read := parameters[name]
	if read == nil {
		read = r.own[name]
	}
	switch {
	case read == nil:
		r.Fail("there is no parameter %q; there are %s", name, strings.Join(r.known(), ", "))
	case len(values) != 1:
		r.Fail("the parameter %s is given more than once", name)
	default:
		read(r, name, values[0])
	}
}

func (r *Reader) known() []string {
	known := append(slices.Collect(maps.Keys(parameters)), "node")
	return slices.Sorted(slices.Values(slices.AppendSeq(known, maps.Keys(r.own))))
}

// parameters has the parameters of the connection, except the parameter "node".
var parameters = map[string]Parameter{
	"db":                     (*Reader).database,
	"client-name":            func(r *Reader, _, v string) { r.config.ClientName = v },
	"tls":                    func(r *Reader, name, v string) { r.tls = r.Yes(name, v) || r.tls },
	"ca":                     func(r *Reader, _, v string) { r.ca = v },
	"cert":                   func(r *Reader, _, v string) { r.cert = v },
	"key":                    func(r *Reader, _, v string) { r.key = v },
	"server-name":            func(r *Reader, _, v string) { r.serverName = v },
	"tls-verify":             func(r *Reader, name, v string) { r.noVerify = !r.Yes(name, v) },
	"password-file":          func(r *Reader, name, v string) { r.secret = r.file(name, v) },
	"sentinel-password-file": func(r *Reader, name, v string) { r.sentinel = r.file(name, v) },
	"sentinel-user":          func(r *Reader, _, v string) { r.config.Sentinel.User = v },
	"sentinel-password":      func(r *Reader, _, v string) { r.config.Sentinel.Password = v },
}

func (r *Reader) database(name, value string) {
	if r.db != "" {
		r.Fail("db: the database is in the path of the URL and in the parameter; leave one of them out")
	}
	r.Number(name, value)
	r.db = value
}

// OneOf returns value. It calls Fail if allowed does not contain value.
func (r *Reader) OneOf(name, value string, allowed ...string) string {
	if !slices.Contains(allowed, value) {
		r.Fail("%s: it is %s", name, strings.Join(allowed, " or "))
	}
	return value
}

// Yes returns true for "yes" and false for "no". It calls Fail for any other value.
func (r *Reader) Yes(name, value string) bool { return r.OneOf(name, value, "yes", "no") == "yes" }

func (r *Reader) file(name, value string) string {
	if value == "" {
		r.Fail("%s: write the path of a file", name)
	}
	return value
}

// Number reads an integer that is not negative.
func (r *Reader) Number(name, value string) int {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		r.Fail("%s: it is a number from 0", name)
	}
	return n
}

// Duration reads a duration that is not negative.
func (r *Reader) Duration(name, value string) time.Duration {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		r.Fail("%s: it is a duration such as 90s or 5m", name)
	}
	return d
}

// finishTLS makes the TLS settings from the parameters.
func (r *Reader) finishTLS() {
	if !r.tls {
		if r.ca+r.cert+r.key+r.serverName != "" || r.noVerify {
			r.Fail("there are parameters of TLS, but no TLS: write rediss:// or tls=yes")
		}
		return
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: r.serverName, InsecureSkipVerify: r.noVerify}
	if r.ca != "" {
		pem, err := os.ReadFile(r.ca)
		if c.RootCAs = x509.NewCertPool(); err != nil {
			r.Fail("ca: %v", err)
		} else if !c.RootCAs.AppendCertsFromPEM(pem) {
			r.Fail("ca: there is no certificate in %s", r.ca)
		}
	}
	switch {
	case r.cert == "" && r.key == "":
	case r.cert == "" || r.key == "":
		r.Fail("cert and key: one needs the other")
	default:
		pair, err := tls.LoadX509KeyPair(r.cert, r.key)
		if err != nil {
			r.Fail("cert and key: %v", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	r.config.TLS = c
}

// finishLogin checks the logins. A password in the URL and one in a file contradict each other.
func (r *Reader) finishLogin() {
	c, s := &r.config, &r.config.Sentinel
	switch {
	case r.secret != "" && c.Password != "":
		r.Fail("the password is in the URL and in a file; leave one of them out")
	case r.sentinel != "" && s.Password != "":
		r.Fail("sentinel-password and sentinel-password-file are both given; leave one of them out")
	case r.u.User != nil && r.secret == "" && c.Password == "":
		r.Fail("a user needs a password; write redis://USER:PASSWORD@HOST, redis://:PASSWORD@HOST or password-file=FILE")
	case s.User != "" && r.sentinel == "" && s.Password == "":
		r.Fail("sentinel-user needs sentinel-password or sentinel-password-file")
	case s.MasterName == "" && s.User+s.Password+r.sentinel != "":
		r.Fail("there are parameters of sentinels, but no sentinels: write redis+sentinel://HOST,HOST/SET")
	}
	if r.secret != "" {
		c.Credentials, c.User = passwordFile(c.User, "password-file", r.secret), ""
	}
	if r.sentinel != "" {
		s.Credentials, s.User = passwordFile(s.User, "sentinel-password-file", r.sentinel), ""
	}
}

// passwordFile reads the password of user from a file for each connection, so that a new password
// is used as soon as it is in the file. No error contains the password.
func passwordFile(user, parameter, file string) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) {
		password, err := storeurl.ReadPassword(parameter, file)
		if err != nil {
			return "", "", err
		}
		return user, password, nil
	}
}
