package facetest

import (
	"context"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// able is a server on a bad network that has every ability which concerns waiters.
type able struct {
	relay
	x *torture
}

// Pass passes the lock on, or only releases it.
func (s able) Pass(ctx context.Context, token string, next driver.Request) (out driver.Outcome, g driver.Grant, err error) {
	if s.x.n(2) == 0 {
		return s.relay.Pass(ctx, token, next)
	}
	c := call{op: "pass", name: next.Name, token: token, next: next.Token.Text(), ttl: next.TTL, ctx: ctx}
	err = s.on(c, func(ctx context.Context) error { out, err = s.Store.Release(ctx, next.Name, token, 0); return err })
	return out, g, err
}

// Wait hands over a hold, or a reservation.
func (s able) Wait(ctx context.Context, q driver.Request, reserve bool) (g driver.Grant, err error) {
	if s.x.n(3) > 0 {
		q.TTL = driver.MaxReservation
	}
	c := call{op: "wait", name: q.Name, token: q.Token.Text(), shared: q.Shared, ctx: ctx}
	err = s.on(c, func(ctx context.Context) error { g, err = s.Store.Wait(ctx, q, reserve); return err })
	return g, err
}

// several takes both names.
func (x *torture) several(ctx context.Context, l *padlock.Locker, opts []padlock.Option) {
	names := []string{"b", "a"}
	if x.n(2) == 0 {
		l.DoAll(ctx, names, func(ctx context.Context) error { return sleep(ctx, x.ms(3)) }, opts...)
		return
	}
	all, err := l.AcquireAll(ctx, names, opts...)
	if err != nil {
		return
	}
	for _, name := range names {
		x.enter(all.Lock(name))
	}
	sleep(all.Context(), x.ms(longestHold))
	for _, name := range names {
		x.leave(all.Lock(name))
	}
	all.Release()
}

// further returns more options for some of the calls.
func (x *torture) further() (opts []padlock.Option) {
	if x.n(10) == 0 {
		opts = append(opts, padlock.CoolDown(time.Duration(x.n(2))*5*time.Millisecond))
	}
	if x.n(3) == 0 {
		opts = append(opts, padlock.Shared())
	}
	return opts
}
