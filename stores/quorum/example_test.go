package quorum_test

import (
	"context"
	"fmt"
	"log"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/quorum"
)

// A majority survives the loss of a member. In production the members are on machines that fail
// independently, such as three Redis servers that are no replicas of each other.
func Example() {
	ctx := context.Background()
	a, b, c := memstore.New(), memstore.New(), memstore.New()
	store, err := quorum.New(quorum.Majority, []driver.Store{a, b, c})
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)

	c.Close() // the member is lost
	err = locker.Do(ctx, "nightly-report", func(ctx context.Context) error {
		fmt.Println("two of three members grant the lock")
		return nil
	})
	fmt.Println(err)
	// Output:
	// two of three members grant the lock
	// <nil>
}
