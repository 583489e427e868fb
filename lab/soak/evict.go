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
	next := w.takeFree(ctx, h.Name(), h.turn, Event{Call: begun, Hold: h.id, Err: "I8 " + brokenAndHeld}, true)
	if next == nil {
		return
	}
	defer w.release(next)
	if fence == 0 {
		return
	}
	asking, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := w.locker.Break(asking, h.Name(), fence); err == nil {
		w.log(Event{Op: Broken, Call: begun, Name: h.Name(), Hold: h.id, Err: "I8 a break with the fence of an earlier hold went through"})
	}
}

// takeFree takes a name that only this worker uses, and that must be free. If it is held, takeFree
// logs the violation, whose text begins with that of the event. mayDoubt excuses a refusal that is
// uncertain at the same time.
func (w *worker) takeFree(ctx context.Context, name string, t turn, broken Event, mayDoubt bool) *held {
	begun := clockNow()
	lock, err := w.locker.TryAcquire(ctx, name, padlock.TTL(t.ttl))
	if err == nil {
		t.own, t.fixed, t.evict, t.detached, t.limit, t.manner = false, false, false, false, 0, neverLooks
		return w.got(Event{Op: Acquired, Call: begun}, lock, t)
	}
	t.name, t.try = name, true
	w.logRefusal(ctx, begun, t, err)
	if errors.Is(err, padlock.ErrHeld) && !(mayDoubt && errors.Is(err, padlock.ErrUncertain)) {
		broken.Op, broken.Name, broken.Err = Broken, name, broken.Err+": "+err.Error()
		w.log(broken)
	}
	return nil
}
