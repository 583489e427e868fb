//go:build linux

package main

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// The tables in which peers appear.
const (
	alone     trial.Tables = 1 << iota // uncontended
	oneDrain                           // the drain experiments in which all waiters share a client
	eachDrain                          // the drain experiments in which each waiter has its own client
	steadily                           // the experiments in which workers lock and unlock for a fixed time
	blocked                            // many processes that only wait
	manyKinds = alone | eachDrain | steadily | blocked
)

// A peer opens a client for a site.
type open = func(s site) (*trial.Client, error)

// at makes the function of a Peer that connects to the server of r.
func (r *rig) at(f open) func(sent *trial.Counter) (*trial.Client, error) {
	return func(sent *trial.Counter) (*trial.Client, error) { return f(site{r.addr, sent}) }
}

// libraries returns the other libraries, used as their documentation shows. redsync polls with its
// default delay.
func libraries(r *rig) []trial.Peer {
	return []trial.Peer{
		{Name: "redsync", In: manyKinds, Open: r.at(openRedsync)},
		{Name: "redislock-lin10", In: manyKinds, Open: r.at(openRedislock)},
		{Name: "rueidislock-3key", In: manyKinds, Open: r.at(openRueidislock(2, false))}, // the default: 2 of 3 keys
		{Name: "rueidislock-1key", In: manyKinds, Open: r.at(openRueidislock(1, false))},
		{Name: "rueidislock-1key-noloop", In: oneDrain, Open: r.at(openRueidislock(1, true))}, // as its README shows
	}
}

func (s site) goRedis() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.addr, Dialer: s.dial})
}

func openRedsync(s site) (*trial.Client, error) { return redsyncOn(s.goRedis()), nil }

// redsyncOn opens redsync on one server or on several.
func redsyncOn(clients ...*redis.Client) *trial.Client {
	const forever = 1 << 30 // number of tries; the context bounds the wait
	var pools []redsyncredis.Pool
	for _, c := range clients {
		pools = append(pools, goredis.NewPool(c))
	}
	rs := redsync.New(pools...)
	end := func() error {
		return trial.Together(len(clients), func(i int) error { return clients[i].Close() })
	}
	return trial.NewClient(end, func(ctx context.Context, name string) (func() error, error) {
		m := rs.NewMutex(name, redsync.WithExpiry(trial.TTL), redsync.WithTries(forever))
		if err := m.LockContext(ctx); err != nil {
			return nil, err
		}
		return func() error { _, err := m.UnlockContext(context.Background()); return err }, nil
	})
}

func openRedislock(s site) (*trial.Client, error) {
	c := s.goRedis()
	rl := redislock.New(c)
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)} // it keeps no state, so it can be shared
	return trial.NewClient(c.Close, func(ctx context.Context, name string) (func() error, error) {
		l, err := rl.Obtain(ctx, name, trial.TTL, options)
		if err != nil {
			return nil, err
		}
		return func() error { return l.Release(context.Background()) }, nil
	}), nil
}

func openRueidislock(majority int32, noLoop bool) open {
	return func(s site) (*trial.Client, error) {
		rl, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: s.rueidis(), KeyMajority: majority, NoLoopTracking: noLoop,
		})
		if err != nil {
			return nil, err
		}
		return trial.NewClient(func() error { rl.Close(); return nil }, func(ctx context.Context, name string) (func() error, error) {
			_, cancel, err := rl.WithContext(ctx, name)
			return func() error { cancel(); return nil }, err
		}), nil
	}
}

var compareAndDelete = rueidis.NewLuaScript(
	`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

// openRueidis opens the simplest correct lock: SET NX PX, and compare-and-delete, over one
// pipelined connection. It does not wait.
func openRueidis(s site) (*trial.Client, error) {
	option := s.rueidis()
	option.PipelineMultiplex = -1
	c, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	return &trial.Client{Close: func() error { c.Close(); return nil }, Lock: func(name string) (trial.Lock, error) {
		token := strconv.FormatUint(rand.Uint64(), 36)
		keys, args := []string{name}, []string{token}
		unlock := func() error { return compareAndDelete.Exec(context.Background(), c, keys, args).Error() }
		return func(ctx context.Context) (func() error, error) {
			set := c.B().Set().Key(name).Value(token).Nx().PxMilliseconds(trial.TTL.Milliseconds()).Build()
			return unlock, c.Do(ctx, set).Error()
		}, nil
	}}, nil
}

// Several variants of padlock are measured, and each variant has its own row. A lock is PHP's
// sorted set or a plain string, with or without fences. The rows without fences show what fences
// cost. They are only in the tables of an uncontended lock.
const (
	ours        = "padlock"
	oursNoFence = "padlock-nofence"
	oursString  = "padlock-string"
)

func padlocks(r *rig) []trial.Peer {
	row := func(name string, in trial.Tables, options ...redisstore.Option) trial.Peer {
		return trial.Peer{Name: name, In: in, Open: r.at(func(s site) (*trial.Client, error) {
			store, err := s.store(options...)
			if err != nil {
				return nil, err
			}
			return trial.Face(store), nil
		})}
	}
	return []trial.Peer{
		row(oursString, manyKinds|oneDrain, redisstore.PlainStrings()),
		row(oursNoFence, alone, redisstore.NoFences()),
		row(ours, manyKinds|oneDrain),
	}
}

// store opens padlock's store.
func (s site) store(opts ...redisstore.Option) (*redisstore.Store, error) {
	ctx, cancel := context.WithTimeout(context.Background(), trial.Patience)
	defer cancel()
	return redisstore.Open(ctx, redisstore.Config{Addrs: []string{s.addr}, Dial: s.dial}, opts...)
}

// locker opens padlock.
func (s site) locker(opts ...redisstore.Option) (*padlock.Locker, error) {
	store, err := s.store(opts...)
	if err != nil {
		return nil, err
	}
	return padlock.New(store, padlock.TTL(trial.TTL)), nil
}
