package padlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// Token takes the lock with the caller's own token t, which makes the call repeatable: while the
// lock is held, another call with the same name and token, in any process, returns the same hold
// with the same fence. It is for callers whose own reply may get lost: a server that takes locks
// for clients, or a job whose id stays the same when it starts again. By default, each call makes a
// new token.
//
// t is 1 to 128 printable ASCII characters without spaces, and does not begin with "padlock:";
// otherwise the error is ErrInvalid. It is a secret, as a [Key] is: every program that knows it can
// take or release the lock. Calls with the same token are one caller. They do not exclude each
// other, and the first Release ends the lock for all of them. The same token with another name is
// another lock. Each Locker that has the lock renews it. If an exclusive lock ends in the store
// (Break, for example) and the token takes the name again, the fence is greater, and the earlier
// Lock is lost; a store without fences cannot tell the two apart. A call without [Shared] returns
// ErrInvalid if the token has a shared lock.
//
// The caller may repeat a call with the same token after any error. In particular:
//
//   - After ErrHeld the token has nothing, and a repeat is a new try.
//   - After ErrUncertain, or after the end of a process, the token may have the lock. Otherwise the
//     Locker would release such a lock in the background. With Token it does not, because a repeat
//     in another process may have the lock by then. So repeat the call, or call Locker.ReleaseKey
//     with the key from KeyFor. If you do neither, the lock ends with its lease.
//   - After Release the token is spent. A repeat that arrives later may take the lock anew, or get
//     ErrLost. So make a new token for each piece of work.
//
// If two calls with the same token wait, one of them gets the lock, and the other finds it when the
// time of its Wait ends. Without Wait, or if its context ends first, the other call waits on as any
// caller would, and its ErrHeld does not say that the token has the lock. So let one process at a
// time wait with a token.
//
// A caller with Token has its place among the waiting callers, and needs a few more requests if it
// has to wait. With Slots, a repeat returns the same permit. If the store cannot take any permit in
// one step (fast.SlotTaker), each try asks for every permit whether the token has it. Two calls
// that begin at the same time may then get a permit each. With Adopt, t is the token that the lock
// gets. The key of a permit is that of Export; KeyFor cannot name it.
//
// The error is errors.ErrUnsupported on a quorum (driver.Guarantees.RefusedIsSpent), and on a store
// whose locks are bound to a process or a connection, unless the store can detach the lock and
// Detached is given. It is ErrInvalid for several names, and if Token is given to New.
func Token(t string) Option { return option(func(s *settings) { s.token = driver.TokenOf(t) }) }

// errTokenOfAll is the error of every call if Token is given to New.
var errTokenOfAll = fmt.Errorf("%w: Token is given to New, and all callers of the Locker would be one caller; give it to Acquire", ErrInvalid)

// errTokenOfSeveral is the error of AcquireAll and DoAll with Token.
var errTokenOfSeveral = fmt.Errorf("%w: Token and several names cannot be combined", ErrInvalid)

// A token that was sent to Wait is spent afterwards, and a token that waits may be released by the
// store in the background. So the caller's token never waits. A call with Token has one of these
// states:
//
//   - asking: The caller's token makes one try.
//   - waiting: A stand-in waits in line and in the store's queue. It is another attempt, with a
//     token of the Locker's own, and is cleaned up like any other attempt.
//   - replacing: The stand-in has the lock. The caller's token replaces the stand-in's.
//
// The transitions are:
//
//	state      event                          what happens
//	asking     The token gets the lock.       The call is done.
//	asking     The name is held.              The call is waiting, or refused if it does not wait.
//	asking     There is another error.        The call is refused.
//	waiting    The stand-in gets the lock.    The call is replacing.
//	waiting    The time of Wait is over.      If the store replies, the caller's token makes a last
//	                                          try: a repeat of this call may have got the lock.
//	waiting    There is another error.        The call is refused.
//	replacing  The store replaces the token.  The call is done.
//	replacing  The stand-in's lock is lost.   The call is waiting.
//	replacing  The caller's token is spent.   The stand-in is released, and the call is refused.
//	replacing  There is another error.        The stand-in is released, and the call is refused.
//
// Calls with Slots never wait for a permit in a queue, and need no stand-in.

// takeWithToken takes the lock on name for a call with Token that may wait.
func (c *call) takeWithToken(name string) (*hold, error) {
	if err := c.check(name); err != nil {
		return nil, err
	}
	c.start = c.l.clock.Now()
	h, err := c.tryToken(name, nil, NoHandOver)
	if !errors.Is(err, ErrHeld) || c.outlived(err) {
		return h, err
	}
	unsure := errors.Is(err, ErrUncertain) // the token may have the lock, whatever comes later
	for {
		w := c.standIn()
		waited, err := w.take(name)
		c.l.countWaiting(-1)
		switch {
		case err == nil:
			key := Key{name: name, token: waited.token, shared: w.set.shared}
			h, err = c.tryToken(name, &key, w.by)
			if waited.standBack(err) {
				continue
			}
		case w.timeout && !w.silent:
			var last error
			c.timeout = true
			if h, last = c.tryToken(name, nil, NoHandOver); last == nil {
				return h, nil
			}
			unsure = unsure || errors.Is(last, ErrUncertain)
		default:
			c.timeout = w.timeout
		}
		if err != nil && unsure {
			err = withUncertain(err)
		}
		return h, err
	}
}

// tryToken makes one try with the caller's token. If standIn is not nil, the caller's token
// replaces that of the stand-in.
func (c *call) tryToken(name string, standIn *Key, by HandOver) (*hold, error) {
	a := &attempt{call: *c, by: by, last: c.timeout}
	a.set.wait, a.replaces = 0, standIn
	h, err := a.take(name)
	c.noted = a.noted
	return h, err
}

// standIn returns an attempt that waits for this call with a token of the Locker's own, and counts
// its wait until countWaiting is called.
func (c *call) standIn() *attempt {
	w := &attempt{call: call{method: method{hidden: true}, l: c.l, ctx: c.ctx, set: c.set, start: c.start, noted: true}}
	w.set.token, w.set.coolDown, w.set.holdAtLeast = driver.Token{}, 0, 0 // they are for the caller's token
	c.l.countWaiting(1)
	return w
}

// countWaiting counts a caller whose stand-in waits; see takePlace.
func (l *Locker) countWaiting(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.waiting += n
}

// standBack ends the hold of a stand-in after the caller's token should have replaced its token,
// with the error err. It reports whether the hold was lost, so that the call has to wait again.
//
// If err is nil, an exclusive hold is replaced for certain. A shared one is not, if the caller's
// token had a hold already. So it is released, as it is after every error. ErrLost has two
// meanings: the hold is lost, or the caller's token is spent. The release tells which.
func (h *hold) standBack(err error) (lost bool) {
	l := h.locker
	switch {
	case errors.Is(err, ErrLost):
		return lossIn(h.giveUp(context.Background(), nil)) != nil
	case err != nil || h.isShared():
		go h.giveUp(context.Background(), nil) // Close waits for it
	case h.released.CompareAndSwap(nil, releasedWell):
		l.mu.Lock()
		l.endHold(h, ErrReleased)
		l.unlock()
	}
	return false
}
