package padlock_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/filestore"
)

// Many goroutines of one process take turns. Up to 64 in a row pass the lock on in memory. A
// process that waits for the lock waits longer by at most 10 ms and the hold under way.
func ExamplePassLocally() {
	store, err := filestore.Open(locksDirectory())
	if err != nil {
		panic(err)
	}
	locker := padlock.New(store, padlock.PassLocally(64, 10*time.Millisecond))
	defer locker.Close(ctx)

	total, falls, last := 0, 0, uint64(0)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			locker.Do(ctx, "counter", func(ctx context.Context) error {
				fence, _ := padlock.FenceFrom(ctx)
				if fence <= last {
					falls++
				}
				total, last = total+1, fence
				return nil
			})
		})
	}
	all.Wait()
	fmt.Println("counted", total, "times; fences that did not grow:", falls)
	// Output: counted 100 times; fences that did not grow: 0
}
