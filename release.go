package padlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// giveUp releases h. It is the only way to release a hold. If another release of h has begun
// earlier, giveUp waits for that release and returns its result. If ctx ends, the requests to the
// store end too, and the cleaner releases h. The wait for another release ends with ctx as well.
// ctx is never the caller's context, because a program must be able to release its locks when its
// own context has ended.
func (h *hold) giveUp(ctx context.Context, opts []ReleaseOption) error {
	if !h.released.CompareAndSwap(nil, releaseBegun) {
		return h.awaitRelease(ctx)
	}
	keep, wrong := h.coolDown, error(nil)
	if len(opts) > 0 {
		keep, wrong = h.locker.coolDownOf(keep, opts)
	}
	done := releasedWell
	if err := h.release(ctx, keep); err != nil || wrong != nil {
		done = &releaseState{err: failed(OpRelease, h.name, h.locker.whoClosed(err), wrong)}
	}
	if others := h.released.Swap(done); others != releaseBegun {
		others.err = done.err
		close(others.done)
	}
	return done.err
}

// coolDownOf returns the cool-down that opts ask for, or else keep. If the store cannot keep the
// name for so long, coolDownOf returns the nearest time that is possible, and an error. It is a
// function of its own, so that a Release without options allocates nothing.
func (l *Locker) coolDownOf(keep time.Duration, opts []ReleaseOption) (time.Duration, error) {
	set := releaseSettings{coolDown: keep}
	for _, o := range opts {
		if o != nil {
			o.applyRelease(&set)
		}
	}
	keep, err := nearestKeep(set.coolDown, &l.guarantees)
	switch {
	case err != nil && keep == 0:
		err = fmt.Errorf("%w; the lock is released without a cool-down", err)
	case err != nil:
		err = fmt.Errorf("%w; the lock is released with a cool-down of %v", err, keep)
	}
	return keep, err
}

// nearestKeep returns the cool-down that is nearest to keep and possible, and an error if that is
// not keep. If keep is negative, or if the store has no cool-downs, it returns 0.
func nearestKeep(keep time.Duration, g *driver.Guarantees) (time.Duration, error) {
	err := driver.CheckKeep("CoolDown", keep, g)
	switch {
	case err == nil:
		return keep, nil
	case keep < 0 || !g.CoolDown:
		return 0, err
	}
	return min(max(keep, driver.MinTTL, g.MinTTL), driver.MaxTTL), err
}

// releaseState is the state of the release of a lock. No mutex guards it, because in a test with
// synctest, the clock does not advance while a goroutine waits for a mutex.
type releaseState struct {
	done chan struct{} // if done is not nil, err may be read only after done is closed
	err  error
}

var releaseBegun, releasedWell = &releaseState{}, &releaseState{}

// awaitRelease returns what the first Release returns. If ctx ends earlier, awaitRelease returns
// errReleasing.
func (h *hold) awaitRelease(ctx context.Context) error {
	wait := &releaseState{done: make(chan struct{})}
	h.released.CompareAndSwap(releaseBegun, wait)
	s := h.released.Load()
	if s.done == nil {
		return s.err
	}
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return failed(OpRelease, h.name, errReleasing)
	}
}

var errReleasing = fmt.Errorf("%w: another call is releasing the lock", ErrUncertain)

// An ending is what a release knows before it is sent.
type ending struct {
	events   *eventQueue
	keep     time.Duration // the cool-down
	usable   driver.Instant
	before   error // why h was over before the release, if it was
	late     bool  // its time, or its connection, was over then
	next     *turn // the waiter of this process that the lock is passed on to
	bond     *bond
	exported bool
}

// release ends the hold once, for all callers of Release. It either passes the lock on to the next waiter
// of this process, or releases it in the store. If the outcome stays open, the cleaner goes on.
func (h *hold) release(ctx context.Context, keep time.Duration) error {
	l := h.locker
	e, ctx := h.stop(ctx, keep)
	var p passed
	if e.next != nil {
		p = h.passOn(ctx, e.next)
	}
	out, unsure, again, err := p.out, p.unsure, false, error(nil)
	if !p.done {
		out, unsure, again, err = h.releaseAtStore(ctx, e.keep, p)
	}
	if e.before == nil && h.overAfter(&e, unsure, err) {
		e.before = h.whyOver(e.usable, e.bond)
	}
	if again { // only now, because a release that works may end bond
		h.releaseLater(e.events, e.keep, e.usable)
	}
	if err == nil && out == driver.OutcomeGone && unsure && e.exported && e.before == nil {
		err = errGoneUnsure // another program may have adopted or released the lock
	} else {
		err = verdict(e.before, out, unsure, err)
	}
	if e.events != nil {
		h.noteReleased(err, p.by)
	}
	l.mu.Lock()
	if h.late != nil && l.clock.Now().Sub(h.grantedAt) < driver.MaxSilence {
		l.cleaner.addLate(*h.late, h.ttl)
	}
	l.calls.end()
	l.mu.Unlock()
	return err
}

// stop ends the use of h. It cancels a renewal under way and waits for its end, so that none is sent
// after the release. The context that it returns is for the requests of the release.
func (h *hold) stop(ctx context.Context, keep time.Duration) (ending, context.Context) {
	l := h.locker
	l.mu.Lock()
	l.calls.begin() // also after Close has begun, because Close releases locks itself
	e := ending{events: h.events}
	if e.events != nil {
		ctx = h.announceRelease(ctx)
	}
	h.letGo = true
	e.keep = max(keep, h.restOfAtLeast())
	e.before = h.cause
	e.late = h.ranOut() || h.bond.over() // for example after a suspend
	if h.renewing != nil {
		silence, cancel := context.WithTimeout(ctx, driver.MaxSilence)
		h.joinRenewal(silence)
		cancel()
		if e.before == nil {
			e.before = h.cause // the renewal found that the lock is lost, or its time was over meanwhile
		}
	}
	e.usable = driver.Instant(h.usable.Load()) // the renewal may have moved it
	if ln := l.lines[h.name]; ln != nil {
		e.next = h.nextInLine(ln, e.keep)
	}
	e.bond = h.bond
	l.endHold(h, ErrReleased)
	e.exported = h.exported
	l.unlock()
	return e, ctx
}

// overAfter reports whether h may have been over before the store released it. It was, if it was late
// and the store did not say that it released h. If a reply is missing, the time or the connection may
// also have ended since.
func (h *hold) overAfter(e *ending, unsure bool, err error) bool {
	return e.late && err != nil || unsure && (h.locker.clock.Now() >= e.usable || e.bond.over())
}

// restOfAtLeast returns the cool-down that keeps the name taken until the time of HoldAtLeast is
// over. The caller holds mu.
func (h *hold) restOfAtLeast() time.Duration {
	if h.atLeast == 0 {
		return 0
	}
	l := h.locker
	rest := h.grantedAt.Add(h.atLeast).Sub(l.clock.Now())
	if rest <= 0 {
		return 0
	}
	return max(rest, driver.MinTTL, l.guarantees.MinTTL)
}

// whyOver returns the reason why h may have been over before the store released it.
func (h *hold) whyOver(usable driver.Instant, bond *bond) error {
	if usable == h.maxHoldAt && !bond.over() {
		return ErrMaxHold // HoldAtMost ended before the lease
	}
	return ErrLost // the lease or the connection may have ended
}

// announceRelease delivers EventReleasing, and returns the context for the requests of the release.
// The lease is renewed until the observers have the event, so an observer that is late does not use
// the lease up. The caller holds mu. announceRelease unlocks mu while it calls observers, and locks
// mu again before it returns.
func (h *hold) announceRelease(ctx context.Context) context.Context {
	l := h.locker
	if h.cause == nil {
		h.noteEnd(ErrReleased)
		h.told = true
	}
	values := l.unlockDelivered(h.events)
	l.mu.Lock()
	if l.addsValues() {
		return valuesOf{ctx, values}
	}
	return ctx
}

// noteReleased delivers EventReleased.
func (h *hold) noteReleased(err error, by HandOver) {
	h.locker.mu.Lock()
	h.noteHold(Event{Kind: EventReleased, Outcome: holdOutcome(err), Took: h.events.held, HandOver: by, Err: err})
	h.locker.unlockDelivered(h.events)
}

// valuesOf is a context that ends with one context and has the values of another context.
type valuesOf struct {
	context.Context
	values context.Context
}

func (c valuesOf) Value(key any) any { return c.values.Value(key) }

// releaseAtStore sends the release up to three times, until the store replies. If again is true,
// the store has not replied, and the caller calls releaseLater. If unsure is true, an earlier
// request may have released h. That request may be one that tried to pass h on.
func (h *hold) releaseAtStore(ctx context.Context, keep time.Duration, p passed) (out driver.Outcome, unsure, again bool, err error) {
	l := h.locker
	unsure = p.unsure
	for i := p.asked; ; i++ {
		if ctx.Err() != nil {
			err = errNotSent
			break
		}
		out, err = l.store.Release(ctx, h.name, h.token.Text(), keep)
		if err == nil || cannotCool(out, err) || errors.Is(err, ErrClosed) || errors.Is(err, ErrInvalid) {
			return out, unsure, false, err
		}
		unsure = unsure || !errors.Is(err, ErrUnavailable)
		if i == len(retryAfter) || l.sleep(ctx, retryAfter[i]) != nil {
			break
		}
	}
	err = callerError(ctx, err)
	if unsure {
		err = withUncertain(err)
	}
	return out, unsure, true, err
}

// cannotCool reports whether the store has released a lock and had no room for its cool-down.
func cannotCool(out driver.Outcome, err error) bool {
	return out == driver.OutcomeReleased && errors.Is(err, ErrUnavailable)
}

// releaseLater lets the cleaner go on with a release to which the store has not replied.
func (h *hold) releaseLater(events *eventQueue, keep time.Duration, usable driver.Instant) {
	lease := driver.MaxTTL
	if usable != farFuture {
		lease = max(h.ttl, usable.Sub(h.locker.clock.Now())+h.ttl)
	}
	h.locker.cleaner.add(cleanUp{name: h.name, token: h.token, keep: keep, events: events}, lease)
}

// errGoneUnsure is the error of a release without a reply that was repeated, if the store then has
// nothing to release, and another program knows the token.
var errGoneUnsure = fmt.Errorf("%w: a reply was lost; either that request released the lock, or the lock was lost before", ErrUncertain)

var errNotSent = fmt.Errorf("%w: it did not answer the requests before this one", ErrUnavailable)

// verdict returns the error of Release. endedBy is the reason why the lock was over before the
// release, or nil if the lock was not over. The other parameters describe the release: the outcome,
// whether an earlier request may have released the lock, and the error of the last request.
func verdict(endedBy error, out driver.Outcome, unsure bool, err error) error {
	switch {
	case err != nil && errors.Is(endedBy, ErrMaxHold) && !errors.Is(err, ErrInvalid):
		return fmt.Errorf("%w; %w", ErrMaxHold, err)
	case err != nil && endedBy != nil && !errors.Is(endedBy, ErrClosed) && !errors.Is(err, ErrInvalid):
		return fmt.Errorf("%w; %w", ErrLost, err) // the caller must learn of the loss even if the store does not reply
	case err != nil:
		return err
	case out == driver.OutcomeTaken:
		return ErrLost
	case out == driver.OutcomeExpired:
		return ErrExpired
	case out == driver.OutcomeGone && !(unsure && endedBy == nil):
		// The store does not have the lock, so the lock was lost. There is one exception: unsure is
		// true and endedBy is nil. Then an earlier request released the lock, and its reply was
		// lost. Nothing else can have ended the lock: the lease and the connection lasted, and no
		// other program knows the token.
		return ErrLost
	case errors.Is(endedBy, ErrMaxHold):
		return ErrMaxHold
	case endedBy != nil:
		return ErrExpired // the holder had to stop, and no other client had taken the lock yet
	}
	return nil
}

// over reports whether the connection, session or process has ended. A nil bond never ends.
func (b *bond) over() bool { return b != nil && b.Err() != nil }
