package padlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Close releases what is held, makes waiters return ErrClosed, waits for
// clean-ups and closes the store. It ends the contexts of functions that Do
// runs (cause ErrClosed) and waits for them, so it is not to be called by one.
// Locks that were exported stay taken in the store; here they are over.
//
// When ctx ends first, Close returns its error, and what is left lapses with
// its lease. A second Close does nothing.
func (l *Locker) Close(ctx context.Context) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	drained := make(chan struct{})
	if l.attempts > 0 {
		l.drained = drained
	} else {
		close(drained)
	}
	l.mu.Unlock()
	l.beginClose(ErrClosed)
	l.renewer.stopWork()
	err := l.renewer.releaseAll(ctx)
	select {
	case <-drained: // what they left behind is with the cleaner now
	case <-ctx.Done():
		err = errors.Join(err, ctx.Err())
	}
	err = errors.Join(err, l.cleaner.wait(ctx))
	l.renewer.stop()
	if !l.cfg.sharedStore {
		err = errors.Join(err, l.store.Close())
	}
	if err != nil {
		return &Error{"close", "", err}
	}
	return nil
}

// stopWork tells the functions of Do to stop. Each releases its lock when it
// has.
func (k *renewer) stopWork() {
	k.l.mu.Lock()
	defer k.l.unlock()
	for _, h := range k.heap {
		if h.within && h.cancel != nil {
			h.cancel(failed("hold", h.name, ErrClosed))
		}
	}
}

// releaseAll releases what is held, a few at a time, but for what Do holds.
func (k *renewer) releaseAll(ctx context.Context) error {
	k.l.mu.Lock()
	var held []*hold
	for _, h := range k.heap {
		if !h.exported && !h.within {
			held = append(held, h)
		}
	}
	k.l.unlock()
	if len(held) == 0 {
		return nil
	}
	errs := make(chan error, len(held))
	var next atomic.Int64
	for range min(len(held), maxRenewers) {
		go func() {
			for i := next.Add(1); i <= int64(len(held)) && ctx.Err() == nil; i = next.Add(1) {
				errs <- held[i-1].giveBack(ctx, held[i-1].coolDown)
			}
		}()
	}
	var err error
	for i := range held {
		select {
		case e := <-errs:
			err = errors.Join(err, e)
		case <-ctx.Done():
			left := fmt.Errorf("%d locks are left to lapse: %w", len(held)-i, ctx.Err())
			return errors.Join(err, left)
		}
	}
	return err
}

// stop ends the renewer. Locks that are left were exported, or could not be
// released in time: nobody renews them any more, so they are over here.
func (k *renewer) stop() {
	k.l.mu.Lock()
	for len(k.heap) > 0 {
		k.l.end(k.heap[0], ErrClosed)
	}
	k.stopped = true
	k.armed = never
	if k.disarm != nil {
		k.disarm()
	}
	k.l.unlock()
	k.running.Wait()
}
