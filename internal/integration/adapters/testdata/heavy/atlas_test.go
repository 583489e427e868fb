package adapters

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"ariga.io/atlas/sql/migrate"
	"ariga.io/atlas/sql/sqlite"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/padlocktest"
)

// noted loses the lock when Atlas notes the first migration.
type noted struct {
	migrate.NopRevisionReadWriter
	lose func(ctx context.Context)
}

func (n noted) WriteRevision(ctx context.Context, _ *migrate.Revision) error {
	n.lose(ctx)
	return nil
}

// Atlas stops after a loss, because it passes on the context of Do.
func TestAtlasStopsAfterALoss(t *testing.T) {
	t.Parallel()
	db, err := database(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	d, err := sqlite.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	dir := migrate.OpenMemDir(t.Name())
	defer dir.Close()
	dir.WriteFile("1.sql", []byte("CREATE TABLE a (x INT);\n"))
	dir.WriteFile("2.sql", []byte("CREATE TABLE b (x INT);\n"))
	sum, err := dir.Checksum()
	if err == nil {
		err = migrate.WriteSumFile(dir, sum)
	}
	if err != nil {
		t.Fatal(err)
	}
	l, script := padlocktest.New(t)
	var first sync.Once
	ex, err := migrate.NewExecutor(d, dir, noted{lose: func(ctx context.Context) {
		first.Do(func() { script.Lose("migrations:shop"); <-ctx.Done() })
	}})
	if err != nil {
		t.Fatal(err)
	}
	err = l.Do(t.Context(), "migrations:shop", func(ctx context.Context) error { return ex.ExecuteN(ctx, 0) }, padlock.Wait(5*time.Minute))
	var tables int
	if e := db.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_master WHERE name = 'b'").Scan(&tables); e != nil {
		t.Fatal(e)
	}
	if !errors.Is(err, padlock.ErrLost) || tables != 0 {
		t.Errorf("%v, the second migration ran: %v", err, tables > 0)
	}
}
