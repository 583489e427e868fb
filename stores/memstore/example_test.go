package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
)

// Two handles on one memory stand for two processes, as a test needs them.
func Example() {
	ctx := context.Background()
	store := memstore.New()
	web1, web2 := padlock.New(store), padlock.New(store.Open())
	defer web1.Close(ctx)
	defer web2.Close(ctx)

	lock, err := web1.Acquire(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	_, err = web2.TryAcquire(ctx, "nightly-report")
	fmt.Println("held:", errors.Is(err, padlock.ErrHeld))
	if err := lock.Release(); err != nil {
		log.Fatal(err)
	}
	_, err = web2.TryAcquire(ctx, "nightly-report")
	fmt.Println("after the release:", err)
	// Output:
	// held: true
	// after the release: <nil>
}
