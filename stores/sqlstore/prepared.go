package sqlstore

import (
	"context"
	"database/sql"
	"sync"
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

func (t *table) exec(ctx context.Context, text string, args ...any) (sql.Result, error) {
	if t.dialect != dialects[SQLite] {
		return t.db.ExecContext(ctx, text, args...)
	}
	st, err := t.statement(ctx, text)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

func (t *table) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if t.dialect != dialects[SQLite] {
		return t.db.QueryContext(ctx, text, args...)
	}
	st, err := t.statement(ctx, text)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

func (t *table) queryRow(ctx context.Context, text string, args ...any) row {
	if t.dialect != dialects[SQLite] {
		return t.db.QueryRowContext(ctx, text, args...)
	}
	st, err := t.statement(ctx, text)
	if err != nil {
		return failedRow{err}
	}
	return st.QueryRowContext(ctx, args...)
}
