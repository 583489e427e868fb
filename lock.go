package padlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A Lock is one hold on a name, from Acquire to Release. Its methods are safe
// for concurrent use.
//
// While the process runs, Context ends before the lease can have ended by
// time: the lease is counted from before the request that granted it, less a
// margin for clocks that run unlike, and counts suspended time. No lock can do
// that for a process that is paused between a look at the clock and a write:
// for that there is Fence, checked where the writing happens.
//
// A Lock that is forgotten, that is to say collected as garbage without Release
// or Export, stays held and renewed, until its MaxHold or Locker.Close: whoever
// forgot it may rely on it. Logger and OnEvent are told (EventForgotten).
type Lock struct{ *hold }

// hold is a Lock as the Locker keeps it.
type hold struct {
	self      Lock // what the caller has, unless it is watched
	locker    *Locker
	name      string
	token     string // of this hold; a secret
	ttl       time.Duration
	coolDown  time.Duration
	plan      time.Duration
	label     string
	noRenewal bool
	within    bool  // Context ends with from
	outer     *hold // further up in the context that took this one
	from      context.Context
	released  atomic.Pointer[releaseState]

	// usable is the instant at which Context ends: 0 when it has ended.
	usable atomic.Int64

	// Guarded by locker.mu.
	shared     bool
	exported   bool
	bound      context.Context // Grant.Bound; nil if the store has none
	unwatch    func() bool     // stops watching it
	fence      uint64
	grantedAt  driver.Instant
	maxHoldAt  driver.Instant // never = no MaxHold
	renewAt    driver.Instant // never = no renewal, or one is under way
	wakeAt     driver.Instant // when the renewer looks at it
	index      int            // in the renewer's heap; -1 = not there
	cause      error          // why it is over; nil = it is not
	ctx        context.Context
	cancel     context.CancelCauseFunc
	renewing   *renewal
	batch      *batch        // of holders in this Locker; nil without PassLocally
	converting chan struct{} // closed at the end of the Promote or Demote under way

	convertedAt driver.Instant // the last time
}

// never is later than any instant.
const never = driver.Instant(1<<63 - 1)

// String names the lock, and hides the secret that it is held by.
func (h *hold) String() string { return "lock on " + quote(h.name) }

// Format hides the secret from all verbs of package fmt.
func (h *hold) Format(f fmt.State, _ rune) { io.WriteString(f, h.String()) }

// LogValue hides the secret from logs.
func (h *hold) LogValue() slog.Value { return slog.StringValue(h.String()) }

// Name returns the name that is locked.
func (h *hold) Name() string { return h.name }

// Shared reports whether the lock is shared, as far as this process knows. It
// never reports false while readers may be in, except when another program that
// knows the token demoted the lock: that shows after the next renewal, Check or
// Extend if the store can tell.
func (h *hold) Shared() bool {
	h.locker.mu.Lock()
	defer h.locker.unlock()
	return h.shared
}

// Fence returns the fencing token: a number that grows with each exclusive
// grant of this name. Send it with every write and let the resource refuse
// smaller ones; see package fence. It is 0 if the store has none.
func (h *hold) Fence() uint64 {
	h.locker.mu.Lock()
	defer h.locker.unlock()
	return h.fence
}

// Remaining returns how long the lock is good for if nothing renews it, by
// this process's own clock: until Context ends. It is 0 when that is over, and
// the longest Duration when the lock has no lease.
func (h *hold) Remaining() time.Duration {
	switch usable := driver.Instant(h.usable.Load()); usable {
	case 0:
		return 0
	case never:
		return 1<<63 - 1
	default:
		return max(0, usable.Sub(h.locker.clock.Now()))
	}
}

// Expired reports, by this process's own clock, whether the lock is over:
// expired, lost or released. It asks nobody; see Check.
func (h *hold) Expired() bool { return h.Remaining() <= 0 }

// Context returns a context with the values of the one given to Acquire, which
// ends when the lock does. context.Cause tells why: ErrLost, ErrMaxHold or
// ErrReleased. It does not end with the context given to Acquire, which bounds
// the wait; the one that Do passes on ends with either.
func (h *hold) Context() context.Context {
	h.locker.mu.Lock()
	defer h.locker.unlock()
	if h.ctx != nil {
		return h.ctx
	}
	from := h.from
	if !h.within {
		from = context.WithoutCancel(from)
	}
	h.ctx, h.cancel = context.WithCancelCause(lockContext{from, h})
	switch {
	case h.cause != nil:
		h.cancel(failed("hold", h.name, h.cause))
	case h.within && h.locker.closed:
		h.cancel(failed("hold", h.name, ErrClosed))
	}
	return h.ctx
}

// Check asks the store whether the lock is still held. The answer is old when
// it arrives: it is advice, Fence is the guarantee. Nil is yes; ErrLost,
// ErrExpired and ErrReleased are no; every other error means that it cannot be
// told now.
func (h *hold) Check(ctx context.Context) error {
	if err := h.over(); err != nil {
		return failed("check", h.name, err)
	}
	sent := h.locker.clock.Now()
	g, err := h.locker.store.Extend(ctx, h.name, h.token, 0)
	if err != nil {
		h.noticeLoss(err)
		return failed("check", h.name, callerError(ctx, err))
	}
	h.locker.mu.Lock()
	defer h.locker.unlock()
	h.noticeMode(sent, g)
	return nil
}

// noticeMode notices that somebody else demoted the lock, who was given its
// token. A reply to a request from before a Promote says nothing. The caller
// holds mu.
func (h *hold) noticeMode(sent driver.Instant, g driver.Grant) {
	if g.Shared && !h.shared && sent > h.convertedAt {
		h.shared = true
		h.locker.unlist(h, true)
	}
}

// Extend makes the lease last at least ttl from now; 0 stands for the TTL with
// which the lock was taken. It never shortens it. ErrExpired and ErrLost mean
// that the lock is gone; after another error it is as good as before.
func (h *hold) Extend(ctx context.Context, ttl time.Duration) error {
	if ttl == 0 {
		ttl = h.ttl
	}
	if err := driver.CheckTTL("TTL", ttl, &h.locker.guarantees); err != nil {
		return failed("extend", h.name, err)
	}
	if err := h.over(); err != nil {
		return failed("extend", h.name, err)
	}
	sent := h.locker.clock.Now()
	g, err := h.locker.store.Extend(ctx, h.name, h.token, ttl)
	if err != nil {
		h.noticeLoss(err)
		return failed("extend", h.name, callerError(ctx, err))
	}
	h.locker.mu.Lock()
	defer h.locker.unlock()
	if h.cause != nil { // while the reply was on its way
		return failed("extend", h.name, h.cause)
	}
	h.extended(sent, g)
	return nil
}

// Export returns a key with which another process takes the lock over, by
// Locker.Adopt. Until then this lock stays as it is, renewal included; the
// adoption ends it (ErrLost). Close leaves an exported lock alone. The key is
// a secret. Stores whose locks are bound to a process or a connection answer
// errors.ErrUnsupported.
func (h *hold) Export() (Key, error) {
	if h.locker.guarantees.Bound != driver.ToNothing {
		return Key{}, failed("export", h.name, errors.ErrUnsupported)
	}
	if err := h.over(); err != nil {
		return Key{}, failed("export", h.name, err)
	}
	h.locker.mu.Lock()
	defer h.locker.unlock()
	switch {
	case h.cause != nil:
		return Key{}, failed("export", h.name, h.cause)
	case h.released.Load() != nil: // the release is under way
		return Key{}, failed("export", h.name, ErrReleased)
	case h.locker.closed: // Close releases it
		return Key{}, failed("export", h.name, ErrClosed)
	}
	h.exported = true
	h.locker.unlist(h, true)
	return Key{name: h.name, token: h.token, shared: h.shared}, nil
}

// over returns why the lock is over, or nil.
func (h *hold) over() error {
	h.locker.mu.Lock()
	defer h.locker.unlock()
	if h.cause == nil && h.usable.Load() != int64(never) && h.Expired() {
		// The renewer is late, as after a suspend.
		h.locker.renewer.look(h, h.locker.clock.Now())
	}
	return h.cause
}

// noticeLoss ends the lock if err says for sure that it is gone.
func (h *hold) noticeLoss(err error) {
	if lost := lossIn(err); lost != nil {
		h.locker.mu.Lock()
		defer h.locker.unlock()
		h.locker.end(h, lost)
	}
}

// lockContext carries its lock.
type lockContext struct {
	context.Context
	lock *hold
}

type lockKey struct{}

func (c lockContext) Value(key any) any {
	if key == (lockKey{}) {
		return c.lock
	}
	return c.Context.Value(key)
}

func lockFrom(ctx context.Context) *hold {
	h, _ := ctx.Value(lockKey{}).(*hold)
	return h
}

// FenceFrom returns the fence of the innermost lock whose context ctx descends
// from; ok is false if there is none, or if its store has no fences.
func FenceFrom(ctx context.Context) (fence uint64, ok bool) {
	if h := lockFrom(ctx); h != nil {
		fence = h.Fence()
	}
	return fence, fence != 0
}

// covers reports whether h, or a lock that it was taken under, is a live hold
// of l on name.
func (h *hold) covers(l *Locker, name string) bool {
	for ; h != nil; h = h.outer {
		if h.locker == l && h.name == name && h.over() == nil {
			return true
		}
	}
	return false
}

// handle is what the caller gets. The Locker keeps the hold itself to renew it,
// so only a handle apart from it shows that the caller has let go. That takes an
// allocation and work for the collector, and is done if there is somebody to
// tell.
func handle(h *hold, err error) (*Lock, error) {
	if err != nil {
		return nil, err
	}
	if h.locker.watched {
		return h.watchedHandle(), nil
	}
	h.self.hold = h
	return &h.self, nil
}

// watchedHandle is apart so that handle is small enough to be inlined.
func (h *hold) watchedHandle() *Lock {
	lock := &Lock{h}
	runtime.AddCleanup(lock, (*hold).forgotten, h)
	return lock
}

// forgotten is called when the caller's handle has been collected, which may be
// while the Release that was its last use is under way.
func (h *hold) forgotten() {
	l := h.locker
	l.mu.Lock()
	defer l.unlock()
	if h.cause == nil && h.released.Load() == nil && !h.exported && !l.closed {
		l.event(EventForgotten, h, nil)
	}
}

// File returns a duplicate of the open file that carries the lock, to be given
// to a child process; the caller closes it. While any copy of it is open the
// name stays taken: beyond Release, and beyond the death of this process. A
// store whose locks are not bound to a file answers errors.ErrUnsupported.
func (h *hold) File() (*os.File, error) {
	p, ok := h.locker.store.(driver.FilePasser)
	if !ok {
		return nil, failed("pass", h.Name(), errors.ErrUnsupported)
	}
	if err := h.over(); err != nil {
		return nil, failed("pass", h.Name(), err)
	}
	h.locker.mu.Lock()
	h.locker.unlist(h, true)
	h.locker.unlock()
	f, err := p.File(h.Name(), h.token)
	if err != nil {
		return nil, failed("pass", h.Name(), err)
	}
	return f, nil
}
