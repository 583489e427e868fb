package zkstore

import (
	"net/url"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// schemes are the schemes of the store's URLs. The usual one comes first.
var schemes = []string{"zookeeper", "zk"}

const example = "zookeeper://localhost/locks"

// Scheme describes the URLs of ZooKeeper for package open. [FromURL] lists these URLs.
func Scheme() storeurl.Scheme {
	return storeurl.Scheme{
		Names:       schemes,
		Help:        "a ZooKeeper server or ensemble; a lock ends with its process's session",
		Example:     example,
		Guarantees:  defaultGuarantees,
		Open:        storeurl.Opens(FromURL, Lazy(), lenient),
		Symfony:     []string{"zookeeper"},
		FromSymfony: fromSymfony,
		Servers:     servers,
	}
}

// lenient is for a store that is opened only to be examined.
func lenient(c *config) { c.lenient = true }

// defaultGuarantees returns what a store without options promises.
func defaultGuarantees() driver.Guarantees {
	c := defaults()
	return c.guarantees()
}

// fromSymfony translates a DSN of PHP's Symfony, zookeeper://HOST[:PORT][,HOST[:PORT]…]. Symfony
// ignores the path of the DSN, so its locks are always in the root of the tree.
func fromSymfony(dsn string) (*url.URL, error) {
	_, rest, slashes := strings.Cut(dsn, "://")
	if !slashes {
		return nil, storekit.Invalidf("the DSN has two slashes after the colon: zookeeper://HOST")
	}
	u, err := url.Parse("zookeeper://" + rest)
	switch {
	case err != nil || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@"): // a part of a password
		return nil, storekit.Invalidf("the DSN cannot be read; it is zookeeper://HOST:PORT,HOST:PORT")
	case u.Host == "":
		return nil, storekit.Invalidf("the DSN names no host")
	case strings.Trim(u.Path, "/") != "":
		return nil, storekit.Invalidf("PHP keeps its locks in the root of the tree; leave the path out of the DSN")
	}
	return storeurl.InSymfonyLayout(u, u.Query())
}

// servers returns the addresses of the servers in a URL.
func servers(u *url.URL) (out []string, encrypted bool) {
	out, err := storeurl.Addresses(u.Host, defaultPort)
	if err != nil {
		return nil, false
	}
	return slices.Compact(slices.Sorted(slices.Values(out))), false
}
