package padlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Close releases all locks. It waits for calls under way and for releases in the background
// (clean-ups). Then it closes the store if the Locker owns it (see New). Callers that wait for a
// lock get ErrClosed. Exported locks stay held in the store, but this process stops renewing and
// using them.
//
// Close ends the contexts of the functions that Do runs, with the cause ErrClosed, and waits for
// these functions to return. Such a function must not call Close, because Close would wait for it.
//
// If ctx ends during Close, or has ended before, Close goes on for up to one more second. That is
// enough to release every lock if the store replies. If locks or clean-ups are left after that
// second, Close returns the error of ctx. These locks end with their leases. If the store waits for
// servers that are silent, it closes in the background.
//
// A second Close waits until the first Close is done, and returns the same result. If the ctx of
// the second Close ends first, the second Close returns the error of that ctx, and the first Close
// goes on.
func (l *Locker) Close(ctx context.Context) error {
	l.demand(ctx)
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	l.mu.Unlock()
	if !first {
		return l.awaitClose(ctx)
	}
	if err := l.close(ctx); err != nil {
		l.closeErr = &Error{OpClose, "", err}
	}
	close(l.closeDone)
	return l.closeErr
}

// awaitClose waits for the first Close and returns its result. If ctx ends first, awaitClose
// returns the error of ctx.
func (l *Locker) awaitClose(ctx context.Context) error {
	select {
	case <-l.closeDone:
		return l.closeErr
	default:
	}
	select {
	case <-l.closeDone:
		return l.closeErr
	case <-ctx.Done():
		return &Error{OpClose, "", ctx.Err()}
	}
}

func (l *Locker) close(ctx context.Context) error {
	l.beginClose(ErrClosed)
	l.unclosed.Stop()
	ctx, cancel := withGrace(ctx)
	defer cancel(nil)
	l.renewer.stopWork()
	err := l.renewer.releaseAll(ctx)
	// drain comes before awaitJobs, because a call that drain waits for may begin a clean-up.
	err = joinErrors(err, l.drain(ctx))
	err = joinErrors(err, l.cleaner.awaitJobs(ctx))
	l.renewer.stop(ctx)
	if !l.cfg.keepStore {
		err = joinErrors(err, l.closeStore(ctx))
	}
	return err
}

// closeStore closes the store, which may wait for servers that are silent. If ctx ends meanwhile,
// the store has storeGrace left, and then goes on in the background.
func (l *Locker) closeStore(ctx context.Context) error {
	closed := make(chan error, 1)
	go func() { closed <- l.store.Close() }()
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
	}
	over := time.NewTimer(storeGrace)
	defer over.Stop()
	select {
	case err := <-closed:
		return err
	case <-over.C:
		return context.Cause(ctx)
	}
}

// closeGrace is how long Close goes on after its context has ended. Programs often call Close with
// a context that the shutdown signal has already ended.
const closeGrace = time.Second

// storeGrace is how long the store may then take to close its connections.
const storeGrace = 100 * time.Millisecond

// withGrace returns a context that ends closeGrace later than ctx. Its cause is the error of ctx.
func withGrace(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(closeGrace, func() { cancel(ctx.Err()) })
		context.AfterFunc(longer, func() { t.Stop() })
	})
	return longer, func(cause error) { stop(); cancel(cause) }
}

// drain waits until no call is taking or releasing a lock and no function of Do is running. Close
// calls it after releaseAll. A Release that begins later finds its lock released already.
func (l *Locker) drain(ctx context.Context) error {
	drained := make(chan struct{})
	l.mu.Lock()
	if l.calls.running > 0 {
		l.calls.drained = drained
	} else {
		close(drained)
	}
	l.mu.Unlock()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stopWork ends the contexts of the functions that Do runs. When such a function returns, Do
// releases its lock.
func (k *renewer) stopWork() {
	k.l.mu.Lock()
	defer k.l.unlock()
	for _, e := range k.heap {
		h := e.h
		if h.within && h.cancel != nil {
			h.cancel(failed(OpHold, h.name, ErrClosed))
		}
	}
}

// releaseAll releases all locks, several at a time. It skips exported locks and the locks of Do.
func (k *renewer) releaseAll(ctx context.Context) error {
	k.l.mu.Lock()
	var held []*hold
	for _, e := range k.heap {
		h := e.h
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
				errs <- held[i-1].endByClose(ctx)
			}
		}()
	}
	var err error
	for i := range held {
		select {
		case e := <-errs:
			err = joinErrors(err, e)
		case <-ctx.Done():
			left := fmt.Errorf("%d locks were not released and end with their leases: %w", len(held)-i, context.Cause(ctx))
			return joinErrors(err, left)
		}
	}
	return err
}

// endByClose releases h. A stand-in may be lost because the caller's token has just replaced it.
// The call with Token reports what became of the lock.
func (h *hold) endByClose(ctx context.Context) error {
	err := h.giveUp(ctx, nil)
	if h.hidden && errors.Is(err, ErrLost) {
		return nil
	}
	return err
}

// stop ends the renewer, and waits for that until ctx ends. The locks that are left in the heap
// were exported or could not be released in time. Nothing renews them any more, so stop ends them
// in this process with ErrClosed.
func (k *renewer) stop(ctx context.Context) {
	k.l.mu.Lock()
	for len(k.heap) > 0 {
		k.l.endHold(k.heap[0].h, ErrClosed)
	}
	k.stopped = true
	k.armed = farFuture
	if k.disarm != nil {
		k.disarm()
	}
	delivered := k.l.unlockApart()
	k.abort() // nothing needs the renewals that are under way
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		k.running.Wait()
		if delivered != nil {
			<-delivered
		}
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
	}
}
