package padlock

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// hold is a Lock as the Locker keeps it. Its states are:
//
//	state           known by                    Release             Close               its end by time, or a loss
//	held            cause is nil, and it is in  → being released    → being released    → over
//	                the renewer's heap
//	· renewing      renewing is set             waits for it, so    the same            → over; the answer is dropped
//	                                            that nothing comes
//	                                            after the release
//	· converting    converting is set; shared   → being released;   the same            → over; the answer is dropped
//	                is true unless the store    the answer is
//	                said that the hold is       dropped
//	                exclusive
//	· exported      exported is true            → being released    → over; the store   → over
//	                                                                keeps the hold
//	being released  released is releasing; the  waits for it and    waits for it        Release reports it
//	                renewer has forgotten it    returns the same
//	over            cause is set, usable is 0,  asks the store, so  nothing             nothing
//	                and it is not in the heap   that nothing stays,
//	                                            → released
//	released        released is set, and not    returns what the    nothing             nothing
//	                releasing                   first one returned
//
// A hold that is held may be renewing, converting and exported at the same time;
// one that is exported begins no conversion. Neither Export nor a conversion
// begins when the hold is being released. A hold that is passed on to another
// goroutine (handover.go) is being released, and the other gets one of its own.
type hold struct {
	self     Lock // what the caller has, unless it is watched
	locker   *Locker
	name     string
	token    string // of this hold; a secret
	ttl      time.Duration
	coolDown time.Duration
	plan     time.Duration
	label    string
	outer    *hold       // further up in the context that took this one
	events   *eventQueue // nil if nobody observes
	from     context.Context
	released atomic.Pointer[releaseState]

	// usable is the instant at which Context ends: 0 when it has ended.
	usable atomic.Int64

	noRenewal bool
	within    bool // Context ends with from

	// Guarded by locker.mu.
	shared     bool
	exported   bool
	index      int32           // in the renewer's heap; -1 = not there
	bound      context.Context // Grant.Bound; nil if the store has none
	unwatch    func() bool     // stops watching it
	fence      uint64
	grantedAt  driver.Instant
	maxHoldAt  driver.Instant // never = no MaxHold
	renewAt    driver.Instant // never = no renewal, or one is under way
	wakeAt     driver.Instant // when the renewer looks at it
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
		h.cancel(failed(OpHold, h.name, h.cause))
	case h.within && h.locker.closed:
		h.cancel(failed(OpHold, h.name, ErrClosed))
	}
	return h.ctx
}

func (h *hold) check(ctx context.Context) error {
	if err := h.over(); err != nil {
		return failed(OpCheck, h.name, err)
	}
	sent := h.locker.clock.Now()
	g, err := h.locker.store.Extend(ctx, h.name, h.token, 0)
	if err != nil {
		h.noticeLoss(err)
		return failed(OpCheck, h.name, callerError(ctx, err))
	}
	h.locker.mu.Lock()
	defer h.locker.unlock()
	h.noticeMode(sent, g)
	return nil
}

func (h *hold) extend(ctx context.Context, ttl time.Duration) error {
	if ttl == 0 {
		ttl = h.ttl
	}
	if err := driver.CheckTTL("TTL", ttl, &h.locker.guarantees); err != nil {
		return failed(OpExtend, h.name, err)
	}
	if err := h.over(); err != nil {
		return failed(OpExtend, h.name, err)
	}
	sent := h.locker.clock.Now()
	g, err := h.locker.store.Extend(ctx, h.name, h.token, ttl)
	if err != nil {
		h.noticeLoss(err)
		return failed(OpExtend, h.name, callerError(ctx, err))
	}
	h.locker.mu.Lock()
	defer h.locker.unlock()
	if h.cause != nil { // while the reply was on its way
		return failed(OpExtend, h.name, h.cause)
	}
	slack := h.slack()
	h.extended(sent, g)
	h.noteRenewal(sent, slack)
	return nil
}

func (h *hold) export(ctx context.Context) (Key, error) {
	if h.locker.guarantees.Bound != driver.ToNothing {
		return Key{}, failed(OpExport, h.name, errors.ErrUnsupported)
	}
	if err := h.over(); err != nil {
		return Key{}, failed(OpExport, h.name, err)
	}
	store := h.locker.storeID(ctx)
	h.locker.mu.Lock()
	defer h.locker.unlock()
	switch {
	case h.cause != nil:
		return Key{}, failed(OpExport, h.name, h.cause)
	case h.released.Load() != nil: // the release is under way
		return Key{}, failed(OpExport, h.name, ErrReleased)
	case h.locker.closed: // Close releases it
		return Key{}, failed(OpExport, h.name, ErrClosed)
	}
	h.exported = true
	h.locker.unlist(h, true)
	return Key{h.name, h.token, store, h.shared}, nil
}

func (h *hold) file() (*os.File, error) {
	p, ok := driver.As[driver.FileSharer](h.locker.store)
	if !ok {
		return nil, failed(OpFile, h.name, errors.ErrUnsupported)
	}
	if err := h.over(); err != nil {
		return nil, failed(OpFile, h.name, err)
	}
	h.locker.mu.Lock()
	h.locker.unlist(h, true)
	h.locker.unlock()
	f, err := p.File(h.name, h.token)
	if err != nil {
		return nil, failed(OpFile, h.name, err)
	}
	return f, nil
}

// over returns why the lock is over, or nil.
func (h *hold) over() error {
	h.locker.mu.Lock()
	defer h.locker.unlock()
	if h.cause == nil && h.usable.Load() != int64(never) && h.expired() {
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
		fence = h.fencing()
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

// forgotten is called when the caller's Lock has been collected.
func (h *hold) forgotten() {
	l := h.locker
	l.mu.Lock()
	defer l.unlock()
	if h.cause == nil && h.released.Load() == nil && !h.exported && !l.closed {
		h.noteHold(Event{Kind: EventForgotten})
	}
}
