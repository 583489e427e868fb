package mysql_test

import (
	"context"
	"fmt"
	"log"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
)

// The program's own data are in the same database, so it opens the pool itself.
func ExampleOpen() {
	ctx := context.Background()
	db, _, err := mysql.Open("mysql://app@db.internal/shop?tls=true")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	store, err := sqlstore.Open(ctx, db, sqlstore.MySQL)
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)

	err = locker.Do(ctx, "nightly-report", func(ctx context.Context) error {
		var orders int
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM orders").Scan(&orders); err != nil {
			return err
		}
		fmt.Println(orders, "orders")
		return nil
	})
	if err != nil {
		log.Print(err)
	}
}
