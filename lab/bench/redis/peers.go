//go:build linux

package main

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const allOfThem scenario = alone | oneDrain | eachDrain | steadily | blocked

// peers returns the other libraries, used as their documentation shows. A library that polls has a
// row with its default delay. For redsync there is another row with a shorter delay.
func peers() []contestant {
	return []contestant{
		{name: "redsync", in: allOfThem, open: openRedsync()},
		{name: "redsync-10ms", in: oneDrain | eachDrain | steadily, open: openRedsync(redsync.WithRetryDelay(10 * time.Millisecond))},
		{name: "redislock-lin10", in: allOfThem, open: openRedislock},
		{name: "rueidislock-3key", in: allOfThem, open: openRueidislock(2, false)}, // the default: 2 of 3 keys
		{name: "rueidislock-1key", in: allOfThem, open: openRueidislock(1, false)},
		{name: "rueidislock-1key-noloop", in: allOfThem, open: openRueidislock(1, true)}, // as its README shows
	}
}

// lockers is a client that is made from two functions.
type lockers struct {
	lock func(ctx context.Context, name string) (unlock func() error, err error)
	end  func() error
}

func (l lockers) locker(name string) (Locker, error) {
	return lockFunc(func(ctx context.Context) (func() error, error) { return l.lock(ctx, name) }), nil
}

func (l lockers) close() error { return l.end() }

func (s site) goRedis() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.addr, Dialer: s.dial})
}

func openRedsync(more ...redsync.Option) func(site) (client, error) {
	const forever = 1 << 30 // number of tries; the context bounds the wait
	options := append([]redsync.Option{redsync.WithExpiry(ttl), redsync.WithTries(forever)}, more...)
	return func(s site) (client, error) {
		c := s.goRedis()
		rs := redsync.New(goredis.NewPool(c))
		return lockers{func(ctx context.Context, name string) (func() error, error) {
			m := rs.NewMutex(name, options...)
			if err := m.LockContext(ctx); err != nil {
				return nil, err
			}
			return func() error {
				_, err := m.UnlockContext(context.Background())
				return err
			}, nil
		}, c.Close}, nil
	}
}

func openRedislock(s site) (client, error) {
	c := s.goRedis()
	rl := redislock.New(c)
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)} // it keeps no state, so it can be shared
	return lockers{func(ctx context.Context, name string) (func() error, error) {
		l, err := rl.Obtain(ctx, name, ttl, options)
		if err != nil {
			return nil, err
		}
		return func() error { return l.Release(context.Background()) }, nil
	}, c.Close}, nil
}

func openRueidislock(majority int32, noLoop bool) func(site) (client, error) {
	return func(s site) (client, error) {
		rl, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: s.rueidis(), KeyMajority: majority, NoLoopTracking: noLoop,
		})
		if err != nil {
			return nil, err
		}
		return lockers{func(ctx context.Context, name string) (func() error, error) {
			_, cancel, err := rl.WithContext(ctx, name)
			if err != nil {
				return nil, err
			}
			return func() error { cancel(); return nil }, nil
		}, func() error { rl.Close(); return nil }}, nil
	}
}

// openRueidis opens the simplest correct lock over one pipelined connection: SET NX PX, and
// compare-and-delete. It does not wait.
func openRueidis(s site) (client, error) {
	option := s.rueidis()
	option.PipelineMultiplex = -1
	c, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	return &rueidisClient{c}, nil
}

type rueidisClient struct{ rueidis.Client }

func (c *rueidisClient) close() error { c.Close(); return nil }

var compareAndDelete = rueidis.NewLuaScript(
	`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

func (c *rueidisClient) locker(name string) (Locker, error) {
	token := strconv.FormatUint(rand.Uint64(), 36)
	keys, args := []string{name}, []string{token}
	unlock := func() error {
		return compareAndDelete.Exec(context.Background(), c.Client, keys, args).Error()
	}
	return lockFunc(func(ctx context.Context) (func() error, error) {
		set := c.B().Set().Key(name).Value(token).Nx().PxMilliseconds(ttl.Milliseconds()).Build()
		return unlock, c.Do(ctx, set).Error()
	}), nil
}
