package redsync_test

import (
	"fmt"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/compat/redsync"
	"github.com/padlock-go/padlock/stores/memstore"
)

// In a test of your program, locks in memory stand for those in Redis.
func ExampleNewOn() {
	rs := redsync.NewOn(padlock.New(memstore.New()))
	mutex := rs.NewMutex("nightly-report")
	if err := mutex.Lock(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rs.NewMutex("nightly-report").TryLock())
	fmt.Println(mutex.Unlock())
	// Output:
	// lock already taken, locked nodes: [0]
	// true <nil>
}
