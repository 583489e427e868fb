package sqlstore_test

import (
	"context"
	"database/sql"
	"log"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// The program imports the driver. Without sqlstore.Notify, waiters poll.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://app@db.internal/shop?sslmode=verify-full")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	store, err := sqlstore.Open(ctx, db, sqlstore.PostgreSQL)
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)

	lock, err := locker.Acquire(ctx, "stock")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if err := store.CheckTx(ctx, tx, lock); err != nil { // an error if the lock is lost
		log.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE item = 7"); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
}
