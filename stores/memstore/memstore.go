// Package memstore keeps locks in the memory of one process. Waiters get their turn in the order in
// which they came. It has shared and exclusive locks, promotion, cool-downs and fences, and all of
// it works inside a testing/synctest bubble. Package memstore is the reference for other stores.
//
// Use it for the goroutines of one process and for tests. If several processes of a machine share
// the locks, use package filestore instead.
//
// It is a core store: see docs/which-store.md, "Core stores and guests".
package memstore

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/storekit"
)

// Store is a handle on locks in memory. It is safe for concurrent use. Open returns a second handle
// on the same locks.
type Store struct {
	*space
	guarantees driver.Guarantees
	closed     atomic.Bool
}

var _ interface {
	driver.Store
	driver.Waiter
	fast.SlotTaker
	fast.Passer
	driver.Converter
	driver.Admin
	driver.FenceRaiser
	driver.Places
} = (*Store)(nil)

// Option configures New.
type Option func(*config)

type config struct {
	clock  driver.Clock
	maxTTL time.Duration
}

// WithClock makes the store measure leases by c. The default is driver.SystemClock, which nil
// stands for too.
func WithClock(c driver.Clock) Option {
	return func(cfg *config) { cfg.clock = cmp.Or(c, driver.SystemClock()) }
}

// MaxTTL sets the longest lease, as redisstore.MaxTTL does for Redis. With driver.DefaultMaxTTL, 58 s,
// a test on a memstore finds a lease that Redis would refuse. The default is driver.MaxTTL, a day. The
// limit is at least driver.MinTTL and at most driver.MaxTTL; any other value counts as the nearest
// one of these, and there is no error. Cool-downs may last longer.
func MaxTTL(d time.Duration) Option {
	return func(cfg *config) { cfg.maxTTL = min(max(d, driver.MinTTL), driver.MaxTTL) }
}

// New returns a store without any locks.
func New(opts ...Option) *Store {
	cfg := config{clock: driver.SystemClock(), maxTTL: driver.MaxTTL}
	return cfg.handle(nil, opts)
}

// Open returns another handle on the same locks. The handle stands for another process that is
// connected to the same server. Each handle is closed separately. Without the option MaxTTL, the
// handle has the longest lease of s. WithClock has no effect, because the locks have a clock
// already.
func (s *Store) Open(opts ...Option) *Store {
	cfg := config{maxTTL: s.guarantees.MaxTTL}
	return cfg.handle(s.space, opts)
}

func (cfg *config) handle(locks *space, opts []Option) *Store {
	storekit.Apply(cfg, opts)
	if locks == nil {
		locks = newSpace(cfg.clock)
	}
	s := &Store{space: locks, guarantees: usual}
	s.guarantees.MaxTTL = cfg.maxTTL
	return s
}

// usual has the guarantees of a store without options.
var usual = driver.Guarantees{
	Store:         "memory",
	MaxTTL:        driver.MaxTTL,
	SafeClockJump: driver.PromiseYes,
	SafeEviction:  driver.PromiseYes,
	Fence:         driver.FenceDurable,
	SharedFence:   driver.PromiseYes,
	Lease:         true,
	Shared:        true,
	Promotion:     driver.PromotionAtomic,
	FIFO:          true,
	CoolDown:      true,
	InProcess:     true,
	Notes:         []string{"Locks are seen by one process only, and end with it."},
}

// Guarantees implements driver.Store.
func (s *Store) Guarantees() driver.Guarantees { return s.guarantees }

// SamePlace implements driver.Places: it reports whether the other store is a handle on the
// same locks.
func (s *Store) SamePlace(other driver.Store) bool {
	o, ok := other.(*Store)
	return ok && o.space == s.space
}

// Location implements driver.Places: each name has a lock of its own.
func (s *Store) Location(name string) (string, error) {
	return name, driver.CheckName(name, &s.guarantees)
}

// StoreID implements driver.Places. All handles on the same locks return the same id.
func (s *Store) StoreID(ctx context.Context) (string, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	defer s.unlock()
	return s.id, nil
}

// String returns "memory:".
func (s *Store) String() string { return "memory:" }

// Close closes this handle. Its methods, and its waits that are under way, return ErrClosed. Its
// holds stay, as they would on a server.
func (s *Store) Close() error {
	if s.closed.CompareAndSwap(false, true) {
		s.space.endWaits(s)
	}
	return nil
}

// enter locks the space, unless the handle is closed or ctx has ended. No method blocks after that,
// so it is enough to check ctx here.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.space.mu.Lock()
	if s.closed.Load() {
		s.unlock()
		return driver.ErrClosed
	}
	return nil
}

// Acquire implements driver.Store.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&s.guarantees); err != nil {
		return driver.Grant{}, err
	}
	if err := s.enter(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.unlock()
	now := s.now()
	return s.take(s.entry(r.Name, now), &r, now)
}

// Extend implements driver.Store.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if err := driver.CheckExtend(name, token, ttl, &s.guarantees); err != nil {
		return driver.Grant{}, err
	}
	if err := s.enter(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.unlock()
	now := s.now()
	h, err := s.known(name, now).Extend(token, ttl, now.Now)
	if err != nil {
		return driver.Grant{}, err
	}
	return s.grant(h, ttl, now), nil
}

// Release implements driver.Store.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckRelease(name, token, keep, &s.guarantees); err != nil {
		return driver.OutcomeGone, err
	}
	if err := s.enter(ctx); err != nil {
		return driver.OutcomeGone, err
	}
	defer s.unlock()
	e := s.entries[name]
	if e == nil {
		return driver.OutcomeGone, nil
	}
	now := s.now()
	out := s.release(e, token, keep, now)
	s.advance(e, now)
	return out, nil
}

// Convert implements driver.Converter.
func (s *Store) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&s.guarantees); err != nil {
		return driver.Grant{}, err
	}
	if err := s.enter(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.unlock()
	now := s.now()
	e := s.known(r.Name, now)
	h, _, err := e.Convert(&r, now.Now)
	if err != nil {
		return driver.Grant{}, e.countWaiters(err)
	}
	g := s.grant(h, r.TTL, now)
	s.advance(e, now)
	return g, nil
}

// RaiseFence implements driver.FenceRaiser.
func (s *Store) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	if err := driver.CheckHold(name, token, &s.guarantees); err != nil {
		return err
	}
	if err := driver.CheckFence(fence); err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.unlock()
	now := s.now()
	_, err := s.known(name, now).RaiseFence(token, fence, now.Now)
	return err
}

// Break implements driver.Admin.
func (s *Store) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	if err := driver.CheckName(name, &s.guarantees); err != nil {
		return 0, err
	}
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.unlock()
	now := s.now()
	e := s.known(name, now)
	fence, err := e.Break(seenFence, now.Now)
	if err == nil {
		s.advance(e, now)
	}
	return fence, err
}
