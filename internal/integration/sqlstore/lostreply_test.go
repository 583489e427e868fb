package sqlstore_test

import (
	"bytes"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

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
