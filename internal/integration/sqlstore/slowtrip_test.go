package sqlstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// TestSlowConnections: a waiter, or the holder that releases, has round trips that are longer than a
// reservation. The first waiter still gets the name first.
func TestSlowConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		db     string
		waiter bool // the first waiter is slow; otherwise the holder is
	}{{"postgres", true}, {"postgres", false}, {"mariadb", true}} {
		for _, trip := range []time.Duration{300 * time.Millisecond, 600 * time.Millisecond, 900 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s/%v/slow waiter %v", c.db, trip, c.waiter), func(t *testing.T) {
				t.Parallel()
				slowTrip(t, databases[c.db](t), trip, c.waiter)
			})
		}
	}
}

func slowTrip(t *testing.T, d database, trip time.Duration, slowWaiter bool) {
	name := t.Name()
	// A statement takes one round trip, as with padlock's drivers.
	d.dsn += map[sqlstore.Engine]string{sqlstore.PostgreSQL: "&default_query_exec_mode=exec", sqlstore.MySQL: "?interpolateParams=true"}[d.engine]
	fast := d.woken(t)
	at := d.dsn[strings.IndexAny(d.dsn, "@(")+1:]
	at = strings.TrimPrefix(at, "tcp(")
	at = at[:strings.IndexAny(at, ")/")]
	proxy := server.NewProxy(t, at)
	d.dsn = strings.Replace(d.dsn, at, proxy.Addr(), 1)
	slow := d.woken(t)
	holder, first := slow, fast
	if slowWaiter {
		holder, first = fast, slow
	}
	delay := server.Trouble{Delay: trip / 2}
	holder.take(t, name, driver.Request{})
	proxy.Disturb(delay, delay)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	got := make(chan string, 2)
	waits := func(p *party, token string) {
		r := driver.Request{Name: name, Token: token, TTL: time.Minute}
		_, refused := p.store.Acquire(ctx, r) // as a Locker does before it waits
		_, ok := refused.(*driver.HeldError)
		if !ok {
			t.Errorf("a try while the name is held: %v", refused)
		}
		go func() {
			g, err := p.store.Wait(ctx, r, true)
			if err == nil && g.TTL > 0 && g.TTL <= driver.MaxReservation {
				g, err = p.store.Acquire(ctx, r)
			}
			if err != nil || g.TTL == 0 {
				token += fmt.Sprintf(": %+v, %v", g, err)
			}
			got <- token
			p.store.Release(ctx, name, r.Token, 0)
		}()
	}
	queued := func(n int) {
		server.Eventually(t, func() error {
			st, err := fast.store.Inspect(ctx, name)
			if more := fast.more(t, name); err == nil && (st.Waiters != n || d.engine == sqlstore.PostgreSQL && strings.Count(more, `"p":true`) != n) {
				return fmt.Errorf("%d waiters: %s", st.Waiters, more)
			}
			return err
		})
	}
	waits(first, "first")
	queued(1)
	waits(fast, "second")
	queued(2)
	holder.giveBack(t, name, 0)
	for _, want := range []string{"first", "second"} {
		if token := <-got; token != want {
			t.Errorf("%s; want %s", token, want)
		}
	}
}

// woken returns a party whose waiters PostgreSQL wakes; those of the other databases poll.
func (d database) woken(t *testing.T) *party {
	db, err := d.pool()
	noError(t, err)
	if d.engine != sqlstore.PostgreSQL {
		return partyOver(t, db, d.engine)
	}
	return partyOver(t, db, d.engine, sqlstore.Notify(listener{d.dsn, new(atomic.Int64)}))
}

// more returns what the table knows of a name besides its hold.
func (p *party) more(t *testing.T, name string) (text string) {
	t.Helper()
	query := "SELECT more FROM padlock_locks WHERE name = "
	noError(t, p.db.QueryRow(query+fmt.Sprintf("'%s'", name)).Scan(&text))
	return text
}
