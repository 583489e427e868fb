package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/sqlite"
)

// The locks are in the same file as the program's own data, so CheckTx keeps a holder that has lost
// its lock from writing.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, _, err := sqlite.Open("sqlite://" + dir + "/shop.db")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	store, err := sqlstore.Open(ctx, db, sqlstore.SQLite)
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
	if err := store.CheckTx(ctx, tx, lock); err != nil {
		log.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "CREATE TABLE stock (item TEXT, n INTEGER)"); err != nil {
		log.Fatal(err)
	}
	fmt.Println("committed:", tx.Commit())
	// Output: committed: <nil>
}
