package padlocktest

import (
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A Clock is a driver.Clock that stands still until the test calls Advance. Give it to the Locker
// and to its store:
//
//	clock := padlocktest.NewClock()
//	store := memstore.New(memstore.WithClock(clock))
//	locker := padlock.New(store, padlock.WithClock(clock))
//
// In a testing/synctest bubble time goes by as the bubble says, without any of this; Clock is for
// what a bubble cannot do, a machine that was suspended, and for tests that cannot run in a bubble.
// It is safe for concurrent use, but only one goroutine at a time may move it.
type Clock struct {
	mu     sync.Mutex
	now    driver.Instant
	timers []*timer // in the order in which they fire
}

type timer struct {
	left time.Duration // until it fires, without suspends
	f    func()
}

// The first instant of a Clock: after some time since the machine was started.
const epoch = driver.Instant(time.Hour)

// napping is how late a program notices a suspend by this clock, as on Linux.
const napping = 500 * time.Millisecond

// NewClock returns a clock that stands still.
func NewClock() *Clock { return &Clock{now: epoch} }

// Now implements driver.Clock.
func (c *Clock) Now() driver.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Nap implements driver.Clock: timers do not notice a Suspend.
func (c *Clock) Nap() time.Duration { return napping }

// AfterFunc implements driver.Clock. A time that is not positive is over at once; other timers fire
// in Advance.
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

// Advance lets d go by. Timers fire in their order, each in its own goroutine and at its own time;
// Advance goes on when it has returned and, in a synctest bubble, when all that it began is done or
// waits. Outside of a bubble nothing can know that: there, advance by less than a third of the
// shortest TTL, and wait for what you expect.
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

// step goes to the next timer if it fires within d, else to the end of d.
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

// Suspend lets d go by as a suspended machine does: the clock has moved, and no timer has.
func (c *Clock) Suspend(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// settle waits until the bubble is at rest, if this is one: only there have times no monotonic
// reading.
func settle() {
	if now := time.Now(); now == now.Round(0) {
		synctest.Wait()
	}
}
