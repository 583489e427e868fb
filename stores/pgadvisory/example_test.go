package pgadvisory_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/pgadvisory"
)

// The store opens connections of its own; the program's pool is not used.
func Example() {
	ctx := context.Background()
	config, err := pgx.ParseConfig("postgres://app@db.internal/shop?sslmode=verify-full")
	if err != nil {
		log.Fatal(err)
	}
	store, err := pgadvisory.Open(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)

	err = locker.Do(ctx, "nightly-report", func(ctx context.Context) error {
		fence, _ := padlock.FenceFrom(ctx)
		fmt.Println("write the report with fence", fence)
		return nil // ctx ends if the lock is lost
	})
	if err != nil {
		log.Print(err)
	}
}
