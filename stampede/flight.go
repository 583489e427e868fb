package stampede

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock"
)

// flight is a value being made in this process for the callers that wait for
// it. These are its states:
//
//	state       what it means                        the function      next
//	open        callers wait for it                  waits or runs     any below
//	unattended  none waits, but one left because     goes on           open, when a caller
//	            of WaitAtMost: the next caller                         comes; landed; abandoned,
//	            wants the value                                        when invalidated
//	superseded  callers wait, but the key was        goes on           abandoned, landed
//	            invalidated: those that come now
//	            begin another flight
//	abandoned   none waits, and none will            is cancelled      landed
//	landed      done is closed, v and err are set    has returned, or  –
//	                                                 was given up
//
// Open and unattended flights are in Cache.flights. TimeLimit bounds all of
// them. Close cancels the function in every state. A flight lands whatever the
// function does, even if it panics, calls runtime.Goexit, or ignores the end of
// its context for longer than TimeLimit and Lease.
type flight struct {
	done   chan struct{}
	v      any
	err    error
	cancel context.CancelCauseFunc

	// Guarded by Cache.mu.
	waiters int
	wanted  bool // a caller left because of WaitAtMost
}

var errAbandoned = errors.New("stampede: nobody waits for the value any more")

// fly waits for the value that a flight of this process makes. If the wait is
// too long it returns what the caller had found before.
func (j *job) fly(ctx context.Context) (any, error) {
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
		j.c.leave(j.name, f, false)
		return nil, ctx.Err()
	case <-late:
	}
	j.c.leave(j.name, f, true)
	if !j.old.absent() {
		if v, ok := j.read(&j.old); ok {
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
	if insideOf(ctx).makes(c, j.name) {
		return nil, fmt.Errorf("stampede: Remember of %q inside of its own function: %w", j.key, padlock.ErrAlreadyHeld)
	}
	if f := c.flights[j.name]; f != nil {
		f.waiters++
		return f, nil
	}
	if err := c.backingOff(j.name); err != nil {
		return nil, err
	}
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f := &flight{done: make(chan struct{}), waiters: 1, cancel: cancel}
	c.flights[j.name] = f
	c.running.Add(1)
	go j.takeOff(own, f)
	return f, nil
}

// takeOff is the flight's goroutine.
func (j *job) takeOff(ctx context.Context, f *flight) {
	defer j.c.running.Done()
	defer f.cancel(nil)
	defer context.AfterFunc(j.c.ctx, func() { f.cancel(ErrClosed) })()
	defer j.c.land(j.name, f)
	f.err = errGoexit // of the Codec, say: then the next lines set nothing
	v, err := j.fill(ctx, true)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	f.v, f.err = v, err
}

// leave is called by a caller that no longer waits.
func (c *Cache) leave(name string, f *flight, wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.waiters--
	f.wanted = f.wanted || wanted
	if f.waiters == 0 && (!f.wanted || c.flights[name] != f) {
		f.cancel(errAbandoned)
		c.remove(name, f)
	}
}

func (c *Cache) land(name string, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(name, f)
	close(f.done)
}

func (c *Cache) remove(name string, f *flight) {
	if c.flights[name] == f {
		delete(c.flights, name)
	}
}

// forget keeps the callers that come from now on from joining what is under
// way, and from being served what was found before.
func (c *Cache) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.generations.of(name)++
	if f := c.flights[name]; f != nil && f.waiters == 0 {
		f.cancel(errAbandoned)
	}
	delete(c.flights, name)
	c.failed.remove(name)
	c.local.remove(name)
}
