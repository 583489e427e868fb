package redisstore

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/padlock-go/padlock/storekit"
)

// fromSymfony translates a DSN of PHP's Symfony to a URL. The URL names the server, the database
// and the layout that PHP would use. The translation follows StoreFactory of Symfony Lock 5.4 and
// RedisTrait of Symfony Cache 5.4 and 6. The errors contain no part of the DSN.
func fromSymfony(dsn string) (*url.URL, error) {
	scheme, rest, _ := strings.Cut(dsn, ":")
	d := redisDSN{query: url.Values{}, tls: scheme == "rediss"}
	return d.translate(rest)
}

// redisDSN is one DSN of Redis.
type redisDSN struct {
	user     *url.Userinfo
	hosts    []string // HOST:PORT
	socket   string
	db       string
	sentinel string // the name of the primary
	cluster  bool
	tls      bool
	query    url.Values // of the URL
}

func (d *redisDSN) translate(rest string) (*url.URL, error) {
	rest, slashes := strings.CutPrefix(rest, "//")
	if secret, after, ok := strings.Cut(rest, "@"); ok {
		d.secret(secret)
		rest = after
	}
	place, query, _ := strings.Cut(rest, "?")
	if err := d.serverPart(place, slashes); err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, storekit.Invalidf("the parameters cannot be read; in a password write %% as %%25")
	}
	for _, name := range sorted(values) {
		if err := d.parameter(name, values[name]); err != nil {
			return nil, err
		}
	}
	if !d.query.Has("foreign") {
		d.query.Set("foreign", "yes") // PHP polls
	}
	return d.url()
}

func sorted(values url.Values) []string {
	var names []string
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// secret reads PASSWORD or USER:PASSWORD.
func (d *redisDSN) secret(text string) {
	user, password, both := strings.Cut(text, ":")
	if !both {
		user, password = "", text
	}
	if plain, err := url.PathUnescape(password); err == nil {
		password = plain
	}
	if user == "default" {
		user = ""
	}
	if password != "" {
		d.user = url.UserPassword(user, password)
	}
}

var database = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/(\d*)$`) })

// serverPart reads HOST[:PORT][/DB] or /SOCKET[/DB].
func (d *redisDSN) serverPart(text string, slashes bool) error {
	host, path := text, ""
	if i := strings.IndexByte(text, '/'); i >= 0 {
		host, path = text[:i], text[i:]
	}
	if host != "" && !slashes {
		return storekit.Invalidf("a host needs two slashes before it: symfony+redis://HOST")
	}
	if m := database().FindStringSubmatch(path); m != nil {
		d.db, path = m[1], strings.TrimSuffix(path, m[0])
	}
	switch {
	case host != "" && path != "":
		return storekit.Invalidf("the path of the DSN is the number of a database")
	case host != "":
		d.hosts = append(d.hosts, address(host, "6379"))
	case path != "":
		d.socket = path
	}
	return nil
}

// clientParameters lists the parameters that say how PHP connects. They do not say where its locks
// are.
var clientParameters = []string{
	"class", "failover", "lazy", "persistent", "persistent_id", "read_timeout", "retry_interval", "tcp_keepalive", "timeout",
}

// impliedParameters lists parameters of a URL that Symfony's DSN must not have, because other parts
// of the DSN already determine their values.
var impliedParameters = []string{"db", "layout", "node", "only-padlock", "tls"}

var hostParameter = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^host\[(.+)\]$`) })

func (d *redisDSN) parameter(name string, values []string) error {
	if m := hostParameter().FindStringSubmatch(name); m != nil {
		return d.host(m[1], values)
	}
	value := values[len(values)-1] // as in PHP
	switch {
	case name == "dbindex":
		if d.db != "" && d.db != value {
			return storekit.Invalidf("the DSN names two databases")
		}
		d.db = value
	case name == "redis_sentinel", name == "sentinel_master":
		d.sentinel = value
	case name == "redis_cluster":
		if value != "0" && value != "1" {
			return storekit.Invalidf("redis_cluster: it is 0 or 1")
		}
		d.cluster = value == "1"
	case slices.Contains(clientParameters, name):
	case slices.Contains(impliedParameters, name):
		return storekit.Invalidf("the parameter %s does not go with symfony+, which says it already", name)
	default:
		d.query[name] = values // of the URL, or unknown
	}
	return nil
}

// host reads the text in host[…], which is HOST, HOST:PORT, or /SOCKET with a colon after it.
func (d *redisDSN) host(text string, values []string) error {
	if len(values) > 1 || values[0] != "" {
		return storekit.Invalidf("host[…] has no value")
	}
	if socket, ok := strings.CutSuffix(text, ":"); ok {
		if d.socket != "" {
			return storekit.Invalidf("the DSN names two sockets")
		}
		d.socket = socket
		return nil
	}
	d.hosts = append(d.hosts, address(text, "6379"))
	return nil
}

// url returns the URL that names the same server and database as the DSN.
func (d *redisDSN) url() (*url.URL, error) {
	u := &url.URL{Scheme: "redis", User: d.user, Host: strings.Join(d.hosts, ",")}
	several := d.cluster || d.sentinel != ""
	switch {
	case d.cluster && d.sentinel != "":
		return nil, storekit.Invalidf("a cluster has no sentinels")
	case len(d.hosts) == 0 && d.socket == "", d.socket != "" && (len(d.hosts) > 0 || several):
		return nil, storekit.Invalidf("the DSN names no host, or a socket and hosts")
	case len(d.hosts) > 1 && !several:
		return nil, storekit.Invalidf("of several hosts PHP chooses one for each name by itself, which padlock does not share; name one, or redis_cluster=1, or redis_sentinel=NAME")
	case d.cluster:
		if u.Scheme = "redis+cluster"; strings.Trim(d.db, "0") != "" {
			return nil, storekit.Invalidf("a cluster has one database only")
		}
	case d.sentinel != "":
		u.Scheme, u.Path = "redis+sentinel", "/"+d.sentinel+"/"+d.db
	case d.socket != "":
		u.Scheme, u.Path = "redis+unix", d.socket
		if d.db != "" {
			d.query.Set("db", d.db)
		}
	default:
		u.Path = "/" + d.db
	}
	if d.tls && u.Scheme == "redis" {
		u.Scheme = "rediss"
	} else if d.tls && several {
		d.query.Set("tls", "yes")
	}
	u.RawQuery = d.query.Encode()
	return u, nil
}

// address adds a port to a host that has none.
func address(host, port string) string {
	if _, p, err := net.SplitHostPort(host); err == nil && p != "" {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}
