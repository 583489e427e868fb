package stampede

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock"
)

// getValue returns a local copy or the stored value, if it can be served. Otherwise it waits until
// this process has made the value.
func (j *job) getValue(ctx context.Context) (any, error) {
	if v, ok := j.c.fromLocal(j.name); ok {
		j.c.tally.hits.Add(1)
		return v, nil
	}
	var began time.Time
	if j.s.maxWait < forever {
		began = time.Now()
	}
	e, err := j.loadOrSpare(ctx)
	if err != nil && (j.s.strict || ctx.Err() != nil) {
		return nil, err
	}
	if err != errSilent {
		j.s.report(ctx, j.key, err)
	}
	j.old = e
	switch {
	case e.fresh():
		if v, ok := j.read(ctx, &e); ok {
			j.c.tally.hits.Add(1)
			if j.drawEarly(&e.Entry) {
				j.isEarly, j.seenAge = true, e.Age
				j.c.refresh(ctx, j)
			}
			return v, nil
		}
	case e.within(j.s.stale), e.within(j.s.staleIfError) && j.c.failing(j.name, e.Age):
		if v, ok := j.read(ctx, &e); ok {
			j.c.tally.stale.Add(1)
			j.c.refresh(ctx, j)
			return v, nil
		}
	}
	j.c.tally.misses.Add(1)
	return j.awaitPending(ctx, began)
}

// drawEarly decides at random whether a fresh value is renewed now.
func (j *job) drawEarly(e *Entry) bool {
	if j.s.early <= 0 {
		return false
	}
	ahead := float64(e.Took) * j.s.early * -math.Log(1-rand.Float64())
	return ahead >= float64(e.Fresh-e.Age)
}

// awaitPending waits for the pendingValue of the key. With MaxWait, the argument says when the call
// began. When the call has taken MaxWait, awaitPending returns the stale value that the caller
// found before, if there is one.
func (j *job) awaitPending(ctx context.Context, began time.Time) (any, error) {
	f, err := j.joinPending(ctx)
	if err != nil {
		return nil, err
	}
	var late <-chan time.Time
	if j.s.maxWait < forever {
		t := time.NewTimer(j.s.maxWait - time.Since(began))
		defer t.Stop()
		late = t.C
	}
	select {
	case <-f.done:
		return f.v, f.err
	case <-ctx.Done():
		j.c.leavePending(j.name, f, false)
		if insideOf(ctx) != nil { // the two functions may wait for each other
			return nil, fmt.Errorf("stampede: waiting for the value of %q: %w", j.key, ctx.Err())
		}
		return nil, ctx.Err()
	case <-late:
	}
	j.c.leavePending(j.name, f, true)
	if !j.old.absent() {
		if v, ok := j.read(ctx, &j.old); ok {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%w: the value of %q is not there after %v", ErrNotReady, j.key, j.s.maxWait)
}

// joinPending joins the pendingValue of the key. If there is none, joinPending begins one.
func (j *job) joinPending(ctx context.Context) (*pendingValue, error) {
	c := j.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if insideOf(ctx).makes(c, j.name) {
		return nil, fmt.Errorf("stampede: Get of %q inside its own function: %w", j.key, padlock.ErrAlreadyHeld)
	}
	if f := c.pending[j.name]; f != nil {
		f.waiters++
		return f, nil
	}
	if err := c.backingOff(j.name); err != nil {
		return nil, err
	}
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f := &pendingValue{done: make(chan struct{}), waiters: 1, cancel: cancel}
	c.pending[j.name] = f
	c.running.Add(1)
	go j.runPending(own, f)
	return f, nil
}

// runPending makes the value of f. It runs in a goroutine of its own.
func (j *job) runPending(ctx context.Context, f *pendingValue) {
	defer j.c.running.Done()
	defer f.cancel(nil)
	defer context.AfterFunc(j.c.ctx, func() { f.cancel(ErrClosed) })()
	defer j.c.finishPending(j.name, f)
	f.err = errGoexit // a Goexit, for example in the Codec, skips the next lines
	v, err := j.fill(ctx, true)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	f.v, f.err = v, err
}
