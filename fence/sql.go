package fence

import (
	"database/sql"
	"errors"
	"strconv"
)

// Style is how a database writes the placeholders of a statement.
type Style int

const (
	// Question is ?, as in MySQL and SQLite.
	Question Style = iota
	// Dollar is $1, $2, …, as in PostgreSQL.
	Dollar
)

// SQL builds a statement that writes only if no greater fence was there
// before, and its arguments. Each method adds to Args and returns text with the
// right placeholders, so call them in the order of the text:
//
//	q := fence.SQL{Style: fence.Dollar, Fence: lock.Fence()}
//	text := "UPDATE invoices SET state = " + q.Arg(state) + ", " + q.Set("fence") +
//		" WHERE id = " + q.Arg(id) + " AND " + q.Condition("fence")
//	err := fence.Applied(db.ExecContext(ctx, text, q.Args...))
//
// gives
//
//	UPDATE invoices SET state = $1, fence = $2 WHERE id = $3 AND fence <= $4
//
// The column is a BIGINT NOT NULL DEFAULT 0 of the row that is guarded; where
// one lock stands for many rows, of a row that is updated first in the same
// transaction. Its name becomes part of the text as it is: never take it from
// input. A row that does not exist yet needs the same condition in its upsert:
//
//	INSERT … ON CONFLICT (id) DO UPDATE SET …, fence = EXCLUDED.fence
//	WHERE invoices.fence <= EXCLUDED.fence
type SQL struct {
	Style Style
	Fence uint64
	Args  []any // for ExecContext
}

// Arg adds v and returns its placeholder.
func (q *SQL) Arg(v any) string {
	q.Args = append(q.Args, v)
	if q.Style == Dollar {
		return "$" + strconv.Itoa(len(q.Args))
	}
	return "?"
}

// Set returns the assignment of the fence to column.
func (q *SQL) Set(column string) string { return column + " = " + q.arg() }

// Condition returns what must be true of column. A fence of 0 is none, and the
// condition is never true.
func (q *SQL) Condition(column string) string {
	if check(q.Fence) != nil {
		return "1 = 0"
	}
	return column + " <= " + q.arg()
}

// arg adds the fence, as a type that every driver takes.
func (q *SQL) arg() string { return q.Arg(int64(q.Fence)) }

// ErrNotApplied: the statement changed no row. The row has a greater fence, or
// there is no such row. To find out which, SELECT the fence in a new
// transaction, or with FOR UPDATE: under REPEATABLE READ, MySQL's default, a
// plain SELECT may return the row as it was when the transaction first read.
var ErrNotApplied = errors.New("no row was changed: it has a greater fence, or is not there")

// Applied checks what ExecContext of a guarded statement returned: its error,
// or ErrNotApplied if no row was changed.
//
// MySQL's driver counts rows that got new values only, so that a repeated
// statement seems not applied; open the database with clientFoundRows=true.
func Applied(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = ErrNotApplied
	}
	return err
}
