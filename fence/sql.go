package fence

import (
	"database/sql"
	"errors"
	"strconv"
)

// Placeholders is the way in which a database writes the placeholders of a statement.
type Placeholders uint8

const (
	// QuestionMarks means ?, ?, …, as in MySQL, MariaDB and SQLite.
	QuestionMarks Placeholders = iota
	// Numbered means $1, $2, …, as in PostgreSQL.
	Numbered
)

// SQL helps to build a statement that writes only if the row has no greater fence. Each method adds
// one argument and returns the text with its placeholder. So call the methods in the order in which
// their texts stand in the statement:
//
//	q, err := fence.NewSQL(fence.Numbered, lock.Fence())
//	if err != nil {
//		return err
//	}
//	text := "UPDATE invoices SET state = " + q.Arg(state) + ", " + q.Set("fence") +
//		" WHERE id = " + q.Arg(id) + " AND " + q.Condition("fence")
//	err = fence.Applied(db.ExecContext(ctx, text, q.Args()...))
//
// The result is
//
//	UPDATE invoices SET state = $1, fence = $2 WHERE id = $3 AND fence <= $4
//
// The column "fence" is a BIGINT NOT NULL DEFAULT 0 in the row that is guarded. If one lock stands
// for many rows, guard one row with it and update that row first in the same transaction. The
// column's name becomes part of the text unchanged: never take it from input. If the row may not
// exist yet, write it with an upsert that has the same condition:
//
//	INSERT … ON CONFLICT (id) DO UPDATE SET …, fence = EXCLUDED.fence
//	WHERE invoices.fence <= EXCLUDED.fence
//
// Use a SQL for one statement only. It is not safe for concurrent use.
type SQL struct {
	placeholders Placeholders
	fence        uint64
	args         []any
}

// NewSQL returns a new SQL for one statement. The fence is the fence of the lock that the caller
// holds. If the fence is 0, as with a store without fences, the error is ErrMissing. If the fence
// is 2^53 or more, the error is ErrMalformed.
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

// Set returns an assignment that sets column to the fence.
func (q *SQL) Set(column string) string { return column + " = " + q.arg() }

// Condition returns a condition for the WHERE clause of a statement. It is true only if the fence
// in column is not greater than the caller's fence. So the statements of older holders change no
// row.
func (q *SQL) Condition(column string) string { return column + " <= " + q.arg() }

// arg adds the fence, as a type that every database driver accepts.
func (q *SQL) arg() string { return q.Arg(int64(q.fence)) }

// ErrNotApplied means that the statement changed no row. Either the row has a greater fence, or
// there is no such row. To find out which, read the row's fence in a new transaction, or with
// SELECT … FOR UPDATE. Under REPEATABLE READ, which is MySQL's default, a plain SELECT in the same
// transaction may return an old version of the row.
var ErrNotApplied = errors.New("no row was changed: it has a greater fence, or is not there")

// Applied checks the result of ExecContext for a guarded statement. It returns the error of
// ExecContext, or ErrNotApplied if no row was changed.
//
// MySQL's driver counts only rows that got new values. So if a statement is repeated, the
// repetition returns ErrNotApplied, unless the database was opened with clientFoundRows=true.
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
