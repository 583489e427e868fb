package sqlsession_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/fence"
	"github.com/padlock-go/padlock/stores/memstore"
)

// pay writes as docs/fences.md shows, in SQLite's dialect.
func pay(ctx context.Context, db *sql.DB, id int, state string) error {
	number, ok := padlock.FenceFrom(ctx)
	if !ok {
		return fence.ErrMissing
	}
	q, err := fence.NewSQL(fence.QuestionMarks, number)
	if err != nil {
		return err
	}
	text := "UPDATE invoices SET state = " + q.Arg(state) + ", " + q.Set("fence") +
		" WHERE id = " + q.Arg(id) + " AND " + q.Condition("fence")
	return fence.Applied(db.ExecContext(ctx, text, q.Args()...))
}

// TestFenceInSQL: a holder that was paused beyond its lease is refused by the database itself.
func TestFenceInSQL(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE invoices (id INTEGER PRIMARY KEY, state TEXT, fence BIGINT NOT NULL DEFAULT 0)"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO invoices (id, state) VALUES (42, 'open')"); err != nil {
		t.Fatal(err)
	}
	locker := padlock.New(memstore.New())
	defer locker.Close(context.Background())
	var paused context.Context
	for _, state := range []string{"sent", "paid"} {
		err := locker.Do(t.Context(), "invoice:42", func(ctx context.Context) error {
			if paused == nil {
				paused = context.WithoutCancel(ctx)
			}
			return errors.Join(pay(ctx, db, 42, state), pay(ctx, db, 42, state)) // a holder may write twice
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := pay(paused, db, 42, "written too late"); !errors.Is(err, fence.ErrNotApplied) {
		t.Errorf("the paused holder: %v", err)
	}
	var state string
	if err := db.QueryRowContext(t.Context(), "SELECT state FROM invoices WHERE id = 42").Scan(&state); state != "paid" || err != nil {
		t.Errorf("%q, %v", state, err)
	}
}
