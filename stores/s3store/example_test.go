package s3store_test

import (
	"context"
	"fmt"
	"log"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/s3store"
)

// The access key and the region come from the environment, as with the tools of AWS.
func Example() {
	ctx := context.Background()
	store, err := s3store.Open(ctx, s3store.Config{Bucket: "shop", Prefix: "locks/"})
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
