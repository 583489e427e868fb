package padlock

import "github.com/padlock-go/padlock/driver"

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

// takeHandOver takes the lock after a wait in the store. g is what the store returned. If g is
// zero, nothing was handed over, but a try may succeed.
func (a *attempt) takeHandOver(g driver.Grant) error {
	switch {
	case g.TTL == 0:
		a.renewToken()
	case g.From != 0 && g.TTL > driver.MaxReservation && (g.TTL >= a.request.TTL || !a.set.noRenewal):
		// The grant is a hold, not only a reservation. If its lease is short, it is renewed soon.
		a.by = HandOverByQueue
		err := a.acceptGrant(g.From, g)
		if err != nil {
			a.noteUnsure()
		}
		return err
	}
	a.by = NoHandOver
	if g.TTL != 0 {
		a.by = HandOverByQueue
	}
	if a.mayUse(&g) {
		if used, err := a.useReservation(g); used {
			return err
		}
	}
	return a.tryStore(a.l.clock.Now())
}

// mayUse reports whether this attempt may use the reservation g before it is claimed. A reservation
// has only a short lease. With some options, for example HoldAtLeast, other clients rely on the
// full lease, so mayUse returns false.
func (a *attempt) mayUse(g *driver.Grant) bool {
	l, r := a.l, &a.request
	return g.From != 0 && g.Fence != 0 && !l.guarantees.InProcess && l.guarantees.Bound == driver.BoundToNothing &&
		!r.Shared && a.set.holdAtLeast == 0 && r.Holder.Plan == 0 && r.FenceAbove == 0 && r.TTL > driver.MaxReservation &&
		!a.part && a.h.coolDown == 0
}

// useReservation takes the lock that g reserves, and sends no claim. If too little time of the
// reservation is left, useReservation returns false. Then the caller must send a claim.
func (a *attempt) useReservation(g driver.Grant) (used bool, err error) {
	a.h.unclaimed = true
	switch err = a.acceptGrant(g.From, g); err {
	case nil:
	case errTooLate:
		a.h.unclaimed = false
		return false, nil
	default:
		a.noteUnsure()
	}
	return true, err
}
