package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/safety"
)

var slotCases = []testCase{
	{
		name:   "slots/takes",
		clause: "AcquireSlot grants each permit below n to one holder, as a hold like any other. If all permits are held, the error is a *HeldError with all holders. If the token has a permit already, AcquireSlot returns that hold, even if another permit is free.",
		f: func(c *check) {
			r, held := c.request(c.slotted()), map[int]*lease{}
			for range 3 {
				slot, l := c.takeSlot(c.a, r, 3, false, "while a permit is free")
				if slot < 0 || slot > 2 || held[slot] != nil {
					c.failf("%v", safety.ErrTwoHold("AcquireSlot grants permit %d of 3 while others are %v", slot, len(held)))
				}
				c.verify(l, "of a permit")
				c.checkLease(l.grant, r.TTL, "AcquireSlot")
				c.mustRefuse(c.b, c.request(l.req.Name), "for a permit that is held", l)
				held[slot] = l
				r.Token = driver.TokenOf(newToken())
			}
			for _, ahead := range []bool{false, true} {
				if h := c.slotRefused(r, 3, ahead, "while all permits are held", held[0]); h != nil && !c.h.Anonymous && len(h.Holds) != 3 {
					c.failf("AcquireSlot reports %d holders of 3 permits", len(h.Holds))
				}
			}
			c.release(held[1], 0, "of a permit", driver.OutcomeReleased)
			again := r
			again.Token = held[2].req.Token
			if slot, l := c.takeSlot(c.b, again, 3, false, "again"); slot != 2 || l.grant.Fence != held[2].grant.Fence {
				c.failf("a repeat of AcquireSlot returns permit %d with the fence %d, and the token has permit 2 with the fence %d",
					slot, l.grant.Fence, held[2].grant.Fence)
			}
			slot, l := c.takeSlot(c.b, r, 3, false, "after a permit was released")
			if slot != 1 {
				c.failf("AcquireSlot grants permit %d, and permit 1 is the free one", slot)
			}
			c.releaseFreely(l)
		},
	},
	{
		name:   "slots/queue",
		clause: "While the gate is held, AcquireSlot refuses callers that are not ahead, even if a permit is free.",
		f: func(c *check) {
			r := c.request(c.slotted())
			gate := c.take(c.a, c.request(fast.SlotGate(r.Name, 2)), "for a gate")
			c.slotRefused(r, 2, false, "behind a caller at the gate", gate)
			r.Token = driver.TokenOf(newToken())
			_, l := c.takeSlot(c.b, r, 3, false, "of another number of permits, which has another gate")
			c.releaseFreely(l)
			r.Token = driver.TokenOf(newToken())
			_, l = c.takeSlot(c.b, r, 2, true, "ahead of the others")
			c.releaseFreely(l)
			c.releaseFreely(gate)
			r.Token = driver.TokenOf(newToken())
			_, l = c.takeSlot(c.b, r, 2, false, "after the gate was released")
			c.releaseFreely(l)
		},
	},
	{
		name:   "slots/invalid",
		clause: "AcquireSlot returns ErrInvalid for a wrong number of permits, a wrong name, and for a request that is shared or has Replaces or FenceAbove.",
		f: func(c *check) {
			swap, shared, above := c.request(c.slotted()), c.request(c.slotted()), c.request(c.slotted())
			swap.Replaces, shared.Shared, above.FenceAbove = driver.TokenOf(newToken()), true, 1
			for _, bad := range []struct {
				r driver.Request
				n int
			}{{c.request(""), 2}, {c.request("x"), 0}, {c.request("x"), fast.MaxSlots + 1}, {swap, 2}, {shared, 2}, {above, 2}} {
				if _, _, err := ability[fast.SlotTaker](c.a.store).AcquireSlot(c.ctx, bad.r, bad.n, false); !errors.Is(err, driver.ErrInvalid) {
					c.errorf("AcquireSlot of %+v with %d permits: want ErrInvalid, got: %v", bad.r, bad.n, orGranted(err))
				}
			}
			if most := c.g.SlotsAtOnce; most > 0 {
				_, _, err := ability[fast.SlotTaker](c.a.store).AcquireSlot(c.ctx, c.request(c.slotted()), most+1, false)
				if most < fast.MaxSlots && !errors.Is(err, driver.ErrInvalid) {
					c.errorf("AcquireSlot with %d permits, and Guarantees allow %d: want ErrInvalid, got: %v", most+1, most, orGranted(err))
				}
			}
		},
	},
}

// slotted returns a name that is used with slots.
func (c *check) slotted() string {
	name := c.newName()
	room := c.maxName() - len(fast.SlotGate("", fast.MaxSlots))
	return name[len(name)-min(len(name), room):]
}

// takeSlot takes a permit. The store must grant it.
func (c *check) takeSlot(cl *client, r driver.Request, n int, ahead bool, when string) (int, *lease) {
	sent := time.Now()
	slot, g, err := cl.AcquireSlot(c.ctx, r, n, ahead)
	if err != nil {
		c.failf("AcquireSlot %s: it must be granted, got: %v", when, err)
	}
	r.Name = fast.SlotName(r.Name, slot)
	return slot, c.leased(cl, r, g, sent)
}

// slotRefused asks for a permit that the store must refuse because of the hold inTheWay.
func (c *check) slotRefused(r driver.Request, n int, ahead bool, when string, inTheWay *lease) *driver.HeldError {
	slot, _, err := c.b.AcquireSlot(c.ctx, r, n, ahead)
	var held *driver.HeldError
	if !errors.As(err, &held) {
		c.failBefore(inTheWay.liveUntil, "AcquireSlot %s: want a *HeldError, got: permit %d, %v", when, slot, orGranted(err))
	}
	return held
}

func (cl *client) AcquireSlot(ctx context.Context, r driver.Request, n int, ahead bool) (slot int, g driver.Grant, err error) {
	defer cl.begin("AcquireSlot", &err)()
	slot, g, err = ability[fast.SlotTaker](cl.store).AcquireSlot(ctx, r, n, ahead)
	if err == nil {
		cl.forget(fast.SlotName(r.Name, slot), r.Token.Text())
	}
	cl.saw(&call{"AcquireSlot", []string{r.Token.Text()}, g, err == nil, err})
	return slot, g, err
}
