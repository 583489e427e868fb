package mongostore

import (
	"net/url"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Scheme describes the URLs of MongoDB for package open. [FromURL] lists these URLs.
func Scheme() storeurl.Scheme {
	return storeurl.Scheme{
		Names:       schemes,
		Help:        "a collection of MongoDB (experimental: not yet tested against a MongoDB server)",
		Example:     example,
		Guarantees:  func() driver.Guarantees { return new(config).guarantees() },
		Open:        storeurl.Opens(FromURL, Lazy()),
		Symfony:     schemes,
		FromSymfony: fromSymfony,
		Servers:     servers,
	}
}

// fromSymfony translates a DSN of PHP's Symfony. Such a DSN is a connection string of MongoDB that
// names a database, and that has the name of a collection in its parameter "collection".
// fromSymfony leaves out the options that decide when a write counts as done, because these options
// apply only to PHP's writes.
func fromSymfony(dsn string) (*url.URL, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" || u.Opaque != "" || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return nil, storekit.Invalidf("the DSN cannot be read; it is mongodb://HOST/DATABASE?collection=NAME, and in a password, # / ? and @ are written %%23 %%2F %%3F %%40")
	}
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return nil, storekit.Invalidf("the parameters of the DSN cannot be read")
	case strings.Trim(u.Path, "/") == "" || query.Get("collection") == "":
		return nil, storekit.Invalidf("the DSN names the database and the collection: mongodb://HOST/DATABASE?collection=NAME")
	}
	for name := range query {
		if slices.Contains(storeOptions, strings.ToLower(name)) {
			query.Del(name)
		}
	}
	return storeurl.InSymfonyLayout(u, query)
}

// servers returns the addresses of the servers that a URL names. It returns none for mongodb+srv:,
// because only a name server knows these addresses.
func servers(u *url.URL) (addresses []string, encrypted bool) {
	srv := u.Scheme == schemes[1]
	for name, values := range u.Query() {
		if slices.Contains([]string{"tls", "ssl"}, strings.ToLower(name)) {
			encrypted = values[0] == "true"
		}
	}
	if u.Host == "" || srv {
		return nil, encrypted || srv
	}
	addresses, _ = storeurl.Addresses(u.Host, defaultPort)
	return addresses, encrypted
}
