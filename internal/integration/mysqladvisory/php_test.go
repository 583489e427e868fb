package mysqladvisory_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// startPHP starts a process that takes locks with the statements of Symfony's MysqlStore.
func startPHP(t *testing.T, srv *server.Server) *server.PHP {
	t.Helper()
	host, port, err := net.SplitHostPort(srv.Addr())
	noError(t, err)
	needs := server.PHPNeeds{Extension: "pdo_mysql"}
	return server.StartPHP(t, needs, "testdata/lock.php", fmt.Sprintf("mysql:host=%s;port=%s", host, port))
}

// PHP and padlock exclude each other in both directions.
func TestPHP(t *testing.T) {
	t.Parallel()
	srv := server.SharedMariaDB(t)
	p, dsn := startPHP(t, srv), srv.URL()
	s, plain := mustOpenURL(t, dsn, "layout=symfony"), mustOpenURL(t, dsn, "")
	for _, name := range []string{"report/42:daily run", "php a", "é", "job " + strings.Repeat("x", 300)} {
		r := request(name)
		take(t, s, r)
		p.Ask("no", "acquire "+name)
		release(t, s, r)

		p.Ask("yes", "acquire "+name)
		if held := refused(t, s, request(name)); !held.Foreign() {
			t.Errorf("PHP has the lock; the error says %+v", held.Holds)
		}
		own := request(name)
		take(t, plain, own) // another layout, another lock
		release(t, plain, own)
		p.Ask("yes", "release "+name)
	}
}

// A waiter gets a lock that PHP gives back, and PHP waits for a lock of padlock's.
func TestWaitForPHP(t *testing.T) {
	t.Parallel()
	srv := server.SharedMariaDB(t)
	p, dsn := startPHP(t, srv), srv.URL()
	s := mustOpenURL(t, dsn, "layout=symfony")
	p.Ask("yes", "acquire a job of PHP")
	r := request("a job of PHP")
	granted := make(chan error, 1)
	go func() {
		_, err := s.Wait(t.Context(), r, true)
		granted <- err
	}()
	queued(t, dsn, 1)
	p.Ask("yes", "release a job of PHP")
	noError(t, <-granted)
	take(t, s, r)
	p.Ask("no", "acquire a job of PHP")
	p.Send("wait a job of PHP")
	release(t, s, r)
	p.Expect("yes")
	refused(t, s, request(r.Name))
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
