package newest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/newest"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A deploy of the newest version. An older one that still waits is dropped.
func Example() {
	locker := padlock.New(memstore.New())
	defer locker.Close(context.Background())
	err := newest.Do(context.Background(), locker, "deploy-web", func(ctx context.Context) error {
		fmt.Println("deploys")
		return ctx.Err()
	})
	if errors.Is(err, newest.ErrSuperseded) {
		fmt.Println("a newer version is deployed")
	}
	// Output: deploys
}
