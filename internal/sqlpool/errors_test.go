package sqlpool

import (
	"errors"
	"fmt"
	"testing"
)

type stateError string

func (e stateError) Error() string    { return "ERROR " + string(e) }
func (e stateError) SQLState() string { return string(e) }

// A mysqlError has the fields of an error of go-sql-driver/mysql.
type mysqlError struct {
	Number  uint16
	Message string
}

func (e *mysqlError) Error() string { return e.Message }

// A sqliteError is what SQLite's drivers return.
type sqliteError int

func (e sqliteError) Error() string { return "attempt to write a readonly database" }
func (e sqliteError) Code() int     { return int(e) }

// TestWrongRole: error 1290 names an option of the server, which need not be about its role.
func TestWrongRole(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("read-only"), false},
		{stateError("25006"), true},
		{fmt.Errorf("wrapped: %w", stateError("25006")), true},
		{stateError("42501"), false},
		{&mysqlError{1290, "The MariaDB server is running with the --read-only option so it cannot execute this statement"}, true},
		{&mysqlError{1290, "The MySQL server is running with the --super-read-only option so it cannot execute this statement"}, true},
		{&mysqlError{1290, "The MySQL server is running with the --secure-file-priv option so it cannot execute this statement"}, false},
		{&mysqlError{1792, "Cannot execute statement in a READ ONLY transaction"}, true},
		{&mysqlError{1836, "Running in read-only mode"}, true},
		{&mysqlError{1205, "Lock wait timeout exceeded"}, false},
		{sqliteError(8), true},
		{sqliteError(1032), true}, // SQLITE_READONLY_DBMOVED
		{sqliteError(5), false},
	} {
		if got := WrongRole(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
