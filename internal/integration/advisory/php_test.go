package advisory_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// startPHP starts a process that takes locks with Symfony's PostgreSqlStore, or with the statements
// of its MysqlStore.
func startPHP(t *testing.T, sys *system, serverURL string) *server.PHP {
	t.Helper()
	u := sys.url(serverURL, "")
	dsn := fmt.Sprintf("host=%s;port=%s;dbname=%s", u.Hostname(), u.Port(), strings.Trim(u.Path, "/"))
	if sys == mariadb {
		return server.StartPHP(t, server.PHPNeeds{Extension: "pdo_mysql"}, "testdata/mysql.php", "mysql:"+dsn)
	}
	return server.StartPHP(t, server.PHPNeeds{Extension: "pdo_pgsql", Symfony: []string{"Lock"}}, "testdata/postgres.php", "pgsql:"+dsn)
}

// symfony are the parameters of a store that shares the locks of Symfony.
func (sys *system) symfony() string {
	if sys == postgres {
		return "layout=symfony"
	}
	return "" // it has no others
}

// PHP and padlock exclude each other in both directions, and on PostgreSQL in both modes.
func TestSymfony(t *testing.T) {
	each(t, func(t *testing.T, sys *system) {
		at := sys.shared(t).URL()
		p, s := startPHP(t, sys, at), sys.mustOpen(t, at, sys.symfony())
		for _, name := range []string{"report/42:daily run", "php a", "é", "job " + strings.Repeat("x", 300)} {
			r := request(name)
			take(t, s, r)
			p.Ask("no", "acquire "+name)
			release(t, s, r)

			p.Ask("yes", "acquire "+name)
			if held := refused(t, s, request(name)); !held.Foreign() {
				t.Errorf("PHP has the lock; the error says %+v", held.Holds)
			}
			if sys == postgres {
				refused(t, s, reader(name))
				own := sys.mustOpen(t, at, "")
				take(t, own, r) // another layout, another lock
				release(t, own, r)
			}
			p.Ask("yes", "release "+name)
			if sys == postgres {
				readWithPHP(t, p, s, name)
			}
		}
	})
}

// readWithPHP shares a free name with PHP, and then promotes its own hold.
func readWithPHP(t *testing.T, p *server.PHP, s store, name string) {
	read := reader(name)
	take(t, s, read)
	p.Ask("yes", "read "+name)
	p.Ask("no", "acquire "+name)
	refused(t, s, request(name))
	write := read
	write.Shared = false
	if _, err := s.(driver.Converter).Convert(t.Context(), write); err == nil {
		safety.TwoHold(t, "a reader was promoted while PHP reads")
	}
	p.Ask("yes", "release "+name)
	if _, err := s.(driver.Converter).Convert(t.Context(), write); err != nil {
		t.Errorf("promotion of the only reader: %v", err)
	}
	p.Ask("no", "read "+name)
	release(t, s, read)
}

// A waiter gets a lock that PHP gives back, and PHP waits for a lock of padlock's.
func TestWaitForSymfony(t *testing.T) {
	each(t, func(t *testing.T, sys *system) {
		at, r := sys.shared(t).URL(), request("a job of PHP")
		p, s := startPHP(t, sys, at), sys.mustOpen(t, at, sys.symfony())
		p.Ask("yes", "acquire a job of PHP")
		granted := make(chan error, 1)
		go func() {
			_, err := s.Wait(t.Context(), r, true)
			granted <- err
		}()
		sys.queued(t, sys.db(t, at), 1)
		p.Ask("yes", "release a job of PHP")
		noError(t, <-granted)
		take(t, s, r)
		p.Ask("no", "acquire a job of PHP")
		p.Send("wait a job of PHP")
		release(t, s, r)
		p.Expect("yes")
		refused(t, s, request(r.Name))
	})
}

// PHP connects by TCP or by a socket, and the URL made of its DSN leads to the same place. PHP's
// rule is its own: without a host and with localhost it uses a socket and ignores the port.
func TestWherePHPConnects(t *testing.T) {
	t.Parallel()
	p := server.StartPHP(t, server.PHPNeeds{Extension: "pdo_mysql"}, "testdata/connects.php")
	for dsn, php := range map[string]string{
		"mysql:host=127.0.0.1;port=9;dbname=d":                      "tcp",
		"mysql:host=127.0.0.1;port=9;unix_socket=/nowhere;dbname=d": "tcp",
		"mysql:host=localhost;port=9;unix_socket=/nowhere;dbname=d": "socket",
		"mysql:unix_socket=/nowhere;dbname=d":                       "socket",
		"mysql:port=9;unix_socket=/nowhere;dbname=d":                "socket",
		"mysql:host=localhost;port=9;dbname=d":                      "socket", // of its settings
		"mysql:port=9;dbname=d":                                     "socket",
	} {
		p.Ask(php, dsn)
		u, err := storeurl.FromDatabaseDSN("mysql", dsn, "unix_socket")
		is := "tcp"
		switch {
		case errors.Is(err, driver.ErrInvalid) && !strings.Contains(dsn, "unix_socket"):
			is = "socket" // padlock does not know PHP's settings, and refuses the DSN
		case err != nil:
			t.Errorf("%s: %v", dsn, err)
			continue
		case u.Query().Get("socket") == "/nowhere":
			is = "socket"
		}
		if is != php {
			t.Errorf("%s: PHP uses %s, padlock %v, %v", dsn, php, u, err)
		}
	}
}
