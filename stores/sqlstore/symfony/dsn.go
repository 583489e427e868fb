package symfony

import (
	"net/url"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/stores/sqlstore"
)

// dsns has the DSN schemes with which PHP opens each engine. They are the schemes of PDO and of
// Doctrine DBAL, and the names of Doctrine's drivers.
var dsns = map[sqlstore.Engine][]string{
	sqlstore.PostgreSQL: {"pgsql", "postgres", "postgresql", "pdo-pgsql"},
	sqlstore.MySQL:      {"mysql", "mysql2", "pdo-mysql"},
	sqlstore.SQLite:     {"sqlite", "sqlite3"},
}

// phpClientParams are parameters of Doctrine that only say how PHP connects. padlock ignores them.
var phpClientParams = []string{"charset", "persistent", "serverVersion"}

// fromSymfony translates a DSN of PHP's Symfony to the URL of the same table. The DSN is a URL of
// Doctrine DBAL, or a DSN of PDO such as pgsql:host=…;dbname=…. After the DSN come a question mark
// and the parameters of this store. The errors contain nothing of the DSN.
func fromSymfony(o sqlstore.Opener, dsn string) (*url.URL, error) {
	_, rest, _ := strings.Cut(dsn, ":")
	var u *url.URL
	var query url.Values
	var err error
	switch {
	case strings.HasPrefix(rest, "//"):
		u, query, err = fromDoctrine(o, rest)
	case o.Engine == sqlstore.SQLite:
		u, query, err = fromPath(o, rest)
	default:
		u, query, err = fromPDO(o, rest)
	}
	if err != nil {
		return nil, err
	}
	if layouts[query.Get("layout")] == 0 {
		return nil, invalid("PHP stores the names of locks in two ways: add a parameter layout to the DSN: %s", whichLayout)
	}
	u.RawQuery = query.Encode()
	return u, nil
}

// fromDoctrine reads a URL of Doctrine, without its scheme.
func fromDoctrine(o sqlstore.Opener, rest string) (*url.URL, url.Values, error) {
	if o.Engine == sqlstore.SQLite {
		rest = strings.Replace(rest, "///", "//localhost/", 1) // as Doctrine does
	}
	u, err := url.Parse(o.Names[0] + ":" + rest)
	if err != nil || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") { // a part of a password
		return nil, nil, invalid("the DSN cannot be read; in a password, / is written %%2F, ? %%3F and # %%23")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, nil, invalid("the parameters of the DSN cannot be read")
	}
	for _, name := range phpClientParams {
		query.Del(name)
	}
	if o.Engine != sqlstore.SQLite {
		rename(query, "unix_socket", "socket")
		return u, query, nil
	}
	path, ok := strings.CutPrefix(u.Path, "//")
	if !ok || u.Host != "localhost" {
		return nil, nil, invalid("Doctrine opens sqlite:///PATH in the directory in which PHP runs; write four slashes, symfony+sqlite:////PATH, in PHP too")
	}
	return &url.URL{Scheme: o.Names[0], Path: "/" + path}, query, nil
}

// fromPath reads the path in a DSN of PDO for SQLite.
func fromPath(o sqlstore.Opener, rest string) (*url.URL, url.Values, error) {
	path, query := parametersOf(rest)
	if !strings.HasPrefix(path, "/") {
		return nil, nil, invalid("no other program finds the file of a DSN whose path does not begin at the root; write symfony+sqlite:/PATH, in PHP too")
	}
	return &url.URL{Scheme: o.Names[0], Path: path}, query, nil
}

// parametersOf splits a DSN of PDO into the DSN itself and the parameters of this store. The
// parameters come after the last question mark. A password may contain a question mark, too. So if
// unknown parameters follow the question mark, the whole text is the DSN.
func parametersOf(dsn string) (rest string, query url.Values) {
	i := strings.LastIndexByte(dsn, '?')
	if i < 0 {
		return dsn, url.Values{}
	}
	query, err := url.ParseQuery(dsn[i+1:])
	known := append([]string{"pool", "password-file", "_pragma"}, parameters...)
	for name := range query {
		if !slices.Contains(known, name) {
			return dsn, url.Values{}
		}
	}
	if err != nil {
		return dsn, url.Values{}
	}
	return dsn[:i], query
}

// fromPDO parses a DSN in the format of PDO, PHP's interface to databases. The DSN must name a
// server and not a file. The argument rest is the DSN without the engine at its beginning.
func fromPDO(o sqlstore.Opener, rest string) (*url.URL, url.Values, error) {
	rest, query := parametersOf(rest)
	parts := map[string]string{}
	for part := range strings.SplitSeq(rest, ";") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok && name != "" {
			return nil, nil, invalid("the DSN has a part that is not NAME=VALUE")
		}
		parts[strings.TrimSpace(name)] = value
	}
	take := func(name string) string {
		value := parts[name]
		delete(parts, name)
		return value
	}
	u := &url.URL{Scheme: o.Names[0], Host: take("host"), Path: "/" + take("dbname")}
	port := take("port")
	if strings.HasPrefix(u.Host, "/") { // the directory of a socket
		query.Set("host", u.Host)
		u.Host = ""
	}
	switch {
	case port != "" && u.Host != "":
		u.Host += ":" + port
	case port != "":
		query.Set("port", port)
	}
	user, password := take("user"), take("password")
	switch {
	case password != "":
		u.User = url.UserPassword(user, password)
	case user != "":
		u.User = url.User(user)
	}
	for _, name := range phpClientParams {
		take(name)
	}
	for name, value := range parts {
		if name != "" {
			query.Set(name, value)
		}
	}
	rename(query, "unix_socket", "socket")
	return u, query, nil
}

// rename gives a parameter the name that padlock knows.
func rename(query url.Values, from, to string) {
	if query.Has(from) {
		query.Set(to, query.Get(from))
		query.Del(from)
	}
}
