package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

var batchCases = []testCase{
	{
		name:   "batch/each",
		clause: "ExtendBatch does for each hold what Extend does, and answers in the order of the holds. A hold that is lost changes nothing for the others.",
		f: func(c *check) {
			var live []*lease
			var all []fast.Extension
			for i := range 4 {
				l := c.take(c.a, c.brief(c.newName(), 3), "of a free name")
				all = append(all, fast.Extension{Name: l.req.Name, Token: l.req.Token, TTL: c.units(5)})
				if i%2 == 1 { // release every second hold, so that lost and live holds alternate
					c.releaseFreely(l)
					l = nil
				}
				live = append(live, l)
			}
			c.nap(c.units(1))
			sent := time.Now()
			out, err := c.a.ExtendBatch(c.ctx, all)
			if err != nil || len(out) != len(all) {
				c.failf("ExtendBatch of %d holds: %d answers, %v", len(all), len(out), err)
			}
			for i, l := range live {
				switch e := out[i]; {
				case l == nil && !isLoss(e.Err):
					c.failf("ExtendBatch, of a hold that was released: want ErrExpired or ErrLost, got: %v", orGranted(e.Err))
				case l != nil && e.Err != nil:
					c.failBefore(l.liveUntil, "ExtendBatch, of a live hold next to lost ones: %v", e.Err)
				case l != nil:
					c.checkLease(e.Grant, c.units(5), "ExtendBatch")
					c.sameFence(l, e.Grant, "ExtendBatch")
					l.setEnd(c, e.Grant, sent)
				}
			}
			c.takeOver(c.b, c.request(live[0].req.Name), live[0].liveUntil, "by another process, after ExtendBatch")
		},
	},
	{
		name:   "batch/invalid",
		clause: "ExtendBatch returns ErrInvalid for a wrong name, token or TTL, and then sends nothing. No hold is no error.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			good := fast.Extension{Name: l.req.Name, Token: l.req.Token, TTL: c.long()}
			for _, bad := range []fast.Extension{
				{Name: "", Token: good.Token, TTL: good.TTL}, {Name: good.Name, Token: driver.TokenOf(""), TTL: good.TTL}, {Name: good.Name, Token: good.Token, TTL: -1},
			} {
				if _, err := c.a.ExtendBatch(c.ctx, []fast.Extension{good, bad}); !errors.Is(err, driver.ErrInvalid) {
					c.errorf("ExtendBatch of %+v: want ErrInvalid, got: %v", bad, orGranted(err))
				}
			}
			if out, err := c.a.ExtendBatch(c.ctx, nil); err != nil || len(out) != 0 {
				c.errorf("ExtendBatch of no hold: %d answers, %v", len(out), err)
			}
			c.verify(l, "after ExtendBatch")
		},
	},
}

func (cl *client) ExtendBatch(ctx context.Context, holds []fast.Extension) (out []fast.Extended, err error) {
	defer cl.begin("ExtendBatch", &err)()
	out, err = ability[fast.BatchExtender](cl.store).ExtendBatch(ctx, holds)
	for i := range out {
		cl.saw(&call{"ExtendBatch", []string{holds[i].Token.Text()}, out[i].Grant, out[i].Err == nil, out[i].Err})
	}
	return out, err
}
