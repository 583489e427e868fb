package mysqladvisory_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
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
	srv := shared(t)
	p, dsn := startPHP(t, srv), database(t, srv)
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
	srv := shared(t)
	p, dsn := startPHP(t, srv), database(t, srv)
	s := mustOpenURL(t, dsn, "layout=symfony")
	p.Ask("yes", "acquire a job of PHP")
	r := request("a job of PHP")
	granted := make(chan driver.Request, 1)
	go func() {
		for t.Context().Err() == nil {
			r := request(r.Name)
			if g, err := s.Wait(t.Context(), r, true); err != nil || g.TTL == 0 {
				continue
			}
			if _, err := s.Acquire(t.Context(), r); err == nil {
				granted <- r
				return
			}
		}
	}()
	queued(t, dsn, 1)
	p.Ask("yes", "release a job of PHP")
	r = <-granted
	p.Ask("no", "acquire a job of PHP")
	p.Send("wait a job of PHP")
	release(t, s, r)
	p.Expect("yes")
	refused(t, s, request(r.Name))
}
