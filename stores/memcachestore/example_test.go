package memcachestore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memcachestore"
)

// A memcached lock keeps work from being done twice. It has no fence, so it protects no data.
func Example() {
	ctx := context.Background()
	store, err := memcachestore.Open(ctx, memcachestore.Config{Addr: "localhost:11211"})
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
