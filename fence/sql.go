package fence

import (
	"database/sql"
	"errors"
	"strconv"
)

// Placeholders is how a database writes the placeholders of a statement.
type Placeholders uint8

const (
	// QuestionMarks are ?, ?, …, as in MySQL, MariaDB and SQLite.
	QuestionMarks Placeholders = iota
	// Numbered are $1, $2, …, as in PostgreSQL.
	Numbered
)

// SQL builds a statement that writes only if no greater fence was there before, and its arguments.
// Each method adds an argument and returns text with the right placeholder, so call them in the
// order of the text:
//
//	q, err := fence.NewSQL(fence.Numbered, lock.Fence())
//	if err != nil {
//		return err
//	}
//	text := "UPDATE invoices SET state = " + q.Arg(state) + ", " + q.Set("fence") +
//		" WHERE id = " + q.Arg(id) + " AND " + q.Condition("fence")
//	err = fence.Applied(db.ExecContext(ctx, text, q.Args()...))
//
// gives
//
//	UPDATE invoices SET state = $1, fence = $2 WHERE id = $3 AND fence <= $4
//
// The column is a BIGINT NOT NULL DEFAULT 0 of the row that is guarded. If one lock stands for many
// rows, guard one row with it and update that row first in the same transaction. The column's name
// becomes part of the text as it is: never take it from input. A row that does not exist yet needs
// the same condition in its upsert:
//
//	INSERT … ON CONFLICT (id) DO UPDATE SET …, fence = EXCLUDED.fence
//	WHERE invoices.fence <= EXCLUDED.fence
//
// A SQL is for one statement, and not for concurrent use.
type SQL struct {
	placeholders Placeholders
	fence        uint64
	args         []any
}

// NewSQL returns a SQL for the holder of a lock with this fence. It returns ErrMissing if fence is
// 0, which a store without fences gives, and ErrMalformed if it is 2^53 or more.
func NewSQL(p Placeholders, fence uint64) (*SQL, error) {
	if err := check(fence); err != nil {
		return nil, err
	}
	return &SQL{placeholders: p, fence: fence}, nil
}

// Args returns the arguments, for ExecContext.
func (q *SQL) Args() []any { return q.args }

// Arg adds v and returns its placeholder.
func (q *SQL) Arg(v any) string {
	q.args = append(q.args, v)
	if q.placeholders == Numbered {
		return "$" + strconv.Itoa(len(q.args))
	}
	return "?"
}

// Set returns the assignment of the fence to column.
func (q *SQL) Set(column string) string { return column + " = " + q.arg() }

// Condition returns the condition on column that refuses older holders.
func (q *SQL) Condition(column string) string { return column + " <= " + q.arg() }

// arg adds the fence, as a type that every driver takes.
func (q *SQL) arg() string { return q.Arg(int64(q.fence)) }

// ErrNotApplied: the statement changed no row. The row has a greater fence, or there is no such
// row. To find out which, SELECT the fence in a new transaction, or with FOR UPDATE: under
// REPEATABLE READ, MySQL's default, a plain SELECT may return the row as it was when the
// transaction first read.
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
