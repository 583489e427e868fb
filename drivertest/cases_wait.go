package drivertest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

var waitCases = []testCase{
	{
		name:   "wait/missed-wake-up",
		clause: "Wait looks at the name once more after joining the queue: it misses no release between the caller's try and the joining.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.mustRefuse(c.b, c.request(l.req.Name), "of a held name", l)
			c.releaseFreely(l)
			for _, reserve := range []bool{false, true} {
				a := c.awaitAnswer(c.waitOnce(c.b, c.request(l.req.Name), reserve), "Wait for a name that became free before")
				if a.err != nil {
					c.failf("Wait for a name that became free before: %v", a.err)
				}
				if handed(a.grant) {
					c.releaseFreely(a.l)
				}
			}
			c.takeSoon(c.b, c.request(l.req.Name), "after Wait")
		},
	},
	{
		name:   "wait/release-wakes",
		clause: "A waiter gets its turn when the holder releases, in whichever process the holder is. Until then Wait returns only from time to time: it does not spin.",
		f: func(c *check) {
			name := c.newName()
			holders, waiters := []*client{c.a, c.b, c.a}, []*client{c.b, c.a, c.a}
			for i := range holders {
				l := c.takeSoon(holders[i], c.request(name), "of a free name")
				w := c.waitForName(waiters[i], c.request(name), i%2 == 0)
				if c.nap(5 * driver.MinTTL); i%2 == 0 {
					c.queued(name, 1)
				}
				c.releaseFreely(l)
				c.releaseFreely(c.awaitHold(w, "waiting for a release"))
				if w.quick > 10 {
					c.failf("Wait returned %d times within %v while the name was held", w.quick, quickReturn)
				}
			}
		},
	},
	{
		name:   "wait/wakes",
		clause: "Wait returns when the holder's lease or a cool-down ends, and not before, even if nobody releases, and when the hold is broken.",
		f:      wakes,
	},
	{
		name:   "wait/without-a-place",
		clause: "Without reserve, Wait takes no place, keeps nobody out and hands nothing over: its Grant is zero, and all waiters without reserve are woken when the name may be free.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			w := []*testWaiter{c.waitOnce(c.a, c.request(l.req.Name), false), c.waitOnce(c.b, c.request(l.req.Name), false)}
			c.settle()
			if n := c.waiters(l.req.Name); n > 0 {
				c.failf("nobody has a place in the queue, but the store counts %d", n)
			}
			c.releaseFreely(l)
			for _, t := range w {
				if a := c.awaitAnswer(t, "waiting without a place for a release"); a.err != nil || a.grant != (driver.Grant{}) {
					c.failf("Wait without reserve returns %+v, %v", a.grant, a.err)
				}
			}
			c.within(driver.MaxReservation/4, c.b, c.request(l.req.Name), "while others wait for it without a place")
		},
	},
	{
		name:   "wait/promotion",
		clause: "The holder of a shared lock waits without reserve to be promoted: Wait returns when the other readers have left, and never spends the token of the hold, even if the wait is given up.",
		needs:  []need{converts, promotes, readers},
		f: func(c *check) {
			l, other, ok := c.refusedPromotion()
			if !ok {
				return
			}
			r := l.req
			r.Shared = false
			w := c.waitOnce(c.a, r, false)
			c.settle()
			w.cancel()
			c.awaitAnswer(w, "a wait for promotion that was given up")
			c.verify(l, "after a wait for promotion was given up")
			w = c.waitOnce(c.a, r, false)
			c.settle()
			c.releaseFreely(other)
			if a := c.awaitAnswer(w, "waiting to be promoted"); a.err != nil {
				c.failf("waiting to be promoted: %v", a.err)
			}
			c.verify(l, "after a wait for promotion")
			c.eventuallyPromoted(l)
		},
	},
	{
		name:   "wait/readers",
		clause: "When a writer leaves or is demoted, waiting readers get their turn together.",
		needs:  []need{readers},
		f: func(c *check) {
			for _, demote := range []bool{false, c.can(driver.AbilityConverter)} {
				l := c.take(c.a, c.request(c.newName()), "of a free name")
				w := c.waitForName(c.a, c.readRequest(l.req.Name), true)
				other := c.waitForName(c.b, c.readRequest(l.req.Name), true)
				c.queued(l.req.Name, 2)
				if !demote {
					c.releaseFreely(l)
				} else if _, err := c.convert(l, true); err != nil {
					c.failf("Convert to shared: %v", err)
				}
				first := c.awaitHold(w, "waiting to read")
				second := c.awaitHold(other, "waiting to read while another reader has the name")
				c.verify(first, "that another reader waited for too")
				c.verify(second, "that another reader waited for too")
				if demote {
					c.verify(l, "after demotion, with other readers")
				}
			}
		},
	},
	{
		name:   "wait/foreign",
		clause: "If other programs take the name without waking anybody, Wait returns from time to time, so that a waiter gets the name after all.",
		needs:  []need{foreign},
		f: func(c *check) {
			name := c.newName()
			release, err := c.h.Foreign(name)
			if err != nil {
				c.failf("Harness.Foreign: %v", err)
			}
			w := c.waitForName(c.b, c.request(name), true)
			c.nap(c.units(2))
			if err := release(); err != nil {
				c.failf("release of Harness.Foreign: %v", err)
			}
			c.awaitHold(w, "waiting for another program's release")
		},
	},
	{
		name:   "wait/many",
		clause: "Many callers may wait for one name. If the store lets no more of them wait, Wait returns ErrQueueFull, and never a *HeldError.",
		alone:  true, // a store may have a place in its queue for so many waiters of a process, and the others poll
		f: func(c *check) {
			const many = 70
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			var waiters []*testWaiter
			refused := func(w *testWaiter) bool { return !w.waiting() }
			wait := func() {
				c.poll(c.patience/4, func() bool { return slices.ContainsFunc(waiters, refused) || c.waiters(l.req.Name) >= len(waiters) })
			}
			for range many {
				waiters = append(waiters, c.waitOnce(c.b, c.request(l.req.Name), true))
				// All requests at once would only show how fast this machine is.
				if len(waiters)%10 == 0 && c.waiters(l.req.Name) >= 0 {
					wait()
				}
			}
			wait()
			for _, w := range waiters {
				if w.waiting() {
					continue
				}
				if a := <-w.done; a.err != nil && !errors.Is(a.err, driver.ErrQueueFull) {
					c.failf("one of %d waiters: %v", many, a.err)
				}
			}
			c.verify(l, "while many wait for the name")
		},
	},
}

var queueCases = []testCase{
	{
		name:   "queue/first-come",
		clause: "With FIFO in the Guarantees, waiters get their turn in the order in which they came, across all processes.",
		needs:  []need{fifo},
		f:      firstCome,
	},
	{
		name:   "queue/no-overtaking",
		clause: "In a store that queues, Acquire returns a *HeldError while others wait ahead of this caller or were handed the name.",
		needs:  []need{fifo},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			w := c.waitOnce(c.a, c.request(l.req.Name), true)
			c.queued(l.req.Name, 1)
			second := c.waitForName(c.b, c.request(l.req.Name), true)
			c.queued(l.req.Name, 2)
			c.releaseFreely(l)
			c.notOvertaken(w, "waiting for a release", second)
			c.awaitAnswer(w, "waiting for a release")
			if _, err := c.b.Acquire(c.ctx, c.request(l.req.Name)); !errors.Is(err, driver.ErrHeld) {
				c.failLate(driver.MaxReservation, "Acquire by a newcomer while another waits: want a *HeldError, got: %v", orGranted(err))
			}
			c.a.Release(c.ctx, l.req.Name, w.req.Token.Text(), 0)
			c.awaitHold(second, "waiting behind a waiter that gave up")
		},
	},
	{
		name:   "queue/readers-wait-behind-writers",
		clause: "Readers do not overtake a waiting writer, which would wait for ever. If the writer gives up, or its store is closed, the readers that wait behind it get their turn.",
		needs:  []need{fifo, readers},
		f:      readersBehindWriters,
	},
	{
		name:   "queue/counted",
		clause: "HeldError.Waiters and State.Waiters are the number of waiters, or -1 if the store cannot know it. Wait ends with its context, and errors.Is finds the context's error. Then the store has left the queue, or leaves it on a context of its own.",
		f:      waitersCounted,
	},
	{
		name:   "queue/dead-waiter",
		clause: "A waiter that dies after it was woken or handed the name delays the waiters behind it by at most Guarantees.DeadWaiter (0: MaxReservation).",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.waitOnce(c.b, c.brief(l.req.Name, 5), true) // this waiter does nothing when its turn comes
			c.queued(l.req.Name, 1)
			living := c.waitForName(c.a, c.request(l.req.Name), true)
			c.queued(l.req.Name, 2)
			c.releaseFreely(l)
			c.behindDead(living, "waiting behind a waiter that died when it was its turn")
		},
	},
	{
		name:   "queue/lost-process",
		clause: "A waiter whose process dies in the queue delays the waiters behind it by at most Guarantees.DeadWaiter (0: MaxReservation).",
		needs:  []need{cut},
		alone:  true,
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			d := c.openAnother()
			dead := c.waitOnce(d, c.request(l.req.Name), true)
			c.queued(l.req.Name, 1)
			living := c.waitForName(c.b, c.request(l.req.Name), true)
			c.queued(l.req.Name, 2)
			c.cut(d)
			dead.cancel()
			c.releaseFreely(l)
			c.behindDead(living, "waiting behind a waiter whose process died")
		},
	},
}

func readersBehindWriters(c *check) {
	l := c.take(c.a, c.readRequest(c.newName()), "to read a free name")
	for _, what := range []string{"gave up", "closed its store"} {
		d := c.openAnother()
		w := c.waitForName(d, c.request(l.req.Name), true)
		c.queued(l.req.Name, 1)
		behind := c.waitForName(c.b, c.readRequest(l.req.Name), true)
		c.queued(l.req.Name, 2)
		if what == "gave up" {
			w.cancel()
		} else {
			d.store.Close()
		}
		c.awaitAnswer(w, "waiting to write, by a waiter that "+what)
		c.releaseFreely(c.awaitHold(behind, "waiting to read, behind a writer that "+what))
	}
	w := c.waitForName(c.b, c.request(l.req.Name), true)
	limit := c.queued(l.req.Name, 1)
	if _, err := c.a.Acquire(c.ctx, c.readRequest(l.req.Name)); !errors.Is(err, driver.ErrHeld) {
		c.failLate(limit, "Acquire to read while a writer waits: want a *HeldError, got: %v", orGranted(err))
	}
	c.releaseFreely(l)
	c.awaitHold(w, "waiting to write")
}

func wakes(c *check) {
	for _, e := range []struct {
		what  string
		has   bool
		brief bool
		end   func(*lease) time.Time // returns when the name is free
	}{
		{"a lease to run out", c.g.Lease, true, func(l *lease) time.Time { return l.liveUntil }},
		{"a cool-down to end", c.g.CoolDown, false, func(l *lease) time.Time {
			sent := time.Now()
			c.cool(l, c.units(3))
			return sent.Add(c.units(3))
		}},
		{"a hold that was broken", c.can(driver.AbilityBreak | driver.AbilityInspect), false, func(l *lease) time.Time {
			c.broken(l.req.Name)
			return time.Now()
		}},
	} {
		if !e.has {
			continue
		}
		r := c.request(c.newName())
		if e.brief {
			r.TTL = c.units(2)
		}
		l := c.take(c.a, r, "of a free name")
		w := c.waitForName(c.b, c.request(r.Name), true)
		if !e.brief {
			c.queued(r.Name, 1)
		}
		end := e.end(l)
		early := end.Add(-slack(time.Until(end)))
		n := c.awaitHold(w, "waiting for "+e.what)
		if now := time.Now(); now.Before(early) {
			c.failf("%v", safety.ErrTooEarly("a waiter for %s had its turn %v before its time", e.what, end.Sub(now)))
		}
		c.releaseFreely(n)
	}
}

func waitersCounted(c *check) {
	l := c.take(c.a, c.request(c.newName()), "of a free name")
	if n := c.waiters(l.req.Name); n != 0 && n != -1 {
		c.failf("nobody waits, but the store counts %d", n)
	}
	w, other := c.waitOn(c.a, c.request(l.req.Name)), c.waitOn(c.b, c.request(l.req.Name))
	n := -1
	if !c.poll(c.patience, func() bool { n = c.waiters(l.req.Name); return n == 2 || n == -1 }) && w.waiting() && other.waiting() {
		c.failLate(c.patience, "two waiters wait, but the store counts %d", n)
	}
	if held := c.mustRefuse(c.b, c.request(l.req.Name), "of a held name", l); w.waiting() && other.waiting() && held.Waiters != 2 && held.Waiters != -1 {
		c.failLate(driver.MaxReservation, "two waiters wait, but HeldError.Waiters is %d", held.Waiters)
	}
	if n == -1 {
		c.settle() // the store does not say whether the waiters have begun
	}
	for _, t := range []*testWaiter{w, other} {
		t.cancel()
		if a := c.awaitAnswer(t, "Wait whose context was cancelled"); !errors.Is(a.err, context.Canceled) {
			c.failf("Wait whose context was cancelled: want context.Canceled, got: %v", orGranted(a.err))
		}
	}
	if _, err := c.b.Wait(canceled(), c.request(l.req.Name), true); !errors.Is(err, context.Canceled) {
		c.failf("Wait with a context that had ended before: want context.Canceled, got: %v", orGranted(err))
	}
	if !c.poll(c.patience, func() bool { n = c.waiters(l.req.Name); return n <= 0 }) {
		c.failLate(c.patience, "all waiters went away, but the store still counts %d after %v", n, c.patience)
	}
	c.releaseFreely(l)
	c.takeSoon(c.a, c.request(l.req.Name), "after all waiters went away")
}

func firstCome(c *check) {
	const n = 6
	l := c.take(c.a, c.request(c.newName()), "of a free name")
	type turn struct {
		of  int
		err error
	}
	order, limit := make(chan turn, n), driver.MaxReservation
	for i := range n {
		w := c.waitForName([]*client{c.a, c.b}[i%2], c.request(l.req.Name), true)
		limit = min(limit, c.queued(l.req.Name, i+1))
		go func() {
			a := <-w.done
			if order <- (turn{i, a.err}); a.err == nil {
				w.cl.Release(c.ctx, l.req.Name, a.l.req.Token.Text(), 0)
			}
		}()
	}
	c.releaseFreely(l)
	var got []int
	for range n {
		t := await(c, order, "waiting in a queue")
		if t.err != nil {
			c.failf("waiting in a queue: %v", t.err)
		}
		got = append(got, t.of)
	}
	if !slices.IsSorted(got) {
		c.failLate(limit, "waiters 0 to %d had their turns in the order %v", n-1, got)
	}
}
