package mysqladvisory

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// A conn is a connection that the store has taken out of the pool, so that no other code uses it.
// When a conn has ended, the store closes it and never uses it again. To notice that end, a
// goroutine pings the server from time to time.
type conn struct {
	sc     *sql.Conn
	id     string // the number of the session
	server string // names the server, to distinguish it from others
	// mark is the name of a lock that only this session has. So this lock identifies the session.
	mark    string
	socket  net.Conn      // nil if the pool does not call Dialed
	until   time.Time     // the deadline of the socket; guarded by mu
	every   time.Duration // how long a connection with holds may be silent
	keep    time.Duration // how long a connection without holds may be silent
	limit   time.Duration // how long a statement may take, unless it waits for a lock
	lenient bool

	bound context.Context // canceled when the connection ends
	end   context.CancelCauseFunc

	mu   sync.Mutex // held while a statement runs
	last time.Time  // of the last reply; guarded by mu

	load atomic.Int32 // locks that the session has, or is about to have
	// resting is true while the method Watch looks at the socket only rarely. A hold that begins
	// then wakes Watch through kick.
	resting atomic.Bool
	kick    chan struct{}
}

func newConn(sc *sql.Conn, socket net.Conn, cfg *config) *conn {
	c := &conn{sc: sc, socket: socket, mark: newMark(), kick: make(chan struct{}, 1), every: cfg.pingEvery(), keep: cfg.sessionTimeout / 3, limit: cfg.limit(), lenient: cfg.Lenient}
	c.bound, c.end = context.WithCancelCause(context.Background())
	return c
}

func (c *conn) alive() bool { return c.bound.Err() == nil }

// Bound implements advisory.Session.
func (c *conn) Bound() context.Context { return c.bound }

// A row is one row of the result of a statement. An element that is NULL has Valid set to false.
type row []sql.NullString

// isOne reports whether a column is 1.
func (r row) isOne(i int) bool { return r[i].String == "1" }

func (r row) number(i int) uint64 {
	n, _ := strconv.ParseUint(r[i].String, 10, 64)
	return n
}

// query runs a statement and returns its rows. The statement takes at most c.limit.
func (c *conn) query(text string) ([]row, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sendStatement(c.limit, text)
}

// queryOne runs a statement that returns one row.
func (c *conn) queryOne(text string) (row, error) { return c.queryOneWithin(c.limit, text) }

// queryOneWithin is like queryOne, but the statement takes at most the given time.
func (c *conn) queryOneWithin(limit time.Duration, text string) (row, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first(c.sendStatement(limit, text))
}

func (c *conn) first(rows []row, err error) (row, error) {
	if err == nil && len(rows) != 1 {
		err = c.statementError(fmt.Errorf("a statement returned %d rows", len(rows)))
	}
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

// exec runs a statement that changes something, and returns the last inserted id.
func (c *conn) exec(text string) (id int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err = c.runRaw(c.limit, func(ctx context.Context, dc any) error {
		e, ok := dc.(sqldriver.ExecerContext)
		if !ok {
			return errDriver
		}
		res, err := e.ExecContext(ctx, text, nil)
		if err == nil {
			id, err = res.LastInsertId()
		}
		return err
	})
	return id, err
}

// sendStatement runs a statement. The caller holds mu.
func (c *conn) sendStatement(limit time.Duration, text string) (out []row, err error) {
	err = c.runRaw(limit, func(ctx context.Context, dc any) error {
		q, ok := dc.(sqldriver.QueryerContext)
		if !ok {
			return errDriver
		}
		rows, err := q.QueryContext(ctx, text, nil)
		if err == nil {
			out, err = read(rows)
		}
		return err
	})
	return out, err
}

var errDriver = storekit.Invalidf("the driver of the pool cannot send a statement as a text; use github.com/go-sql-driver/mysql")

// runRaw calls f with the driver's connection. That costs less than the methods of package
// database/sql, which start a goroutine for each query. If the store knows the socket, runRaw
// limits the time with a deadline of the socket. Otherwise it uses a context, which takes the
// driver more time.
func (c *conn) runRaw(limit time.Duration, f func(ctx context.Context, dc any) error) error {
	if !c.alive() {
		return &storekit.NoReply{Err: context.Cause(c.bound), Unsent: true}
	}
	ctx := context.Background()
	if c.socket != nil {
		c.setLimit(limit)
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(c.bound, limit)
		defer cancel()
	}
	if err := c.sc.Raw(func(dc any) error { return f(ctx, dc) }); err != nil {
		return c.statementError(err)
	}
	c.last = time.Now()
	return nil
}

// setLimit sets the deadline of the socket. Because that costs time, setLimit keeps a deadline that
// is nearly right, so that one deadline serves several statements.
func (c *conn) setLimit(limit time.Duration) {
	now := time.Now()
	if left := c.until.Sub(now); left > limit*7/8 && left <= limit {
		return
	}
	c.until = now.Add(limit)
	c.socket.SetDeadline(c.until)
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

// statementError returns the error of a statement in the form for the caller. If the server refused
// the statement, the connection remains usable. Any other error ends the connection.
func (c *conn) statementError(err error) error {
	if number(err) != 0 && !hasNumber(err, endings...) {
		return err
	}
	unsent := errors.Is(err, sqldriver.ErrBadConn) || errors.Is(err, sql.ErrConnDone)
	c.Lose(err)
	return &storekit.NoReply{Err: context.Cause(c.bound), Unsent: unsent}
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
	case readOnly != "0" && !strings.EqualFold(readOnly, "OFF") && !c.lenient:
		c.Lose(errReadOnly)
		return errReadOnly
	}
	return nil
}

// ping asks the server whether the session still exists. The caller holds mu.
func (c *conn) ping() error {
	r, err := c.first(c.sendStatement(c.limit, ping(c.mark)))
	if err != nil {
		return err
	}
	return c.checkSession(r.isOne(0), r[1].String)
}

// lookEvery is how often a connection with holds checks its socket. The check needs no statement.
const lookEvery = 100 * time.Millisecond

// SetLoad implements advisory.Session.
func (c *conn) SetLoad(n int) {
	c.load.Store(int32(n))
	if n == 0 || !c.resting.CompareAndSwap(true, false) {
		return
	}
	select {
	case c.kick <- struct{}{}:
	default: // Watch has not seen the last kick yet, or has ended
	}
}

// Watch implements advisory.Session. It looks after the connection until it has ended, and then
// closes it. While no statement runs, Watch checks from time to time whether the connection has
// ended.
func (c *conn) Watch() {
	timer := time.NewTimer(c.untilLook())
	defer timer.Stop()
	for c.alive() {
		select {
		case <-timer.C:
			if c.mu.TryLock() { // otherwise a statement is running, and it has a limit of its own
				c.lookAtSocket()
				c.mu.Unlock()
			}
		case <-c.kick:
		case <-c.bound.Done():
		}
		timer.Reset(c.untilLook())
	}
	c.Close()
}

// untilLook returns how long the method Watch pauses. The pause is long only while the session has
// no locks. SetLoad ends a long pause early.
func (c *conn) untilLook() time.Duration {
	if c.socket == nil {
		return c.every
	}
	c.resting.Store(true)
	if c.load.Load() > 0 && c.resting.CompareAndSwap(true, false) {
		return lookEvery
	}
	return c.every
}

// lookAtSocket pings the server if a ping is due. Otherwise, if the session has locks, it checks
// whether the socket has been closed. The caller holds mu.
func (c *conn) lookAtSocket() {
	switch {
	case c.pingDue():
		_ = c.ping() // an error ends the connection
	case c.load.Load() > 0:
		c.peek()
	}
}

// peek checks whether the socket has been closed, if the store knows the socket. The caller holds
// mu.
func (c *conn) peek() {
	if c.socket == nil {
		return
	}
	c.setLimit(c.limit) // the driver cannot look at a socket whose deadline has passed
	err := c.sc.Raw(func(dc any) error {
		if r, ok := dc.(sqldriver.SessionResetter); ok {
			return r.ResetSession(c.bound)
		}
		return nil
	})
	if err != nil {
		c.Lose(err)
	}
}

// restBefore is how long a connection must have been silent before the method Refresh checks it.
const restBefore = 50 * time.Millisecond

// Refresh implements advisory.Session. A connection may have been idle for a long time, and the
// server may have been restarted meanwhile. Without this check, the next request would fail, and
// nobody would know whether the server had carried it out.
func (c *conn) Refresh() bool {
	if c.mu.TryLock() { // otherwise a statement is running
		switch silent := time.Since(c.last); {
		case silent <= restBefore:
		case c.socket != nil:
			c.peek()
		case silent > c.every:
			_ = c.ping() // an error ends the connection
		}
		c.mu.Unlock()
	}
	return c.alive()
}

// pingDue reports whether it is time for a ping.
func (c *conn) pingDue() bool {
	silent := time.Since(c.last)
	if c.socket != nil { // the method Watch checks it often
		return silent > c.keep || c.load.Load() > 0 && silent > c.every
	}
	return silent > c.keep || c.load.Load() > 0 && silent > c.every/2
}

// Lose implements advisory.Session. The method Watch, which runs in a goroutine, then closes the
// connection.
func (c *conn) Lose(err error) {
	c.end(fmt.Errorf("%w: the connection to the server ended: %w", driver.ErrLost, err))
}

// Close implements advisory.Session. The connection does not go back to the pool, because other
// users of the pool would get its settings and perhaps its locks.
func (c *conn) Close() {
	c.end(fmt.Errorf("%w: the connection to the server was closed", driver.ErrClosed))
	if !c.mu.TryLock() {
		// Another goroutine is running a statement. Closing the socket ends the statement. If the
		// socket is not known, the end of c.bound has ended the statement.
		if c.socket != nil {
			c.socket.Close()
		}
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	_ = c.sc.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = c.sc.Close()
}
