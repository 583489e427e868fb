package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Engine is the kind of database.
type Engine int

const (
	// PostgreSQL is PostgreSQL 12 or later, or a database that speaks its dialect.
	PostgreSQL Engine = iota + 1
	// MySQL is MariaDB 10.6 or later, or MySQL 8.
	MySQL
	// SQLite is SQLite 3.35 or later.
	SQLite
)

// String returns "PostgreSQL", "MySQL" or "SQLite".
func (e Engine) String() string {
	switch e {
	case PostgreSQL:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	}
	return "Engine(" + strconv.Itoa(int(e)) + ")"
}

// A dialect holds the differences between the engines.
type dialect struct {
	now     string // the server's clock, microseconds since 1970
	numbers bool   // placeholders are $1, $2, …
	grants  bool   // CheckTx locks a row of a second table
	nowait  string // locks a row in a SELECT, which fails if it would have to wait
	share   string // the clause with which SELECT locks a row against writers only
	minPool int    // the least number of connections in a pool

	binary string // the type of a short byte string
	text   string // the type of a long text
	suffix string // the end of CREATE TABLE
}

var dialects = map[Engine]*dialect{
	PostgreSQL: {
		now:     "(date_part('epoch', clock_timestamp()) * 1000000)::bigint",
		numbers: true, grants: true, nowait: " FOR UPDATE NOWAIT", minPool: 2,
		binary: "bytea", text: "text",
	},
	MySQL: {
		// UTC, so that the result depends neither on the time zone of the session nor on the hour
		// that is repeated at the end of summer time.
		now:    "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
		grants: true, nowait: " FOR UPDATE NOWAIT", share: "LOCK IN SHARE MODE", minPool: 2,
		binary: "varbinary(1024)", text: "mediumtext",
		suffix: " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
	},
	SQLite: {
		now:     "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000",
		minPool: 1,
		binary:  "blob", text: "text",
		suffix: " WITHOUT ROWID",
	},
}

// max returns the SQL for the greater of two numbers, neither of which may be NULL.
func (d *dialect) max(a, b string) string {
	if d == dialects[SQLite] {
		return "MAX(" + a + ", " + b + ")"
	}
	return "GREATEST(" + a + ", " + b + ")"
}

// bind replaces each ? by the placeholder of the engine.
func (d *dialect) bind(query string) string {
	if !d.numbers {
		return query
	}
	var b strings.Builder
	n := 0
	for part := range strings.SplitAfterSeq(query, "?") {
		text, found := strings.CutSuffix(part, "?")
		b.WriteString(text)
		if found {
			n++
			b.WriteString("$" + strconv.Itoa(n))
		}
	}
	return b.String()
}

// A verdict says what an error from the database means for the statement that failed.
type verdict int

const (
	unknown   verdict = iota // the statement may have been carried out
	refused                  // the server refused it, and nothing was changed
	again                    // nothing was changed, and another try may succeed at once
	rowLocked                // another transaction has locked the row
	noTable                  // the table does not exist
)

// judge tells errors that mean "nothing was changed" from errors that leave the outcome open. Since
// this package imports no driver, judge recognises errors by their methods and fields.
func judge(err error) verdict {
	if state := sqlState(err); state != "" {
		return judgeState(state)
	}
	if n := mysqlNumber(err); n != 0 {
		return judgeMySQL(n)
	}
	if n, ok := sqliteCode(err); ok {
		return judgeSQLite(n, err.Error())
	}
	var dial *net.OpError
	if errors.Is(err, sql.ErrConnDone) || errors.Is(err, sql.ErrTxDone) || errors.As(err, &dial) && dial.Op == "dial" {
		return refused // there was no connection, so nothing was sent
	}
	return unknown
}

func judgeState(state string) verdict {
	switch state {
	case "40001", "40P01", "55006", "57014":
		return again
	case "55P03":
		return rowLocked
	case "42P01", "3F000":
		return noTable
	}
	if strings.HasPrefix(state, "08") {
		return unknown
	}
	return refused
}

func judgeMySQL(n uint64) verdict {
	switch n {
	case 1213, 1020:
		return again
	case 1205, 3572:
		return rowLocked
	case 1146, 1049:
		return noTable
	case 1317, 1969, 3024: // the statement was interrupted
		return refused
	}
	return refused
}

func judgeSQLite(code int, text string) verdict {
	switch code & 0xff {
	case 5, 6: // SQLITE_BUSY, SQLITE_LOCKED
		return again
	case 1: // SQLITE_ERROR has no more specific code for a missing table
		if strings.Contains(text, "no such table") {
			return noTable
		}
	}
	return refused
}

// sqlState returns the SQLSTATE of an error of PostgreSQL's drivers, or "".
func sqlState(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}

// errSilent is the cause with which the context of a call ends if the server does not answer.
var errSilent = fmt.Errorf("the database did not answer within %v", callTime)

// ended returns the error of the caller's context. Drivers look at the deadline itself, so ended
// does the same: a deadline that has passed counts even if its timer has not fired yet.
func ended(ctx context.Context) error {
	if context.Cause(ctx) == errSilent {
		return nil
	}
	if at, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(at) && ctx.Value(ownDeadline{}) != at {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// ownDeadline is the context key under which the function begin stores the deadline that it set for
// a call.
type ownDeadline struct{}

// failure returns the error of a call whose statement failed with err. sent means that the
// statement may have changed something.
func failure(ctx context.Context, err error, sent bool) error {
	if err == nil {
		return nil
	}
	over := ended(ctx)
	open := sent && judge(err) == unknown
	switch {
	case over != nil && open:
		return errors.Join(over, driver.ErrUncertain)
	case over != nil:
		return over
	}
	if context.Cause(ctx) == errSilent {
		err = errSilent // the caller set no deadline, so do not report one
	}
	if open {
		return fmt.Errorf("%w: %w", driver.ErrUncertain, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
}
