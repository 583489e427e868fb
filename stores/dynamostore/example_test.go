package dynamostore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/dynamostore"
)

// The access key and the region come from the environment, as with the tools of AWS.
func Example() {
	ctx := context.Background()
	store, err := dynamostore.Open(ctx, dynamostore.Config{Table: "locks"})
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
