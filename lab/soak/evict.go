package soak

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock"
)

const brokenAndHeld = "its lock was broken, and it is held all the same"

// evict breaks a lock that this worker holds on a name of its own. It checks that the break ended
// that hold and no other. It returns false if the store cannot break locks.
func (w *worker) evict(ctx context.Context, h *held) bool {
	asking, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	fence := h.Fence()
	h.over.Store(true)
	w.logBegin(h, Evicted)
	e := Event{Op: Evicted, Name: h.Name(), Hold: h.id, Call: clockNow()}
	_, err := w.locker.Break(asking, h.Name(), fence)
	e.At, e.Err = clockNow(), class(err)
	w.log(e)
	if errors.Is(err, errors.ErrUnsupported) {
		h.over.Store(false)
		return false
	}
	defer w.release(h)
	if err == nil {
		w.afterBreak(ctx, h, fence)
	}
	return true
}

// afterBreak is called after a hold was broken. It takes the name, which must be free. Then it
// calls Break again with the fence of the old hold. This call must not end the new hold.
func (w *worker) afterBreak(ctx context.Context, h *held, fence uint64) {
	begun := clockNow()
	broken := func(what string) {
		w.log(Event{Op: Broken, Call: begun, Name: h.Name(), Hold: h.id, Err: "I8 " + what})
	}
	lock, err := w.locker.TryAcquire(ctx, h.Name(), padlock.TTL(h.ttl))
	if err != nil {
		w.logRefusal(ctx, begun, h.turn, err)
		if errors.Is(err, padlock.ErrHeld) && !errors.Is(err, padlock.ErrUncertain) {
			broken(brokenAndHeld + ": " + err.Error())
		}
		return
	}
	t := h.turn
	t.own, t.fixed, t.evict, t.detached = false, false, false, false
	next := w.got(Event{Op: Acquired, Call: begun}, lock, t)
	defer w.release(next)
	if fence == 0 {
		return
	}
	asking, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := w.locker.Break(asking, h.Name(), fence); err == nil {
		broken("a break with the fence of an earlier hold went through")
	}
}
