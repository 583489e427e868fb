package soak

import (
	"context"
	"time"
)

// export stops work and offers the key; then it waits to be told that somebody
// has taken over, and releases, which must not touch the new holder.
func (w *worker) export(ctx context.Context, h *held) bool {
	if !w.offer(ctx, h) {
		return false
	}
	pause(ctx, w.dice.between(0, 100*time.Millisecond))
	w.release(h)
	return true
}

// exportBeside demotes the lock and gives its key away, with both under way at
// the same time. The adopter must not think that it is alone when readers
// are in.
func (w *worker) exportBeside(ctx context.Context, h *held) {
	done := make(chan bool)
	early := w.dice.between(0, 2*time.Millisecond)
	go func() {
		pause(ctx, early)
		done <- w.offer(ctx, h)
	}()
	w.demote(ctx, h)
	<-done
	pause(ctx, w.dice.between(0, 100*time.Millisecond))
	w.release(h)
}

// offer exports the key, and reports whether that went well.
func (w *worker) offer(ctx context.Context, h *held) bool {
	begun := now()
	key, err := h.Export(ctx)
	if err != nil {
		return false
	}
	text, err := key.MarshalText()
	if err != nil {
		return false
	}
	h.over.Store(true)
	w.log(Event{Op: Exported, Name: h.Name(), Hold: h.id, Call: begun})
	w.ref.Offer(Key{string(text), h.id})
	return true
}

// key takes an offered key now and then.
func (w *worker) key() (Key, bool) {
	if w.dice.load.HandOff == 0 || !w.dice.percent(20) {
		return Key{}, false
	}
	return w.ref.Take()
}
