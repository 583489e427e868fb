package zkstore

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/driver"
)

// schemes are the schemes of the store's URLs. The usual one comes first.
var schemes = []string{"zookeeper", "zk"}

const example = "zookeeper://localhost/locks"

// Scheme describes the URLs of ZooKeeper for package open. [FromURL] lists these URLs.
func Scheme() driver.Scheme {
	return driver.Scheme{
		Names:       schemes,
		Help:        "a ZooKeeper server or ensemble; a lock ends with its process's session",
		Example:     example,
		Guarantees:  defaultGuarantees,
		Open:        openURL,
		Symfony:     []string{"zookeeper"},
		FromSymfony: fromSymfony,
		Servers:     servers,
		At:          withAddress,
	}
}

// defaultGuarantees returns what a store without options promises.
func defaultGuarantees() driver.Guarantees {
	c := defaults()
	return c.guarantees()
}

func openURL(ctx context.Context, u *url.URL, o driver.Opening) (driver.Store, error) {
	var opts []Option
	if o.Lazy && !u.Query().Has("lazy") || o.Lenient {
		opts = append(opts, Lazy())
	}
	if o.Lenient {
		opts = append(opts, func(c *config) { c.lenient = true })
	}
	s, err := FromURL(ctx, u, opts...)
	if err != nil {
		return nil, err // do not return s: a nil *Store makes a driver.Store that is not nil
	}
	return s, nil
}

// fromSymfony translates a DSN of PHP's Symfony, zookeeper://HOST[:PORT][,HOST[:PORT]…]. Symfony
// ignores the path of the DSN, so its locks are always in the root of the tree.
func fromSymfony(dsn string) (*url.URL, error) {
	_, rest, slashes := strings.Cut(dsn, "://")
	if !slashes {
		return nil, invalid("the DSN has two slashes after the colon: zookeeper://HOST")
	}
	u, err := url.Parse("zookeeper://" + rest)
	switch {
	case err != nil || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@"): // a part of a password
		return nil, invalid("the DSN cannot be read; it is zookeeper://HOST:PORT,HOST:PORT")
	case u.Host == "":
		return nil, invalid("the DSN names no host")
	case strings.Trim(u.Path, "/") != "":
		return nil, invalid("PHP keeps its locks in the root of the tree; leave the path out of the DSN")
	}
	query := u.Query()
	if query.Has("layout") {
		return nil, invalid("layout does not go with symfony+, which says it")
	}
	query.Set("layout", "symfony")
	u.RawQuery = query.Encode()
	return u, nil
}

// servers returns the addresses of the servers in a URL.
func servers(u *url.URL) (out []string, encrypted bool) {
	out, err := addresses(u.Host)
	if err != nil {
		return nil, false
	}
	return slices.Compact(slices.Sorted(slices.Values(out))), false
}

// withAddress replaces the address of the server in a URL by that of a proxy. It returns nil if the
// URL has several servers.
func withAddress(u *url.URL, address string) *url.URL {
	if out, _ := servers(u); len(out) != 1 {
		return nil
	}
	there := *u
	there.Host = address
	return &there
}
