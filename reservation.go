package padlock

import (
	"context"

	"github.com/padlock-go/padlock/driver"
)

// A store may hand a name over to a waiter as a reservation. This is a short lease, and a further
// request, the claim, turns it into a full lease. If the store also reports when the short lease
// began (Grant.From), the caller of Acquire gets the lock at once, before it is claimed. If the
// caller soon releases the lock, no claim is sent at all, because the release of a reservation
// hands the name on as any other release does. The states of such a hold are those of hold.go, and
// in addition:
//
//	state      event                         what happens
//	unclaimed  Release without a cool-down   The reservation ends, and no claim is sent.
//	           The time claimAfter is over.  The renewer sends the claim.
//	           Extend, Check, Export,        The call sends the claim first.
//	           Promote, Demote, or Release
//	           with a cool-down
//	           The claim succeeds.           The hold becomes claimed.
//	           The store reports a loss, or  The hold becomes over, as any other hold does.
//	           the reservation runs out.
//	claimed    any event                     The same happens as to any other hold.
//
// The field hold.unclaimed is true in the state unclaimed, and false in the state claimed.
//
// A claim must not take a name that is free. For example, a claim that arrives after the release of
// the lock must do nothing. So a claim is a request whose Replaces is its own token. The store
// refuses such a request unless this token has the name.

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

// askToClaim sends the claim for h, which is an unclaimed reservation.
func (h *hold) askToClaim(ctx context.Context) (driver.Grant, error) {
	r := h.request(false)
	r.Replaces = h.token
	return h.locker.store.Acquire(ctx, r)
}
