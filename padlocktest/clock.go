package padlocktest

import (
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A Clock is a driver.Clock that stands still until the test calls Advance. Give it to both the
// Locker and its store:
//
//	clock := padlocktest.NewClock()
//	store := memstore.New(memstore.WithClock(clock))
//	locker := padlock.New(store, padlock.WithClock(clock))
//
// In a testing/synctest bubble you do not need a Clock, because a Locker follows the time of the
// bubble. Clock is for tests that cannot run in a bubble. It can also imitate the suspend of a
// machine, which a bubble cannot. It is safe for concurrent use, but only one goroutine at a time
// may move it.
type Clock struct {
	mu     sync.Mutex
	now    driver.Instant
	timers []*timer // in the order in which they fire
}

type timer struct {
	left time.Duration // until it fires, not counting suspends
	f    func()
}

// epoch is the first instant of a Clock, some time after the machine was started.
const epoch = driver.Instant(time.Hour)

// napLimit is what Nap returns: the longest time for which a program should set one timer. The
// system clock on Linux has the same limit. A program that keeps to this limit notices a suspend
// after at most napLimit.
const napLimit = 500 * time.Millisecond

// NewClock returns a clock that stands still.
func NewClock() *Clock { return &Clock{now: epoch} }

// Now implements driver.Clock.
func (c *Clock) Now() driver.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Nap implements driver.Clock. It returns the longest time for which a program should set one
// timer. A timer does not run during a Suspend, so it fires too late by the length of the Suspend.
// A program that needs a longer time sets several short timers, one after the other.
func (c *Clock) Nap() time.Duration { return napLimit }

// AfterFunc implements driver.Clock. If d is not positive, f is called at once. Otherwise Advance
// calls f.
func (c *Clock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	if d <= 0 {
		go f()
		return func() bool { return false }
	}
	t := &timer{left: d, f: f}
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := slices.BinarySearchFunc(c.timers, d, func(t *timer, d time.Duration) int {
		if t.left <= d {
			return -1
		}
		return 1
	})
	c.timers = slices.Insert(c.timers, i, t)
	return func() bool { return c.stop(t) }
}

func (c *Clock) stop(t *timer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.timers, t)
	if i < 0 {
		return false
	}
	c.timers = slices.Delete(c.timers, i, i+1)
	return true
}

// Advance moves the clock by d. Timers fire in their order, each at its own time. After each timer,
// Advance waits until the timer's function has returned. In a synctest bubble it also waits until
// every goroutine of the bubble is blocked. Outside a bubble, Advance cannot know which work a
// timer has started. There, advance by less than a third of the shortest TTL at a time, and wait
// for the effect that you expect.
func (c *Clock) Advance(d time.Duration) {
	for {
		f, step, ok := c.step(d)
		if !ok {
			return
		}
		d -= step
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		<-done
		settle()
	}
}

// step moves the clock forward by d. If a timer fires within that time, step moves the clock only
// to the first such timer, and returns its function.
func (c *Clock) step(d time.Duration) (f func(), step time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if step = d; len(c.timers) > 0 && c.timers[0].left <= d {
		f, step, ok = c.timers[0].f, c.timers[0].left, true
		c.timers = slices.Delete(c.timers, 0, 1)
	}
	c.now = c.now.Add(step)
	for _, t := range c.timers {
		t.left -= step
	}
	return f, step, ok
}

// Suspend moves the clock by d, as if the machine had been suspended for that time. The timers
// stand still while the machine is suspended, so none of them fires because of this call.
func (c *Clock) Suspend(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// settle waits until every goroutine of the synctest bubble is blocked. Outside a bubble it does
// nothing.
func settle() {
	if now := time.Now(); now == now.Round(0) { // in a bubble, now has no monotonic reading
		synctest.Wait()
	}
}
