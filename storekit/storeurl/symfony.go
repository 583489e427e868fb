package storeurl

import (
	"net/url"
	"slices"
	"strings"
)

// phpOnly are parameters of Doctrine that only say how PHP connects.
var phpOnly = []string{"charset", "serverVersion"}

// FromDatabaseDSN translates a DSN of PHP's Symfony to a URL: pgsql+advisory:host=…;dbname=… for
// PDO, or a URL for Doctrine. socket is the name of PHP's parameter for a unix socket, or "". The
// errors contain nothing of the DSN.
func FromDatabaseDSN(scheme, dsn, socket string) (*url.URL, error) {
	_, rest, _ := strings.Cut(dsn, ":")
	if strings.HasPrefix(rest, "//") {
		u, err := url.Parse(scheme + ":" + rest)
		if err != nil || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") { // a part of a password
			return nil, Invalid("the DSN cannot be read; in a password, / is written %%2F, ? %%3F and # %%23")
		}
		query := u.Query()
		for _, name := range phpOnly {
			query.Del(name)
		}
		if path := query.Get(socket); socket != "" && path != "" {
			u.Host = ""
			query.Set("socket", path)
		}
		query.Del(socket)
		return InSymfonyLayout(u, query)
	}
	parts, query := map[string]string{}, url.Values{}
	for part := range strings.SplitSeq(rest, ";") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case !ok && name != "":
			return nil, Invalid("the DSN has a part that is not NAME=VALUE")
		case slices.Contains([]string{"host", "port", "dbname", "user", "password", "charset"}, name), name != "" && name == socket:
			parts[name] = value
		case name != "":
			query.Set(name, value)
		}
	}
	u := &url.URL{Scheme: scheme, Path: "/" + parts["dbname"], Host: parts["host"]}
	if strings.HasPrefix(u.Host, "/") { // the directory of a socket
		query.Set("host", u.Host)
		u.Host = ""
	}
	switch {
	case parts[socket] != "":
		query.Set("socket", parts[socket])
		u.Host = ""
	case parts["port"] != "" && u.Host != "":
		u.Host += ":" + parts["port"]
	case parts["port"] != "":
		query.Set("port", parts["port"])
	}
	switch {
	case parts["password"] != "":
		u.User = url.UserPassword(parts["user"], parts["password"])
	case parts["user"] != "":
		u.User = url.User(parts["user"])
	}
	return InSymfonyLayout(u, query)
}

// InSymfonyLayout adds the parameter layout to a URL that was made of a DSN.
func InSymfonyLayout(u *url.URL, query url.Values) (*url.URL, error) {
	if query.Has("layout") {
		return nil, Invalid("layout does not go with symfony+, which says it")
	}
	query.Set("layout", "symfony")
	u.RawQuery = query.Encode()
	return u, nil
}
