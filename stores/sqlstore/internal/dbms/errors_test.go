package dbms

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"testing"
)

type stateError string

func (e stateError) Error() string    { return "ERROR " + string(e) }
func (e stateError) SQLState() string { return string(e) }

// A sqliteError is what SQLite's drivers return.
type sqliteError struct {
	code int
	text string
}

func (e sqliteError) Error() string { return e.text }
func (e sqliteError) Code() int     { return e.code }

// A mysqlError has the field of an error of go-sql-driver/mysql.
type mysqlError struct{ Number uint16 }

func (e mysqlError) Error() string { return "Error" }

// TestJudge: an error counts as a refusal only if the statement cannot have changed anything.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Verdict
	}{
		{stateError("40001"), Again},
		{stateError("40P01"), Again},
		{stateError("55P03"), RowLocked},
		{stateError("42P01"), NoTable},
		{stateError("53100"), Refused},
		{stateError("25006"), Refused},
		{stateError("08006"), Unknown},
		{stateError("40003"), Unknown},
		{fmt.Errorf("wrapped: %w", stateError("40003")), Unknown},
		{mysqlError{1205}, RowLocked},
		{mysqlError{1213}, Again},
		{mysqlError{1290}, Refused},
		{mysqlError{1180}, Unknown}, // an error during COMMIT
		{mysqlError{1105}, Unknown},
		{context.DeadlineExceeded, Unknown},
		{notSent{error: context.DeadlineExceeded}, Refused},
		{fmt.Errorf("wrapped: %w", notSent{error: context.DeadlineExceeded}), Refused},
		{notSent{error: stateError("08006")}, Refused},
		{notSent{error: sqldriver.ErrBadConn}, Again}, // the pool gave only connections that had ended
		{sqldriver.ErrBadConn, Unknown},               // some drivers return it after a lost reply, too
		{notSent{error: stateError("42P01")}, NoTable},
		{sqliteError{1, "no such table: t"}, NoTable},
		{sqliteError{17, "database schema has changed: no such table: t"}, NoTable},
		{sqliteError{1, "near \"x\": syntax error"}, Refused},
		{sqliteError{5, "database is locked"}, Again},
		{errors.New("unexpected EOF"), Unknown},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, Refused},
		{&net.OpError{Op: "read", Err: errors.New("reset")}, Unknown},
	} {
		if got := Judge(c.err); got != c.want {
			t.Errorf("%v: the verdict is %d, want %d", c.err, got, c.want)
		}
	}
}
