package holder

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/explore/steady"
)

// A clock is the clock of the bubble for one Locker. It knows which timers run, since they are edges
// for the explorer, and for which method of the Locker.
type clock struct {
	driver.Clock
	mu     sync.Mutex
	timers map[*timer]bool
}

type timer struct {
	at  driver.Instant
	who string
}

// renewals sets the timer of the renewer. It may run although nothing is due, so the explorer looks
// at the renewer's heap instead.
const renewals = "arm"

func (c *clock) AfterFunc(d time.Duration, f func()) func() bool {
	who, d := steady.Timer(d)
	t := &timer{c.Now().Add(d), who}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timers[t] = true
	stop := c.Clock.AfterFunc(d, func() { c.forget(t); f() })
	return func() bool { c.forget(t); return stop() }
}

func (c *clock) forget(t *timer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.timers, t)
}

// running returns the timers that run, except for that of the renewer.
func (c *clock) running() (all []timer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.timers {
		if t.who != renewals {
			all = append(all, *t)
		}
	}
	slices.SortFunc(all, func(a, b timer) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.who, b.who)) })
	return all
}

// isArmed reports whether the renewer's timer fires at the given time or earlier.
func (c *clock) isArmed(at driver.Instant) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.timers {
		if t.who == renewals && t.at <= at {
			return true
		}
	}
	return false
}
