package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

var closeCases = []testCase{
	{
		name:   "close/closed",
		clause: "After Close every method returns ErrClosed, except Guarantees, which sends nothing. A second Close does nothing, and other stores opened on the same place still work.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			cl, r := c.openAnother(), c.request(c.newName())
			for range 3 {
				c.closed(cl)
			}
			c.verify(l, "after another store was closed")
			c.mustRefuse(c.b, c.request(l.req.Name), "after another store was closed", l)
			c.releaseFreely(l)
			for _, m := range c.methods(cl, r) {
				if err := m.call(c.ctx); c.can(m.ability) && !errors.Is(err, driver.ErrClosed) {
					c.errorf("%s after Close: want ErrClosed, got: %v", m.what, orGranted(err))
				}
			}
			if cl.store.Guarantees().Store != c.g.Store {
				c.errorf("Guarantees differ after Close")
			}
		},
	},
	{
		name:   "close/ends-waits",
		clause: "Close makes waits return, and the waiters have left the queue.",
		needs:  []need{waits},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			cl := c.openAnother()
			w := c.waitOn(cl, c.request(l.req.Name))
			c.queued(l.req.Name, 1)
			c.closed(cl)
			if a := c.awaitAnswer(w, "Wait of a store that was closed"); a.err == nil {
				c.failf("Wait of a store that was closed returns %+v and no error", a.grant)
			}
			c.releaseFreely(l)
			c.takeSoon(c.b, c.request(l.req.Name), "after the only waiter's store was closed")
		},
	},
	{
		name:   "close/goroutines",
		clause: "Close leaves no goroutine behind.",
		f:      closeGoroutines,
	},
	{
		name:   "guarantees/constant",
		clause: "Guarantees are constant, the same for every store opened alike, and name the store.",
		f: func(c *check) {
			for _, cl := range []*client{c.a, c.b, c.openAnother()} {
				if g := cl.store.Guarantees(); !reflect.DeepEqual(g, c.g) {
					c.failf("Guarantees were %+v and are %+v", c.g, g)
				}
			}
			if c.g.Store == "" {
				c.errorf("Guarantees.Store is empty")
			}
			partly := c.g.SurvivesRestart == driver.PromisePartly || c.g.SurvivesFailover == driver.PromisePartly || c.g.SafeClockJump == driver.PromisePartly || c.g.SafeEviction == driver.PromisePartly
			if partly && len(c.g.Notes) == 0 {
				c.errorf("a promise is kept partly, but Notes do not say when")
			}
		},
	},
	{
		name:   "guarantees/consistent",
		clause: "Guarantees fit together: FIFO needs a Waiter, a store without leases has no limits for them, only a Bound that can end has a LossDelay, only a Waiter has a DeadWaiter, only a store with shared mode and fences has a SharedFence, and only one with shared mode and a Converter promotes.",
		f: func(c *check) {
			g := &c.g
			low, high := c.ttlRange()
			switch {
			case g.FIFO && !c.can(driver.AbilityWaiter):
				c.errorf("FIFO without a Waiter")
			case !g.Lease && (g.MinTTL != 0 || g.MaxTTL != 0):
				c.errorf("no leases, but limits for them: %v to %v", g.MinTTL, g.MaxTTL)
			case g.Lease && low > high:
				c.errorf("no lease is allowed: %v to %v", low, high)
			case !g.Lease && g.Bound == driver.BoundToNothing:
				c.errorf("holds are bound to nothing and have no lease: a dead holder would keep a name for ever")
			case g.LossDelay != 0 && g.Bound == driver.BoundToNothing:
				c.errorf("LossDelay is %v, but holds are bound to nothing", g.LossDelay)
			case g.SharedFence != driver.PromiseNo && (!g.Shared || g.Fence == driver.FenceNone):
				c.errorf("one fence for readers, but no readers or no fences")
			case g.Promotion != driver.PromotionNone && (!g.Shared || !c.can(driver.AbilityConverter)):
				c.errorf("promotion %v, but shared mode is %v and Convert is there: %v", g.Promotion, g.Shared, c.can(driver.AbilityConverter))
			case g.LossDelay < 0 || g.DeadWaiter < 0:
				c.errorf("LossDelay is %v, DeadWaiter is %v", g.LossDelay, g.DeadWaiter)
			case g.DeadWaiter > 0 && !c.can(driver.AbilityWaiter):
				c.errorf("DeadWaiter without a Waiter")
			case g.MaxName < 0 || g.MaxName > driver.MaxName:
				c.errorf("MaxName is %d", g.MaxName)
			case g.MaxLabel < 0 || g.MaxLabel > driver.MaxLabel:
				c.errorf("MaxLabel is %d", g.MaxLabel)
			}
		},
	},
}

// closeGoroutines labels all goroutines that begin while a store is opened and used, and checks
// that none of them is left after Close. A first round without labels lets libraries start their
// own goroutines.
func closeGoroutines(c *check) {
	c.openUseClose()
	mark := "drivertest-" + newToken()
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		pprof.Do(c.ctx, pprof.Labels("drivertest", mark), func(context.Context) { c.openUseClose() })
	}()
	if p := <-done; p != nil {
		panic(p)
	}
	left := goroutines(mark)
	for wait := time.Millisecond; len(left) > 0 && wait < c.patience; wait *= 2 {
		c.nap(wait) // a profile is expensive
		left = goroutines(mark)
	}
	if len(left) > 0 {
		c.failf("%d goroutines that began in Open or later are left after Close, the first at\n%s", len(left), left[0])
	}
}

func (c *check) openUseClose() {
	cl := c.openAnother()
	l := c.take(cl, c.request(c.newName()), "of a free name")
	if c.can(driver.AbilityWaiter) {
		ctx, cancel := context.WithTimeout(c.ctx, driver.MinTTL)
		defer cancel()
		r := c.request(l.req.Name)
		cl.Wait(ctx, r, true)
	}
	c.releaseFreely(l)
	c.closed(cl)
}

// goroutines returns the stacks of the goroutines that have the given label.
func goroutines(mark string) (stacks []string) {
	var buf bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&buf, 1); err != nil {
		return []string{fmt.Sprint("the goroutine profile cannot be read: ", err)}
	}
	for stack := range strings.SplitSeq(buf.String(), "\n\n") {
		if strings.Contains(stack, mark) {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}
