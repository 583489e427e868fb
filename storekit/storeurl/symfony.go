package storeurl

import (
	"net/url"
	"slices"
	"strings"
)

// phpOnly are parameters of PDO and Doctrine that only say how PHP connects.
var phpOnly = []string{"charset", "persistent", "serverVersion"}

// FromDatabaseDSN translates a DSN of PHP to a URL with the given scheme. The DSN is one of PDO,
// pgsql:host=…;dbname=…, or a URL of Doctrine. Text before the first colon is not read. socket is
// the name of PHP's parameter for a unix socket, "unix_socket" for MySQL, or "" if PHP has none.
// The URL leads to the server that PHP would reach; if that is not clear, the DSN is refused. The
// errors contain nothing of the DSN.
func FromDatabaseDSN(scheme, dsn, socket string) (*url.URL, error) {
	_, rest, _ := strings.Cut(dsn, ":")
	parse := fromPDO
	if strings.HasPrefix(rest, "//") {
		parse = fromDoctrine
	}
	u, query, err := parse(scheme, rest)
	if err != nil {
		return nil, err
	}
	for _, name := range phpOnly {
		query.Del(name)
	}
	if socket != "" {
		if err := asPHPConnects(u, query, socket); err != nil {
			return nil, err
		}
	}
	u.RawQuery = query.Encode()
	return u, nil
}

// fromDoctrine reads a URL of Doctrine, without its scheme.
func fromDoctrine(scheme, rest string) (*url.URL, url.Values, error) {
	u, err := url.Parse(scheme + ":" + rest)
	if err != nil || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") { // a part of a password
		return nil, nil, Invalid("the DSN cannot be read; in a password, / is written %%2F, ? %%3F and # %%23")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, nil, Invalid("the parameters of the DSN cannot be read")
	}
	return u, query, nil
}

// fromPDO reads a DSN of PDO without its scheme: NAME=VALUE;NAME=VALUE.
func fromPDO(scheme, rest string) (*url.URL, url.Values, error) {
	server, query := map[string]string{}, url.Values{}
	for part := range strings.SplitSeq(rest, ";") {
		name, value, ok := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		switch {
		case !ok && name != "":
			return nil, nil, Invalid("the DSN has a part that is not NAME=VALUE")
		case slices.Contains([]string{"host", "port", "dbname", "user", "password"}, name):
			server[name] = value
		case name != "":
			query.Set(name, value)
		}
	}
	u := &url.URL{Scheme: scheme, Path: "/" + server["dbname"], Host: server["host"]}
	if strings.HasPrefix(u.Host, "/") { // the directory of a socket
		query.Set("host", u.Host)
		u.Host = ""
	}
	switch port := server["port"]; {
	case port != "" && u.Host != "":
		u.Host += ":" + port
	case port != "":
		query.Set("port", port)
	}
	switch {
	case server["password"] != "":
		u.User = url.UserPassword(server["user"], server["password"])
	case server["user"] != "":
		u.User = url.User(server["user"])
	}
	return u, query, nil
}

// asPHPConnects makes the URL of a MySQL server lead to where PHP connects. Without a host or with
// localhost, PHP uses a unix socket, the one of the parameter or else of its settings, and ignores
// the port. With any other host it ignores the parameter.
func asPHPConnects(u *url.URL, query url.Values, socket string) error {
	path, port := query.Get(socket), u.Port()+query.Get("port")
	query.Del(socket)
	local := strings.EqualFold(u.Hostname(), "localhost") || u.Host == ""
	switch {
	case local && path != "":
		u.Host = ""
		query.Del("port")
		query.Set("socket", path)
	case local && port != "" && port != "3306":
		return Invalid("with the host localhost, PHP ignores the port and uses a socket; write the host as 127.0.0.1, or the socket as unix_socket, in PHP too")
	}
	return nil
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
