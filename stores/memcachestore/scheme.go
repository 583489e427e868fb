package memcachestore

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Scheme describes the URLs of memcached for package open. [FromURL] lists the URLs.
func Scheme() storeurl.Scheme {
	return storeurl.Scheme{
		Names:       []string{scheme},
		Help:        "a memcached server: best effort, since a restart or an eviction loses locks",
		Example:     example,
		Guarantees:  usualGuarantees,
		Open:        storeurl.Opens(FromURL, Lazy()),
		Symfony:     []string{scheme},
		FromSymfony: fromSymfony,
		Instead:     urlForDSN,
		Servers:     servers,
	}
}

// usualGuarantees returns the guarantees of a store without options.
func usualGuarantees() driver.Guarantees { return new(config).guarantees() }

func servers(u *url.URL) (addresses []string, encrypted bool) {
	if address, err := storeurl.Address(u.Host, port); err == nil {
		addresses = []string{address}
	}
	return addresses, u.Query().Get("tls") == "yes"
}

var dsnPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^memcached:[^/]`) })

// urlForDSN recognises a DSN of PHP's Symfony, and returns the URL to write instead. For any other
// text it returns "".
func urlForDSN(text string) string {
	if dsnPattern().MatchString(text) {
		return "memcached://HOST:PORT"
	}
	return ""
}

// phpClientParams lists parameters that only say how PHP connects. padlock ignores them. Parameters
// about serialization and compression are among them: a token is a short string, which PHP stores
// as it is.
var phpClientParams = []string{
	"auto_eject_hosts", "binary_protocol", "buffer_writes", "compression", "compression_type", "connect_timeout",
	"distribution", "hash", "lazy", "libketama_compatible", "libketama_hash", "no_block", "persistent_id",
	"poll_timeout", "recv_timeout", "remove_failed_servers", "retry_timeout", "send_timeout", "serializer",
	"server_failure_limit", "server_timeout_limit", "tcp_keepalive", "tcp_nodelay", "use_udp", "weight",
}

var (
	hostParameter = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^host\[(.+)\]$`) })
	weight        = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/\d+$`) })
)

// fromSymfony translates a DSN of PHP's Symfony to the URL of its server. It follows
// MemcachedAdapter::createConnection of Symfony Cache 5.4. The errors quote nothing of the DSN.
func fromSymfony(dsn string) (*url.URL, error) {
	_, rest, _ := strings.Cut(dsn, ":")
	rest, slashes := strings.CutPrefix(rest, "//")
	if strings.Contains(rest, "@") {
		return nil, storekit.Invalidf("PHP logs in with SASL, which works with memcached's binary protocol only; padlock cannot share locks of such a server")
	}
	place, text, _ := strings.Cut(rest, "?")
	place = weight().ReplaceAllString(place, "")
	if place != "" && !slashes {
		return nil, storekit.Invalidf("a host needs two slashes before it: symfony+memcached://HOST")
	}
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil, storekit.Invalidf("the parameters cannot be read")
	}
	var places []string
	if place != "" {
		places = []string{place}
	}
	query := url.Values{"layout": {"symfony"}}
	for name, value := range values {
		found, err := parameter(query, name, value[len(value)-1]) // the last one, as in PHP
		if err != nil {
			return nil, err
		}
		if found != "" {
			places = append(places, found)
		}
	}
	if len(places) != 1 {
		return nil, storekit.Invalidf("the DSN names %d servers. %s", len(places), oneServer)
	}
	u := &url.URL{Scheme: scheme, RawQuery: query.Encode()}
	if strings.HasPrefix(places[0], "/") {
		u.Path = places[0]
		return u, nil
	}
	u.Host, err = storeurl.Address(places[0], port)
	return u, err
}

// parameter translates one parameter of a DSN into parameters of query. If the parameter contains
// the address of a server, parameter leaves query unchanged and returns the address.
func parameter(query url.Values, name, value string) (string, error) {
	if m := hostParameter().FindStringSubmatch(name); m != nil {
		return strings.TrimSuffix(m[1], ":"), nil
	}
	switch name = strings.ToLower(name); {
	case name == "prefix_key":
		query.Set("prefix", value)
	case name == "username" || name == "password":
		return "", storekit.Invalidf("PHP logs in with SASL, which padlock does not know")
	case name == "layout" || name == "prefix":
		return "", storekit.Invalidf("the parameter %s does not go with symfony+, which says it already", name)
	case slices.Contains(phpClientParams, name):
	default:
		query.Set(name, value) // a parameter of padlock's own URL, or an unknown one
	}
	return "", nil
}
