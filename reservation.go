package padlock

import (
	"context"
	"time"

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

// mayUse reports whether a may use the reservation g before it is claimed. Others must be able to
// rely on a longer lease if one of the conditions is not met.
func (a *attempt) mayUse(g *driver.Grant) bool {
	l, r := a.l, &a.request
	return g.From != 0 && g.Fence != 0 && !l.guarantees.InProcess && l.guarantees.Bound == driver.ToNothing &&
		!r.Shared && r.AtLeast == 0 && r.Holder.Plan == 0 && r.FenceAbove == 0 && r.TTL > driver.MaxReservation &&
		l.cfg.passMost == 0 && !a.part && a.h.coolDown == 0
}

// use takes over the reservation g without a claim. It returns false if too little of its time is
// left, so that it has to be claimed first.
func (a *attempt) use(g driver.Grant) (used bool, err error) {
	a.h.unclaimed = true
	switch err = a.granted(g.From, g); err {
	case nil:
	case errTooLate:
		a.h.unclaimed = false
		return false, nil
	default:
		a.noteUnsure()
	}
	return true, err
}

// request returns a request for h's token.
func (h *hold) request(shared bool) driver.Request {
	l := h.locker
	return driver.Request{
		Name: h.name, Token: h.token, Shared: shared, TTL: h.ttl,
		Holder: driver.Holder{Host: l.host, PID: l.pid, Label: h.label, Plan: h.plan},
	}
}

// askToKeep makes h last for its TTL from now. If h is unclaimed, it sends the claim.
func (h *hold) askToKeep(ctx context.Context, unclaimed bool) (driver.Grant, error) {
	if !unclaimed {
		return h.locker.store.Extend(ctx, h.name, h.token, h.ttl)
	}
	r := h.request(false)
	r.Replaces = h.token
	return h.locker.store.Acquire(ctx, r)
}

// claim claims h if it is unclaimed. A request that needs the whole lease calls it first.
func (h *hold) claim(ctx context.Context) error {
	l := h.locker
	l.mu.Lock()
	unclaimed := h.unclaimed && h.cause == nil
	l.unlock()
	if !unclaimed {
		return nil
	}
	sent := l.clock.Now()
	g, err := h.askToKeep(ctx, true)
	if err != nil {
		h.noticeLoss(err)
		return callerError(ctx, err)
	}
	l.mu.Lock()
	defer l.unlock()
	h.claimed(sent, g)
	return h.cause
}

// claimed notes that the store has confirmed a claim that was sent at the given instant. The caller
// holds mu.
func (h *hold) claimed(sent driver.Instant, g driver.Grant) {
	h.unclaimed = false
	h.extended(sent, g)
}

// claimFor claims h before a release with a cool-down. An error is left to the release, which finds
// out what became of h.
func (h *hold) claimFor(keep time.Duration) {
	if keep == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), driver.MaxReservation)
	defer cancel()
	_ = h.claim(ctx)
}
