package padlock

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// hold is what the Locker knows about a Lock. The fields h.released and h.cause show in which of
// four states a hold is:
//
//	held       Both fields are nil.
//	over       The lock ended without a Release: cause is set, and released is nil.
//	releasing  A Release is running: released is releaseBegun, or has an open channel.
//	released   The Release is done: released has the result.
//
// The renewer's heap has the holds that are held, and those whose Release waits for a renewal. It
// lacks holds that were exported and that nothing in this process watches; see unwatched.
//
// A hold in the state held may also be renewing (h.renewing is set), converting (h.converting is
// set) or exported (h.exported is true). These events can happen to it:
//
//	Release                 It becomes releasing.
//	hand-over to a waiter   It becomes releasing. The waiter gets another hold (handover.go).
//	lease or HoldAtMost ends   It becomes over, with ErrLost or ErrMaxHold.
//	loss in the store       It becomes over, with ErrLost or ErrExpired.
//	Export                  It stays held. Conversions that begin later fail.
//	Promote, Demote         It stays held. A second conversion, and Export, wait for the first.
//	the Lock is garbage     It stays held. Observers get EventForgotten.
//
// Release first delivers EventReleasing, and the hold is renewed meanwhile. Then it cancels a
// renewal under way and waits for its end, so that no renewal is sent after the release. During that
// wait no other renewal begins. In both times the hold may still be lost or reach its end. A reply to
// a conversion is ignored if the hold is not held any more. A reply to a renewal is ignored if the hold
// is over.
//
// Close releases each hold that is held, with two exceptions:
//
//   - An exported hold becomes over (ErrClosed), and the store keeps the lock.
//   - A hold of Do stays held until its function returns.
//
// These events can happen to a hold that is over:
//
//	Release                 It becomes releasing. The store is asked even now, so that nothing
//	                        is left there.
//	Close                   It stays over.
//	Export, Promote, Demote The call fails with the cause.
//
// These events can happen to a hold that is releasing:
//
//	Release, Close          The call waits for the first Release and returns its result.
//	a loss                  The hold stays releasing, and the first Release returns the loss.
//	Export, Promote, Demote The call fails with ErrReleased.
//
// The hold becomes released when the store has replied, or when the cleaner has taken over. After
// that, Release returns the result of the first Release. Every other call fails with ErrReleased.
type hold struct {
	self   Lock // the Lock that the caller gets if there is no observer; see lockOf
	locker *Locker
	name   string
	token  driver.Token
	terms
	outer    *hold // the hold in whose context this one was taken
	released atomic.Pointer[releaseState]

	// usable is the instant at which Context ends, or 0 if h is over.
	usable atomic.Int64

	late *cleanUp // a request for h may still be on its way; nil if none is

	within bool // taken by Do or DoAll, so Context also ends with the caller's context
	hidden bool // no caller gets it, and Stats does not count it: a gate, or the hold of a stand-in

	// Guarded by locker.mu.
	shared   bool
	exported bool
	watched  *watched // nil if the caller's Lock is not watched
	bond     *bond    // nil if the store has no Grant.Bound
	fence    uint64
	cause    error // why h is over; nil if it is not over
	ctx      context.Context
	cancel   context.CancelCauseFunc
	asking   *asking // nil unless Asked was called
	lifetime
	renewals
	reports
	modeChanges
}

// lifetime says how long a hold may last.
type lifetime struct {
	grantedAt driver.Instant
	atLeast   time.Duration  // how long the name stays taken from grantedAt on; see HoldAtLeast
	maxHoldAt driver.Instant // farFuture if there is no HoldAtMost
	timedOut  bool           // the hold is over because the time of its lease is over
}

// renewals says when a hold is renewed; see schedule.go.
type renewals struct {
	index    int32          // in the renewer's heap; -1 if the hold is not there
	renewAt  driver.Instant // farFuture if the hold is not renewed, or if a renewal is under way
	renewing *renewal       // the one under way
	letGo    bool           // the release is about to be sent, so no renewal begins
	cutOff   bool           // the last renewal was cancelled by the Release of another hold
}

// reports are what observers get of a hold.
type reports struct {
	events *eventQueue // nil if there is no observer
	from   context.Context
	told   bool // EventReleasing was noted, so no other event comes before EventReleased
}

// terms are what the caller of a hold asked for. They never change.
type terms struct {
	ttl       time.Duration
	coolDown  time.Duration
	plan      time.Duration
	label     string
	noRenewal bool
	detached  bool // not bound to this process, although the store binds its other locks; see Detached
}

// modeChanges are what Promote and Demote note in a hold.
type modeChanges struct {
	converting    chan struct{}  // closed when a Promote or Demote ends; nil if none is running
	convertedAt   driver.Instant // when the mode last changed
	demotionUntil driver.Instant // until then, a demotion without a reply may arrive at the store
}

// bond is the connection, session or process that a hold is bound to.
type bond struct {
	context.Context             // Grant.Bound
	unwatch         func() bool // stops watching Context
}

// farFuture is later than any other instant.
const farFuture = driver.Instant(1<<63 - 1)

func (h *hold) isShared() bool {
	h.locker.mu.Lock()
	defer h.locker.unlock()
	return h.shared
}

func (h *hold) fencing() uint64 {
	h.locker.mu.Lock()
	defer h.locker.unlock()
	return h.fence
}

func (h *hold) expired() bool { return h.remaining() <= 0 }

func (h *hold) context() context.Context {
	h.locker.mu.Lock()
	known := h.ctx
	h.locker.unlock()
	if known != nil {
		return known
	}
	from := h.from
	if !h.within {
		from = context.WithoutCancel(from)
	}
	ctx, cancel := context.WithCancelCause(from) // without mu: from may be the context of a lock
	h.locker.mu.Lock()
	defer h.locker.unlock()
	if h.ctx != nil {
		cancel(nil)
		return h.ctx
	}
	h.ctx = lockContext{ctx, h}
	h.rewatch()
	h.addCancel(cancel)
	switch {
	case h.cause != nil:
		h.cancel(failed(OpHold, h.name, h.cause))
	case h.within && h.locker.closed:
		h.cancel(failed(OpHold, h.name, ErrClosed))
	}
	return h.ctx
}

// addCancel makes endHold call f when h is over. If addCancel is called several times, endHold
// calls the functions in the order in which they were added. The caller holds mu.
func (h *hold) addCancel(f context.CancelCauseFunc) {
	if before := h.cancel; before != nil {
		h.cancel = func(cause error) { before(cause); f(cause) }
		return
	}
	h.cancel = f
}

// whenOver calls f with the error of h when h is over. If h is over already, whenOver calls f at
// once. For a hold of Do or DoAll, f is also called when Close begins. f must not use the Locker,
// because Locker.mu is held during the call.
func (h *hold) whenOver(f context.CancelCauseFunc) {
	h.locker.mu.Lock()
	defer h.locker.unlock()
	h.rewatch()
	switch {
	case h.cause != nil:
		f(failed(OpHold, h.name, h.cause))
	case h.within && h.locker.closed:
		f(failed(OpHold, h.name, ErrClosed))
	default:
		h.addCancel(f)
	}
}

// check asks the store whether the hold is live, as an Extend with the TTL 0. A loss ends the hold. A
// reply does not move the deadline of the process.
func (h *hold) check(ctx context.Context) error {
	demandContext(ctx)
	if err := h.endCause(); err != nil {
		return failed(OpCheck, h.name, h.lateCause(ctx, err))
	}
	sent := h.locker.clock.Now()
	g, err := h.locker.store.Extend(ctx, h.name, h.token.Text(), 0)
	if err != nil {
		h.noticeLoss(err)
		return failed(OpCheck, h.name, callerError(ctx, err))
	}
	h.locker.mu.Lock()
	defer h.locker.unlock()
	if h.cause != nil { // h ended while the reply was on its way
		return failed(OpCheck, h.name, h.cause)
	}
	if h.noticeChange(sent, g); h.cause != nil {
		return failed(OpCheck, h.name, h.cause)
	}
	return nil
}

// extend asks the store for a lease of ttl. As with a renewal, the new deadline counts from before the
// request was sent.
func (h *hold) extend(ctx context.Context, ttl time.Duration) error {
	demandContext(ctx)
	if ttl == 0 {
		ttl = h.ttl
	}
	if err := driver.CheckTTL("TTL", ttl, &h.locker.guarantees); err != nil {
		return failed(OpExtend, h.name, err)
	}
	if err := h.endCause(); err != nil {
		return failed(OpExtend, h.name, h.lateCause(ctx, err))
	}
	sent := h.locker.clock.Now()
	g, err := h.locker.store.Extend(ctx, h.name, h.token.Text(), ttl)
	if err == nil {
		err = h.locker.checkLease(h.detached, &g)
	}
	if err != nil {
		h.noticeLoss(err)
		return failed(OpExtend, h.name, callerError(ctx, err))
	}
	h.locker.mu.Lock()
	defer h.locker.unlock()
	if h.cause != nil { // h ended while the reply was on its way
		return failed(OpExtend, h.name, h.cause)
	}
	slack := h.slack()
	if h.recordExtension(sent, g, ttl); h.cause != nil {
		return failed(OpExtend, h.name, h.cause)
	}
	h.noteRenewal(sent, slack)
	return nil
}

func (h *hold) export(ctx context.Context) (Key, error) {
	demandContext(ctx)
	if h.locker.guarantees.Bound != driver.BoundToNothing && !h.detached {
		return Key{}, failed(OpExport, h.name, errors.ErrUnsupported)
	}
	if err := h.endCause(); err != nil {
		return Key{}, failed(OpExport, h.name, err)
	}
	store := h.locker.storeID(ctx)
	if err := h.lockSettled(ctx); err != nil {
		return Key{}, failed(OpExport, h.name, err)
	}
	defer h.locker.unlock()
	switch {
	case h.cause != nil:
		return Key{}, failed(OpExport, h.name, h.cause)
	case h.released.Load() != nil: // a release is under way
		return Key{}, failed(OpExport, h.name, ErrReleased)
	case h.locker.closed: // Close releases h
		return Key{}, failed(OpExport, h.name, ErrClosed)
	}
	h.exported = true
	h.locker.unlist(h)
	if h.noRenewal && h.events == nil && h.cancel == nil && h.bond == nil && h.index >= 0 {
		h.locker.renewer.heap.remove(h)
	}
	return Key{h.name, h.token, store, h.shared}, nil
}

// lockSettled waits until no Promote or Demote of h is under way, so that its mode is known, and
// locks mu.
func (h *hold) lockSettled(ctx context.Context) error {
	for {
		h.locker.mu.Lock()
		other := h.converting
		if other == nil {
			return nil
		}
		h.locker.unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unwatched reports whether export has taken h out of the heap: h is not renewed, and there is
// neither an observer nor a context that ends with it. Otherwise a server that exports each lock
// would keep all of them in memory until their leases end. The caller holds mu.
func (h *hold) unwatched() bool { return h.cause == nil && h.exported && h.index < 0 }

// rewatch puts h back into the heap if h is unwatched. The caller holds mu.
func (h *hold) rewatch() {
	if h.noticeClose(); h.unwatched() {
		h.locker.renewer.plan(h)
	}
}

// noticeClose ends h if h is unwatched and the Locker is closed, as Close ends the holds in the
// heap. The caller holds mu.
func (h *hold) noticeClose() {
	if h.unwatched() && h.locker.renewer.stopped {
		h.locker.endHold(h, ErrClosed)
	}
}

func (h *hold) file() (*os.File, error) {
	p, ok := driver.As[fast.FileSharer](h.locker.store)
	if !ok {
		return nil, failed(OpFile, h.name, errors.ErrUnsupported)
	}
	if h.detached {
		return nil, failed(OpFile, h.name, errors.ErrUnsupported)
	}
	if err := h.endCause(); err != nil {
		return nil, failed(OpFile, h.name, err)
	}
	f, err := p.File(h.name, h.token.Text())
	if err != nil {
		return nil, failed(OpFile, h.name, err)
	}
	return f, nil
}

// endCause returns the reason why the lock is over, or nil if it is not.
func (h *hold) endCause() error {
	h.locker.mu.Lock()
	defer h.locker.unlock()
	h.lookAtClock()
	return h.cause
}

// noticeEnd ends h if it is over by the clock. Observers learn of that in another goroutine: the
// caller asks its context for Err, and may have locked what an observer needs.
func (h *hold) noticeEnd() {
	h.locker.mu.Lock()
	h.lookAtClock()
	h.locker.unlockApart()
}

// lookAtClock ends h if it is over by the clock. The caller holds mu.
func (h *hold) lookAtClock() {
	h.noticeClose()
	if h.cause == nil && h.usable.Load() != int64(farFuture) && h.expired() {
		// The renewer is late, for example after a suspend.
		h.locker.renewer.lookAt(h, h.locker.clock.Now())
	}
}

// lateCause returns the reason why h is over, which is cause as far as this process knows. If the
// time of the lease is over, the store is asked whether another client has taken the name since.
func (h *hold) lateCause(ctx context.Context, cause error) error {
	h.locker.mu.Lock()
	ranOut := h.timedOut && h.released.Load() == nil
	h.locker.unlock()
	if !ranOut {
		return cause
	}
	_, err := h.locker.store.Extend(ctx, h.name, h.token.Text(), 0)
	switch {
	case err == nil || errors.Is(err, ErrExpired): // a lease lasts a little longer in the store
		return ErrExpired
	case errors.Is(err, ErrLost):
		return ErrLost
	}
	return cause
}

// noticeLoss ends h if err means for certain that the lock is gone. So a holder learns that its lock was
// broken from the answer to its next request: mostly a renewal, at most a third of the TTL later. A
// waiter may have the name by then, and only the fence tells the two apart.
func (h *hold) noticeLoss(err error) {
	if lost := lossIn(err); lost != nil {
		h.locker.mu.Lock()
		defer h.locker.unlock()
		h.locker.endHold(h, lost)
	}
}

// lockContext is a context with a hold. The function lockFrom finds the hold.
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

// FenceFrom returns the fence of a lock. ctx must be the Context of that lock, or a context derived
// from it. If ctx is derived from the contexts of several locks, FenceFrom takes the innermost
// lock; in DoAll that is the lock of the last name (GrantsFrom has all). ok is false if there is no
// such lock, or if its store has no fences.
func FenceFrom(ctx context.Context) (fence uint64, ok bool) {
	if h := lockFrom(ctx); h != nil {
		fence = h.fencing()
	}
	return fence, fence != 0
}
