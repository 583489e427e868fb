// Package redsync has the API of github.com/go-redsync/redsync/v4, and takes the locks with padlock.
//
// Use it to move a program from redsync step by step: change the import paths, compile, and replace
// one mutex after the other by a padlock.Locker. If the program is new, use package padlock instead.
//
//	import (
//		"github.com/padlock-go/padlock/compat/redsync"                    // was github.com/go-redsync/redsync/v4
//		"github.com/padlock-go/padlock/compat/redsync/redis/goredis/v9"   // was …/redsync/v4/redis/goredis/v9
//	)
//
// Programs with redsync and with this package exclude each other on one server, since both write the
// same key. With several servers each needs a majority of them, so they exclude each other, too.
//
// These differ:
//
//   - A release wakes the first waiter. So WithTries and WithRetryDelay say how long Lock waits at most,
//     and no request is sent between.
//   - A lost reply is cleaned up: the name does not stay locked until its expiry.
//   - WithDriftFactor, WithTimeoutFactor, WithFailFast and WithShufflePools have no effect: package
//     quorum has its own limits.
//   - Only pools of go-redis v9 can be had. For another client, make a padlock.Locker and use NewOn.
//
// As in redsync, no lock is renewed: it ends after WithExpiry unless Extend is called, and nothing tells
// its holder. padlock.Locker.Do renews.
//
// docs/from-redis-locks.md has the calls of padlock that take the place of each.
package redsync

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/quorum"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// A Pool says where a Redis server is. In redsync it is redis.Pool, a pool of connections; here a store
// makes its own connection. Pools are compared with ==: equal ones share it.
type Pool interface {
	// Config returns the settings of the server. The error says what cannot be taken over.
	Config() (redisstore.Config, error)
}

// Redsync makes mutexes. It is safe for concurrent use.
type Redsync struct {
	locker func() (*padlock.Locker, error)
	nodes  []int
}

// New returns a Redsync on one server, or on several servers, at most 16, of which a majority decides. It
// connects with the first call of a mutex. All that are made with the same pools of the same clients
// share the connections, which stay open until the process ends.
//
// As with redsync, a restart of Redis and one that evicts keys lose locks without a word. With NewOn and
// a store of your own, padlock keeps new holders out after the one, and refuses the other.
func New(pools ...Pool) *Redsync {
	var key [16]Pool
	r := &Redsync{}
	for n := range copy(key[:], pools) {
		r.nodes = append(r.nodes, n)
	}
	if len(pools) > len(key) {
		r.locker = func() (*padlock.Locker, error) {
			return nil, fmt.Errorf("redsync: %w: more than 16 pools", driver.ErrInvalid)
		}
		return r
	}
	locker, _ := lockers.LoadOrStore(key, sync.OnceValues(func() (*padlock.Locker, error) {
		store, err := open(pools)
		if err != nil {
			return nil, err
		}
		return padlock.New(store), nil
	}))
	r.locker = locker.(func() (*padlock.Locker, error))
	return r
}

// lockers has a Locker for all that use the same pools, because programs call New again and again.
var lockers sync.Map // of [16]Pool and func() (*padlock.Locker, error)

// open opens the stores without a connection.
func open(pools []Pool) (padlock.Store, error) {
	var stores []padlock.Store
	for i, p := range pools {
		c, err := p.Config()
		if err != nil {
			return nil, &RedisError{Node: i, Err: err}
		}
		s, err := redisstore.Open(context.Background(), c, redisstore.PlainStrings(), redisstore.Foreign(),
			redisstore.Lazy(), redisstore.AllowEviction(), redisstore.MaxTTL(24*time.Hour), redisstore.RestartGuard(redisstore.GuardOff))
		if err != nil {
			return nil, &RedisError{Node: i, Err: err}
		}
		stores = append(stores, s)
	}
	if len(stores) == 1 {
		return stores[0], nil
	}
	return quorum.New(quorum.Majority, stores)
}

// NewOn returns a Redsync whose mutexes are locks of a Locker. Any store will do whose locks have
// leases; with redisstore.PlainStrings they exclude programs with redsync.
func NewOn(l *padlock.Locker) *Redsync {
	return &Redsync{locker: func() (*padlock.Locker, error) { return l, nil }, nodes: []int{0}}
}

// NewMutex returns a mutex. It sends nothing.
func (r *Redsync) NewMutex(name string, options ...Option) *Mutex {
	m := &Mutex{
		r: r, name: name, expiry: 8 * time.Second, tries: 32,
		delay: func(int) time.Duration { return 50*time.Millisecond + mathrand.N(200*time.Millisecond) },
	}
	for _, o := range options {
		o.Apply(m)
	}
	return m
}

// A DelayFunc returns the time between a try and the one before it.
type DelayFunc func(tries int) time.Duration

// An Option configures a mutex.
type Option interface{ Apply(*Mutex) }

// OptionFunc is an Option.
type OptionFunc func(*Mutex)

// Apply calls f.
func (f OptionFunc) Apply(m *Mutex) { f(m) }

// WithExpiry sets the time after which the lock ends by itself, from 100 ms to 24 hours; otherwise Lock
// returns a *RedisError with driver.ErrInvalid. The default is 8 s.
func WithExpiry(expiry time.Duration) Option {
	return OptionFunc(func(m *Mutex) { m.expiry = expiry })
}

// WithTries sets how many times redsync would try, 1 or more. Lock waits as long as these tries would
// take; a number below 1 has no effect but that Lock does not wait. The default is 32.
func WithTries(tries int) Option { return OptionFunc(func(m *Mutex) { m.tries = tries }) }

// WithRetryDelay sets the time between two tries, 0 or more; a negative one has no effect. The default is
// a random one of 50 to 250 ms.
func WithRetryDelay(delay time.Duration) Option {
	return WithRetryDelayFunc(func(int) time.Duration { return delay })
}

// WithRetryDelayFunc sets a function that returns the time between two tries. The default is that of
// WithRetryDelay, for which nil stands, too.
func WithRetryDelayFunc(f DelayFunc) Option {
	return OptionFunc(func(m *Mutex) {
		if f != nil {
			m.delay = f
		}
	})
}

// WithSetNXOnExtend makes Extend take the lock again if it has ended and nobody has it. Without it,
// Extend returns an error then.
func WithSetNXOnExtend() Option { return OptionFunc(func(m *Mutex) { m.setNXOnExtend = true }) }

// WithGenValueFunc sets a function that makes the value of the key, which proves that the lock is this
// mutex's. It must return another text each time. With several servers Lock returns a *RedisError with
// errors.ErrUnsupported. Without it, or with nil, padlock makes the value.
func WithGenValueFunc(f func() (string, error)) Option {
	return OptionFunc(func(m *Mutex) { m.genValue = f })
}

// WithValue sets the value of a lock that another mutex has taken, so that this one can extend and
// unlock it. It may be any text; with one that is no lock's, Unlock and Extend return an error. Without
// it, the value is that of the last Lock.
func WithValue(v string) Option { return OptionFunc(func(m *Mutex) { m.value = driver.TokenOf(v) }) }

// WithDriftFactor has no effect. In redsync it is the share, at least 0, of the expiry that clocks may
// differ by: the number of seconds in one. The default is padlock's own.
func WithDriftFactor(float64) Option { return OptionFunc(func(*Mutex) {}) }

// WithTimeoutFactor has no effect. In redsync it is the share, at least 0, of the expiry for which a
// server may be silent: the number of seconds in one. The default is that of package quorum.
func WithTimeoutFactor(float64) Option { return OptionFunc(func(*Mutex) {}) }

// WithFailFast has no effect: the default of package quorum is not to wait for slow servers.
func WithFailFast(bool) Option { return OptionFunc(func(*Mutex) {}) }

// WithShufflePools has no effect: by default all servers are asked at once.
func WithShufflePools(bool) Option { return OptionFunc(func(*Mutex) {}) }

// A Mutex is a lock on a name, among all processes. Unlike those of redsync, its methods are safe for
// concurrent use.
type Mutex struct {
	r             *Redsync
	name          string
	expiry        time.Duration
	tries         int
	delay         DelayFunc
	genValue      func() (string, error)
	setNXOnExtend bool

	mu    sync.Mutex // guards the rest
	value driver.Token
	until time.Time
}

// Name returns the name, which is the key in Redis.
func (m *Mutex) Name() string { return m.name }

// Value returns the value of the key: "" until the mutex was locked, except WithValue.
func (m *Mutex) Value() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.value.Text()
}

// Until returns the time until which the lock is valid by this machine's clock, or the zero time if it
// was not locked.
func (m *Mutex) Until() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.until
}

// Lock is LockContext with context.Background.
func (m *Mutex) Lock() error { return m.LockContext(context.Background()) }

// TryLock is TryLockContext with context.Background.
func (m *Mutex) TryLock() error { return m.TryLockContext(context.Background()) }

// TryLockContext takes the lock if it is free. If it is held, the error is an *ErrTaken.
func (m *Mutex) TryLockContext(ctx context.Context) error { return m.take(ctx, 0) }

// LockContext takes the lock, and waits for it. If it stays held, the error is an *ErrTaken. If ctx ends
// meanwhile, the error is ErrFailed. If the server does not answer, the error is a *RedisError.
func (m *Mutex) LockContext(ctx context.Context) error {
	var wait time.Duration
	for i := 1; i < m.tries; i++ {
		wait += max(0, m.delay(i))
	}
	return m.take(ctx, wait)
}

func (m *Mutex) take(ctx context.Context, wait time.Duration) error {
	if ctx == nil {
		ctx = context.Background()
	}
	opts := []padlock.Option{padlock.TTL(m.expiry), padlock.NoRenewal(), padlock.Wait(wait)}
	if m.genValue != nil {
		value, err := m.genValue()
		if err != nil {
			return err
		}
		opts = append(opts, padlock.Token(value))
	}
	locker, err := m.r.locker()
	if err != nil {
		return err
	}
	lock, err := locker.Acquire(ctx, m.name, opts...)
	if err != nil {
		if wait > 0 && ctx.Err() != nil {
			return ErrFailed
		}
		return m.explain(err)
	}
	until := time.Now().Add(lock.Remaining())
	key, err := lock.Export(ctx)
	if err != nil { // this process lets the lock run out, as redsync does
		return m.explain(errors.Join(err, lock.Release()))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.value, m.until = driver.TokenOf(key.Token()), until
	return nil
}

// Unlock is UnlockContext with context.Background.
func (m *Mutex) Unlock() (bool, error) { return m.UnlockContext(context.Background()) }

// UnlockContext releases the lock, and returns true. If the lock has ended before, it returns false and
// ErrLockAlreadyExpired.
func (m *Mutex) UnlockContext(ctx context.Context) (bool, error) {
	locker, key, err := m.key()
	if err == nil {
		err = locker.ReleaseKey(ctx, key)
	}
	if ended(err) {
		return false, ErrLockAlreadyExpired
	}
	return err == nil, m.explain(err)
}

// Extend is ExtendContext with context.Background.
func (m *Mutex) Extend() (bool, error) { return m.ExtendContext(context.Background()) }

// ExtendContext makes the lock end after WithExpiry from now, and returns true. If the lock has ended
// before, it returns false and an *ErrTaken.
func (m *Mutex) ExtendContext(ctx context.Context) (bool, error) {
	locker, key, err := m.key()
	if err != nil {
		return false, m.explain(err)
	}
	left, err := locker.ExtendKey(ctx, key, m.expiry)
	if ended(err) && m.setNXOnExtend {
		if err := m.take(ctx, 0); err != nil {
			return false, err
		}
		return true, nil
	}
	if err != nil {
		return false, m.explain(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until = time.Now().Add(left)
	return true, nil
}

// Valid is ValidContext with context.Background.
func (m *Mutex) Valid() (bool, error) { return m.ValidContext(context.Background()) }

// ValidContext asks the server whether the lock is still held.
func (m *Mutex) ValidContext(ctx context.Context) (bool, error) {
	locker, key, err := m.key()
	if err == nil {
		_, err = locker.ExtendKey(ctx, key, driver.MinTTL) // no lease becomes shorter
	}
	if ended(err) {
		return false, nil
	}
	return err == nil, m.explain(err)
}

// key returns the key of the lock.
func (m *Mutex) key() (*padlock.Locker, padlock.Key, error) {
	value := m.Value()
	if value == "" {
		return nil, padlock.Key{}, padlock.ErrLost // it was never locked
	}
	locker, err := m.r.locker()
	if err != nil {
		return nil, padlock.Key{}, err
	}
	key, err := padlock.KeyFor(m.name, value, padlock.ModeExclusive)
	return locker, key, err
}

func ended(err error) bool {
	return errors.Is(err, padlock.ErrLost) || errors.Is(err, padlock.ErrExpired)
}

// explain returns the error of redsync. padlock's error is in it for errors.Is and errors.As.
func (m *Mutex) explain(err error) error {
	var of *RedisError
	switch {
	case err == nil || errors.As(err, &of):
		return err
	case (errors.Is(err, padlock.ErrHeld) || ended(err)) && !errors.Is(err, padlock.ErrUncertain):
		return &ErrTaken{Nodes: m.r.nodes, err: err}
	}
	return &RedisError{Err: err}
}

// Errors of the package.
var (
	// ErrFailed is returned by Lock if its context ended.
	ErrFailed = errors.New("redsync: failed to acquire lock")
	// ErrExtendFailed is never returned.
	ErrExtendFailed = errors.New("redsync: failed to extend lock")
	// ErrLockAlreadyExpired is returned by Unlock if the lock had ended.
	ErrLockAlreadyExpired = errors.New("redsync: failed to unlock, lock was already expired")
)

// ErrTaken says that the lock is held, or that it has ended.
type ErrTaken struct {
	Nodes []int // all servers
	err   error
}

func (e ErrTaken) Error() string { return fmt.Sprintf("lock already taken, locked nodes: %v", e.Nodes) }

// Unwrap returns padlock's error, such as a *padlock.HeldError, which names the holder.
func (e ErrTaken) Unwrap() error { return e.err }

// ErrNodeTaken is never returned.
type ErrNodeTaken struct{ Node int }

func (e ErrNodeTaken) Error() string { return fmt.Sprintf("node #%d: lock already taken", e.Node) }

// A RedisError says that a server, or a majority of several, could not be asked. Node counts only while
// the pools are opened.
type RedisError struct {
	Node int
	Err  error
}

func (e RedisError) Error() string { return fmt.Sprintf("node #%d: %s", e.Node, e.Err) }

// Unwrap returns padlock's error.
func (e RedisError) Unwrap() error { return e.Err }
