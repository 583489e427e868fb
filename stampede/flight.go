package stampede

import (
	"context"
	"errors"
)

// flight is a value that this process makes for the callers that wait for it. These are its states:
//
//	state       meaning                                  the function      next states
//	open        callers wait for the value               waits for the     any state below
//	                                                     lock, or runs
//	unattended  no caller waits, but a caller left       runs on           open, when a caller comes;
//	            because of MaxWait; the next caller                        abandoned, when the key is
//	            will want the value                                        invalidated; landed
//	superseded  callers wait, but the key was            runs on           abandoned, when the last
//	            invalidated; callers that come now                         caller leaves; landed
//	            begin another flight
//	abandoned   no caller waits, and none can join       is cancelled      landed
//	landed      done is closed, and v and err are set    has returned, or  none
//	                                                     was given up
//
// Open and unattended flights are in core.flights. TimeLimit bounds all of them. Close cancels the
// function in every state. A flight lands whatever the function does, even if it panics, calls
// runtime.Goexit, or ignores the end of its context for longer than TimeLimit and Lease.
type flight struct {
	done   chan struct{}
	v      any
	err    error
	cancel context.CancelCauseFunc

	// Guarded by core.mu.
	waiters int
	wanted  bool // a caller left because of MaxWait, so the value is still wanted
}

var errAbandoned = errors.New("stampede: nobody waits for the value any more")

// leaveFlight is called when a caller of the flight no longer waits. If the caller left because of
// MaxWait, stillWanted is true.
func (c *core) leaveFlight(name string, f *flight, stillWanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.waiters--
	f.wanted = f.wanted || stillWanted
	if f.waiters == 0 && (!f.wanted || c.flights[name] != f) {
		f.cancel(errAbandoned)
		c.remove(name, f)
	}
}

func (c *core) land(name string, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(name, f)
	close(f.done)
}

func (c *core) remove(name string, f *flight) {
	if c.flights[name] == f {
		delete(c.flights, name)
	}
}

// forget prevents new callers from joining the current flight of the key. It also removes the key's
// local copy and its failure.
func (c *core) forget(name string) {
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
