// Package dbms has the code that all stores in databases share. It judges errors of a database,
// limits the time of a call, and reads the settings of a server that matter for locks. It imports
// no driver.
package dbms

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/sqlpool"
)

// A Verdict says what an error from the database means for the statement that failed.
type Verdict int

const (
	Unknown   Verdict = iota // the statement may have been carried out
	Refused                  // the server refused it, and nothing was changed
	Again                    // nothing was changed, and another try may succeed at once
	RowLocked                // another transaction has locked the row
	NoTable                  // the table does not exist
)

// Judge finds out whether a statement that failed with err can have changed something. This package
// imports no driver, so Judge recognises errors by their methods and fields.
func Judge(err error) Verdict {
	v := judgeServer(err)
	switch unsent := new(notSent); {
	case v != Unknown || !errors.As(err, unsent):
		return v
	case errors.Is(err, sqldriver.ErrBadConn):
		return Again // the pool gave only connections that had ended
	}
	return Refused
}

// judgeServer judges an error of the server or the driver.
func judgeServer(err error) Verdict {
	if state := SQLState(err); state != "" {
		return judgeState(state)
	}
	if n := sqlpool.MySQLNumber(err); n != 0 {
		return judgeMySQL(n)
	}
	if n, ok := sqlpool.SQLiteCode(err); ok {
		return judgeSQLite(n, err.Error())
	}
	var dial *net.OpError
	if errors.Is(err, sql.ErrConnDone) || errors.Is(err, sql.ErrTxDone) || errors.As(err, &dial) && dial.Op == "dial" {
		return Refused // there was no connection, so nothing was sent
	}
	return Unknown
}

func judgeState(state string) Verdict {
	switch state {
	case "40001", "40P01", "55006", "57014":
		return Again
	case "55P03":
		return RowLocked
	case "42P01", "3F000":
		return NoTable
	}
	if strings.HasPrefix(state, "08") || state == "40003" { // 40003: completion of the statement is unknown
		return Unknown
	}
	return Refused
}

func judgeMySQL(n uint64) Verdict {
	switch n {
	case 1213, 1020:
		return Again
	case 1205, 3572:
		return RowLocked
	case 1146, 1049:
		return NoTable
	case 1026, 1105, 1180: // errors of the log or of COMMIT, and without a number of their own
		return Unknown
	}
	return Refused
}

func judgeSQLite(code int, text string) Verdict {
	switch code & 0xff {
	case 5, 6: // SQLITE_BUSY, SQLITE_LOCKED
		return Again
	case 1, 17: // SQLITE_ERROR, or SQLITE_SCHEMA if others make tables at the same time; SQLite has
		// no code of its own for a missing table
		if strings.Contains(text, "no such table") {
			return NoTable
		}
	}
	return Refused
}

// NoColumn reports whether the server refused a statement because a table lacks a column.
func NoColumn(err error) bool {
	return err != nil && (SQLState(err) == "42703" || sqlpool.MySQLNumber(err) == 1054 || strings.Contains(err.Error(), "no such column"))
}

// Denied reports whether the server refused a statement because the user lacks a right.
func Denied(err error) bool {
	n := sqlpool.MySQLNumber(err)
	return SQLState(err) == "42501" || n == 1142 || n == 1143
}

// IsInTransaction reports whether MySQL or SQLite has refused a statement because a transaction is
// open: SET TRANSACTION or BEGIN.
func IsInTransaction(err error) bool {
	if sqlpool.MySQLNumber(err) == 1568 {
		return true
	}
	_, ok := sqlpool.SQLiteCode(err) // SQLITE_ERROR; SQLite has no code of its own for this
	return ok && strings.Contains(err.Error(), "within a transaction")
}

// NoSavepoint reports whether MySQL or SQLite has refused a statement because the transaction has no
// such savepoint.
func NoSavepoint(err error) bool {
	if sqlpool.MySQLNumber(err) == 1305 {
		return true
	}
	_, ok := sqlpool.SQLiteCode(err)
	return ok && strings.Contains(err.Error(), "no such savepoint")
}

// SQLState returns the SQLSTATE of an error of PostgreSQL's drivers, or "".
func SQLState(err error) string { return sqlpool.SQLState(err) }

// A notSent is the error of a statement that was not sent.
type notSent struct {
	error
	taken int // how many connections the pool may have, if all of them were in use; otherwise 0
}

// Unwrap returns the error of database/sql or the driver.
func (e notSent) Unwrap() error { return e.error }

// NotSent marks the error of a statement that was not sent to the server. The usual reason is that
// no connection of the pool was free in time.
func NotSent(db *sqlpool.Pool, err error) error {
	e := notSent{error: err}
	if st := db.Stats(); st.MaxOpenConnections > 0 && st.InUse >= st.MaxOpenConnections {
		e.taken = st.MaxOpenConnections
	}
	return e
}

// noConnection is the error of a call for which no connection of the pool was free in time.
func noConnection(limit time.Duration, taken int) error {
	text := fmt.Sprintf("all %d connections of the pool were in use for %v", taken, limit)
	if taken == 1 {
		text = fmt.Sprintf("the only connection of the pool was in use for %v", limit)
	}
	return errors.New(text + "; raise SetMaxOpenConns, or pool= in the URL, or take the lock before your own transactions begin")
}

// silentError is the cause with which a context ends if the server has not replied in time.
type silentError struct{ limit time.Duration }

func (e silentError) Error() string {
	text := fmt.Sprintf("the database did not answer within %v", e.limit)
	if e.limit == openTime {
		text += "; is it overloaded, is the address right, and does a firewall let connections pass?"
	}
	return text
}

// callerEnded returns the error of the caller's context, or nil if that context has not ended. Once
// the deadline has passed, the context counts as ended, even if its timer has not fired yet. Some
// drivers do not wait for the timer: they compare the deadline with the clock.
func callerEnded(ctx context.Context) error {
	if isSilent(ctx) != nil {
		return nil
	}
	if at, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(at) && ctx.Value(ownDeadline{}) != at {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// isSilent returns the silentError with which ctx has ended, or nil.
func isSilent(ctx context.Context) error {
	if silent, ok := context.Cause(ctx).(silentError); ok {
		return silent
	}
	return nil
}

// ownDeadline is the context key under which Bound stores the deadline that it set for a call.
type ownDeadline struct{}

// Failure returns the error of a call whose statement failed with err. wasSent means that the
// statement may have changed something.
func Failure(ctx context.Context, err error, wasSent bool) error {
	if err == nil {
		return nil
	}
	over := callerEnded(ctx)
	open := wasSent && Judge(err) == Unknown
	switch {
	case over != nil && open:
		return errors.Join(over, driver.ErrUncertain)
	case over != nil:
		return over
	}
	if silent, ok := context.Cause(ctx).(silentError); ok {
		unsent := new(notSent)
		if errors.As(err, unsent) && unsent.taken > 0 {
			err = noConnection(silent.limit, unsent.taken)
		} else {
			err = silent // the deadline was set by Bound, not by the caller, so do not report it
		}
	}
	switch {
	case errors.As(err, new(txFault)):
		return fmt.Errorf("%w: %w", ErrTx, err)
	case open:
		return fmt.Errorf("%w: %w", driver.ErrUncertain, err)
	case sqlpool.WrongRole(err):
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, sqlpool.Explain(err))
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}

// ErrTx means that a transaction of the caller's cannot be used.
var ErrTx = errors.New("the transaction cannot be used; roll back, and begin a new one")

// A txFault is an error that is due to the state of the caller's transaction.
type txFault struct{ error }

func (f txFault) Unwrap() error { return f.error }

// InTx returns err, the error of a statement in a transaction of the caller's, for Failure.
func InTx(err error) error {
	switch state := SQLState(err); {
	case errors.Is(err, sql.ErrTxDone), err != nil && err.Error() == "tx is closed", // pgx.ErrTxClosed
		state == "25P02", state == "25006", sqlpool.MySQLNumber(err) == 1792:
		return txFault{err}
	}
	return err
}

const (
	// callTime is the longest time that a call may take. It is less than driver.MaxSilence.
	callTime = 4500 * time.Millisecond
	// openTime is the longest time that opening a store may take. It is longer than callTime,
	// because the store may have to make its tables, while other processes make them too.
	openTime = 10 * time.Second
)

// Bound limits a call to callTime. If the caller's deadline is earlier, that deadline applies.
func Bound(ctx context.Context) (context.Context, context.CancelFunc) { return boundTo(ctx, callTime) }

// BoundOpening limits the opening of a store to openTime. If the caller's deadline is earlier, that
// deadline applies.
func BoundOpening(ctx context.Context) (context.Context, context.CancelFunc) {
	return boundTo(ctx, openTime)
}

func boundTo(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	end := time.Now().Add(limit)
	if at, ok := ctx.Deadline(); ok && at.Before(end) {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(context.WithValue(ctx, ownDeadline{}, end), end, silentError{limit})
}
