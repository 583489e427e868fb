package drivertest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

var fullCases = []testCase{
	{
		name:   "full/loses-nothing",
		clause: "A store that has no room for new holds keeps those that it has: Extend, Release and a demotion still work. The error for a new hold says that nothing was granted, or that this is uncertain, and leaves nothing behind. With room again, everything works.",
		f:      fullStore,
	},
	{
		name:   "full/cool-down",
		clause: "If a full store has no room for a cool-down, Release returns OutcomeReleased together with ErrUnavailable, or ErrUnavailable and changes nothing. A Release without an error leaves the cool-down.",
		needs:  []need{coolDowns},
		f:      fullCoolDown,
	},
	{
		name:   "full/promotion",
		clause: "If a full store has no room for a promotion, the hold stays shared, and is promoted when there is room.",
		needs:  []need{readers, converts, promotes},
		f:      fullPromotion,
	},
	{
		name:   "full/slots",
		clause: "A full store keeps permits like other holds, and the error for a new one is no refusal.",
		needs:  []need{takesSlots},
		f:      fullSlots,
	},
	{
		name:   "full/batch",
		clause: "A full store extends several leases with one request as it extends one.",
		needs:  []need{batches, leases},
		f:      fullBatch,
	},
}

func (c *check) fill(on bool) {
	if err := c.h.Full(on); err != nil {
		c.failf("Harness.Full(%v): %v", on, err)
	}
}

// filled fills the store until the returned function is called or the case ends.
func (c *check) filled() (empty func()) {
	c.fill(true)
	c.later(func() { c.h.Full(false) })
	return func() { c.fill(false) }
}

// refused reports whether the full store has refused the call. It fails if the store may not do
// that, and if the error says anything but that the store has no room.
func (c *check) refused(call, what string, err error) bool {
	switch {
	case err == nil:
		return false
	case !isNoRoom(err):
		c.failf("%s while the store is full: want ErrUnavailable or ErrUncertain, got: %v", what, err)
	case !slices.Contains(c.h.FullRefuses, call):
		c.failf("%s while the store is full: %v", what, err)
	}
	return true
}

func isNoRoom(err error) bool {
	return (errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain)) && !isAnswer(err)
}

// noRoom checks the error for a new hold.
func (c *check) noRoom(what string, err error) {
	switch {
	case err == nil: // there was some room left
	case !isNoRoom(err):
		c.failf("%s while the store is full: want ErrUnavailable or ErrUncertain, got: %v", what, err)
	case !strings.Contains(err.Error(), c.h.FullSays):
		c.failf("%s while the store is full: the error does not say %q: %v", what, c.h.FullSays, err)
	}
}

func (c *check) extendFull(l *lease) {
	sent := time.Now()
	g, err := l.cl.Extend(c.ctx, l.req.Name, l.req.Token.Text(), c.long())
	if !c.refused("extend", "Extend of a live hold", err) {
		l.setEnd(c, g, sent)
		c.verify(l, "after Extend while the store is full")
	}
}

// ends releases a hold until the store answers. The cases about Release check outcomes.
func (c *check) ends(l *lease, keep time.Duration) {
	err := c.answered(func() error { _, err := l.cl.Release(c.ctx, l.req.Name, l.req.Token.Text(), keep); return err })
	if err != nil {
		c.failf("Release with room again: %v", err)
	}
}

func fullStore(c *check) {
	writer, demoted := c.take(c.a, c.request(c.newName()), "of a free name"), c.take(c.a, c.request(c.newName()), "of a free name")
	all := []*lease{writer, demoted}
	refused := []driver.Request{c.request(c.newName())}
	if c.g.Shared {
		reader := c.take(c.a, c.readRequest(c.newName()), "to read a free name")
		all = append(all, reader, c.readToo(c.b, reader))
		refused = append(refused, c.readRequest(c.newName()))
	}
	empty := c.filled()
	granted := make(map[string]bool)
	for _, r := range refused {
		_, err := c.a.Acquire(c.ctx, r)
		c.noRoom("Acquire of a free name", err)
		granted[r.Token.Text()] = err == nil || errors.Is(err, driver.ErrUncertain)
	}
	for range 3 {
		for _, l := range all {
			c.extendFull(l)
		}
	}
	if c.g.Shared && c.can(driver.AbilityConverter) {
		_, err := c.convert(demoted, true)
		c.refused("demotion", "Convert to shared", err)
	}
	var left []*lease
	for _, l := range all {
		o, err := l.cl.Release(c.ctx, l.req.Name, l.req.Token.Text(), 0)
		switch {
		case c.refused("release", "Release of a live hold", err):
			left = append(left, l)
		case o != driver.OutcomeReleased && o != driver.OutcomeGone:
			c.failf("Release of a live hold while the store is full: %q", o)
		}
	}
	empty()
	for _, l := range left {
		c.ends(l, 0)
	}
	for _, r := range refused {
		if granted[r.Token.Text()] {
			c.answered(func() error { _, err := c.a.Release(c.ctx, r.Name, r.Token.Text(), 0); return err })
		}
		c.releaseFreely(c.afterFault(c.b, c.request(r.Name), "of a name that was refused while the store was full"))
	}
	for _, l := range all {
		c.releaseFreely(c.afterFault(c.b, c.request(l.req.Name), "after its release, with room again"))
	}
}

func fullCoolDown(c *check) {
	all := []*lease{c.take(c.a, c.request(c.newName()), "of a free name")}
	if c.g.Shared {
		all = append(all, c.take(c.a, c.readRequest(c.newName()), "to read a free name"))
	}
	empty := c.filled()
	until := time.Now().Add(c.long())
	outs, errs := make([]driver.Outcome, len(all)), make([]error, len(all))
	for i, l := range all {
		outs[i], errs[i] = l.cl.Release(c.ctx, l.req.Name, l.req.Token.Text(), c.long())
	}
	empty()
	for i, l := range all {
		c.cooledWhenFull(l, outs[i], errs[i], until)
	}
}

// cooledWhenFull checks what became of a hold that was released with a cool-down while the store was
// full.
func (c *check) cooledWhenFull(l *lease, o driver.Outcome, err error, until time.Time) {
	switch {
	case err == nil:
	case !isNoRoom(err):
		c.failf("Release with a cool-down while the store is full: %q, %v", o, err)
	case o == driver.OutcomeReleased:
		c.releaseFreely(c.afterFault(c.b, c.request(l.req.Name), "after a Release without the cool-down"))
		return
	default:
		if !errors.Is(err, driver.ErrUncertain) {
			c.livesOn(l, "after a Release with a cool-down that the full store refused")
		}
		c.ends(l, c.long())
	}
	err = c.answered(func() error { _, err := c.b.Acquire(c.ctx, c.request(l.req.Name)); return err })
	if !errors.Is(err, driver.ErrHeld) {
		c.failBefore(until, "Acquire during a cool-down that began while the store was full: want a *HeldError, got: %v", orGranted(err))
	}
}

func fullPromotion(c *check) {
	l := c.take(c.a, c.readRequest(c.newName()), "to read a free name")
	empty := c.filled()
	_, err := c.convert(l, false)
	if err != nil && !isNoRoom(err) {
		c.failf("Convert to exclusive while the store is full: want ErrUnavailable or ErrUncertain, got: %v", err)
	}
	empty()
	c.livesOn(l, "after a promotion while the store was full")
	if err != nil {
		err = c.answered(func() error { _, err := c.convert(l, false); return err })
	}
	if err != nil {
		c.failf("promotion with room again: %v", err)
	}
	c.ends(l, 0)
	c.releaseFreely(c.takeSoon(c.b, c.request(l.req.Name), "after its release"))
}

func fullSlots(c *check) {
	r := c.request(c.slotted())
	_, l := c.takeSlot(c.a, r, 2, true, "of two free ones")
	empty := c.filled()
	again := c.request(r.Name)
	_, _, err := c.b.AcquireSlot(c.ctx, again, 2, true)
	c.noRoom("AcquireSlot with a free permit", err)
	c.extendFull(l)
	_, err = l.cl.Release(c.ctx, l.req.Name, l.req.Token.Text(), 0)
	c.refused("release", "Release of a permit", err)
	empty()
	for i := range 2 { // nobody knows which permit an uncertain request has
		for _, token := range []string{l.req.Token.Text(), again.Token.Text()} {
			if err := c.answered(func() error { _, err := c.b.Release(c.ctx, fast.SlotName(r.Name, i), token, 0); return err }); err != nil {
				c.failf("Release of a permit with room again: %v", err)
			}
		}
	}
	for range 2 {
		c.takeSlot(c.b, c.request(r.Name), 2, true, "of a free one, with room again")
	}
}

func fullBatch(c *check) {
	var live []*lease
	var all []fast.Extension
	for range 3 {
		l := c.take(c.a, c.request(c.newName()), "of a free name")
		live, all = append(live, l), append(all, fast.Extension{Name: l.req.Name, Token: l.req.Token, TTL: c.long()})
	}
	empty := c.filled()
	out, err := c.a.ExtendBatch(c.ctx, all)
	if !c.refused("extend", "ExtendBatch", err) {
		for i := range all {
			c.refused("extend", "ExtendBatch of a live hold", out[i].Err)
		}
	}
	empty()
	for _, l := range live {
		c.livesOn(l, "after ExtendBatch while the store was full")
		c.ends(l, 0)
	}
}
