package sqlstore_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// TestSlowReplyToAWaiter: a waiter takes its place in the queue, and the database does not answer
// within the time of a call, or the reply is lost. The wait goes on, and the waiter has one place.
func TestSlowReplyToAWaiter(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]func() (*server.Server, database){
		"postgres": func() (*server.Server, database) {
			srv := server.SharedPostgres(t)
			return srv, database{"pgx", srv.URL() + "&default_query_exec_mode=exec", sqlstore.PostgreSQL}
		},
		"mariadb": func() (*server.Server, database) {
			srv := server.SharedMariaDB(t)
			return srv, database{"mysql", srv.URL() + "?interpolateParams=true", sqlstore.MySQL}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, d := d()
			t.Run("silence", func(t *testing.T) {
				t.Parallel()
				slowPlace(t, srv, d, func(p *server.Proxy) {
					p.Silence(true)
					time.AfterFunc(5*time.Second, func() { p.Silence(false) })
				})
			})
			t.Run("lost", func(t *testing.T) {
				t.Parallel()
				slowPlace(t, srv, d, func(p *server.Proxy) {
					p.LoseReply(func(request []byte) bool { return bytes.Contains(request, []byte("SET version")) })
				})
			})
		})
	}
}

func slowPlace(t *testing.T, srv *server.Server, d database, disturb func(*server.Proxy)) {
	name := t.Name()
	a := d.party(t)
	a.take(t, name, driver.Request{})
	proxy := server.NewProxy(t, srv.Addr())
	d.dsn = strings.Replace(d.dsn, srv.Addr(), proxy.Addr(), 1)
	b := d.party(t)
	disturb(proxy)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waited := make(chan error, 1)
	r := driver.Request{Name: name, Token: driver.TokenOf("waiter"), TTL: time.Minute}
	var g driver.Grant
	go func() {
		var err error
		g, err = b.store.Wait(ctx, r, true)
		waited <- err
	}()
	for waiters := 0; waiters == 0; {
		select {
		case err := <-waited:
			t.Fatalf("the wait ended with %v while the name was held", err)
		case <-time.After(50 * time.Millisecond):
		}
		st, err := a.store.Inspect(ctx, name)
		noError(t, err)
		if waiters = st.Waiters; waiters > 1 {
			t.Errorf("the waiter has %d places", waiters)
		}
	}
	a.giveBack(t, name, 0)
	noError(t, <-waited)
	if g.TTL == 0 { // the waiter was too slow for its reservation
		r.Token = driver.TokenOf("the next try")
	}
	if _, err := b.store.Acquire(ctx, r); err != nil {
		t.Errorf("Acquire after the wait: %v", err)
	}
}
