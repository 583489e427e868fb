package padlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// promotion implements Lock.Promote.
func (h *hold) promotion(ctx context.Context) error {
	demandContext(ctx)
	start := h.watchClock()
	err := h.beginConversion(ctx)
	if err == nil {
		if h.detached { // a detached lock is always exclusive
			err = h.stayExclusive(start)
		} else {
			err = h.promote(ctx, start)
		}
		h.endConversion()
	}
	if err != nil {
		err = failed(OpPromote, h.name, err)
	}
	h.announceConversion(start, err)
	return err
}

// stayExclusive promotes a lock that is exclusive already.
func (h *hold) stayExclusive(start driver.Instant) error {
	if err := h.endCause(); err != nil {
		return err
	}
	h.locker.mu.Lock()
	defer h.locker.unlock()
	h.noteConverted(start)
	return h.cause
}

// promote asks the store until the hold is exclusive, or the caller or the hold ends. After a failure
// it withdraws the intent, unless another reader has one.
func (h *hold) promote(caller context.Context, start driver.Instant) error {
	// The wait also ends when the lock ends.
	ctx, cancel := context.WithCancel(caller)
	defer cancel()
	defer context.AfterFunc(h.context(), cancel)()
	shared := h.isShared()
	err := h.convert(ctx, false, start)
	var poll poller
	var refused error // the last refusal
	for errors.Is(err, ErrHeld) {
		refused = err
		poll.until(err)
		if h.awaitPromotion(ctx, &poll) != nil {
			break
		}
		err = h.convert(ctx, false, start)
	}
	if err == nil {
		return nil
	}
	if shared && !errors.Is(err, ErrPromotionConflict) && !errors.Is(err, errors.ErrUnsupported) {
		if h.withdrawPromotion() == nil && caller.Err() != nil && errors.Is(err, ErrUncertain) {
			err = cmp.Or(refused, caller.Err()) // the promotion that was under way is certainly undone
		}
	}
	err = callerError(caller, err)
	if end := caller.Err(); end != nil && !errors.Is(err, end) {
		err = fmt.Errorf("%w; %w", err, end)
	}
	if over := h.endCause(); over != nil && !errors.Is(err, over) {
		err = fmt.Errorf("%w; %w", over, err)
	}
	return err
}

// demotion implements Lock.Demote.
func (h *hold) demotion(ctx context.Context) error {
	demandContext(ctx)
	start := h.watchClock()
	err := errors.ErrUnsupported
	if !h.detached {
		err = h.beginConversion(ctx)
	}
	if err == nil {
		before := h.setShared(true)
		err = h.convert(ctx, true, start)
		if err != nil && !errors.Is(err, ErrUncertain) {
			h.setShared(before)
		}
		h.endConversion()
	}
	if err != nil {
		err = failed(OpDemote, h.name, callerError(ctx, err))
	}
	h.announceConversion(start, err)
	return err
}

// watchClock returns the time, or 0 if there is no observer.
func (h *hold) watchClock() driver.Instant {
	if h.events == nil {
		return 0
	}
	return h.locker.clock.Now()
}

// noteConverted notes that a Promote or Demote that began at start has succeeded. It does nothing
// if start is 0. The caller holds mu, so that no other event comes between.
func (h *hold) noteConverted(start driver.Instant) {
	if start != 0 && h.cause == nil {
		h.noteHold(Event{Kind: EventConverted, Took: h.locker.clock.Now().Sub(start)})
	}
}

// announceConversion delivers EventConverted at the end of Promote and Demote. If the call has
// succeeded, noteConverted has noted the event.
func (h *hold) announceConversion(start driver.Instant, err error) {
	if h.events == nil {
		return
	}
	h.locker.mu.Lock()
	if err != nil {
		h.noteHold(Event{Kind: EventConverted, Outcome: holdOutcome(err), Took: h.locker.clock.Now().Sub(start), Err: err})
	}
	h.locker.unlockDelivered(h.events)
}

// setShared sets the mode of h, unless h is over, and returns the previous mode.
func (h *hold) setShared(shared bool) (before bool) {
	h.locker.mu.Lock()
	defer h.locker.unlock()
	if before = h.shared; h.cause == nil {
		h.shared = shared
	}
	return before
}

// errExported is the error of a Promote or Demote of an exported lock. Such a lock cannot change
// its mode, because its key contains the mode, and Adopt relies on the key.
var errExported = fmt.Errorf("%w: the lock was exported and keeps its mode", ErrInvalid)

// beginConversion waits until no other Promote or Demote of h is under way, and then marks h as
// converting.
func (h *hold) beginConversion(ctx context.Context) error {
	if err := h.lockSettled(ctx); err != nil {
		return err
	}
	defer h.locker.unlock()
	if h.exported {
		return errExported
	}
	h.converting = make(chan struct{})
	h.locker.unlist(h)
	return nil
}

func (h *hold) endConversion() {
	h.locker.mu.Lock()
	defer h.locker.unlock()
	close(h.converting)
	h.converting = nil
}

// convert asks the store once to change the mode. If the reply is lost, convert repeats the
// request, which is safe. start is for noteConverted.
func (h *hold) convert(ctx context.Context, shared bool, start driver.Instant) error {
	c := h.locker.converter
	if !shared {
		h.awaitLateDemotion(ctx)
	}
	unsure := false // an earlier request may have succeeded
	for i := 0; ; i++ {
		r, err := h.conversion(shared)
		if err != nil {
			return err
		}
		if c == nil {
			return errors.ErrUnsupported
		}
		sent := h.locker.clock.Now()
		g, err := c.Convert(ctx, r)
		if err == nil {
			err = h.locker.checkLease(h.detached, &g)
		}
		if err == nil {
			return h.converted(shared, sent, g, start)
		}
		h.noticeLoss(err)
		if definite(err) && (!unsure || settled(err)) {
			return err
		}
		unsure = true
		h.noteLateRequest(shared)
		if i == len(retryAfter) || h.locker.sleep(ctx, retryAfter[i]) != nil {
			return withUncertain(err)
		}
	}
}

// If there is no reply to a demotion, its request may still be on its way. A promotion that
// overtakes it would be undone when it arrives, and this process would not know. So a promotion
// waits for lateRequestDelay, as a clean-up does.

func (h *hold) noteLateRequest(shared bool) {
	if shared {
		h.locker.mu.Lock()
		h.demotionUntil = h.locker.clock.Now().Add(lateRequestDelay)
		h.locker.mu.Unlock()
	}
}

func (h *hold) awaitLateDemotion(ctx context.Context) {
	h.locker.mu.Lock()
	until := h.demotionUntil
	h.locker.mu.Unlock()
	if d := until.Sub(h.locker.clock.Now()); d > 0 {
		_ = h.locker.sleep(ctx, d) // if ctx ends, the request that follows fails
	}
}

// settled is called if the reply to a conversion was lost, and the repeated conversion failed with
// err. It returns true if err shows that the mode is unchanged, or that the lock is lost.
// ErrUnavailable does not show that, because the first request may have changed the mode.
func settled(err error) bool {
	return errors.Is(err, ErrHeld) || errors.Is(err, ErrPromotionConflict) || lossIn(err) != nil
}

// conversion returns the request for a conversion to the given mode, or an error if h is over or
// being released.
func (h *hold) conversion(shared bool) (driver.Request, error) {
	err := h.endCause()
	if err == nil && h.released.Load() != nil { // the release is waiting for a renewal to end
		err = ErrReleased
	}
	if err != nil {
		return driver.Request{}, err
	}
	return h.request(shared), nil
}

func (h *hold) converted(shared bool, sent driver.Instant, g driver.Grant, start driver.Instant) error {
	h.locker.mu.Lock()
	defer h.locker.unlock()
	if h.cause != nil {
		return h.cause
	}
	h.shared, h.convertedAt, h.fence = shared, h.locker.clock.Now(), g.Fence
	h.locker.renewer.watch(h, g.Bound)
	h.recordExtension(sent, g, h.ttl)
	h.noteConverted(start)
	return nil
}

// awaitPromotion waits until another try may succeed. Each try tells the store that h waits for its
// promotion. The store forgets that after driver.MaxIntent, so awaitPromotion waits for at most
// half of that time.
func (h *hold) awaitPromotion(ctx context.Context, poll *poller) error {
	r, err := h.conversion(false)
	if err != nil {
		return err
	}
	if waiter := h.locker.waiter; waiter != nil {
		short, cancel := context.WithCancel(ctx)
		defer cancel()
		defer h.locker.clock.AfterFunc(driver.MaxIntent/2, cancel)()
		_, err = waiter.Wait(short, r, false)
		if err == nil || short.Err() != nil {
			poll.slowDown(ctx, h.locker)
			return ctx.Err()
		}
	}
	// The store cannot wait for h at all, or cannot wait now, so the next try comes after a pause.
	return h.locker.sleep(ctx, poll.next())
}

// withdrawPromotion asks the store to make the lock shared. Then new readers get in again, and a
// promotion whose reply was lost is undone. If the request does not reach the store, new readers
// get in when driver.MaxIntent is over.
func (h *hold) withdrawPromotion() error {
	if err := h.endCause(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), driver.MaxIntent)
	defer cancel()
	return h.convert(ctx, true, 0)
}
