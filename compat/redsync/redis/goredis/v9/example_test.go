package goredis_test

import (
	"fmt"

	"github.com/padlock-go/padlock/compat/redsync"
	"github.com/padlock-go/padlock/compat/redsync/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func ExampleNewPool() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nobody listens there
	defer client.Close()
	rs := redsync.New(goredis.NewPool(client))
	err := rs.NewMutex("nightly-report").TryLock()
	fmt.Println(err != nil)
	// Output: true
}
