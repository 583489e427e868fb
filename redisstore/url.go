package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FromURL opens the store that a URL names:
//
//	redis://[USER:PASSWORD@]HOST[:PORT][/DB]
//	rediss://…                                           the same with TLS
//	redis+unix://[USER:PASSWORD@]/PATH, redis:///PATH    a unix socket
//	redis+sentinel://[USER:PASSWORD@]HOST,HOST/SET[/DB]  the primary that the sentinels call SET
//	redis+cluster://[USER:PASSWORD@]HOST,HOST
//	rediss+sentinel://…, rediss+cluster://…              the same with TLS
//
// Of several hosts, either all or only the last may have a port. The parameter node takes any
// address.
//
// The query may have the parameters
//
//	layout=string        PlainStrings; set is the default
//	fences=no            NoFences
//	fence-keep=DURATION  FenceKeep
//	prefix=TEXT          Prefix
//	foreign=yes          Foreign
//	only-padlock=yes     OnlyPadlock
//	max-ttl=DURATION     MaxTTL
//	restart-guard=known|strict|off   RestartGuard
//	run-ids=DIR          RememberRunIDs(RunIDDir(DIR))
//	eviction=allow       AllowEviction
//	durable=yes          Durable
//	replicas=N, replica-wait=DURATION    Replicas
//	lazy=yes             Lazy
//	db=N                 the database, where the path does not name it
//	node=HOST:PORT       another address, as often as needed
//	client-name=TEXT     as CLIENT LIST shows it
//	tls=yes              TLS, where the scheme does not say so
//	ca=FILE, cert=FILE, key=FILE, server-name=HOST, tls-verify=no    of TLS
//	password-file=FILE   the password, read again for each connection
//	sentinel-user=TEXT, sentinel-password=TEXT, sentinel-password-file=FILE
//	                     the login at the sentinels themselves
//
// Any other parameter is driver.ErrInvalid. opts are applied after the parameters of the URL. ctx
// bounds the opening only. No error contains a password.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	p := parser{u: u}
	p.parse()
	if p.err != nil {
		return nil, p.err
	}
	return Open(ctx, p.server, append(p.opts, opts...)...)
}

// parser keeps the first error. After an error, its other fields do not matter.
type parser struct {
	u      *url.URL
	server Config
	opts   []Option
	err    error

	replicas    int
	replicaWait time.Duration
	tls         bool
	secret      string // the file of the password
	sentinel    string // the same of the sentinels
	ca          string
	cert, key   string
	serverName  string
	noVerify    bool
	db          string // in the path
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = invalid(format, args...)
	}
}

func (p *parser) parse() {
	if p.u.Opaque != "" || p.u.Fragment != "" {
		p.fail("the URL has the form redis://HOST:PORT/DB; in a password, # is written %%23")
		return
	}
	p.user()
	p.place()
	query, err := url.ParseQuery(p.u.RawQuery)
	if err != nil {
		p.fail("the parameters of the URL cannot be read")
		return
	}
	for name, values := range query {
		p.parameter(name, values)
	}
	if c := &p.server; len(c.Addrs) > 1 && !c.Cluster && c.Sentinel.MasterName == "" {
		p.fail("%s: names one host; there are redis+cluster: and redis+sentinel:", p.u.Scheme)
	}
	if p.db != "" {
		p.server.DB = p.number("db", p.db)
	}
	if p.replicas > 0 {
		p.opts = append(p.opts, Replicas(p.replicas, p.replicaWait))
	}
	p.finishTLS()
	p.finishLogin()
}

func (p *parser) user() {
	if p.u.User == nil {
		return
	}
	p.server.Password, _ = p.u.User.Password()
	p.server.User = p.u.User.Username()
}

// place reads host and path, which have a different meaning in each scheme.
func (p *parser) place() {
	path, scheme := strings.TrimPrefix(p.u.Path, "/"), p.u.Scheme
	if rest, ok := strings.CutPrefix(scheme, "rediss+"); ok && rest != "unix" {
		p.tls, scheme = true, "redis+"+rest
	}
	switch scheme {
	case "redis+unix":
		p.socket()
	case "redis", "rediss":
		p.tls = p.u.Scheme == "rediss"
		if p.u.Host == "" {
			p.socket()
			return
		}
		p.hosts("6379")
		p.db = path
	case "redis+sentinel":
		p.hosts("26379")
		p.server.Sentinel.MasterName, p.db, _ = strings.Cut(path, "/")
		if p.server.Sentinel.MasterName == "" {
			p.fail("the URL does not say what Sentinel calls the primary: redis+sentinel://HOST,HOST/SET")
		}
	case "redis+cluster":
		p.server.Cluster = true
		p.hosts("6379")
		if path != "" {
			p.fail("a cluster has one database only, so the URL has no path")
		}
	default:
		p.fail("the URL must begin with redis:, redis+unix:, redis+sentinel: or redis+cluster:, or with rediss instead of redis for TLS")
	}
}

func (p *parser) socket() {
	if p.u.Host != "" || len(p.u.Path) < 2 || p.u.Scheme == "rediss" {
		p.fail("the URL of a unix socket has a path and no host: redis+unix:///run/redis/redis.sock")
		return
	}
	if _, err := strconv.Atoi(p.u.Path[1:]); err == nil {
		p.fail("the URL has no host; write redis://localhost%s", p.u.Path)
	}
	p.server.Socket = p.u.Path
}

func (p *parser) hosts(port string) {
	if p.u.Host == "" {
		p.fail("the URL has no host")
		return
	}
	for host := range strings.SplitSeq(p.u.Host, ",") {
		p.host(host, port)
	}
}

func (p *parser) host(text, port string) {
	host := strings.Trim(text, "[]")
	if h, given, err := net.SplitHostPort(text); err == nil {
		host, port = h, given
	}
	if host == "" || port == "" {
		p.fail("an address in the URL has no host or no port")
	}
	p.server.Addrs = append(p.server.Addrs, net.JoinHostPort(host, port))
}

func (p *parser) parameter(name string, values []string) {
	if name == "node" {
		for _, v := range values {
			if _, _, err := net.SplitHostPort(v); err != nil {
				p.fail("node: write HOST:PORT")
			}
			p.server.Addrs = append(p.server.Addrs, v)
		}
		return
	}
	read := parameters[name]
	switch {
	case read == nil:
		known := []string{"node"}
		for k := range parameters {
			known = append(known, k)
		}
		slices.Sort(known)
		p.fail("there is no parameter %q; there are %s", name, strings.Join(known, ", "))
	case len(values) != 1:
		p.fail("the parameter %s is given more than once", name)
	default:
		read(p, name, values[0])
	}
}

var parameters = map[string]func(p *parser, name, value string){
	"layout": func(p *parser, name, v string) {
		if p.oneOf(name, v, "set", "string") == "string" {
			p.opts = append(p.opts, PlainStrings())
		}
	},
	"fences": func(p *parser, name, v string) {
		if !p.yes(name, v) {
			p.opts = append(p.opts, NoFences())
		}
	},
	"foreign":      func(p *parser, name, v string) { p.when(name, v, Foreign()) },
	"prefix":       func(p *parser, _, v string) { p.opts = append(p.opts, Prefix(v)) },
	"only-padlock": func(p *parser, name, v string) { p.when(name, v, OnlyPadlock()) },
	"durable":      func(p *parser, name, v string) { p.when(name, v, Durable()) },
	"lazy":         func(p *parser, name, v string) { p.when(name, v, Lazy()) },
	"fence-keep":   func(p *parser, name, v string) { p.opts = append(p.opts, FenceKeep(p.duration(name, v))) },
	"max-ttl":      func(p *parser, name, v string) { p.opts = append(p.opts, MaxTTL(p.duration(name, v))) },
	"eviction": func(p *parser, name, v string) {
		if p.oneOf(name, v, "allow", "refuse") == "allow" {
			p.opts = append(p.opts, AllowEviction())
		}
	},
	"restart-guard": func(p *parser, name, v string) {
		guards := map[string]Guard{"known": GuardKnown, "strict": GuardStrict, "off": GuardOff}
		p.opts = append(p.opts, RestartGuard(guards[p.oneOf(name, v, "known", "strict", "off")]))
	},
	"run-ids":                func(p *parser, _, v string) { p.opts = append(p.opts, RememberRunIDs(RunIDDir(v))) },
	"replicas":               func(p *parser, name, v string) { p.replicas = p.number(name, v) },
	"replica-wait":           func(p *parser, name, v string) { p.replicaWait = p.duration(name, v) },
	"db":                     func(p *parser, _, v string) { p.db = v },
	"client-name":            func(p *parser, _, v string) { p.server.ClientName = v },
	"tls":                    func(p *parser, name, v string) { p.tls = p.yes(name, v) || p.tls },
	"ca":                     func(p *parser, _, v string) { p.ca = v },
	"cert":                   func(p *parser, _, v string) { p.cert = v },
	"key":                    func(p *parser, _, v string) { p.key = v },
	"server-name":            func(p *parser, _, v string) { p.serverName = v },
	"tls-verify":             func(p *parser, name, v string) { p.noVerify = !p.yes(name, v) },
	"password-file":          func(p *parser, name, v string) { p.secret = p.file(name, v) },
	"sentinel-password-file": func(p *parser, name, v string) { p.sentinel = p.file(name, v) },
	"sentinel-user":          func(p *parser, _, v string) { p.server.Sentinel.User = v },
	"sentinel-password":      func(p *parser, _, v string) { p.server.Sentinel.Password = v },
}

func (p *parser) oneOf(name, value string, allowed ...string) string {
	if !slices.Contains(allowed, value) {
		p.fail("%s: it is %s", name, strings.Join(allowed, " or "))
	}
	return value
}

func (p *parser) yes(name, value string) bool { return p.oneOf(name, value, "yes", "no") == "yes" }

func (p *parser) when(name, value string, o Option) {
	if p.yes(name, value) {
		p.opts = append(p.opts, o)
	}
}

func (p *parser) file(name, value string) string {
	if value == "" {
		p.fail("%s: write the path of a file", name)
	}
	return value
}

func (p *parser) number(name, value string) int {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		p.fail("%s: it is a number from 0", name)
	}
	return n
}

func (p *parser) duration(name, value string) time.Duration {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		p.fail("%s: it is a duration such as 90s or 5m", name)
	}
	return d
}

// finishTLS makes the settings of TLS.
func (p *parser) finishTLS() {
	if !p.tls {
		if p.ca+p.cert+p.key+p.serverName != "" || p.noVerify {
			p.fail("there are parameters of TLS, but no TLS: write rediss:// or tls=yes")
		}
		return
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: p.serverName, InsecureSkipVerify: p.noVerify}
	if p.ca != "" {
		pem, err := os.ReadFile(p.ca)
		if c.RootCAs = x509.NewCertPool(); err != nil {
			p.fail("ca: %v", err)
		} else if !c.RootCAs.AppendCertsFromPEM(pem) {
			p.fail("ca: there is no certificate in %s", p.ca)
		}
	}
	switch {
	case p.cert == "" && p.key == "":
	case p.cert == "" || p.key == "":
		p.fail("cert and key: one needs the other")
	default:
		pair, err := tls.LoadX509KeyPair(p.cert, p.key)
		if err != nil {
			p.fail("cert and key: %v", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	p.server.TLS = c
}

// finishLogin checks the logins. A password in the URL and one in a file contradict each other.
func (p *parser) finishLogin() {
	c, s := &p.server, &p.server.Sentinel
	switch {
	case p.secret != "" && c.Password != "":
		p.fail("the password is in the URL and in a file; leave one of them out")
	case p.sentinel != "" && s.Password != "":
		p.fail("sentinel-password and sentinel-password-file are both given; leave one of them out")
	case p.u.User != nil && p.secret == "" && c.Password == "":
		p.fail("a user needs a password; write redis://USER:PASSWORD@HOST, redis://:PASSWORD@HOST or password-file=FILE")
	case s.User != "" && p.sentinel == "" && s.Password == "":
		p.fail("sentinel-user needs sentinel-password or sentinel-password-file")
	case s.MasterName == "" && s.User+s.Password+p.sentinel != "":
		p.fail("there are parameters of sentinels, but no sentinels: write redis+sentinel://HOST,HOST/SET")
	}
	if p.secret != "" {
		c.Credentials, c.User = passwordFile(c.User, "password-file", p.secret), ""
	}
	if p.sentinel != "" {
		s.Credentials, s.User = passwordFile(s.User, "sentinel-password-file", p.sentinel), ""
	}
}

// passwordFile reads the password of user from a file for each connection, so that a new password
// is used as soon as it is in the file. No error contains the password.
func passwordFile(user, parameter, file string) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", parameter, err)
		}
		password, _ := strings.CutSuffix(string(text), "\n")
		password, _ = strings.CutSuffix(password, "\r")
		if password == "" {
			return "", "", fmt.Errorf("%s: there is no password in %s", parameter, file)
		}
		return user, password, nil
	}
}
