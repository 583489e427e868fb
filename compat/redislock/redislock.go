// Package redislock has the API of github.com/bsm/redislock, and takes the locks with padlock.
//
// Use it to move a program from redislock step by step: change the import path, compile, and replace one
// lock after the other by a padlock.Locker. If the program is new, use package padlock instead.
//
// Programs with redislock and with this package exclude each other, since both write the same key.
//
// These differ:
//
//   - A release wakes the first waiter. So a RetryStrategy says how long Obtain waits at most, and no
//     request is sent between.
//   - A lost reply is cleaned up: the name does not stay locked until its TTL.
//   - Two locks with one Options.Token and different Options.Metadata exclude each other.
//   - Refresh does not make a lease shorter.
//   - The client is a *redis.Client or a *redis.ClusterClient of go-redis v9. With anything else that
//     implements RedisClient, Obtain returns an error that names its type. Use NewOn then.
//
// As in redislock, no lock is renewed: it ends after its TTL unless Refresh is called, and nothing tells
// its holder. padlock.Locker.Do renews.
//
// docs/from-redis-locks.md has the calls of padlock that take the place of each.
package redislock

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/compat/goredis"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/go-redis/v9"
)

var (
	// ErrNotObtained is returned if a lock is held by another, and by Refresh if it has ended.
	ErrNotObtained = errors.New("redislock: not obtained")

	// ErrLockNotHeld is returned by Release if the lock has ended.
	ErrLockNotHeld = errors.New("redislock: lock not held")
)

// RedisClient is a client of go-redis.
type RedisClient interface {
	redis.Scripter
}

// Client takes locks on one server, or in one cluster. It is safe for concurrent use.
type Client struct {
	locker func() (*padlock.Locker, error)
}

// lockers has a Locker for each client of go-redis, because programs call Obtain with one client again
// and again. Its connections stay open until the process ends.
var lockers sync.Map // of RedisClient and func() (*padlock.Locker, error)

// New returns a Client with the settings of a client of go-redis. It connects with the first Obtain.
//
// As with redislock, a restart of Redis and one that evicts keys lose locks without a word. With NewOn
// and a store of your own, padlock keeps new holders out after the one, and refuses the other.
func New(client RedisClient) *Client {
	open, _ := lockers.LoadOrStore(client, sync.OnceValues(func() (*padlock.Locker, error) { return openFor(client) }))
	return &Client{open.(func() (*padlock.Locker, error))}
}

func openFor(client RedisClient) (*padlock.Locker, error) {
	known, ok := client.(redis.UniversalClient)
	if !ok {
		return nil, fmt.Errorf("redislock: %w: the client is a %T, not a *redis.Client or *redis.ClusterClient", driver.ErrInvalid, client)
	}
	store, err := goredis.Open(context.Background(), known, redisstore.PlainStrings(), redisstore.Foreign(),
		redisstore.Lazy(), redisstore.AllowEviction(), redisstore.MaxTTL(24*time.Hour), redisstore.RestartGuard(redisstore.GuardOff))
	if err != nil {
		return nil, err
	}
	return padlock.New(store), nil
}

// NewOn returns a Client whose locks are those of a Locker. Any store will do whose locks have leases;
// with redisstore.PlainStrings they exclude programs with redislock.
func NewOn(l *padlock.Locker) *Client {
	return &Client{func() (*padlock.Locker, error) { return l, nil }}
}

// Obtain is New(client).Obtain.
func Obtain(ctx context.Context, client RedisClient, key string, ttl time.Duration, opt *Options) (*Lock, error) {
	return New(client).Obtain(ctx, key, ttl, opt)
}

// Obtain takes the lock on key, which ends after ttl, from 100 ms to 24 hours. If it is held, Obtain
// waits as long as the tries of Options.RetryStrategy would take, but not longer than ctx or, if that
// has no deadline, than ttl. If it stays held, the error is ErrNotObtained, or that of the deadline.
func (c *Client) Obtain(ctx context.Context, key string, ttl time.Duration, opt *Options) (*Lock, error) {
	locker, err := c.locker()
	if err != nil {
		return nil, err
	}
	if opt == nil {
		opt = &Options{}
	}
	token := opt.Token
	if token == "" {
		b := make([]byte, 16)
		rand.Read(b) // never fails
		token = base64.RawURLEncoding.EncodeToString(b)
	}
	most := ttl
	if end, ok := ctx.Deadline(); ok {
		most = time.Until(end)
	}
	wait, exhausted := patience(opt.RetryStrategy, most)
	lock, err := locker.Acquire(ctx, key, padlock.Token(token+opt.Metadata), padlock.TTL(ttl), padlock.NoRenewal(), padlock.Wait(wait))
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !errors.Is(err, padlock.ErrHeld) || errors.Is(err, padlock.ErrUncertain):
		return nil, err
	case !exhausted:
		return nil, context.DeadlineExceeded
	default:
		return nil, ErrNotObtained
	}
	exported, err := lock.Export(ctx) // this process lets the lock run out, as redislock does
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return &Lock{c, key, opt.Metadata, driver.TokenOf(token), exported}, nil
}

// patience returns how long the tries of a strategy take, or most if they take longer. exhausted reports
// whether they end before.
func patience(s RetryStrategy, most time.Duration) (wait time.Duration, exhausted bool) {
	if s == nil {
		return 0, true
	}
	for wait < most {
		d := s.NextBackoff()
		if d < 1 {
			return wait, true
		}
		wait += d
	}
	return max(most, 0), false
}

// Lock is a lock that was obtained. It is safe for concurrent use.
type Lock struct {
	*Client
	key, metadata string
	token         driver.Token
	exported      padlock.Key
}

// Key returns the key, which is the name of the lock.
func (l *Lock) Key() string { return l.key }

// Token returns the token of the lock.
func (l *Lock) Token() string { return l.token.Text() }

// Metadata returns Options.Metadata.
func (l *Lock) Metadata() string { return l.metadata }

// TTL asks the server, and returns how long the lock can be used: a little less than the rest of its
// lease. It returns 0 if the lock has ended.
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) {
	left, err := l.extend(ctx, driver.MinTTL) // no lease becomes shorter
	if errors.Is(err, ErrNotObtained) {
		return 0, nil
	}
	return left, err
}

// Refresh makes the lock end after ttl from now. If it has ended, the error is ErrNotObtained. The last
// parameter has no effect.
func (l *Lock) Refresh(ctx context.Context, ttl time.Duration, _ *Options) error {
	_, err := l.extend(ctx, ttl)
	return err
}

func (l *Lock) extend(ctx context.Context, ttl time.Duration) (time.Duration, error) {
	locker, err := l.locker()
	if err != nil {
		return 0, err
	}
	left, err := locker.ExtendKey(ctx, l.exported, ttl)
	if ended(err) {
		return 0, ErrNotObtained
	}
	return left, err
}

// Release releases the lock. If it has ended, the error is ErrLockNotHeld.
func (l *Lock) Release(ctx context.Context) error {
	if l == nil {
		return ErrLockNotHeld
	}
	locker, err := l.locker()
	if err == nil {
		err = locker.ReleaseKey(ctx, l.exported)
	}
	if ended(err) {
		return ErrLockNotHeld
	}
	return err
}

func ended(err error) bool {
	return errors.Is(err, padlock.ErrLost) || errors.Is(err, padlock.ErrExpired)
}

// Options are settings of a lock. For a wrong field the error of Obtain is driver.ErrInvalid.
type Options struct {
	// RetryStrategy says how long Obtain waits. If it is nil, Obtain does not wait.
	RetryStrategy RetryStrategy
	// Metadata is any text that stands behind the token in the value of the key, together at most 1,024
	// bytes. If it is empty, nothing does.
	Metadata string
	// Token is the secret of the lock, any text. If it is empty, it is random.
	Token string
}

// A RetryStrategy returns the times between the tries that redislock would make. One that counts is for
// one Obtain.
type RetryStrategy interface {
	// NextBackoff returns the time to the next try, or 0 if there is none.
	NextBackoff() time.Duration
}

type linear time.Duration

func (d linear) NextBackoff() time.Duration { return time.Duration(d) }

// LinearBackoff tries again and again after the same time.
func LinearBackoff(backoff time.Duration) RetryStrategy { return linear(backoff) }

// NoRetry tries once.
func NoRetry() RetryStrategy { return linear(0) }

type limited struct {
	s    RetryStrategy
	left atomic.Int64
}

// LimitRetry ends a strategy after most tries.
func LimitRetry(s RetryStrategy, most int) RetryStrategy {
	l := &limited{s: s}
	l.left.Store(int64(most))
	return l
}

func (l *limited) NextBackoff() time.Duration {
	if l.left.Add(-1) < 0 {
		return 0
	}
	return l.s.NextBackoff()
}

type exponential struct {
	shortest, longest time.Duration
	tries             atomic.Uint64
}

// ExponentialBackoff doubles the time, from 4 ms on, within the two limits. A longest time of 0 is none.
func ExponentialBackoff(shortest, longest time.Duration) RetryStrategy {
	return &exponential{shortest: shortest, longest: longest}
}

func (e *exponential) NextBackoff() time.Duration {
	d := 2 * time.Millisecond << min(e.tries.Add(1), 25)
	if e.longest != 0 {
		d = min(d, e.longest)
	}
	return max(d, e.shortest)
}
