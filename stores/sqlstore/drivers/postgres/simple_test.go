package postgres

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// A cutter is a proxy that ends a connection within the reply to one request. The request is the
// first one that contains the word "counted".
type cutter struct {
	l     net.Listener
	to    string
	armed atomic.Bool  // the next request that contains the word is the one
	pass  atomic.Int64 // how many messages of the reply pass; -1 lets all pass
}

func newCutter(t *testing.T, to string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{l: l, to: to}
	c.pass.Store(-1)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go c.serve(client)
		}
	}()
	return c
}

// passOne reports whether one more message of the reply may pass.
func (c *cutter) passOne() bool {
	for {
		left := c.pass.Load()
		if left <= 0 {
			return left < 0
		}
		if c.pass.CompareAndSwap(left, left-1) {
			return true
		}
	}
}

func (c *cutter) serve(client net.Conn) {
	defer client.Close()
	srv, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer srv.Close()
	var counted atomic.Bool
	go func() {
		defer client.Close()
		defer srv.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := client.Read(buf)
			if err != nil {
				return
			}
			if bytes.Contains(buf[:n], []byte("counted")) && c.armed.CompareAndSwap(true, false) {
				counted.Store(true)
			}
			if _, err := srv.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	for {
		var head [5]byte
		if _, err := io.ReadFull(srv, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(srv, body); err != nil {
			return
		}
		if counted.Load() && !c.passOne() {
			return
		}
		if _, err := client.Write(append(head[:], body...)); err != nil {
			return
		}
	}
}

// The reply to a statement is cut after each of its messages, in each mode of pgx. The statement
// has then been carried out once, and the caller learns that the reply was lost. A statement that
// was sent again would find that nothing is left to do, as if it had been refused.
func TestCutReply(t *testing.T) {
	server.Thorough(t)
	srv := server.Postgres(t, server.PostgresOptions{})
	c := newCutter(t, srv.Addr())
	for _, mode := range []string{"", "exec", "simple_protocol", "cache_describe", "describe_exec"} {
		rawURL := strings.Replace(srv.URL(), srv.Addr(), c.l.Addr().String(), 1)
		if mode != "" {
			rawURL += "&default_query_exec_mode=" + mode
		}
		db, _, err := Open(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(2)
		if _, err := db.Exec("CREATE TABLE IF NOT EXISTS t (n int)"); err != nil {
			t.Fatal(err)
		}
		for pass := int64(0); ; pass++ {
			returned, changed := cutAt(t, db, c, pass)
			if !returned && !changed {
				break
			}
			if pass > 20 {
				t.Fatalf("mode %q: the reply has more than %d messages", mode, pass)
			}
		}
	}
}

// cutAt runs two statements whose replies are cut after some messages. It reports whether the
// replies were cut.
func cutAt(t *testing.T, db *sql.DB, c *cutter, pass int64) (query, exec bool) {
	t.Helper()
	var n int
	run := func(statement func() error) bool {
		if _, err := db.Exec("DELETE FROM t"); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec("INSERT INTO t VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		c.pass.Store(pass)
		c.armed.Store(true)
		err := statement()
		c.pass.Store(-1)
		if errors.Is(err, sql.ErrNoRows) {
			t.Errorf("cut after %d messages: %v", pass, err)
		}
		return err != nil
	}
	query = run(func() error {
		return db.QueryRow("UPDATE t SET n = 2 WHERE n = 1 AND 'counted' <> $1 RETURNING n", "x").Scan(&n)
	})
	exec = run(func() error {
		res, err := db.Exec("UPDATE t SET n = 2 WHERE n = 1 AND 'counted' <> $1", "x")
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			t.Errorf("cut after %d messages: %d rows, %v", pass, n, err)
		}
		return nil
	})
	return query, exec
}
