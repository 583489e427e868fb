package facetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/stores/memstore"
)

// stepClock is the clock of all machines of the model. It can be set forward, as if the machines
// had been suspended: the time of the leases goes on meanwhile, and timers stand still.
type stepClock struct {
	base    time.Time
	skipped atomic.Int64
}

func (c *stepClock) Now() driver.Instant {
	return driver.Instant(time.Since(c.base)+time.Duration(c.skipped.Load())) + driver.Instant(time.Hour)
}

func (c *stepClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

func (c *stepClock) Nap() time.Duration { return longestNap }

func (c *stepClock) step(d time.Duration) { c.skipped.Add(int64(d)) }

const longestNap = 500 * time.Millisecond

// wire is the connection of one process to the server of the model. Requests and replies take up to
// a few milliseconds. The faults of the model happen here.
type wire struct {
	x    *pairModel
	s    *memstore.Store
	g    driver.Guarantees
	late chan struct{} // has an element for each request that is still on its way
	slow bool          // replies take their time too
}

func (x *pairModel) connect() *wire {
	s := x.server.Open()
	g := s.Guarantees()
	g.InProcess = false
	if x.kind.bound {
		g.Bound, g.Detached = driver.BoundToConnection, true
	}
	return &wire{x: x, s: s, g: g, late: make(chan struct{}, 10000), slow: x.n(2) == 0}
}

func (c *wire) Guarantees() driver.Guarantees { return c.g }

// Close waits until the requests that are on their way have arrived, as a store waits for the work
// that it has begun.
func (c *wire) Close() error {
	for len(c.late) > 0 {
		<-time.After(time.Millisecond)
	}
	return c.s.Close()
}

// send carries a request to the server, and the reply back. serve is what the server does.
func send[T any](c *wire, ctx context.Context, what step, name string, serve func(ctx context.Context) (T, error)) (reply T, err error) {
	x, unbound := c.x, context.WithoutCancel(ctx)
	var none T
	carryOut := func() (T, error) {
		reply, err := serve(unbound)
		what.reply, what.err = reply, err
		x.log(name, what)
		return reply, err
	}
	if err := ctx.Err(); err != nil {
		return none, err
	}
	fault := x.strike(ctx, what.token)
	what.fault = fault
	if err := sleep(ctx, x.us(1500)); err != nil {
		return none, errors.Join(driver.ErrUncertain, err)
	}
	switch fault {
	case lostRequest:
		return none, errReset
	case lateRequest: // it arrives before it is repeated, because no store knows a released token for ever
		c.late <- struct{}{}
		go func() {
			sleep(context.Background(), x.us(x.late))
			carryOut()
			<-c.late
		}()
		return none, errReset
	case lostReply:
		carryOut()
		return none, errReset
	case silence:
		if x.n(2) == 0 {
			carryOut()
		}
		return none, awaitEndOfSilence(ctx)
	case refusal:
		return none, driver.ErrUnavailable
	}
	reply, err = carryOut()
	if c.slow {
		if gone := sleep(ctx, x.us(1500)); gone != nil {
			return none, errors.Join(driver.ErrUncertain, gone)
		}
	}
	if err != nil {
		return none, err
	}
	return reply, nil
}

func awaitEndOfSilence(ctx context.Context) error {
	if err := sleep(ctx, driver.MaxSilence); err != nil {
		return errors.Join(driver.ErrUncertain, err)
	}
	return errors.Join(driver.ErrUncertain, errors.New("i/o timeout"))
}

// remotely makes a grant look as if it came over a network.
func remotely(g driver.Grant, err error) (driver.Grant, error) {
	g.From = 0
	return g, err
}

func (c *wire) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	return send(c, ctx, step{what: "acquire", token: r.Token.Text()}, r.Name, func(ctx context.Context) (driver.Grant, error) { return remotely(c.s.Acquire(ctx, r)) })
}

func (c *wire) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	return send(c, ctx, step{what: "extend", token: token}, name, func(ctx context.Context) (driver.Grant, error) { return remotely(c.s.Extend(ctx, name, token, ttl)) })
}

func (c *wire) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	return send(c, ctx, step{what: "release", token: token}, name, func(ctx context.Context) (driver.Outcome, error) { return c.s.Release(ctx, name, token, keep) })
}

func (c *wire) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	return send(c, ctx, step{what: fmt.Sprint("convert to shared: ", r.Shared), token: r.Token.Text()}, r.Name, func(ctx context.Context) (driver.Grant, error) { return remotely(c.s.Convert(ctx, r)) })
}

func (c *wire) StoreID(ctx context.Context) (string, error) { return c.s.StoreID(ctx) }
func (c *wire) Location(name string) (string, error)        { return name, nil }
func (c *wire) SamePlace(driver.Store) bool                 { return false }

// ableWire is a wire to a server with every ability.
type ableWire struct{ *wire }

// Wait hands over a hold, or a reservation.
func (c ableWire) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if c.x.n(3) > 0 {
		r.TTL = min(r.TTL, driver.MaxReservation)
	}
	wait := func(ctx context.Context) (driver.Grant, error) { return c.s.Wait(ctx, r, reserve) }
	return c.await(ctx, r, wait, func() string { return r.Name }, reserve)
}

// await is for a wait in the store. If it fails, the server gives up the place, and what it has
// handed over, in the background.
func (c ableWire) await(ctx context.Context, r driver.Request, wait func(context.Context) (driver.Grant, error), name func() string, reserve bool) (driver.Grant, error) {
	if err := sleep(ctx, c.x.us(1500)); err != nil {
		return driver.Grant{}, err
	}
	fault := c.x.strike(ctx, r.Token.Text())
	switch fault {
	case lostRequest:
		return driver.Grant{}, errReset
	case refusal:
		return driver.Grant{}, driver.ErrUnavailable
	}
	g, err := wait(ctx)
	c.x.log(name(), step{what: fmt.Sprint("wait in queue: ", reserve), token: r.Token.Text(), fault: fault, reply: g, err: err})
	if err == nil && c.slow {
		err = sleep(ctx, c.x.us(1500))
	}
	if err == nil && (fault == lostReply || fault == lateRequest || fault == silence) {
		if err = errReset; fault == silence {
			err = awaitEndOfSilence(ctx)
		}
	}
	if err == nil || !reserve {
		return g, err
	}
	c.late <- struct{}{}
	held := name()
	go func() {
		sleep(context.Background(), c.x.us(c.x.late))
		out, err := c.s.Release(context.Background(), held, r.Token.Text(), 0)
		c.x.log(held, step{what: "leave queue", token: r.Token.Text(), reply: out, err: err})
		<-c.late
	}()
	return driver.Grant{}, err
}

// passResult is the reply to Pass.
type passResult struct {
	out driver.Outcome
	g   driver.Grant
}

// Pass passes the lock on, or only releases it.
func (c ableWire) Pass(ctx context.Context, token string, next driver.Request) (out driver.Outcome, g driver.Grant, err error) {
	if c.x.n(2) == 0 {
		p, err := send(c.wire, ctx, step{what: "pass", token: token}, next.Name, func(ctx context.Context) (p passResult, err error) {
			p.out, p.g, err = c.s.Pass(ctx, token, next)
			p.g.From = 0
			c.x.giveUp(next.Name)
			return p, err
		})
		return p.out, p.g, err
	}
	out, err = c.Release(ctx, next.Name, token, 0)
	return out, g, err
}

func (c ableWire) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	_, err := send(c.wire, ctx, step{what: "raise", token: token}, name, func(ctx context.Context) (bool, error) { return true, c.s.RaiseFence(ctx, name, token, fence) })
	return err
}

func (c ableWire) ExtendBatch(ctx context.Context, holds []fast.Extension) ([]fast.Extended, error) {
	answers, err := send(c.wire, ctx, step{what: "batch", token: holds[0].Token.Text()}, holds[0].Name, func(ctx context.Context) (answers []fast.Extended, err error) {
		for _, h := range holds {
			g, err := remotely(c.s.Extend(ctx, h.Name, h.Token.Text(), h.TTL))
			answers = append(answers, fast.Extended{Grant: g, Err: err})
		}
		return answers, nil
	})
	if err != nil {
		return slices.Repeat([]fast.Extended{{Err: err}}, len(holds)), nil
	}
	return answers, nil
}

// permit is the reply to AcquireSlot.
type permit struct {
	slot int
	g    driver.Grant
}

func (c ableWire) AcquireSlot(ctx context.Context, r driver.Request, n int, overtake bool) (int, driver.Grant, error) {
	p, err := send(c.wire, ctx, step{what: "slot", token: r.Token.Text()}, r.Name, func(ctx context.Context) (p permit, err error) {
		p.slot, p.g, err = c.s.AcquireSlot(ctx, r, n, overtake)
		c.x.log(fast.SlotName(r.Name, p.slot), step{what: "this slot", token: r.Token.Text(), reply: p.g, err: err})
		p.g.From = 0
		return p, err
	})
	return p.slot, p.g, err
}
