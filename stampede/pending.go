package stampede

import (
	"context"
	"errors"
)

// pendingValue is a value that this process is making for the callers that wait for it. All callers
// of one key share a pendingValue, and the function runs once for all of them. The states are:
//
//	state       meaning                                  the function      next states
//	open        callers wait for the value               waits for the     any state below
//	                                                     lock, or runs
//	unattended  no caller waits, but a caller left       runs on           open, when a caller comes;
//	            because of MaxWait; the next caller                        abandoned, when the key is
//	            will want the value                                        invalidated; finished
//	superseded  callers wait, but the key was            runs on           abandoned, when the last
//	            invalidated; callers that come now                         caller leaves; finished
//	            begin another pendingValue
//	abandoned   no caller waits, and none can join       is cancelled      finished
//	finished    the channel done is closed, and v and    has returned, or  none
//	            err are set                              was given up
//
// A pendingValue is in core.pending while it is open or unattended. Close cancels the function in
// every state. Every pendingValue is finished in the end, even if the function panics or calls
// runtime.Goexit. If the function ignores the end of its context, its pendingValue is finished
// after the time TimeLimit plus Lease.
type pendingValue struct {
	done   chan struct{}
	v      any
	err    error
	cancel context.CancelCauseFunc

	// Guarded by core.mu.
	waiters int
	wanted  bool // a caller stopped waiting after its MaxWait, but a later Get wants the value
}

var errAbandoned = errors.New("stampede: nobody waits for the value any more")

// leavePending is called when one of the callers that share a pendingValue stops waiting for it. If
// the caller stopped because of MaxWait, stillWanted is true.
func (c *core) leavePending(name string, f *pendingValue, stillWanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.waiters--
	f.wanted = f.wanted || stillWanted
	if f.waiters == 0 && (!f.wanted || c.pending[name] != f) {
		f.cancel(errAbandoned)
		c.remove(name, f)
	}
}

func (c *core) finishPending(name string, f *pendingValue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(name, f)
	close(f.done)
}

func (c *core) remove(name string, f *pendingValue) {
	if c.pending[name] == f {
		delete(c.pending, name)
	}
}

// forget prevents new callers from joining the pendingValue of the key. It also removes the key's
// local copy and its failure.
func (c *core) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.generations.of(name)++
	if f := c.pending[name]; f != nil && f.waiters == 0 {
		f.cancel(errAbandoned)
	}
	delete(c.pending, name)
	c.failed.remove(name)
	c.local.remove(name)
}
