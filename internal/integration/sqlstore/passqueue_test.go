package sqlstore_test

import (
	"bytes"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// stoppedClock makes the store remember for ever what it would forget after some time.
func stoppedClock() sqlstore.Option { return sqlstore.WithClock(stopped{driver.SystemClock()}) }

type stopped struct{ driver.Clock }

func (stopped) Now() driver.Instant { return driver.Instant(time.Hour) }

// releaseTakesAPlace: a release hands the name over to another process, and takes a place for the
// next waiter of its own process. That waiter comes before one that arrives later.
func releaseTakesAPlace(t *testing.T, d contest) {
	a, l := d.pushed(t, stoppedClock())
	b, _ := d.pushed(t)
	const name = reservedLong + "place"
	a.take(t, name, driver.Request{})
	mine := driver.Request{Name: name, Token: "of this process", TTL: time.Minute}
	out, g, queued, err := a.store.Pass(t.Context(), "token of "+name, mine)
	if out != driver.OutcomeReleased || g.TTL == 0 || queued || err != nil {
		t.Fatalf("nobody waits: %v, %+v, %v, %v", out, g, queued, err)
	}
	got := make(chan grant, 3)
	a.lineUp(t, name, "before", 1, got) // so that notifications arrive at a
	b.lineUp(t, name, "b", 2, got)
	before := l.pairs.Load()
	next := driver.Request{Name: name, Token: "the next one", TTL: time.Minute}
	out, g, queued, err = a.store.Pass(t.Context(), mine.Token, next)
	if out != driver.OutcomeReleased || g.TTL != 0 || !queued || err != nil {
		t.Fatalf("somebody waits: %v, %+v, %v, %v", out, g, queued, err)
	}
	if d.together && l.pairs.Load() == before {
		t.Error("the two statements were not sent together")
	}
	st, err := a.store.Inspect(t.Context(), name)
	if noError(t, err); st.Waiters != 2 {
		t.Fatalf("after the release %d waiters have places, want 2", st.Waiters)
	}
	b.lineUp(t, name, "last", 3, got)
	fence := uint64(0)
	for _, want := range []string{"before", "b"} {
		one := <-got
		noError(t, one.err)
		if one.waiter != want {
			t.Fatalf("%s got the name with fence %d, want %s", one.waiter, one.g.Fence, want)
		}
		if one.g.Fence <= fence {
			t.Fatalf("SAFETY: %s got fence %d after %d", want, one.g.Fence, fence)
		}
		fence = one.g.Fence
		_, err = map[string]*party{"before": a, "b": b}[want].store.Release(t.Context(), name, one.token, 0)
		noError(t, err)
	}
	reserved, err := a.store.Wait(t.Context(), next, true)
	noError(t, err)
	if reserved.TTL == 0 || reserved.Fence <= fence {
		t.Fatalf("the waiter with the place got %+v after fence %d", reserved, fence)
	}
	_, err = a.store.Release(t.Context(), name, next.Token, 0)
	noError(t, err)
	last := <-got
	if noError(t, last.err); last.waiter != "last" {
		t.Errorf("%s got the name at the end", last.waiter)
	}
}

// placeIsGivenUp: the waiter for which a release has taken a place does not want the name any more.
func placeIsGivenUp(t *testing.T, d contest) {
	a, _ := d.pushed(t, stoppedClock())
	b, _ := d.pushed(t)
	const name = reservedLong + "given up"
	a.take(t, name, driver.Request{})
	got := make(chan grant, 2)
	a.lineUp(t, name, "a", 1, got)
	b.lineUp(t, name, "b", 2, got)
	next := driver.Request{Name: name, Token: "next", TTL: time.Minute}
	_, _, queued, err := a.store.Pass(t.Context(), "token of "+name, next)
	if noError(t, err); !queued {
		t.Fatal("there is no place")
	}
	a.queue(t, name, 2)
	_, err = a.store.Release(t.Context(), name, next.Token, 0)
	noError(t, err)
	a.queue(t, name, 1)
	first := <-got
	noError(t, first.err)
	_, err = a.store.Release(t.Context(), name, first.token, 0)
	noError(t, err)
	noError(t, (<-got).err)
}

// lostReply: the reply to the statement that hands the name over is lost. The next holder is
// notified all the same.
func lostReply(t *testing.T, d contest) {
	if d.together {
		return // the server gets the second statement with the first
	}
	there, err := url.Parse(d.dsn)
	noError(t, err)
	addr := there.Host
	proxy := server.NewProxy(t, addr)
	far := d
	far.dsn = strings.Replace(d.dsn, addr, proxy.Addr(), 1) + "&default_query_exec_mode=exec"
	a, _ := far.pushed(t)
	b, deaf := d.pushed(t)
	const name = "lost reply"
	a.take(t, name, driver.Request{})
	got := make(chan grant, 1)
	b.lineUp(t, name, "b", 1, got)
	deaf.deaf.Store(true) // it counts the notifications, and b finds the free name by itself
	proxy.LoseReply(func(request []byte) bool { return bytes.Contains(request, []byte("queue,0")) })
	if _, err := a.store.Release(t.Context(), name, "token of "+name, 0); err == nil {
		t.Error("the reply was not lost")
	}
	eventually(t, "the waiter is notified", func() bool { return deaf.ignored.Load() > 0 })
	noError(t, (<-got).err)
}

// SendBoth runs each statement in a transaction of its own: the second one runs even if the first
// one fails, and the connection can be used afterwards. It refuses a connection that prepares no
// statements.
func TestSendBoth(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	l, err := sender(srv.URL())
	noError(t, err)
	both := func(dsn, first string) (*sql.Conn, []string, error, error) {
		db, err := database{"pgx", dsn, sqlstore.PostgreSQL}.pool()
		noError(t, err)
		t.Cleanup(func() { db.Close() })
		conn, err := db.Conn(t.Context())
		noError(t, err)
		t.Cleanup(func() { conn.Close() })
		values, one, two := l.SendBoth(t.Context(), conn, sqlstore.Statement{Text: first, Params: []string{"7"}},
			sqlstore.Statement{Text: "INSERT INTO seconds VALUES ($1)", Params: []string{"5"}})
		return conn, values, one, two
	}
	db, err := database{"pgx", srv.URL(), sqlstore.PostgreSQL}.pool()
	noError(t, err)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE seconds (n bigint, x bigint DEFAULT txid_current())")
	noError(t, err)
	for first, want := range map[string]string{"SELECT $1::int, txid_current()": "7", "SELECT 1/($1::int - 7)": ""} {
		_, err = db.Exec("DELETE FROM seconds")
		noError(t, err)
		conn, values, one, two := both(srv.URL(), first)
		if noError(t, two); (one == nil) != (want != "") || want != "" && values[0] != want {
			t.Errorf("%s: %q, %v", first, values, one)
		}
		var n int
		var xid string
		noError(t, conn.QueryRowContext(t.Context(), "SELECT n, x::text FROM seconds").Scan(&n, &xid))
		if n != 5 || want != "" && values[1] == xid {
			t.Errorf("%s: the second statement left %d in transaction %s; the first returned %q", first, n, xid, values)
		}
	}
	if _, _, one, _ := both(srv.URL()+"&default_query_exec_mode=exec", "SELECT $1::int"); !errors.Is(one, errors.ErrUnsupported) {
		t.Errorf("without prepared statements: %v", one)
	}
}
