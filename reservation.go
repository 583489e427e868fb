package padlock

import (
	"context"

	"github.com/padlock-go/padlock/driver"
)

// A store may hand a name over to a waiter as a reservation, which is a short lease. A further
// request, the claim, turns the reservation into a full lease. If the store also reports when the
// reservation began (Grant.From), Acquire returns before the claim is sent. If the caller releases
// the lock soon, no claim is sent, because a reservation can be released too.
//
// The states of such a hold are those of hold.go, and in addition:
//
//	state      event                         what happens
//	unclaimed  Release without a cool-down   The reservation ends, and no claim is sent.
//	           The time claimAfter is over.  The renewer sends the claim.
//	           Extend, Check, Export,        The call sends the claim first.
//	           Promote, Demote, or Release
//	           with a cool-down
//	           The claim succeeds.           The hold becomes claimed.
//	           The store reports a loss, or  The hold is over, as any other hold would be.
//	           the reservation runs out.
//	claimed    any event                     The same happens as to any other hold.
//
// The field hold.unclaimed is true in the state unclaimed, and false in the state claimed.
//
// A claim must not take a name that is free. For example, a claim may arrive after the release of
// the lock, and must then do nothing. So a claim is an acquire whose Request.Replaces is the hold's
// own token. The store refuses this request unless the name is held with that token.

// claimAfter is how long the Locker waits before it claims a reservation. Many callers release the
// lock within that time, which saves the claim. The remaining time is enough to repeat the claim
// several times.
const claimAfter = driver.MaxReservation / 20

// request returns a request for h's token.
func (h *hold) request(shared bool) driver.Request {
	l := h.locker
	return driver.Request{
		Name: h.name, Token: h.token, Shared: shared, TTL: h.ttl,
		Holder: driver.Holder{Host: l.host, PID: l.pid, Label: h.label, Plan: h.plan},
	}
}

// askToClaim sends the claim for h, which is an unclaimed reservation.
func (h *hold) askToClaim(ctx context.Context) (driver.Grant, error) {
	r := h.request(false)
	r.Replaces = h.token
	g, err := h.locker.store.Acquire(ctx, r)
	if err == nil {
		err = h.locker.checkLease(h.detached, &g)
	}
	return g, err
}
