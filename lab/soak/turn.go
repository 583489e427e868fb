package soak

import (
	"context"

	"github.com/padlock-go/padlock"
)

// work does one turn after another until the run is over or ctx ends.
func (w *worker) work(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		if i%4 == 0 && w.monitor.Over() {
			return
		}
		t := w.dice.draw()
		if key, ok := w.offeredKey(); ok {
			w.adopt(ctx, key, t)
			continue
		}
		if t.several {
			w.takeSeveral(ctx, t)
			continue
		}
		if h := w.take(ctx, t); h != nil {
			w.useLock(ctx, h)
		}
	}
}

// useLock works under the lock h. Then it releases the lock, or hands it over to another worker.
func (w *worker) useLock(ctx context.Context, h *held) {
	switch {
	case h.Shared() && h.convert:
		w.readShared(h)
		if w.promote(ctx, h) {
			w.change(h)
		}
	case h.Shared():
		w.readShared(h)
	default:
		w.change(h)
		if h.convert && h.handOff {
			w.exportDuringDemotion(ctx, h)
			return
		}
		if h.convert && w.demote(ctx, h) {
			w.readShared(h)
		}
	}
	if h.handOff && w.export(ctx, h) {
		return
	}
	if h.evict && w.evict(ctx, h) {
		return
	}
	w.release(h)
	if h.own { // the name that was released must be free
		if next := w.takeFree(ctx, h.Name(), h.turn, Event{Call: clockNow(), Hold: h.id, Err: "I8 released, and held all the same"}, false); next != nil {
			w.release(next)
		}
	}
}

func (w *worker) adopt(ctx context.Context, k Key, t turn) {
	key, err := padlock.ParseKey(k.Text)
	if err != nil {
		w.log(Event{Op: Broken, Hold: k.Hold, Err: "I2 a key cannot be read: " + err.Error()})
		return
	}
	t.name, t.own, t.handOff, t.pause, t.fixed, t.convert = key.Name(), false, false, false, false, false
	t.asks, t.manner, t.evict, t.atLeast, t.limit, t.slots, t.several = false, neverLooks, false, 0, 0, 0, false
	t.cool = 0 // after a shared hold, other readers may enter during the cool-down
	begun := w.logAsk(t.name, 0)
	lock, err := w.locker.Adopt(ctx, key, padlock.TTL(t.ttl))
	if err != nil {
		w.logRefusal(ctx, begun, t, err)
		return
	}
	w.useLock(ctx, w.got(Event{Op: Adopted, Call: begun, Other: k.Hold}, lock, t))
}
