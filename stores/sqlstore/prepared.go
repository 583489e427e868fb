package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"sync"
	"sync/atomic"

	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// A stmtCache contains prepared statements of SQLite, which then need not be parsed again. The
// other engines do not use it. On PostgreSQL, the driver prepares statements where that is
// possible. On MySQL, a statement that is sent as text costs one request. A prepared one would cost
// three, because it would have to be prepared and closed each time.
type stmtCache struct {
	mu    sync.Mutex
	texts map[string]*sql.Stmt
}

func (t *table) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	if err := t.db.Here(ctx); err != nil { // prepared statements do not go through the Pool
		return nil, err
	}
	if st := t.kept.get(text); st != nil {
		return st, nil
	}
	st, err := t.db.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return t.kept.add(text, st), nil
}

func (p *stmtCache) get(text string) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.texts[text]
}

// add keeps st, or returns the statement that another call has added meanwhile.
func (p *stmtCache) add(text string, st *sql.Stmt) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.texts[text]; old != nil {
		st.Close()
		return old
	}
	if p.texts == nil {
		p.texts = map[string]*sql.Stmt{}
	}
	p.texts[text] = st
	return st
}

// closeAll closes the statements.
func (p *stmtCache) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, st := range p.texts {
		st.Close()
	}
	clear(p.texts)
}

// A row is the result of a statement that returns one row.
type row interface{ Scan(dest ...any) error }

// A failedRow takes the place of a row if the statement could not be sent.
type failedRow struct{ error }

// Scan returns the error.
func (f failedRow) Scan(...any) error { return f.error }

// A notedArg is the first argument of a statement. The driver asks for its value after database/sql
// has found a connection, and before the statement is sent. If the driver has not asked, the
// statement was not sent.
type notedArg struct {
	value any
	asked atomic.Bool
}

// Value implements driver.Valuer of database/sql.
func (a *notedArg) Value() (sqldriver.Value, error) {
	a.asked.Store(true)
	return a.value, nil
}

func note(args []any) ([]any, *notedArg) {
	first := &notedArg{value: args[0]}
	return append([]any{first}, args[1:]...), first
}

// failed returns the error of a statement. If the statement was not sent, the error says so.
func (t *table) failed(err error, first *notedArg) error {
	if t.dialect == dialects[SQLite] {
		err = t.db.See(err) // prepared statements do not go through the Pool
	}
	if err == nil || first.asked.Load() {
		return err
	}
	return dbms.NotSent(t.db, err)
}

// A notedRow is a row of a statement with a notedArg.
type notedRow struct {
	row
	t     *table
	first *notedArg
}

// Scan copies the values of the row.
func (r notedRow) Scan(dest ...any) error { return r.t.failed(r.row.Scan(dest...), r.first) }

func (t *table) exec(ctx context.Context, text string, args ...any) (res sql.Result, err error) {
	args, first := note(args)
	if t.dialect != dialects[SQLite] {
		res, err = t.db.ExecContext(ctx, text, args...)
		return res, t.failed(err, first)
	}
	st, err := t.statement(ctx, text)
	if err == nil {
		res, err = st.ExecContext(ctx, args...)
	}
	return res, t.failed(err, first)
}

func (t *table) query(ctx context.Context, text string, args ...any) (rows *sql.Rows, err error) {
	args, first := note(args)
	if t.dialect != dialects[SQLite] {
		rows, err = t.db.QueryContext(ctx, text, args...)
		return rows, t.failed(err, first)
	}
	st, err := t.statement(ctx, text)
	if err == nil {
		rows, err = st.QueryContext(ctx, args...)
	}
	return rows, t.failed(err, first)
}

func (t *table) queryRow(ctx context.Context, text string, args ...any) row {
	args, first := note(args)
	if t.dialect != dialects[SQLite] {
		return notedRow{t.db.QueryRowContext(ctx, text, args...), t, first}
	}
	st, err := t.statement(ctx, text)
	if err != nil {
		return failedRow{t.failed(err, first)}
	}
	return notedRow{st.QueryRowContext(ctx, args...), t, first}
}
