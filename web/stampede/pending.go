package stampede

import (
	"context"
	"errors"
)

// A pendingValue is a value that this process is making. All callers that want the value of one key
// share a pendingValue, so the function runs once for all of them. The states are:
//
//	state       callers wait  new callers join
//	open        yes           yes
//	unattended  no            yes
//	superseded  yes           no
//	abandoned   no            no
//	finished    no            no
//
// The state changes in these cases:
//
//   - The last caller leaves. The pendingValue becomes abandoned. But if it was open, and a caller
//     has left because of MaxWait, it becomes unattended.
//   - A new caller joins an unattended pendingValue, which becomes open.
//   - The key is invalidated. An open pendingValue becomes superseded, and an unattended one
//     becomes abandoned.
//   - The value is ready, or making it has failed, perhaps by a panic or runtime.Goexit. The
//     pendingValue becomes finished. A function that still runs one lease after TimeLimit counts as
//     failed.
//
// An open or unattended pendingValue is in core.pending. When a pendingValue becomes abandoned, or
// the Cache is closed, the context of the function ends.
type pendingValue struct {
	done   chan struct{} // closed when the pendingValue is finished
	v      any           // set before done is closed
	err    error         // set before done is closed
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
	c.spare.drop(name)
}
