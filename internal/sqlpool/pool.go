// Package sqlpool ends the connections of a pool whose server or session does not write. The stores
// in databases use it.
//
// A server that was demoted keeps its connections, and behind a fixed address (a load balancer, a
// DNS name) only a new connection reaches the new primary. A session of PostgreSQL that began while
// default_transaction_read_only was on stays read-only, even if the setting is taken back.
package sqlpool

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// A Pool is a pool of package database/sql. If a statement is refused with WrongRole, the Pool ends
// the connection, so that the next statement gets a new one.
type Pool struct {
	*sql.DB
	SQLite bool // see Here

	file    atomic.Pointer[openFile]
	mu      sync.Mutex
	emptied time.Time // when Leave ended all idle connections
}

// ExecContext is sql.DB.ExecContext.
func (p *Pool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := p.Here(ctx); err != nil {
		return nil, err
	}
	res, err := p.DB.ExecContext(ctx, query, args...)
	return res, p.See(err)
}

// QueryContext is sql.DB.QueryContext.
func (p *Pool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := p.Here(ctx); err != nil {
		return nil, err
	}
	rows, err := p.DB.QueryContext(ctx, query, args...)
	return rows, p.See(err)
}

// QueryRowContext is sql.DB.QueryRowContext.
func (p *Pool) QueryRowContext(ctx context.Context, query string, args ...any) Row {
	if err := p.Here(ctx); err != nil {
		return Row{err: err}
	}
	return Row{row: p.DB.QueryRowContext(ctx, query, args...), p: p}
}

// A Row is the result of QueryRowContext.
type Row struct {
	row *sql.Row
	p   *Pool
	err error // of Here
}

// Scan is sql.Row.Scan.
func (r Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	return r.p.See(r.row.Scan(dest...))
}

// See returns err. If err is a refusal with WrongRole, See calls Leave first.
func (p *Pool) See(err error) error {
	if WrongRole(err) {
		p.Leave()
	}
	return err
}

// emptyEvery limits how often Leave ends all idle connections. The pool may be the caller's, who
// reads much from a server that refuses to write for hours.
const emptyEvery = time.Second

// leaveTime limits Leave, if other callers have taken all connections meanwhile.
const leaveTime = 100 * time.Millisecond

// Leave ends the idle connections: they were opened in the same period as the one on which a
// statement was just refused, and usually are as stale. If Leave has done that less than a second
// ago, it ends only one, the connection that was given back last. That is the one of the refused
// statement, unless other callers use the pool. A connection that is in use ends when a statement of
// padlock is refused on it.
func (p *Pool) Leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.Stats()
	n := min(1, st.Idle)
	switch {
	case st.Idle == 0 && st.MaxIdleClosed > 0:
		n = 1 // another pool keeps the connections, as pgxpool does. It gives the last one again.
	case time.Since(p.emptied) > emptyEvery:
		n, p.emptied = st.Idle, time.Now()
	}
	p.end(n)
}

// end ends n connections that are idle.
func (p *Pool) end(n int) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	for range n {
		conn, err := p.Conn(ctx)
		if err != nil {
			return
		}
		// With ErrBadConn, package database/sql ends the connection. It also returns the error.
		_ = conn.Raw(func(inner any) error {
			endPgx(ctx, inner)
			return driver.ErrBadConn
		})
	}
}

// endPgx ends a connection of pgx. Its adapter stdlib would give the connection back to a pgxpool,
// which keeps it. This package imports no driver, so endPgx finds the methods by their names.
func endPgx(ctx context.Context, inner any) {
	get := reflect.ValueOf(inner).MethodByName("Conn")
	if !get.IsValid() || get.Type().NumIn() != 0 || get.Type().NumOut() != 1 {
		return
	}
	if c, ok := get.Call(nil)[0].Interface().(interface{ Close(context.Context) error }); ok {
		_ = c.Close(ctx) // the connection is of no use any more
	}
}

// Explain adds to a refusal with WrongRole what it means.
func Explain(err error) error {
	if errors.As(err, new(movedError)) {
		return err
	}
	return fmt.Errorf("the server does not write now, as a standby, a replica or a read-only database; the next call connects anew: %w", err)
}

// An openFile is the file that the connections of a pool of SQLite have open.
type openFile struct {
	path string // "" for a database in memory
	is   os.FileInfo
}

// A movedError says that there is another file at the path, or none. SQLite itself reports that only
// if the file has no write-ahead log.
type movedError string

func (e movedError) Error() string {
	return "the file " + string(e) + " was replaced or removed while it was open; the next call uses the file that is there then"
}

// Code returns SQLITE_READONLY_DBMOVED.
func (e movedError) Code() int { return 1032 }

// Here returns an error if the file of an SQLite database was replaced or removed. The connections
// would go on with the old file, while programs that start later use the new one. Here ends the idle
// connections. When no connection is left, the next one opens the new file.
func (p *Pool) Here(ctx context.Context) error {
	if !p.SQLite {
		return nil
	}
	f := p.file.Load()
	if f == nil {
		if f = p.find(ctx); f == nil {
			return nil // the statement that follows returns the error
		}
	}
	if f.path == "" {
		return nil
	}
	is, err := os.Stat(f.path)
	gone := errors.Is(err, fs.ErrNotExist)
	if err == nil && os.SameFile(f.is, is) || err != nil && !gone { // a program that has dropped its rights may not look
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(p.Stats().Idle)
	if !gone && p.Stats().OpenConnections == 0 {
		p.file.CompareAndSwap(f, &openFile{f.path, is})
	}
	return movedError(f.path)
}

// find asks SQLite for the path of the file.
func (p *Pool) find(ctx context.Context) *openFile {
	f := &openFile{}
	if p.DB.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&f.path) != nil {
		return nil
	}
	if f.path != "" {
		var err error
		if f.is, err = os.Stat(f.path); err != nil {
			return nil
		}
	}
	p.file.CompareAndSwap(nil, f)
	return p.file.Load()
}
