package filestore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/filestore"
)

// All processes of a machine that open the same directory share its locks.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "locks") // a service has a directory such as /var/lib/shop/locks
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := filestore.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)

	lock, err := locker.Acquire(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release()
	_, err = locker.TryAcquire(ctx, "nightly-report")
	fmt.Println("held:", errors.Is(err, padlock.ErrHeld))
	// Output: held: true
}
