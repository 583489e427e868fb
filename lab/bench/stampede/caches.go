//go:build linux

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-redis/cache/v9"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/session/redissession"
	"github.com/padlock-go/padlock/stampede"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidisaside"
	"golang.org/x/sync/singleflight"
)

// A getter is a cache in Redis, as one process uses it.
type getter func(ctx context.Context, key string, ttl time.Duration, fn func(context.Context) (string, error)) (string, error)

// contestants are the caches that are compared. Each row of a table is one of them.
var contestants = []struct {
	name string
	open func(ctx context.Context, addr string) (getter, error)
}{
	{"padlock", func(ctx context.Context, addr string) (getter, error) { return openPadlock(ctx, addr) }},
	{stalePadlock, func(ctx context.Context, addr string) (getter, error) {
		return openPadlock(ctx, addr, stampede.Stale(time.Minute))
	}},
	{"nothing", func(_ context.Context, addr string) (getter, error) { return getOrSet(connect(addr)), nil }},
	{"singleflight", openSingleflight},
	{"go-redis/cache", openCache},
	{"rueidisaside", openAside},
}

// stalePadlock is the row of the cache that returns the stale value while it makes a new one.
const stalePadlock = "padlock, Stale"

func openPadlock(ctx context.Context, addr string, opts ...stampede.Option) (getter, error) {
	server := redisstore.Config{Addrs: []string{addr}}
	values, err := redissession.Open(ctx, server)
	locks, errLocks := redisstore.Open(ctx, server)
	if err := errors.Join(err, errLocks); err != nil {
		return nil, err
	}
	return byTTL(padlock.New(locks), values.Values(), opts), nil
}

// byTTL makes a getter from package stampede. Each call of a getter has its own TTL and its own
// function fn. A Cache has only one TTL and one function for all calls. So there is one Cache for
// each TTL, and the Cache's function finds fn in the context.
func byTTL(l *padlock.Locker, values stampede.Values, opts []stampede.Option) getter {
	type makeKey struct{}
	var mu sync.Mutex
	caches := make(map[time.Duration]*stampede.Cache[string])
	return func(ctx context.Context, key string, ttl time.Duration, fn func(context.Context) (string, error)) (string, error) {
		mu.Lock()
		c, err := caches[ttl], error(nil)
		if c == nil {
			c, err = stampede.New(l, values, "bench", func(ctx context.Context, _ string) (string, error) {
				return ctx.Value(makeKey{}).(func(context.Context) (string, error))(ctx)
			}, append([]stampede.Option{stampede.Fresh(ttl)}, opts...)...)
			caches[ttl] = c
		}
		mu.Unlock()
		if err != nil {
			return "", err
		}
		return c.Get(context.WithValue(ctx, makeKey{}, fn), key)
	}
}

func connect(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: 50})
}

// getOrSet is the simplest cache. It sends GET, and if that finds no value, it makes the value and
// sends SET.
func getOrSet(client *redis.Client) getter {
	return func(ctx context.Context, key string, ttl time.Duration, fn func(context.Context) (string, error)) (string, error) {
		v, err := client.Get(ctx, key).Result()
		if !errors.Is(err, redis.Nil) {
			return v, err
		}
		if v, err = fn(ctx); err != nil {
			return "", err
		}
		return v, client.Set(ctx, key, v, ttl).Err()
	}
}

func openSingleflight(_ context.Context, addr string) (getter, error) {
	var group singleflight.Group
	get := getOrSet(connect(addr))
	return func(ctx context.Context, key string, ttl time.Duration, fn func(context.Context) (string, error)) (string, error) {
		v, err, _ := group.Do(key, func() (any, error) { return get(ctx, key, ttl, fn) })
		text, _ := v.(string)
		return text, err
	}, nil
}

func openCache(_ context.Context, addr string) (getter, error) {
	c := cache.New(&cache.Options{Redis: connect(addr)})
	return func(ctx context.Context, key string, ttl time.Duration, fn func(context.Context) (string, error)) (v string, err error) {
		err = c.Once(&cache.Item{Ctx: ctx, Key: key, Value: &v, TTL: ttl, Do: func(*cache.Item) (any, error) { return fn(ctx) }})
		return v, err
	}, nil
}

func openAside(_ context.Context, addr string) (getter, error) {
	c, err := rueidisaside.NewClient(rueidisaside.ClientOption{ClientOption: rueidis.ClientOption{InitAddress: []string{addr}}})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string, ttl time.Duration, fn func(context.Context) (string, error)) (string, error) {
		return c.Get(ctx, ttl, key, func(ctx context.Context, _ string) (string, error) { return fn(ctx) })
	}, nil
}
