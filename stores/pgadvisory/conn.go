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
	plpgsql  bool   // the user may run statements of PL/pgSQL
	prepared map[string]bool
}

func newConn(pg *pgconn.PgConn, cfg *config) *conn {
	return &conn{Link: advisory.NewLink(&cfg.Config, pg.Conn()), pg: pg, cfg: cfg, prepared: map[string]bool{}}
}

// exec runs a statement and returns its rows.
func (c *conn) exec(st *statement, params ...[]byte) ([][][]byte, error) {
	return c.send(c.cfg.Limit(), func(ctx context.Context) ([][][]byte, error) {
		if err := c.prepare(ctx, st); err != nil {
			return nil, err
		}
		res := c.pg.ExecPrepared(ctx, st.name, params, nil, nil).Read()
		return res.Rows, c.statementError(res.Err, false)
	})
}

// A call is a statement with its parameters.
type call struct {
	*statement
	params [][]byte
}

// execTogether runs statements in one transaction and one request, and returns the rows of the last
// one.
func (c *conn) execTogether(limit time.Duration, calls ...call) ([][][]byte, error) {
	return c.send(limit, func(ctx context.Context) ([][][]byte, error) {
		batch := &pgconn.Batch{}
		for _, call := range calls {
			if err := c.prepare(ctx, call.statement); err != nil {
				return nil, err
			}
			batch.ExecPrepared(call.name, call.params, nil, nil)
		}
		results, err := c.pg.ExecBatch(ctx, batch).ReadAll()
		if err != nil {
			return nil, c.statementError(err, false)
		}
		return results[len(results)-1].Rows, nil
	})
}

// prepare prepares a statement, unless this connection has used it before.
func (c *conn) prepare(ctx context.Context, st *statement) error {
	if c.prepared[st.name] {
		return nil
	}
	if _, err := c.pg.Prepare(ctx, st.name, st.sql, nil); err != nil {
		return c.statementError(err, true)
	}
	c.prepared[st.name] = true
	return nil
}

// send calls f, which sends statements.
func (c *conn) send(limit time.Duration, f func(ctx context.Context) ([][][]byte, error)) (rows [][][]byte, err error) {
	err = c.Do(limit, func(ctx context.Context) (err error) {
		rows, err = f(ctx)
		return err
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
