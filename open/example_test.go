package open_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open"
)

// The URL comes from the configuration, so the place of the locks can change without the program.
func Example() {
	ctx := context.Background()
	store, err := open.Store(ctx, "memory:") // or file:///var/lib/shop/locks
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)
	fmt.Println(locker.Guarantees().Store)

	_, err = open.Store(ctx, "redis://localhost") // this needs open.Schemes(redisstore.Scheme())
	fmt.Println("not known:", errors.Is(err, padlock.ErrInvalid))
	// Output:
	// memory
	// not known: true
}
