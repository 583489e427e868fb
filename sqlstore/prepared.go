package sqlstore

import (
	"context"
	"database/sql"
	"sync"
)

// prepared keeps prepared statements for SQLite, which then need not be parsed again. The other
// engines do not use it. Drivers of PostgreSQL prepare statements by themselves, and must not
// prepare any behind a pooler. On MySQL, a statement that is sent as text costs one request. A
// prepared statement costs three requests, unless each connection keeps it prepared.
type prepared struct {
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

func (p *prepared) get(text string) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.texts[text]
}

// add keeps st, or returns the statement that another call has added meanwhile.
func (p *prepared) add(text string, st *sql.Stmt) *sql.Stmt {
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
func (p *prepared) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, st := range p.texts {
		st.Close()
	}
	clear(p.texts)
}

// A row is the result of a statement that returns one row.
type row interface{ Scan(dest ...any) error }

// failed stands for the row of a statement that could not be sent.
type failed struct{ error }

// Scan returns the error.
func (f failed) Scan(...any) error { return f.error }

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
		return failed{err}
	}
	return st.QueryRowContext(ctx, args...)
}
