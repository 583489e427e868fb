package stampede

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/padlock-go/padlock"
)

// flight is a value being made in this process, and those who wait for it.
type flight struct {
	done    chan struct{}
	v       any
	err     error
	waiters int // guarded by Cache.mu
	cancel  context.CancelCauseFunc
}

var errAbandoned = errors.New("stampede: nobody waits for the value any more")

// fly waits for the value that somebody in this process makes, or has it made.
// old is what was found, to be served when the wait is too long.
func (j *job) fly(ctx context.Context, old Entry) (any, error) {
	f, err := j.board(ctx)
	if err != nil {
		return nil, err
	}
	var late <-chan time.Time
	if j.s.waitAtMost > 0 {
		t := time.NewTimer(j.s.waitAtMost)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-f.done:
		return f.v, f.err
	case <-ctx.Done():
		j.c.leave(j.key, f)
		return nil, ctx.Err()
	case <-late:
	}
	j.c.leave(j.key, f)
	if !old.absent() {
		if v, ok := j.read(&old); ok {
			return v, nil
		}
	}
	return nil, fmt.Errorf("stampede: the value of %q is not there after %v: %w", j.key, j.s.waitAtMost, padlock.ErrHeld)
}

// board joins the flight of the key, or begins one.
func (j *job) board(ctx context.Context) (*flight, error) {
	c := j.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if f := c.flights[j.key]; f != nil {
		f.waiters++
		return f, nil
	}
	if b, ok := c.failed[j.key]; ok && time.Now().Before(b.until) {
		return nil, b.err
	}
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f := &flight{done: make(chan struct{}), waiters: 1, cancel: cancel}
	c.flights[j.key] = f
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		defer cancel(nil)
		defer context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })()
		f.v, f.err = j.fill(own, waitLong)
		c.land(j.key, f)
	}()
	return f, nil
}

// waitLong leaves it to the context how long the lock is waited for.
const forever = time.Duration(1<<63 - 1)

var waitLong = padlock.Wait(forever)

// leave is called by a waiter that goes away. When the last has left, the
// function is told; who comes then begins anew.
func (c *Cache) leave(key string, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.waiters--; f.waiters == 0 {
		f.cancel(errAbandoned)
		if c.flights[key] == f {
			delete(c.flights, key)
		}
	}
}

func (c *Cache) land(key string, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[key] == f {
		delete(c.flights, key)
	}
	close(f.done)
}

// forget lets those who come from now on not join what is under way.
func (c *Cache) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.flights, key)
	delete(c.failed, key)
	delete(c.local, key)
}

// call runs fn, and makes an error of a panic.
func (j *job) call(ctx context.Context) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, &PanicError{p, debug.Stack()}
		}
	}()
	return j.fn(ctx)
}

func (c *Cache) backOff(key string, err error, d time.Duration) {
	if d <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if len(c.failed) >= maxRemembered {
		for k, b := range c.failed {
			if !now.Before(b.until) {
				delete(c.failed, k)
			}
		}
	}
	if len(c.failed) < maxRemembered {
		c.failed[key] = failure{err, now.Add(d)}
	}
}

// refresh renews a value in the background, if nobody is at it: neither here,
// nor, as far as was seen a moment ago, elsewhere.
func (c *Cache) refresh(j *job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.closed || len(c.refreshing) >= j.s.maxBehind || now.Before(c.refreshing[j.key]) {
		return
	}
	if b, ok := c.failed[j.key]; ok && now.Before(b.until) {
		return
	}
	c.refreshing[j.key] = now.Add(365 * 24 * time.Hour)
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		_, err := j.fill(c.ctx, padlock.Wait(0))
		if !errors.Is(err, padlock.ErrHeld) && c.ctx.Err() == nil {
			j.report(err)
		}
		c.refreshed(j.key, errors.Is(err, padlock.ErrHeld))
	}()
}

// heldPause is how long a key that somebody else renews is left alone.
const heldPause = 50 * time.Millisecond

func (c *Cache) refreshed(key string, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.refreshing, key)
	if held {
		c.refreshing[key] = time.Now().Add(heldPause)
		time.AfterFunc(heldPause, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if until, ok := c.refreshing[key]; ok && !time.Now().Before(until) {
				delete(c.refreshing, key)
			}
		})
	}
}
