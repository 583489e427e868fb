package driver_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// counting is a wrapper that counts tries. It leaves names and tokens alone, so it has Unwrap.
type counting struct {
	driver.Store
	tries atomic.Int64
}

func (c *counting) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	c.tries.Add(1)
	return c.Store.Acquire(ctx, r)
}

func (c *counting) Unwrap() driver.Store { return c.Store }

// The wrapper embeds the five methods of Store. As finds the abilities of the store inside.
func ExampleAs() {
	store := &counting{Store: memstore.New()}
	_, ok := driver.As[driver.Admin](store)
	fmt.Println("it lists names:", ok)
	// Output: it lists names: true
}

// Two tenants of one store use the same name for two locks.
func ExampleWithPrefix() {
	ctx := context.Background()
	store := memstore.New()
	defer store.Close()
	for _, tenant := range []string{"tenant-1:", "tenant-2:"} {
		locker := padlock.New(driver.WithPrefix(store, tenant), padlock.KeepStoreOpen())
		defer locker.Close(ctx)
		if _, err := locker.TryAcquire(ctx, "nightly report"); err != nil {
			fmt.Println(err)
		}
	}
	states, err := store.List(ctx, "tenant-")
	fmt.Println(len(states), "locks", err)
	// Output: 2 locks <nil>
}
