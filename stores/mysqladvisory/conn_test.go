package mysqladvisory

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A fakeConn is a driver's connection, and the socket below it. Like go-sql-driver, it cannot look
// at a socket whose deadline has passed.
type fakeConn struct {
	net.Conn
	deadline time.Time
	ended    bool
	looks    int
}

func (f *fakeConn) Connect(context.Context) (sqldriver.Conn, error) { return f, nil }
func (f *fakeConn) Driver() sqldriver.Driver                        { return nil }
func (f *fakeConn) Prepare(string) (sqldriver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (f *fakeConn) Begin() (sqldriver.Tx, error)                    { return nil, errors.ErrUnsupported }
func (f *fakeConn) Close() error                                    { return nil }

func (f *fakeConn) SetDeadline(t time.Time) error {
	f.deadline = t
	return nil
}

// QueryContext answers a ping: the session is the right one, and the server is not read-only.
func (f *fakeConn) QueryContext(context.Context, string, []sqldriver.NamedValue) (sqldriver.Rows, error) {
	if f.ended {
		return nil, errors.New("invalid connection")
	}
	return &fakeRows{}, nil
}

type fakeRows struct{ read bool }

func (*fakeRows) Columns() []string { return []string{"same", "read_only"} }
func (*fakeRows) Close() error      { return nil }

func (r *fakeRows) Next(dest []sqldriver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read = true
	dest[0], dest[1] = int64(1), int64(0)
	return nil
}

func (f *fakeConn) ResetSession(context.Context) error {
	f.looks++
	if f.ended || time.Now().After(f.deadline) {
		return sqldriver.ErrBadConn
	}
	return nil
}

// conn returns a connection of a store to f.
func (f *fakeConn) conn(t *testing.T) *conn {
	db := sql.OpenDB(f)
	t.Cleanup(func() { db.Close() })
	sc, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cfg := defaults()
	return newConn(sc, f, &cfg)
}

// If two connections have one session, a proxy shares sessions. The exception is an older
// connection that has ended without notice, because a server that was restarted numbers its
// sessions from the beginning.
func TestNumbersAfterARestart(t *testing.T) { synctest.Test(t, numbersAfterARestart) }

func numbersAfterARestart(t *testing.T) {
	for _, k := range []struct {
		ended, busy, elsewhere bool
		want                   error
	}{
		{want: errOtherSession},
		{ended: true, want: nil},
		{busy: true, want: nil},
		{elsewhere: true, want: errTwoServers},
		{elsewhere: true, ended: true, want: nil},
		{elsewhere: true, busy: true, want: errTwoServers},
	} {
		c, other := (&fakeConn{}).conn(t), (&fakeConn{ended: k.ended}).conn(t)
		c.id, other.id = "7", "7"
		if k.elsewhere {
			c.server, other.id = "another server", "8"
		}
		if k.busy {
			other.mu.Lock()
		}
		if err := conflict(c, other); err != k.want {
			t.Errorf("%+v: %v", k, err)
		}
		if other.alive() == k.ended && !k.busy {
			t.Errorf("%+v: the other connection is alive: %v", k, other.alive())
		}
	}
}

// If a connection was idle for longer than a statement may take, the store checks it before it uses
// it. A live connection is kept. One that has ended is not used again.
func TestIdleConnections(t *testing.T) { synctest.Test(t, idleConnections) }

func idleConnections(t *testing.T) {
	for _, ended := range []bool{false, true} {
		f := &fakeConn{ended: ended}
		c := f.conn(t)
		c.last, c.until = time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)
		if alive := c.Refresh(); alive == ended || f.looks != 1 {
			t.Errorf("the connection has ended: %v; it is used again: %v, after %d looks", ended, alive, f.looks)
		}
		c.Close()
	}
}

// Between pings, a connection with holds looks at its socket, and notices its end there.
func TestLook(t *testing.T) { synctest.Test(t, look) }

func look(t *testing.T) {
	for _, holds := range []int32{0, 1} {
		c := (&fakeConn{ended: true}).conn(t)
		c.last = time.Now()
		c.load.Store(holds)
		c.lookAtSocket()
		if c.alive() == (holds > 0) {
			t.Errorf("%d holds, and the connection has ended: it is alive: %v", holds, c.alive())
		}
	}
}

// A connection without holds looks at its socket rarely. When its first hold begins, it looks often
// at once, so that the holder soon learns of a KILL.
func TestFirstHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeConn{}
		c := f.conn(t)
		c.last = time.Now()
		go c.Watch()
		defer c.Close()
		<-time.After(c.every * 5 / 2) // it is between two looks
		c.SetLoad(1)
		c.mu.Lock()
		f.ended = true
		c.mu.Unlock()
		began := time.Now()
		<-c.bound.Done()
		if took := time.Since(began); took > lookEvery {
			t.Errorf("the end of the connection was noticed after %v, want %v", took, lookEvery)
		}
	})
}
