package facetest

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// reserving is a server that hands names over as reservations, or as holds with a lease of length
// ttl. The field late is how long the message about a hand-over travels.
type reserving struct {
	*remote
	late time.Duration
	ttl  time.Duration
}

func (r reserving) Wait(ctx context.Context, q driver.Request, reserve bool) (g driver.Grant, err error) {
	q.TTL = cmp.Or(r.ttl, driver.MaxReservation)
	c := call{op: "wait", name: q.Name, token: q.Token.Text(), shared: q.Shared, ctx: ctx}
	err = r.on(c, func(ctx context.Context) error { g, err = r.Store.Wait(ctx, q, reserve); return err })
	if err == nil && r.late > 0 {
		<-time.After(r.late)
	}
	return g, err
}

// inReservation runs f in a bubble. The Locker l waits at a server with reservations for the name
// "job", which another process holds. It gets the name when f calls handOver, which returns the
// lock of l.
func inReservation(t *testing.T, late time.Duration, opts []padlock.Option, f func(t *testing.T, r reserving, handOver func() *padlock.Lock)) {
	synctest.Test(t, func(t *testing.T) {
		r := reserving{connect(memstore.New()), late, 0}
		l, other := newLocker(t, r), newLocker(t, connect(r.Store))
		before := acquire(t, other, "job")
		got := make(chan *padlock.Lock)
		go func() { got <- acquire(t, l, "job", append(opts, padlock.Wait(time.Minute))...) }()
		synctest.Wait()
		f(t, r, func() *padlock.Lock { release(t, before); return <-got })
	})
}

// Acquire returns when the reservation is claimed, whatever the options are.
func TestClaimBeforeUse(t *testing.T) {
	for what, opts := range map[string][]padlock.Option{
		"no options":  nil,
		"a short TTL": {padlock.TTL(driver.MaxReservation)},
		"HoldAtLeast": {padlock.HoldAtLeast(time.Minute)},
		"HoldAtMost":  {padlock.HoldAtMost(time.Minute)},
		"NoRenewal":   {padlock.NoRenewal()},
		"Shared":      {padlock.Shared()},
		"CoolDown":    {padlock.CoolDown(time.Second)},
	} {
		t.Run(what, func(t *testing.T) {
			inReservation(t, 0, opts, func(t *testing.T, r reserving, handOver func() *padlock.Lock) {
				h := handOver()
				if all := r.log("acquire"); len(all) != 2 {
					t.Errorf("%d requests, want a try and a claim", len(all))
				}
				release(t, h)
			})
		})
	}
}

// A hold that is handed over with a short lease gets the lease of HoldAtLeast before Acquire returns.
func TestHoldAtLeastAfterAHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reserving{connect(memstore.New()), 0, time.Second}
		before := acquire(t, newLocker(t, connect(r.Store)), "job")
		time.AfterFunc(time.Second, func() { before.Release() })
		h := acquire(t, newLocker(t, r), "job", padlock.HoldAtLeast(time.Hour))
		if left := h.Remaining(); left < 58*time.Minute {
			t.Errorf("%v are left", left)
		}
		release(t, h)
	})
}

// A network that is silent for longer than a reservation, just after a hand-over, ends no lock.
func TestStallAfterAHandOver(t *testing.T) {
	inReservation(t, 0, nil, func(t *testing.T, r reserving, handOver func() *padlock.Lock) {
		h := handOver()
		<-time.After(20 * time.Millisecond)
		for _, op := range []string{"acquire", "extend", "release"} {
			r.request(op, lost)
		}
		<-time.After(2 * driver.MaxReservation)
		r.heal()
		if err := h.Check(context.Background()); err != nil {
			t.Error(err)
		}
		release(t, h)
	})
}

// A claim whose reply is lost is repeated with the same token.
func TestClaimIsRepeated(t *testing.T) {
	inReservation(t, 0, nil, func(t *testing.T, r reserving, handOver func() *padlock.Lock) {
		r.request("acquire", first(1, lost))
		h := handOver()
		all := r.log("acquire")
		if len(all) != 3 || all[1].token != all[2].token {
			t.Errorf("%+v, want a try, a claim and its repeat", all)
		}
		release(t, h)
	})
}

// A waiter that hears of its reservation too late waits for the next holder.
func TestReservationThatLapsed(t *testing.T) {
	inReservation(t, 2*driver.MaxReservation, nil, func(t *testing.T, r reserving, handOver func() *padlock.Lock) {
		next := newLocker(t, connect(r.Store))
		go func() {
			h := acquire(t, next, "job", padlock.Wait(time.Minute))
			<-time.After(10 * time.Second)
			release(t, h)
		}()
		synctest.Wait()
		began := time.Now()
		h := handOver()
		if took := time.Since(began); took < 10*time.Second {
			t.Errorf("the lock came after %v, while another process had it", took)
		}
		release(t, h)
	})
}

// A wait that ends without the lock says that claims came too late: the store is too far away for
// its reservations. Two near processes take the lock in turn.
func TestLateClaimsAreNamed(t *testing.T) {
	for trip, named := range map[time.Duration]bool{
		300 * time.Millisecond: false, 600 * time.Millisecond: true, 900 * time.Millisecond: true,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := reserving{connect(memstore.New()), trip / 2, 0}
			r.request("acquire", func(context.Context, int) error { <-time.After(trip / 2); return nil })
			far := newLocker(t, r)
			var work sync.WaitGroup
			defer work.Wait()
			for range 2 {
				near := newLocker(t, connect(r.Store))
				work.Go(func() {
					for began := time.Now(); time.Since(began) < 30*time.Second; {
						h := acquire(t, near, "job", padlock.Wait(time.Minute))
						<-time.After(10 * time.Millisecond)
						release(t, h)
					}
				})
			}
			<-time.After(time.Millisecond)
			h, err := far.Acquire(t.Context(), "job", padlock.Wait(20*time.Second))
			if !named {
				if err != nil {
					t.Fatalf("%v: %v", trip, err)
				}
				release(t, h)
				return
			}
			if !errors.Is(err, padlock.ErrHeld) || !strings.Contains(err.Error(), "too late") {
				t.Errorf("%v: %v, want ErrHeld that says that the claims came too late", trip, err)
			}
		})
	}
}
