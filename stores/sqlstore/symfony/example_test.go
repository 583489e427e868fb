package symfony_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/symfony"
)

// The locks are those of a PHP application with Symfony, in the same table of its database. The
// driver is imported by the program.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://app@db.internal/shop?sslmode=verify-full")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	store, err := symfony.Open(ctx, db, sqlstore.PostgreSQL, symfony.Symfony)
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)

	err = locker.Do(ctx, "nightly-report", func(ctx context.Context) error {
		fmt.Println("write the report")
		return nil // ctx ends if the lock is lost
	})
	if err != nil {
		log.Print(err)
	}
}
