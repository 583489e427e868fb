package redisstore

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Scheme describes the URLs of Redis for package open. [FromURL] lists the URLs.
func Scheme() storeurl.Scheme {
	return storeurl.Scheme{
		Names: []string{
			"redis", "rediss", "redis+unix",
			"redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster",
		},
		Help:        "a Redis server, a server behind Sentinel, or a cluster",
		Example:     "redis://localhost:6379",
		Secrets:     []string{"sentinel-password"},
		Guarantees:  usualGuarantees,
		Open:        openURL,
		Symfony:     []string{"redis", "rediss"},
		FromSymfony: fromSymfony,
		Instead:     urlInstead,
		Servers:     servers,
	}
}

// usualGuarantees returns the guarantees of a store without options.
func usualGuarantees() driver.Guarantees {
	c := defaults()
	return c.guarantees()
}

func openURL(ctx context.Context, u *url.URL, o storeurl.Opening) (driver.Store, error) {
	var opts []Option
	query := u.Query()
	if o.StateDir != "" && !query.Has("run-ids") {
		opts = append(opts, RememberRunIDs(RunIDDir(o.StateDir)))
	}
	if o.Lazy && !query.Has("lazy") {
		opts = append(opts, Lazy())
	}
	if o.ForgetSoon && !query.Has("fence-keep") {
		opts = append(opts, FenceKeep(time.Minute))
	}
	if o.Lenient {
		opts = append(opts, AllowEviction(), notDurable, Lazy())
	}
	s, err := FromURL(ctx, u, opts...)
	if err != nil {
		return nil, err // returning s here would be wrong: a nil *Store in a driver.Store is not equal to nil
	}
	return s, nil
}

// notDurable undoes Durable.
func notDurable(c *config) { c.durable = false }

func servers(u *url.URL) (addresses []string, encrypted bool) {
	query := u.Query()
	encrypted = strings.HasPrefix(u.Scheme, "rediss") || query.Get("tls") == "yes"
	port := "6379"
	if strings.HasSuffix(u.Scheme, "+sentinel") {
		port = "26379"
	}
	if u.Host != "" {
		for host := range strings.SplitSeq(u.Host, ",") {
			addresses = append(addresses, address(host, port))
		}
	}
	return append(addresses, query["node"]...), encrypted
}

var (
	dsnPattern    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^rediss?:[^/]`) })
	valkeyPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^valkeys?:`) })
)

// urlInstead recognises a DSN of PHP's Symfony and the URLs of servers that speak Redis's protocol,
// and returns the form of URL to write instead.
func urlInstead(text string) string {
	scheme, _, _ := strings.Cut(text, ":")
	switch {
	case dsnPattern().MatchString(text):
		return scheme + "://USER:PASSWORD@HOST:PORT"
	case valkeyPattern().MatchString(text):
		return strings.Replace(scheme, "valkey", "redis", 1) + "://USER:PASSWORD@HOST:PORT"
	}
	return ""
}
