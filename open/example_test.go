package open_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open"
)

// The URL comes from the configuration, so the place of the locks can change without the program.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "locks")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	store, err := open.Store(ctx, "file://"+dir)
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(store)
	defer locker.Close(ctx)
	fmt.Println(locker.Guarantees().Store)

	_, err = open.Store(ctx, "redis://localhost") // this needs open.Schemes(redisstore.Scheme())
	fmt.Println("not known:", errors.Is(err, padlock.ErrInvalid))
	// Output:
	// file
	// not known: true
}
