package pgadvisory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// When a connection has run no statement for restBefore, a goroutine begins to read its socket. By
// reading, the goroutine notices the end of the connection.
const restBefore = 5 * time.Millisecond

// A conn is one connection. Once it has ended, it is never used again. Between statements, a
// goroutine reads its socket, so that the store notices at once when the connection ends. If the
// server sends nothing for a while, that goroutine asks the server whether it is still there.
type conn struct {
	pg     *pgconn.PgConn
	pid    uint32 // process id of the server's process, even behind a pooler
	start  string // when that process started
	pooled bool   // there is a pooler between this process and the server
	every  time.Duration
	limit  time.Duration

	bound context.Context // canceled when the connection ends
	end   context.CancelCauseFunc

	want     atomic.Int32 // how many statements wait for mu
	kick     chan struct{}
	mu       sync.Mutex // guards pg
	prepared map[string]bool
	until    time.Time // the deadline of the socket
	stopMu   sync.Mutex
	stop     context.CancelFunc // stops the reading of the socket
}

func newConn(pg *pgconn.PgConn, cfg *config) *conn {
	c := &conn{pg: pg, every: cfg.pingEvery(), limit: cfg.limit(), kick: make(chan struct{}, 1), prepared: map[string]bool{}}
	c.bound, c.end = context.WithCancelCause(context.Background())
	return c
}

func (c *conn) alive() bool { return c.bound.Err() == nil }

// Bound implements advisory.Session.
func (c *conn) Bound() context.Context { return c.bound }

// Refresh implements advisory.Session. A goroutine reads the socket, so the store has noticed
// already if the connection has ended.
func (c *conn) Refresh() bool { return c.alive() }

// SetLoad implements advisory.Session. A session without locks is watched like any other.
func (c *conn) SetLoad(int) {}

// exec runs a statement and returns its rows. The time limit is c.limit.
func (c *conn) exec(st *statement, params ...[]byte) ([][][]byte, error) {
	return c.execWithin(c.limit, st, params...)
}

// execWithin is like exec, but has its own time limit. If limit is 0, there is no limit.
func (c *conn) execWithin(limit time.Duration, st *statement, params ...[]byte) ([][][]byte, error) {
	c.want.Add(1)
	c.interrupt()
	c.mu.Lock()
	c.want.Add(-1)
	defer c.endStatement()
	if !c.alive() {
		return nil, &storekit.NoReply{Err: context.Cause(c.bound), Unsent: true}
	}
	return c.send(limit, st, params)
}

// isTrue runs a statement that returns one boolean.
func (c *conn) isTrue(st *statement, params ...[]byte) (bool, error) {
	rows, err := c.exec(st, params...)
	return err == nil && string(rows[0][0]) == "t", err
}

func (c *conn) send(limit time.Duration, st *statement, params [][]byte) ([][][]byte, error) {
	c.setLimit(limit)
	if !c.prepared[st.name] {
		if _, err := c.pg.Prepare(context.Background(), st.name, st.sql, nil); err != nil {
			return nil, c.statementError(err, true)
		}
		c.prepared[st.name] = true
	}
	res := c.pg.ExecPrepared(context.Background(), st.name, params, nil, nil).Read()
	if res.Err != nil {
		return nil, c.statementError(res.Err, false)
	}
	return res.Rows, nil
}

// setLimit sets a deadline for the socket. If a statement takes longer, the deadline ends the
// connection. Setting a deadline costs time, so one deadline serves several statements.
func (c *conn) setLimit(limit time.Duration) {
	now, until := time.Now(), time.Time{}
	if limit > 0 {
		if c.until.Sub(now) > limit*7/8 {
			return
		}
		until = now.Add(limit)
	}
	c.until = until
	c.pg.Conn().SetDeadline(until)
}

// statementError is called when a statement has failed. It returns the error for the caller. If the
// server refused the statement, the connection remains usable. After any other error,
// statementError ends the connection. If unsent is true, the statement had not been sent yet.
func (c *conn) statementError(err error, unsent bool) error {
	var refused *pgconn.PgError
	switch {
	case hasCode(err, noStatement, twoStatements): // another session answered
		c.Lose(errTransactionMode)
		return errTransactionMode
	case errors.As(err, &refused) && !c.pg.IsClosed():
		return err
	}
	c.Lose(err)
	return &storekit.NoReply{Err: err, Unsent: unsent || pgconn.SafeToRetry(err)}
}

// endStatement lets the next statement begin.
func (c *conn) endStatement() {
	c.mu.Unlock()
	c.nudge()
}

// nudge wakes the goroutine that runs the method Watch. That goroutine reads the socket unless
// another statement follows soon. nudge does not wait for the goroutine, which may have ended
// together with the connection.
func (c *conn) nudge() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// interrupt stops the goroutine that reads the socket, so that a statement can begin.
func (c *conn) interrupt() {
	c.stopMu.Lock()
	defer c.stopMu.Unlock()
	if c.stop != nil {
		c.stop()
	}
}

// Watch implements advisory.Session. While no statement is running, it reads the socket to notice
// the end of the connection.
func (c *conn) Watch() {
	c.nudge()
	for c.alive() {
		select {
		case <-c.kick:
		case <-c.bound.Done():
			return
		}
		select {
		case <-time.After(restBefore):
		case <-c.bound.Done():
			return
		}
		if c.want.Load() > 0 || !c.mu.TryLock() {
			// A statement is running or waiting. At its end it calls nudge, which wakes this loop.
			continue
		}
		for c.alive() && c.listen() {
		}
		c.mu.Unlock()
	}
}

// listen reads the socket. It returns false when it is interrupted or when the connection has
// ended. If nothing arrives for a while, listen asks the server whether it is still there.
func (c *conn) listen() bool {
	ctx, stop := context.WithTimeout(context.Background(), c.every)
	defer stop()
	c.stopMu.Lock()
	c.stop = stop
	wanted := c.want.Load() > 0
	c.stopMu.Unlock()
	defer func() {
		c.stopMu.Lock()
		c.stop = nil
		c.stopMu.Unlock()
	}()
	if wanted {
		return false
	}
	c.setLimit(0)
	err := c.pg.WaitForNotification(ctx)
	switch {
	case err == nil:
		return true
	case c.pg.IsClosed() || ctx.Err() == nil:
		c.Lose(err)
		return false
	case errors.Is(ctx.Err(), context.Canceled):
		return false
	}
	_, err = c.send(c.limit, &ping, nil)
	return err == nil
}

// Lose implements advisory.Session.
func (c *conn) Lose(err error) {
	c.end(fmt.Errorf("%w: the connection to PostgreSQL ended: %w", driver.ErrLost, err))
	c.pg.Conn().Close()
}

// Close implements advisory.Session. If no statement is running, it first tells the server that the
// session ends.
func (c *conn) Close() {
	c.end(fmt.Errorf("%w: the connection to PostgreSQL was closed", driver.ErrClosed))
	c.interrupt()
	if !c.mu.TryLock() {
		time.Sleep(time.Millisecond) // the goroutine that reads the socket unlocks mu soon
		if !c.mu.TryLock() {
			c.pg.Conn().Close()
			return
		}
	}
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.pg.Close(ctx)
}

// cancel interrupts the running statement, from another goroutine. The request to cancel may arrive
// before the statement does, so cancel repeats it until the channel "ended" is closed. After a
// second, cancel gives up and ends the connection. A request may also arrive late and hit another
// statement, so the connection must not be used afterwards.
func (c *conn) cancel(ended <-chan struct{}) {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	for pause := 5 * time.Millisecond; ; pause *= 2 {
		_ = c.pg.CancelRequest(ctx)
		select {
		case <-ended:
			return
		case <-ctx.Done():
			c.Lose(errors.New("a wait could not be cancelled"))
			return
		case <-time.After(pause):
		}
	}
}
