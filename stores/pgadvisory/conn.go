package pgadvisory

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// A conn is one connection. Once it has ended, it is never used again.
type conn struct {
	*advisory.Link
	pg       *pgconn.PgConn
	cfg      *config
	pid      uint32 // process id of the server's process, even behind a pooler
	start    string // when that process started
	pooled   bool   // there is a pooler between this process and the server
	prepared map[string]bool
}

func newConn(pg *pgconn.PgConn, cfg *config) *conn {
	return &conn{Link: advisory.NewLink(&cfg.Config, pg.Conn()), pg: pg, cfg: cfg, prepared: map[string]bool{}}
}

// exec runs a statement and returns its rows.
func (c *conn) exec(st *statement, params ...[]byte) ([][][]byte, error) {
	return c.execWithin(c.cfg.Limit(), st, params...)
}

// execWithin is like exec, but has its own time limit. If limit is 0, there is no limit.
func (c *conn) execWithin(limit time.Duration, st *statement, params ...[]byte) (rows [][][]byte, err error) {
	err = c.Do(limit, func(ctx context.Context) error {
		if !c.prepared[st.name] {
			if _, err := c.pg.Prepare(ctx, st.name, st.sql, nil); err != nil {
				return c.statementError(err, true)
			}
			c.prepared[st.name] = true
		}
		res := c.pg.ExecPrepared(ctx, st.name, params, nil, nil).Read()
		rows = res.Rows
		return c.statementError(res.Err, false)
	})
	if hasCode(err, noStatement, twoStatements) { // another session answered
		c.Lose(errTransactionMode)
		return nil, errTransactionMode
	}
	return rows, err
}

// isTrue runs a statement that returns one boolean.
func (c *conn) isTrue(st *statement, params ...[]byte) (bool, error) {
	rows, err := c.exec(st, params...)
	return err == nil && string(rows[0][0]) == "t", err
}

// statementError returns the error of a statement in the form for advisory.Link. If unsent is true,
// the statement had not been sent yet.
func (c *conn) statementError(err error, unsent bool) error {
	var refused *pgconn.PgError
	if err == nil || errors.As(err, &refused) && !c.pg.IsClosed() {
		return err
	}
	return &storekit.NoReply{Err: err, Unsent: unsent || pgconn.SafeToRetry(err)}
}

// Watch implements advisory.Session.
func (c *conn) Watch() {
	defer c.Close()
	c.Link.Watch(c.look, func() error {
		_, err := c.exec(&ping)
		return err
	})
}

// look reads what the server may have sent.
func (c *conn) look() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := c.pg.WaitForNotification(ctx); c.pg.IsClosed() {
		return err
	}
	return nil
}

// Close implements advisory.Session. If no statement is running, it first tells the server that the
// session ends. A statement that is running is canceled by pgconn.
func (c *conn) Close() {
	c.Link.Close(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.pg.Close(ctx)
	})
}
