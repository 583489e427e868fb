package soak

import (
	"context"
	"time"
)

// export stops the work, offers the key, waits a while, and releases the lock. If another worker
// has adopted the key meanwhile, this release must not end that worker's hold.
func (w *worker) export(ctx context.Context, h *held) bool {
	if !w.offer(ctx, h) {
		return false
	}
	pause(ctx, w.dice.between(0, 100*time.Millisecond))
	w.release(h)
	return true
}

// exportDuringDemotion demotes the lock and offers its key to other workers at the same time. A
// worker that adopts the key must not get an exclusive lock while the lock has readers.
func (w *worker) exportDuringDemotion(ctx context.Context, h *held) {
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

// offer exports the key and reports whether that succeeded.
func (w *worker) offer(ctx context.Context, h *held) bool {
	begun := clockNow()
	key, err := h.Export(ctx)
	if err != nil {
		return false
	}
	h.over.Store(true)
	w.log(Event{Op: Exported, Name: h.Name(), Hold: h.id, Call: begun})
	w.monitor.Offer(Key{key.Text(), h.id})
	return true
}

// offeredKey takes a key that another worker has offered, if there is one. It looks for a key in
// only 20 % of the turns.
func (w *worker) offeredKey() (Key, bool) {
	if w.dice.load.HandOff == 0 || !w.dice.percent(20) {
		return Key{}, false
	}
	return w.monitor.Take()
}
