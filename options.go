package padlock

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// DefaultTTL is the length of a lease if TTL is not given. It is the time after which other
// processes may take the lock if this process dies or loses its connection. While the process
// lives, the lease is renewed.
const DefaultTTL = 30 * time.Second

// defaultMaxWaiters is how many goroutines may wait for one name in one Locker if MaxWaiters is not
// given.
const defaultMaxWaiters = 10000

// Option sets how a lock is taken. An Option given to New is the default for all locks of the
// Locker. An Option given to a call overrides that default. A nil Option does nothing.
type Option interface {
	LockerOption
	apply(*settings)
}

// LockerOption configures a Locker and is given to New. Every Option is also a LockerOption.
type LockerOption interface{ applyLocker(*config) }

// ReleaseOption configures one Release.
type ReleaseOption interface{ applyRelease(*releaseSettings) }

// settings says how one lock is taken.
type settings struct {
	ttl         time.Duration
	wait        time.Duration // waitForContext if only ctx bounds the wait
	shared      bool
	skip        bool
	noRenewal   bool
	maxHold     time.Duration
	holdAtLeast time.Duration
	coolDown    time.Duration
	fenceAbove  uint64
	label       string
	detached    bool
	token       driver.Token // zero without Token
	slots       int          // 0 without Slots; below 0 if the parameter of Slots is invalid
	weight      int          // 0 without Weight; below 0 if its parameter is invalid
	paths       bool

	// These follow from the other fields; see complete.
	plan  time.Duration // the planned length of the hold; 0 if there is no plan
	wrong error         // the first error in the options
}

type config struct {
	defaults   settings
	observers  []*watcher
	trace      func(context.Context) string // set by TraceHolders
	clock      driver.Clock
	maxWaiters int
	keepStore  bool // Close leaves the store open
}

type releaseSettings struct{ coolDown time.Duration }

type option func(*settings)

func (o option) apply(s *settings)     { o(s) }
func (o option) applyLocker(c *config) { o(&c.defaults) }

type lockerOption func(*config)

func (o lockerOption) applyLocker(c *config) { o(c) }

// TTL sets the length of the lease, from 100 ms to 24 h. The default is DefaultTTL. Some stores allow
// only a part of this range (Guarantees.MinTTL and MaxTTL), and the default is then the nearest time
// that the store allows: Redis up to 58 s, unless its MaxTTL raises that; tables of Symfony from 1 s,
// memcached and etcd from 2 s, Kubernetes from 10 s. Outside of the range the error is ErrInvalid.
// With renewal, TTL is how long others must wait after this process dies or stops; a store whose
// holds end with their process, such as files, has no leases but of detached locks. With NoRenewal,
// TTL is how long the lock lasts.
func TTL(d time.Duration) Option { return option(func(s *settings) { s.ttl = d }) }

// Wait bounds how long Acquire and Do wait for the lock, for example for 10 s. The context bounds
// the wait as well; whichever ends first ends the wait. When the time of Wait is over, the error is
// ErrHeld. Wait(0) tries once. Without Wait, or with the longest Duration, only the context bounds
// the wait. The time is 0 or more; otherwise the error is ErrInvalid.
func Wait(d time.Duration) Option {
	return option(func(s *settings) {
		switch s.wait = d; {
		case d < 0:
			s.wait = invalidWait
		case d == 1<<63-1:
			s.wait = waitForContext
		}
	})
}

const (
	waitForContext time.Duration = -1
	invalidWait    time.Duration = -2
)

// Shared takes a shared lock. Several holders can have a shared lock on a name at the same time,
// while no one has an exclusive lock. If the store has no shared mode, the error is
// errors.ErrUnsupported. Without Shared, the lock is exclusive.
func Shared() Option { return option(func(s *settings) { s.shared = true }) }

// SkipIfOutlived makes Acquire return ErrHeld at once if the holder plans to keep the lock beyond
// the end of this caller's wait. Acquire also returns ErrHeld at once if the holder has no planned
// end, because it has no HoldAtMost. If the wait has no end, SkipIfOutlived has no effect. Without
// SkipIfOutlived, the caller waits.
func SkipIfOutlived() Option { return option(func(s *settings) { s.skip = true }) }

// NoRenewal lets the lease run out after its TTL, unless Extend is called. Without it, the Locker
// renews the lease until the lock is released. On a store without leases, such as files, the context
// of the lock ends after TTL just so, and the name stays taken until Release.
func NoRenewal() Option { return option(func(s *settings) { s.noRenewal = true }) }

// HoldAtMost bounds how long the lock is held, including renewals, for example for 10 minutes.
// After this time renewal stops, and the context of the lock ends with the cause ErrMaxHold. The
// name becomes free after Release, or when the last lease has run out. A lock without a lease, such
// as one on files, stays until Release. The time is 0 or more; otherwise the error is ErrInvalid.
// With 0, which is the default, there is no bound.
func HoldAtMost(d time.Duration) Option { return option(func(s *settings) { s.maxHold = d }) }

// HoldAtLeast keeps the name taken for d after the grant, even if the lock is released earlier or
// the work has failed. Together with Wait(0) or TryAcquire, it is for a job that should run once,
// although many machines start it at the same time of day: a machine whose clock is a little late
// then finds the name taken and gets ErrHeld. Choose d longer than the clocks differ and shorter
// than the time between two runs. Without Wait(0), that machine waits until d is over, and does the
// job again, even with SkipIfOutlived, unless d is longer than the wait and the difference of the
// clocks together. If a job that failed should run again, use Acquire, and Release(CoolDown(d)) only
// after success.
//
// The first lease lasts for d or TTL, whichever is longer, but at most Guarantees.MaxTTL (58 s by
// default on Redis). If the process dies, the name stays taken until that lease ends; where locks
// end with their process, as on files, the name is free at once. Release begins a cool-down for the
// rest. A key forgets d.
//
// The time d is 0, or from the shortest lease of the store (100 ms on most stores) to 24 h;
// otherwise the error is ErrInvalid. The default is 0. On a store without cool-downs
// (Guarantees.CoolDown) the error is errors.ErrUnsupported.
func HoldAtLeast(d time.Duration) Option { return option(func(s *settings) { s.holdAtLeast = d }) }

// Detached takes a lock that is not bound to this process, even on a store that otherwise binds its
// locks, such as files. The lock has a lease of length TTL, which is renewed as usual. It can be
// exported, and ends with its lease if nobody extends it. If the store cannot do that, the error is
// errors.ErrUnsupported. On a store whose locks are bound to nothing, Detached has no effect.
// Without Detached, such a lock ends with this process or its connection.
//
// If the store keeps its locks in files, a detached lock differs from other locks in two ways: PHP
// programs and flock(1) do not see it, and it ends when the machine restarts.
func Detached() Option { return option(func(s *settings) { s.detached = true }) }

// FenceAbove makes the fence of the grant greater than the given fence. Use FenceAbove if a
// resource has already seen fences from another source. The given fence is at most
// driver.MaxFenceAbove; otherwise the error is ErrInvalid. The default is 0, which every fence is
// above; of several, the greatest counts. On a store without fences, FenceAbove has no effect.
func FenceAbove(fence uint64) Option {
	return option(func(s *settings) { s.fenceAbove = max(s.fenceAbove, fence) })
}

// Label describes the purpose of the lock to clients that find it held. It has at most 1,024 bytes,
// or fewer if Guarantees.MaxLabel says so: in files, 256. With a longer label, Acquire sends
// nothing and returns ErrInvalid. Without Label, the label is empty.
func Label(text string) Option { return option(func(s *settings) { s.label = text }) }

// CoolDownOption is both an Option and a ReleaseOption. CoolDown returns one.
type CoolDownOption struct{ d time.Duration }

// CoolDown keeps the name taken for d after the release. A CoolDown given to Acquire or New is the
// default for Release. A CoolDown given to Release overrides that default. To handle something
// once, give it to Release after success only: HeldError.Cooling then tells done from busy.
//
// The time d is 0, or from the shortest lease of the store (100 ms on most stores) to 24 h;
// otherwise the error is ErrInvalid. The default is 0. In these cases Release releases the lock all
// the same, with the nearest cool-down that is possible. On a store without cool-downs
// (Guarantees.CoolDown) the error is errors.ErrUnsupported. A full store may release the lock
// without its cool-down, and the error is ErrUnavailable.
func CoolDown(d time.Duration) CoolDownOption { return CoolDownOption{d} }

func (o CoolDownOption) apply(s *settings)               { s.coolDown = o.d }
func (o CoolDownOption) applyLocker(c *config)           { c.defaults.coolDown = o.d }
func (o CoolDownOption) applyRelease(r *releaseSettings) { r.coolDown = o.d }

// Observe gives the events of the Locker to o; ObserverFunc makes an Observer of a function.
// Observe may be given any number of times: each observer gets every event, in the order in which
// the observers were given. A ContextObserver can also add values to the contexts of acquires,
// holds and releases. If o is nil, Observe does nothing. By default, nothing observes.
func Observe(o Observer) LockerOption {
	if f, ok := o.(ObserverFunc); o == nil || ok && f == nil {
		return lockerOption(func(*config) {})
	}
	starts, _ := o.(ContextObserver)
	return lockerOption(func(c *config) { c.observers = append(c.observers, &watcher{observer: o, starts: starts}) })
}

// TraceHolders records a trace of each holder in the store. A caller that finds the lock held can
// then link its own trace to that of the holder; see driver.Holder.Trace. The function trace
// returns the traceparent of a context, in the format of W3C Trace Context, or "" if there is no
// trace. The Locker calls trace at least once for each acquire. It passes the caller's context, or
// the context that a ContextObserver has made from it. A traceparent of more than 64 bytes is not
// recorded. Stores in files, in semaphores and in the sessions of a database keep no traces.
//
// Everybody who can read the store can read the traces. If trace is nil, TraceHolders does nothing.
// By default, no traces are recorded.
func TraceHolders(trace func(context.Context) string) LockerOption {
	return lockerOption(func(c *config) { c.trace = trace })
}

// Logger logs the events that an operator must know about. It logs locks that were lost at level
// Error. It logs renewals that failed, outcomes that are not known and locks that were forgotten at
// level Warn. At level Debug it also logs acquires, refusals, renewals and releases; these cost
// little if l does not log Debug. If l is nil, Logger does nothing. By default, nothing is logged.
func Logger(l *slog.Logger) LockerOption {
	if l == nil {
		return lockerOption(func(*config) {})
	}
	return lockerOption(func(c *config) { c.observers = append(c.observers, &watcher{observer: logObserver{l}, log: l}) })
}

// KeepStoreOpen makes Close leave the store open. It is for a store that other Lockers, or other
// parts of the program, use as well. Without it, Close closes the store.
func KeepStoreOpen() LockerOption { return lockerOption(func(c *config) { c.keepStore = true }) }

// MaxWaiters bounds how many goroutines may wait for one name in this Locker. The default is
// 10,000. Further callers get ErrTooManyWaiters. With 0, no caller can wait. The number is 0 or
// more; otherwise New panics.
func MaxWaiters(n int) LockerOption { return lockerOption(func(c *config) { c.maxWaiters = n }) }

// WithClock makes the Locker measure leases by c. It is for tests; the store needs the same clock.
// The default is driver.SystemClock, which nil stands for too.
func WithClock(c driver.Clock) LockerOption { return lockerOption(func(cfg *config) { cfg.clock = c }) }

// check returns the first error that it finds in the options of a Locker, or nil.
func (c *config) check(g *driver.Guarantees) error {
	switch {
	case !c.defaults.token.IsZero():
		return errTokenOfAll
	case c.maxWaiters < 0:
		return fmt.Errorf("%w: MaxWaiters is %d, 0 or more is allowed", ErrInvalid, c.maxWaiters)
	case c.defaults.wrong != nil:
		return c.defaults.wrong
	}
	if n := c.defaults.slots; n != 0 {
		if err := fast.CheckSlots("name", n, g); err != nil {
			return err
		}
	}
	r := driver.Request{Name: "name", Token: driver.TokenOf("token"), TTL: c.defaults.ttl, Holder: driver.Holder{Label: c.defaults.label}, Detached: c.defaults.detached && g.Bound != driver.BoundToNothing}
	return r.Validate(g)
}

// change applies opts, the options of a call, to the defaults of the Locker.
func (s *settings) change(opts []Option, once bool, g *driver.Guarantees) {
	for _, o := range opts {
		if o != nil {
			o.apply(s)
		}
	}
	if once {
		s.wait = 0
	}
	s.complete(g)
}

// complete sets the fields that follow from the others. The defaults are completed once, so a call
// without options checks nothing again.
func (s *settings) complete(g *driver.Guarantees) {
	s.plan, s.wrong = s.plannedHold(), s.check(g)
}

// firstLease is the length of the first lease. With HoldAtLeast it may be longer than TTL: no
// renewal shortens a lease, so the name stays taken even if the process dies.
func (s *settings) firstLease(g *driver.Guarantees) time.Duration {
	least := s.holdAtLeast
	if g.MaxTTL > 0 {
		least = min(least, g.MaxTTL)
	}
	return max(s.ttl, least)
}

// plannedHold is the planned length of the hold, which other clients can see. 0 means that there is
// no plan. Without renewal, too, a lease is no plan: the caller may extend it.
func (s *settings) plannedHold() time.Duration {
	if s.maxHold == 0 {
		return 0
	}
	return max(s.maxHold, s.holdAtLeast)
}

// check returns the first error that it finds in s, or nil.
func (s *settings) check(g *driver.Guarantees) error {
	switch {
	case s.wait == invalidWait:
		return fmt.Errorf("%w: Wait is negative, 0 or more is allowed", ErrInvalid)
	case s.maxHold < 0:
		return fmt.Errorf("%w: HoldAtMost is %v, 0 or more is allowed", ErrInvalid, s.maxHold)
	case s.holdAtLeast == 0 && s.coolDown == 0:
		return nil
	}
	if err := driver.CheckKeep("HoldAtLeast", s.holdAtLeast, g); err != nil {
		return err
	}
	return driver.CheckKeep("CoolDown", s.coolDown, g)
}

// quote makes a name, which may contain any bytes, safe to print.
func quote(name string) string {
	if len(name) > 80 {
		name = name[:77] + "..."
	}
	return strconv.Quote(name)
}
