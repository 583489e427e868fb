package padlock

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/driver"
)

// Promote makes a shared lock exclusive, with a new fence. It waits until the
// other readers have left, as long as ctx lets it; new readers are kept out
// meanwhile. If another reader is being promoted already, each would wait for
// the other: the answer is ErrPromotionConflict at once.
//
// A failed promotion leaves the shared lock as it was, or the error answers
// errors.Is for ErrLost and the lock is over. Where Guarantees().Promotion is
// Regrant, somebody else may have come between: then the fence has grown by
// more than this grant, and what was read before must be read again. Promoting
// an exclusive lock does nothing.
func (h *Lock) Promote(ctx context.Context) error {
	h.op.Lock()
	defer h.op.Unlock()
	// The wait ends with the lock too.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hold := h.Context()
	defer context.AfterFunc(hold, func() { cancel(context.Cause(hold)) })()
	err := h.convert(ctx, false)
	poll := poller{l: h.locker}
	for errors.Is(err, ErrHeld) {
		poll.until(err)
		if wait := h.awaitPromotion(ctx, &poll); wait != nil {
			err = &joined{err, wait}
			break
		}
		err = h.convert(ctx, false)
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, ErrPromotionConflict) && !errors.Is(err, errors.ErrUnsupported) {
		h.withdrawPromotion()
	}
	if over := h.over(); over != nil && !errors.Is(err, ErrReleased) && !errors.Is(err, ErrLost) {
		err = &joined{over, err}
	}
	return failed("promote", h.name, err)
}

// Demote makes an exclusive lock shared, without a moment in which it is
// neither where Guarantees().Promotion is Atomic, and keeps its fence.
// Demoting a shared lock does nothing.
func (h *Lock) Demote(ctx context.Context) error {
	h.op.Lock()
	defer h.op.Unlock()
	if err := h.convert(ctx, true); err != nil {
		return failed("demote", h.name, err)
	}
	return nil
}

// convert makes one try. Asking again is safe, so a lost reply is one more.
func (h *Lock) convert(ctx context.Context, shared bool) error {
	c, ok := h.locker.store.(driver.Converter)
	if !ok {
		return errors.ErrUnsupported
	}
	for i := 0; ; i++ {
		r, err := h.conversion(shared)
		if err != nil {
			return err
		}
		sent := h.locker.clock.Now()
		g, err := c.Convert(ctx, r)
		if err == nil {
			return h.converted(shared, sent, g)
		}
		h.noticeLoss(err)
		if definite(err) || i == len(retryAfter) || h.locker.sleep(ctx, retryAfter[i]) != nil {
			return err
		}
	}
}

// conversion is the request as the lock stands.
func (h *Lock) conversion(shared bool) (driver.Request, error) {
	if err := h.over(); err != nil {
		return driver.Request{}, err
	}
	l := h.locker
	return driver.Request{
		Name: h.name, Token: h.token, Shared: shared, TTL: h.ttl,
		Holder: driver.Holder{Host: l.host, PID: l.pid, Label: h.label, Plan: h.plan},
	}, nil
}

func (h *Lock) converted(shared bool, sent driver.Instant, g driver.Grant) error {
	h.locker.mu.Lock()
	defer h.locker.unlock()
	if h.cause != nil {
		return h.cause
	}
	h.shared, h.fence = shared, g.Fence
	h.extended(sent, g)
	return nil
}

// awaitPromotion waits until it is worth trying again, and at most half the
// time for which the intent to be promoted is remembered.
func (h *Lock) awaitPromotion(ctx context.Context, poll *poller) error {
	waiter, ok := h.locker.store.(driver.Waiter)
	r, err := h.conversion(false)
	if !ok || err != nil {
		return errors.Join(err, h.locker.sleep(ctx, poll.next()))
	}
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	defer h.locker.clock.AfterFunc(driver.MaxIntent/2, cancel)()
	switch _, err = waiter.Wait(short, r, false); {
	case err == nil, short.Err() != nil:
		return ctx.Err()
	}
	// It cannot wait, or not now.
	return h.locker.sleep(ctx, poll.next())
}

// withdrawPromotion lets new readers in again, and undoes a promotion whose
// reply was lost. If the store cannot be told, the intent lapses by itself.
func (h *Lock) withdrawPromotion() {
	if h.over() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), driver.MaxIntent)
	defer cancel()
	h.convert(ctx, true)
}
