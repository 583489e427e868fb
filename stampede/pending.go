package stampede

import (
	"context"
	"errors"
)

// A pendingValue is a value that this process is making. All callers that want the value of one key
// share a pendingValue, so the function runs once for all of them. The states are:
//
//	state       callers                                  next states
//	open        wait for the value; new callers join     any state below
//	unattended  none waits, but a caller left because    open, when a caller comes; abandoned, when
//	            of MaxWait; new callers join             the key is invalidated; finished
//	superseded  wait for the value, but the key was      abandoned, when the last caller leaves;
//	            invalidated; new callers do not join     finished
//	abandoned   none waits; new callers do not join      finished
//	finished    got v and err; done is closed            none
//
// The context of the function ends in the state abandoned. Close ends it in every state. A
// pendingValue is in core.pending while it is open or unattended. Every pendingValue is finished in
// the end, even if the function panics or calls runtime.Goexit. If the function ignores the end of
// its context, its pendingValue is finished after TimeLimit and the length of a lease.
type pendingValue struct {
	done   chan struct{}
	v      any
	err    error
	cancel context.CancelCauseFunc

	// Guarded by core.mu.
	waiters int
	wanted  bool // a caller left because of MaxWait, so the function runs on for later callers
}

var errAbandoned = errors.New("stampede: nobody waits for the value any more")

// leavePending is called when a caller stops waiting for a pendingValue. stillWanted is true if the
// caller left because of MaxWait: the function then runs on for later callers.
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
