package mongostore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/mongostore"
)

// The store makes the collection and its index.
func Example() {
	ctx := context.Background()
	store, err := mongostore.Open(ctx, mongostore.Config{
		URI: "mongodb://localhost:27017/?replicaSet=rs0", Database: "shop", Collection: "locks",
	})
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
