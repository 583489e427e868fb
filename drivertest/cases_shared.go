package drivertest

import (
	"errors"
	"sync"

	"github.com/padlock-go/padlock/driver"
)

var sharedCases = []testCase{
	{
		name:   "shared/together",
		clause: "A shared hold is granted together with other shared holds. The Release of one reader does not touch the others: a writer is let in after the last of them.",
		f: func(c *check) {
			l := c.take(c.a, c.readRequest(c.newName()), "to read a free name")
			same := c.take(c.a, c.readRequest(l.req.Name), "to read while there is a reader of the same process")
			other := c.take(c.b, c.readRequest(l.req.Name), "to read while there is a reader of another process")
			for _, x := range []*lease{l, same, other} {
				c.verify(x, "while there are other readers")
			}
			c.releaseFreely(other)
			c.releaseFreely(same)
			c.verify(l, "after another reader's Release")
			c.mustRefuse(c.a, c.request(l.req.Name), "while one reader of the same process is left", l)
			c.mustRefuse(c.b, c.request(l.req.Name), "while one reader is left", l)
			c.releaseFreely(l)
			c.takeSoon(c.b, c.request(l.req.Name), "after the last reader's Release")
		},
	},
	{
		name:   "shared/own-lease",
		clause: "Every reader has its own lease: no other reader's lease keeps it alive or shortens it, in whatever order they came. The name is taken until the last lease has ended.",
		needs:  []need{leases},
		f: func(c *check) {
			for _, shortFirst := range []bool{true, false} {
				long, short := c.readRequest(c.newName()), c.brief(c.newName(), 1)
				short.Name, short.Shared = long.Name, true
				first, second := long, short
				if shortFirst {
					first, second = short, long
				}
				gone, stays := c.take(c.a, first, "to read a free name"), c.joins(c.b, second)
				if !shortFirst {
					gone, stays = stays, gone
				}
				c.lapse(gone)
				c.extendGone(gone.cl, short.Name, short.Token.Text(), "of a reader whose lease ran out while another is there")
				c.mustRefuse(c.b, c.request(long.Name), "to write while there is a reader, after a shorter reader's lease ran out", stays)
				c.verify(stays, "after a shorter reader's lease ran out")
				c.extend(stays, c.long())
				c.releaseFreely(stays)
				c.takeSoon(c.b, c.request(long.Name), "to write, after the last live reader's release")
			}
		},
	},
	{
		name:   "shared/told",
		clause: "Grant.Shared is never set for an exclusive hold. A store that sets it for a shared hold sets it for a demoted one too, in the results of Extend and of Acquire with Replaces.",
		needs:  []need{converts},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			if l.grant.Shared || c.verify(l, "after Acquire").Shared {
				c.failf("an exclusive hold is said to be shared")
			}
			tells := c.verify(c.take(c.a, c.readRequest(c.newName()), "to read a free name"), "to read").Shared
			if _, err := c.convert(l, true); err != nil {
				c.failf("Convert to shared: %v", err)
			}
			if tells && !c.verify(l, "after demotion").Shared {
				c.failf("a demoted hold is said to be exclusive")
			}
			if c.g.Bound == driver.BoundToNothing {
				if n := c.take(c.b, c.swap(l), "with Replaces, of a demoted hold"); tells && !n.grant.Shared {
					c.failf("a demoted hold that was swapped is said to be exclusive")
				}
			}
		},
	},
	{
		name:   "shared/one-fence",
		clause: "Readers that hold together have one fence, whether they come at once or later, and a demoted hold counts as a reader.",
		needs:  []need{fences, oneFence},
		f:      oneFenceForReaders,
	},
}

// oneFenceForReaders checks that all readers of a name get the same fence. Half of the names
// already have a fence that is ahead of the clock.
func oneFenceForReaders(c *check) {
	n := 40
	if c.h.Slow {
		n = 10
	}
	for i := range n {
		name := c.newName()
		if i%2 == 0 {
			c.releaseFreely(c.takeAhead(c.request(name)))
		}
		first := c.readersAtOnce(name)
		later := c.readToo(c.b, first[0])
		c.shareFence(first[0], first[1], "two readers that came at once")
		c.shareFence(first[0], later, "a reader and one that came later")
		c.releaseFreely(first[0])
		c.releaseFreely(first[1])
		c.shareFence(later, c.readToo(c.a, later), "a reader and one that came when the first had left")
	}
	if c.can(driver.AbilityConverter) {
		l := c.take(c.a, c.request(c.newName()), "of a free name")
		if _, err := c.convert(l, true); err != nil {
			c.failf("Convert to shared: %v", err)
		}
		c.shareFence(l, c.readToo(c.b, l), "a demoted hold and a reader that came after it")
	}
}

func (c *check) readersAtOnce(name string) (at [2]*lease) {
	var wg sync.WaitGroup
	var errs [2]error
	for i, cl := range []*client{c.a, c.b} {
		wg.Go(func() {
			for range 100 { // a name that was just released may still look held
				if at[i], errs[i] = c.try(cl, c.readRequest(name)); !errors.Is(errs[i], driver.ErrHeld) {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs[0], errs[1]); errors.Is(err, driver.ErrHeld) {
		panic(stop{}) // shared/together checks this
	} else if err != nil {
		c.failf("two readers at once: %v", err)
	}
	return at
}

func (c *check) shareFence(a, b *lease, which string) {
	if a.grant.Fence != b.grant.Fence {
		c.failf("%s have fences %d and %d", which, a.grant.Fence, b.grant.Fence)
	}
}
