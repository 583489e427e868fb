package open

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// symfonyPrefix stands before a DSN of Symfony's: the store and the layout that
// PHP's StoreFactory would make of it. Facts: StoreFactory of Symfony Lock 5.4,
// RedisTrait of Symfony Cache 5.4 and 6.
const symfonyPrefix = "symfony+"

// symfonySchemes are the DSNs that there is a store for.
var symfonySchemes = []string{"symfony+flock", "symfony+redis", "symfony+rediss"}

// symfony translates a DSN of Symfony's. Like those of parse, its errors repeat
// nothing of it.
func symfony(dsn string) (*url.URL, error) {
	scheme, rest, _ := strings.Cut(dsn, ":")
	switch {
	case dsn == "flock":
		return symfonyFlock(filepath.ToSlash(os.TempDir()))
	case scheme == "flock" && strings.HasPrefix(rest, "//"):
		return symfonyFlock(rest[2:])
	case (scheme == "redis" || scheme == "rediss") && rest != "":
		d := redisDSN{query: url.Values{}, tls: scheme == "rediss"}
		return d.translate(rest)
	case dsn == "in-memory":
		return nil, invalid("PHP's locks in memory are seen by one process only")
	}
	return nil, invalid("there is no store for this DSN of PHP's; there are %s", strings.Join(symfonySchemes, ":, ")+":")
}

// symfonyFlock is a directory as PHP uses it: files that everybody may open.
// PHP takes all that follows for the path; here parameters may come after it.
func symfonyFlock(path string) (*url.URL, error) {
	path, query, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(query)
	switch {
	case !strings.HasPrefix(path, "/") && !filepath.IsAbs(path):
		return nil, invalid("a directory is named from the root, as in symfony+flock:///var/lib/locks")
	case err != nil:
		return nil, invalid("the parameters cannot be read")
	}
	if !values.Has("group") && !values.Has("world") {
		values.Set("world", "yes")
	}
	u, err := url.Parse(FileURL(path))
	if err != nil {
		return nil, invalid("the directory cannot be read")
	}
	u.RawQuery = values.Encode()
	return u, nil
}

// redisDSN is one DSN of Redis.
type redisDSN struct {
	user     *url.Userinfo
	hosts    []string // HOST:PORT
	socket   string
	db       string
	sentinel string // what it calls the primary
	cluster  bool
	tls      bool
	query    url.Values // ours
}

func (d *redisDSN) translate(rest string) (*url.URL, error) {
	rest, slashes := strings.CutPrefix(rest, "//")
	if secret, after, ok := strings.Cut(rest, "@"); ok {
		d.secret(secret)
		rest = after
	}
	place, query, _ := strings.Cut(rest, "?")
	if err := d.place(place, slashes); err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, invalid("the parameters cannot be read; in a password write %% as %%25")
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

var database = regexp.MustCompile(`/(\d*)$`)

// place reads HOST[:PORT][/DB] or /SOCKET[/DB].
func (d *redisDSN) place(text string, slashes bool) error {
	host, path := text, ""
	if i := strings.IndexByte(text, '/'); i >= 0 {
		host, path = text[:i], text[i:]
	}
	if host != "" && !slashes {
		return invalid("a host needs two slashes before it: symfony+redis://HOST")
	}
	if m := database.FindStringSubmatch(path); m != nil {
		d.db, path = m[1], strings.TrimSuffix(path, m[0])
	}
	switch {
	case host != "" && path != "":
		return invalid("the path of the DSN is the number of a database")
	case host != "":
		d.hosts = append(d.hosts, withPort(host))
	case path != "":
		d.socket = path
	}
	return nil
}

func withPort(host string) string {
	if _, port, err := net.SplitHostPort(host); err == nil && port != "" {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), "6379")
}

// ofPHPsClient are parameters that say how PHP connects, and nothing of where
// its locks are.
var ofPHPsClient = []string{
	"class", "failover", "lazy", "persistent", "persistent_id", "read_timeout", "retry_interval", "tcp_keepalive", "timeout",
}

// implied are parameters of ours that the DSN decides.
var implied = []string{"db", "layout", "node", "only-padlock", "tls"}

var hostParameter = regexp.MustCompile(`^host\[(.+)\]$`)

func (d *redisDSN) parameter(name string, values []string) error {
	if m := hostParameter.FindStringSubmatch(name); m != nil {
		return d.host(m[1], values)
	}
	value := values[len(values)-1] // as in PHP
	switch {
	case name == "dbindex":
		if d.db != "" && d.db != value {
			return invalid("the DSN names two databases")
		}
		d.db = value
	case name == "redis_sentinel", name == "sentinel_master":
		d.sentinel = value
	case name == "redis_cluster":
		if value != "0" && value != "1" {
			return invalid("redis_cluster: it is 0 or 1")
		}
		d.cluster = value == "1"
	case slices.Contains(ofPHPsClient, name):
	case slices.Contains(implied, name):
		return invalid("the parameter %s does not go with symfony+, which says it already", name)
	default:
		d.query[name] = values // ours, or unknown
	}
	return nil
}

// host reads what stands in host[…]: HOST, HOST:PORT or /SOCKET:.
func (d *redisDSN) host(address string, values []string) error {
	if len(values) > 1 || values[0] != "" {
		return invalid("host[…] has no value")
	}
	if socket, ok := strings.CutSuffix(address, ":"); ok {
		if d.socket != "" {
			return invalid("the DSN names two sockets")
		}
		d.socket = socket
		return nil
	}
	d.hosts = append(d.hosts, withPort(address))
	return nil
}

// url is the URL of ours for the same place.
func (d *redisDSN) url() (*url.URL, error) {
	u := &url.URL{Scheme: "redis", User: d.user, Host: strings.Join(d.hosts, ",")}
	several := d.cluster || d.sentinel != ""
	switch {
	case d.cluster && d.sentinel != "":
		return nil, invalid("a cluster has no sentinels")
	case len(d.hosts) == 0 && d.socket == "", d.socket != "" && (len(d.hosts) > 0 || several):
		return nil, invalid("the DSN names no host, or a socket and hosts")
	case len(d.hosts) > 1 && !several:
		return nil, invalid("of several hosts PHP chooses one for each name by itself, which padlock does not share; name one, or redis_cluster=1, or redis_sentinel=NAME")
	case d.cluster:
		if u.Scheme = "redis+cluster"; strings.Trim(d.db, "0") != "" {
			return nil, invalid("a cluster has one database only")
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
