package padlock

import (
	"context"

	"github.com/padlock-go/padlock/driver"
)

// A store may hand a name over to a waiter as a reservation, and report how long the waiter can use
// it (Grant.From). Then the lock is used at once, before it is claimed. A short use costs no claim
// at all, because the release of a reservation hands the name on as any other release does. The
// states of such a hold are those of hold.go, and in addition:
//
//	state      how to recognise it   what may happen
//	unclaimed  unclaimed is true     Release: the reservation ends, and no claim is sent.
//	                                 claimAfter is over: the renewer claims the reservation.
//	                                 Extend, Check, Export, Promote, Demote or a cool-down: the call
//	                                 claims it first.
//	                                 the claim succeeds: the hold becomes claimed.
//	                                 the store reports a loss, or the time of the reservation ends:
//	                                 the hold becomes over, as any other hold does.
//	claimed    unclaimed is false    it is a hold like any other, with its full lease
//
// A claim replaces the token by itself (Request.Replaces). So it never takes a name that is free,
// and a claim that arrives after its release does nothing.

// claimAfter is how long a reservation is used before it is claimed. It is long enough for many
// short uses. It is short enough that a claim can be repeated several times before the reservation
// ends.
const claimAfter = driver.MaxReservation / 20

// request returns a request for h's token.
func (h *hold) request(shared bool) driver.Request {
	l := h.locker
	return driver.Request{
		Name: h.name, Token: h.token, Shared: shared, TTL: h.ttl,
		Holder: driver.Holder{Host: l.host, PID: l.pid, Label: h.label, Plan: h.plan},
	}
}

// askToClaim sends the claim of h, which is unclaimed.
func (h *hold) askToClaim(ctx context.Context) (driver.Grant, error) {
	r := h.request(false)
	r.Replaces = h.token
	return h.locker.store.Acquire(ctx, r)
}
