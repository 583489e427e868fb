package redislock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/compat/redislock"
	"github.com/padlock-go/padlock/stores/memstore"
)

// In a test of your program, locks in memory stand for those in Redis.
func ExampleNewOn() {
	ctx := context.Background()
	locker := redislock.NewOn(padlock.New(memstore.New()))
	lock, err := locker.Obtain(ctx, "nightly-report", time.Minute, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = locker.Obtain(ctx, "nightly-report", time.Minute, nil)
	fmt.Println(err)
	fmt.Println(lock.Release(ctx))
	// Output:
	// redislock: not obtained
	// <nil>
}
