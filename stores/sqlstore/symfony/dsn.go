package symfony

import (
	"net/url"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// dsns has the DSN schemes with which PHP opens each engine. They are the schemes of PDO and of
// Doctrine DBAL, and the names of Doctrine's drivers.
var dsns = map[sqlstore.Engine][]string{
	sqlstore.PostgreSQL: {"pgsql", "postgres", "postgresql", "pdo-pgsql"},
	sqlstore.MySQL:      {"mysql", "mysql2", "pdo-mysql"},
	sqlstore.SQLite:     {"sqlite", "sqlite3"},
}

// fromSymfony translates a DSN of PHP's Symfony to the URL of the same table. The DSN is a URL of
// Doctrine DBAL, or a DSN of PDO such as pgsql:host=…;dbname=…. After the DSN come a question mark
// and the parameters of this store. The errors contain nothing of the DSN.
func fromSymfony(o sqlstore.Opener, dsn string) (*url.URL, error) {
	_, rest, _ := strings.Cut(dsn, ":")
	var u *url.URL
	var query url.Values
	var err error
	switch {
	case o.Engine != sqlstore.SQLite:
		u, query, err = fromServer(o, rest)
	case strings.HasPrefix(rest, "//"):
		u, query, err = fromDoctrine(o, rest)
	default:
		u, query, err = fromPath(o, rest)
	}
	if err != nil {
		return nil, err
	}
	if layouts[query.Get("layout")] == 0 {
		return nil, storekit.Invalidf("PHP stores the names of locks in two ways: add a parameter layout to the DSN: %s", whichLayout)
	}
	u.RawQuery = query.Encode()
	return u, nil
}

// fromDoctrine reads a URL of Doctrine for SQLite, without its scheme.
func fromDoctrine(o sqlstore.Opener, rest string) (*url.URL, url.Values, error) {
	rest = strings.Replace(rest, "///", "//localhost/", 1) // as Doctrine does
	u, err := storeurl.FromDatabaseDSN(o.Names[0], ":"+rest, "")
	if err != nil {
		return nil, nil, err
	}
	path, ok := strings.CutPrefix(u.Path, "//")
	if !ok || u.Host != "localhost" {
		return nil, nil, storekit.Invalidf("Doctrine opens sqlite:///PATH in the directory in which PHP runs; write four slashes, symfony+sqlite:////PATH, in PHP too")
	}
	return &url.URL{Scheme: o.Names[0], Path: "/" + path}, u.Query(), nil
}

// fromPath reads the path in a DSN of PDO for SQLite.
func fromPath(o sqlstore.Opener, rest string) (*url.URL, url.Values, error) {
	path, query := parametersOf(rest)
	if !strings.HasPrefix(path, "/") {
		return nil, nil, storekit.Invalidf("no other program finds the file of a DSN whose path does not begin at the root; write symfony+sqlite:/PATH, in PHP too")
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

// fromServer reads the DSN of a server, without its scheme. PDO's form may have parameters of this
// store after a question mark; the URL of Doctrine has them as its own.
func fromServer(o sqlstore.Opener, rest string) (*url.URL, url.Values, error) {
	query := url.Values{}
	if !strings.HasPrefix(rest, "//") {
		rest, query = parametersOf(rest)
	}
	socket := ""
	if o.Engine == sqlstore.MySQL {
		socket = "unix_socket"
	}
	u, err := storeurl.FromDatabaseDSN(o.Names[0], ":"+rest, socket)
	if err != nil {
		return nil, nil, err
	}
	for name, values := range u.Query() {
		query[name] = values
	}
	return u, query, nil
}
