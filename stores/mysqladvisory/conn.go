package mysqladvisory

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// A conn is a connection that the store has taken out of the pool, so that no other code uses it.
// When a conn has ended, the store closes it and never uses it again.
type conn struct {
	*advisory.Link
	sc     *sql.Conn
	cfg    *config
	id     string // the number of the session
	server string // names the server, to distinguish it from others
	// mark is the name of a lock that only this session has. So this lock identifies the session.
	mark string
}

func newConn(sc *sql.Conn, socket net.Conn, cfg *config) *conn {
	return &conn{Link: advisory.NewLink(&cfg.Config, socket), sc: sc, cfg: cfg, mark: newMark()}
}

// A row is one row of the result of a statement. An element that is NULL has Valid set to false.
type row []sql.NullString

// isOne reports whether a column is 1.
func (r row) isOne(i int) bool { return r[i].String == "1" }

func (r row) number(i int) uint64 {
	n, _ := strconv.ParseUint(r[i].String, 10, 64)
	return n
}

// query runs a statement and returns its rows.
func (c *conn) query(text string) ([]row, error) { return c.queryWithin(c.cfg.Limit(), text) }

// queryWithin is like query, but has its own time limit.
func (c *conn) queryWithin(limit time.Duration, text string) (out []row, err error) {
	err = send(c, limit, func(ctx context.Context, dc sqldriver.QueryerContext) error {
		rows, err := dc.QueryContext(ctx, text, nil)
		if err == nil {
			out, err = read(rows)
		}
		return err
	})
	return out, err
}

// queryOne runs a statement that returns one row.
func (c *conn) queryOne(text string) (row, error) { return c.queryOneWithin(c.cfg.Limit(), text) }

func (c *conn) queryOneWithin(limit time.Duration, text string) (row, error) {
	rows, err := c.queryWithin(limit, text)
	if err == nil && len(rows) != 1 {
		err = &storekit.NoReply{Err: fmt.Errorf("a statement returned %d rows", len(rows))}
		c.Lose(err)
	}
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

// exec runs a statement that changes something, and returns the last inserted id.
func (c *conn) exec(text string) (id int64, err error) {
	err = send(c, c.cfg.Limit(), func(ctx context.Context, dc sqldriver.ExecerContext) error {
		res, err := dc.ExecContext(ctx, text, nil)
		if err == nil {
			id, err = res.LastInsertId()
		}
		return err
	})
	return id, err
}

var errDriver = storekit.Invalidf("the driver of the pool cannot send a statement as a text; use github.com/go-sql-driver/mysql")

// send calls f with the driver's connection. That costs less than the methods of package
// database/sql, which start a goroutine for each query.
func send[D any](c *conn, limit time.Duration, f func(ctx context.Context, dc D) error) error {
	return c.Do(limit, func(ctx context.Context) error {
		return statementError(c.sc.Raw(func(dc any) error {
			d, ok := dc.(D)
			if !ok {
				return errDriver
			}
			return f(ctx, d)
		}))
	})
}

func read(rows sqldriver.Rows) (out []row, err error) {
	defer rows.Close()
	values := make([]sqldriver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(values); err {
		case nil:
		case io.EOF:
			return out, nil
		default:
			return nil, err
		}
		r := make(row, len(values))
		for i, v := range values {
			switch v := v.(type) {
			case nil:
			case []byte: // valid until the next call of Next
				r[i] = sql.NullString{String: string(v), Valid: true}
			case int64:
				r[i] = sql.NullString{String: strconv.FormatInt(v, 10), Valid: true}
			default:
				r[i] = sql.NullString{String: fmt.Sprint(v), Valid: true}
			}
		}
		out = append(out, r)
	}
}

// statementError returns the error of a statement in the form for advisory.Link.
func statementError(err error) error {
	if err == nil || number(err) != 0 && !hasNumber(err, endings...) {
		return err
	}
	return &storekit.NoReply{Err: err, Unsent: errors.Is(err, sqldriver.ErrBadConn) || errors.Is(err, sql.ErrConnDone)}
}

// judge reads the values of checkColumns, which begin at r[i]. If they show that the session cannot
// be used for locks, judge ends the connection.
func (c *conn) judge(r row, i int) error {
	return c.checkSession(r[i].String == c.id, r[i+1].String)
}

// checkSession ends the connection if another session answered, or if the server is read-only and
// the store is not lenient.
func (c *conn) checkSession(same bool, readOnly string) error {
	switch {
	case !same:
		c.Lose(errOtherSession)
		return errOtherSession
	case readOnly != "0" && !strings.EqualFold(readOnly, "OFF") && !c.cfg.Lenient:
		c.Lose(errReadOnly)
		return errReadOnly
	}
	return nil
}

// verify checks that the session answers and has a lock, or with "", only that it answers.
// Otherwise it ends the connection.
func (c *conn) verify(key string) error {
	query := ping(c.mark)
	if key != "" {
		query = checkMine(c.mark, key)
	}
	r, err := c.queryOne(query)
	if err == nil {
		err = c.checkSession(r.isOne(0), r[1].String)
	}
	if err == nil && key != "" && !r.isOne(2) {
		err = errors.New("the session did not have the lock")
		c.Lose(err)
	}
	return err
}

// Watch implements advisory.Session.
func (c *conn) Watch() {
	defer c.Close()
	c.Link.Watch(c.look, func() error { return c.verify("") })
}

// looksAway reports whether the driver never looks whether its socket has been closed: the option
// checkConnLiveness of go-sql-driver/mysql is off. The driver does not tell, so looksAway reads a
// field of its connection. It returns false for a driver without such a field.
func (c *conn) looksAway() (off bool) {
	_ = c.sc.Raw(func(dc any) error {
		cfg := fieldOf(reflect.ValueOf(dc), "cfg")
		if set := fieldOf(cfg, "CheckConnLiveness"); set.Kind() == reflect.Bool {
			off = !set.Bool()
		}
		return nil
	})
	return off
}

// fieldOf returns a field of a struct, or of what a pointer points to. It returns the zero Value if
// there is none.
func fieldOf(v reflect.Value, name string) reflect.Value {
	if v = reflect.Indirect(v); v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName(name)
}

// look checks whether the socket has been closed. It sends nothing: the ResetSession of
// go-sql-driver/mysql only looks.
func (c *conn) look() error {
	return c.sc.Raw(func(dc any) error {
		if r, ok := dc.(sqldriver.SessionResetter); ok {
			return r.ResetSession(c.Bound())
		}
		return nil
	})
}

// Close implements advisory.Session. The connection does not go back to the pool, because other
// users of the pool would get its settings and perhaps its locks.
func (c *conn) Close() {
	c.Link.Close(func() {
		_ = c.sc.Raw(func(any) error { return sqldriver.ErrBadConn })
		_ = c.sc.Close()
	})
}
