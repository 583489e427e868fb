package mysqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"net"
	"testing"
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

func (f *fakeConn) ResetSession(context.Context) error {
	f.looks++
	if f.ended || time.Now().After(f.deadline) {
		return sqldriver.ErrBadConn
	}
	return nil
}

// A connection that was idle for longer than a statement may take is looked at before it is used,
// and kept. One that has ended is not used again.
func TestIdleConnections(t *testing.T) {
	for _, ended := range []bool{false, true} {
		f := &fakeConn{ended: ended}
		db := sql.OpenDB(f)
		defer db.Close()
		sc, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cfg := defaults()
		c := newConn(sc, f, &cfg)
		c.last, c.until = time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)
		if alive := c.refresh(); alive == ended || f.looks != 1 {
			t.Errorf("the connection has ended: %v; it is used again: %v, after %d looks", ended, alive, f.looks)
		}
		c.close()
	}
}
