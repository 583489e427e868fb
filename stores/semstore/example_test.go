package semstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/semstore"
)

// The semaphores are those of a PHP application with Symfony 6.3 or later on the same machine.
func Example() {
	ctx := context.Background()
	store, err := semstore.Open(semstore.XXH128)
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
