package goredis_test

import (
	"fmt"

	"github.com/padlock-go/padlock/compat/goredis"
	"github.com/redis/go-redis/v9"
)

func ExampleFromOptions() {
	client := redis.NewClient(&redis.Options{Addr: "redis-1:6379", DB: 2})
	defer client.Close()
	c, err := goredis.FromOptions(client.Options()) // for redisstore.Open; goredis.Open does both
	fmt.Println(c.Addrs, c.DB, err)
	// Output: [redis-1:6379] 2 <nil>
}
