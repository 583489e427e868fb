package postgres

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// wrap returns a plainConn, or a simpleConn if the URL chooses the simple protocol.
func (c *connector) wrap(inner driver.Conn) driver.Conn {
	conn, ok := inner.(*stdlib.Conn)
	switch {
	case !ok:
		return inner
	case c.cfg.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol:
		return simpleConn{plainConn{conn}}
	}
	return plainConn{conn}
}

// A plainConn tells package database/sql whether it has been closed. pgx (5.12) closes the
// connection of a statement whose caller gives up, and does not tell. The pool would keep the
// connection, and pass it on to a caller that waits for one. A caller that got three such
// connections would fail with driver.ErrBadConn, so it would not know whether its statement was
// carried out.
type plainConn struct{ *stdlib.Conn }

// IsValid implements driver.Validator.
func (c plainConn) IsValid() bool { return !c.Conn.Conn().IsClosed() }

// A simpleConn is a connection that uses the simple protocol. If the reply to a statement is lost,
// pgx (5.12) wrongly says that the statement was not sent. Package database/sql would then send the
// statement a second time, on another connection. If the server has carried out the first one, the
// second finds nothing to change, and the store would believe that the change was refused. So a
// simpleConn returns errLostReply instead, unless the connection had ended before the statement.
type simpleConn struct{ plainConn }

var errLostReply = errors.New("the connection ended before the reply arrived")

// QueryContext implements driver.QueryerContext.
func (c simpleConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	ended := c.Conn.Conn().IsClosed()
	rows, err := c.Conn.QueryContext(ctx, query, args)
	return rows, lostReply(err, ended)
}

// ExecContext implements driver.ExecerContext.
func (c simpleConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	ended := c.Conn.Conn().IsClosed()
	res, err := c.Conn.ExecContext(ctx, query, args)
	return res, lostReply(err, ended)
}

// lostReply returns the error of a statement. The caller sets ended if the connection had ended
// before the statement.
func lostReply(err error, ended bool) error {
	if errors.Is(err, driver.ErrBadConn) && !ended {
		return errLostReply
	}
	return err
}
