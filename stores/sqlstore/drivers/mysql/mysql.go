// Package mysql connects the packages sqlstore and mysqladvisory to MySQL and MariaDB.
//
// Use it to open a store from a URL. If your program uses another driver or has a *sql.DB already,
// call Open of those packages instead.
package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/login"
	"github.com/padlock-go/padlock/storekit/storeurl"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/symfony"
)

// parameters lists the parameter "socket" and those parameters of go-sql-driver/mysql that do not
// change the meaning of statements.
var parameters = []string{
	"socket", "tls", "timeout", "readTimeout", "writeTimeout", "collation", "charset", "compress",
	"interpolateParams", "maxAllowedPacket", "serverPubKey", "allowCleartextPasswords",
	"allowNativePasswords", "rejectReadOnly", "connectionAttributes",
}

// lockWait is how long a statement waits for a row, in seconds. It is shorter than the time after
// which padlock gives up the call. So no statement continues in the server after its caller has
// left.
const lockWait = "3"

// Opener connects to URLs of the form
//
//	mysql://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE
//	mysql://[USER[:PASSWORD]@]/DATABASE?socket=/run/mysqld/mysqld.sock
//
// A URL may have the parameters of go-sql-driver/mysql, such as tls=true. Without tls, the
// connection is not encrypted. For a host other than this machine, tls=preferred is an error,
// because it falls back to plain text. The driver reads no environment variable: MYSQL_HOST,
// MYSQL_PWD and the option files of the server's own clients have no effect.
//
// The client puts values into the text of statements (interpolateParams), which saves one round
// trip for each statement.
func Opener() sqlstore.Opener {
	return sqlstore.Opener{
		Engine:     sqlstore.MySQL,
		Names:      []string{"mysql", "mariadb"},
		Parameters: parameters,
		Open:       open,
		Servers:    servers,
	}
}

// Scheme describes the URLs, for package open.
func Scheme() storeurl.Scheme { return symfony.Scheme(Opener()) }

// Open returns a pool for a URL. Use it if your program keeps its own data in the database of the
// locks. The Listener is nil.
func Open(rawURL string) (*sql.DB, sqlstore.Listener, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: the URL cannot be read", driver.ErrInvalid)
	}
	return open(u, nil)
}

func open(u *url.URL, password func() (string, error)) (*sql.DB, sqlstore.Listener, error) {
	cfg, err := configure(u)
	if err != nil {
		return nil, nil, err
	}
	db, err := connect(cfg, password)
	return db, nil, err
}

// connect returns a pool whose errors contain neither the user nor the password.
func connect(cfg *mysql.Config, password func() (string, error)) (*sql.DB, error) {
	s := &secrets{list: []string{cfg.Passwd, cfg.User}}
	if password != nil {
		if err := cfg.Apply(mysql.BeforeConnect(func(_ context.Context, c *mysql.Config) (err error) {
			if c.Passwd, err = password(); err == nil {
				s.note(c.Passwd)
			}
			return err
		})); err != nil {
			return nil, err
		}
	}
	inner, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: the parameters of the URL cannot be used", driver.ErrInvalid)
	}
	return sql.OpenDB(login.Connector{Inner: inner, Secrets: s.all}), nil
}

// secrets are the texts that no error may contain.
type secrets struct {
	mu   sync.Mutex
	list []string
}

func (s *secrets) note(password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list[0] = password
}

func (s *secrets) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.list...)
}

// configure reads a URL.
func configure(u *url.URL) (*mysql.Config, error) {
	cfg, err := readURL(u)
	if err == nil && cfg.DBName == "" {
		return nil, fmt.Errorf("%w: the URL names no database; write mysql://HOST/DATABASE", driver.ErrInvalid)
	}
	return cfg, err
}

// readURL is like configure, but the database may be missing.
func readURL(u *url.URL) (*mysql.Config, error) {
	query := u.Query()
	socket := query.Get("socket")
	query.Del("socket")
	network, address := "tcp", address(u)
	switch {
	case socket != "" && u.Host != "":
		return nil, fmt.Errorf("%w: the URL has a host and a socket; leave one of them out", driver.ErrInvalid)
	case socket != "":
		network, address = "unix", socket
	case u.Hostname() == "":
		return nil, fmt.Errorf("%w: the URL names no host; write mysql://HOST/DATABASE", driver.ErrInvalid)
	case query.Get("tls") == "preferred" && !login.Local(u.Hostname()):
		return nil, fmt.Errorf("%w: the connection to %s may fall back to plain text; write tls=true, tls=skip-verify or tls=false", driver.ErrInvalid, u.Hostname())
	}
	database := strings.TrimPrefix(u.Path, "/")
	if strings.Contains(database, "/") {
		return nil, fmt.Errorf("%w: the name of a database has no /; write mysql://HOST/DATABASE", driver.ErrInvalid)
	}
	if !query.Has("interpolateParams") {
		query.Set("interpolateParams", "true")
	}
	query.Set("innodb_lock_wait_timeout", lockWait)
	query.Set("autocommit", "1") // the server may have another default
	cfg, err := mysql.ParseDSN(network + "(" + address + ")/?" + query.Encode())
	if err != nil {
		return nil, fmt.Errorf("%w: a parameter of the URL has a value that the driver does not know", driver.ErrInvalid)
	}
	cfg.Logger = &mysql.NopLogger{} // the error says what the logger would print
	cfg.DBName, cfg.User = database, u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	return cfg, nil
}

func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func servers(u *url.URL) (addresses []string, encrypted bool) {
	t := u.Query().Get("tls")
	if encrypted = t != "" && t != "false" && t != "preferred"; u.Host == "" {
		return nil, encrypted
	}
	return []string{address(u)}, encrypted
}
