package padlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Claim takes name for d, and reports whether this caller has got it. Nobody renews or releases a
// claim: the name stays taken until d is over, even if this process ends, and then it is free
// again. So one of many callers does something once within d, such as sending a message that may be
// delivered twice. A claim costs one request, on most stores.
//
// d is from 100 ms to 24 h, and Claim never waits. If another holder has the name, or it cools
// down, Claim returns false and no error. The other errors are those of TryAcquire. After
// ErrUncertain, the claim may have been made, and nobody may know. If the store has no cool-downs
// (see Guarantees), the error is errors.ErrUnsupported. Of the options that were given to New, only
// Label has an effect.
func (l *Locker) Claim(ctx context.Context, name string, d time.Duration) (bool, error) {
	if err := l.checkClaim(d); err != nil {
		return false, failed(OpAcquire, name, err)
	}
	start := l.clock.Now()
	h, err := l.acquire(ctx, name, method{op: OpAcquire, once: true}, []Option{l.claimFor(d)})
	switch {
	case err == nil:
		h.leaveClaim()
		return true, nil
	case !errors.Is(err, ErrHeld) || errors.Is(err, ErrUncertain):
		return false, err
	case l.clock.Now().Sub(start) >= d:
		// A request without a reply may have made the claim, which was over when the request was
		// repeated.
		return false, failed(OpAcquire, name, withUncertain(errors.Unwrap(err)))
	}
	return false, nil
}

// checkClaim checks the time of a claim.
func (l *Locker) checkClaim(d time.Duration) error {
	if d == 0 { // CheckKeep takes it for "no cool-down"
		return fmt.Errorf("%w: Claim is 0s, at least %v is needed", ErrInvalid, max(driver.MinTTL, l.guarantees.MinTTL))
	}
	return driver.CheckKeep("Claim", d, &l.guarantees)
}

// claimFor returns the option with which Claim takes a lock.
func (l *Locker) claimFor(d time.Duration) Option {
	ttl := max(d, driver.MinTTL, l.guarantees.MinTTL)
	if most := l.guarantees.MaxTTL; most > 0 {
		ttl = min(ttl, most)
	}
	return option(func(s *settings) {
		*s = settings{ttl: min(ttl, driver.MaxTTL), label: s.label, holdAtLeast: d, noRenewal: true}
	})
}

// leaveClaim ends h in this process. The store keeps the name until the time of HoldAtLeast is
// over. If it binds its locks to this process or a connection, leaveClaim releases the hold there.
func (h *hold) leaveClaim() {
	l := h.locker
	if l.guarantees.Bound != driver.BoundToNothing {
		_ = h.giveUp(context.Background(), nil) // the claim was made, whatever becomes of the hold
		return
	}
	if !h.released.CompareAndSwap(nil, releasedWell) {
		return // Close releases it
	}
	l.mu.Lock()
	events := h.events
	l.endHold(h, ErrReleased)
	l.unlock()
	if events != nil {
		h.announceRelease(nil, NoHandOver)
	}
}
