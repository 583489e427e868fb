package driver_test

import (
	"context"
	"fmt"
	"sync/atomic"

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
