package padlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Slots lets up to n callers hold name at the same time, each with one of n permits. Lock.Slot
// returns the number of the permit, from 0 to n-1; no other caller has that number while this
// caller's lock lasts. n must be 1 to driver.MaxSlots.
//
// A permit is a lock like any other, with a lease, a fence and a holder. If a process dies, its
// permit becomes free when the lease ends. With HoldAtLeast(d), at most n callers start within d.
//
// Callers need not give the same n: each caller takes a permit whose number is below its own n. A
// caller with Slots and a caller without Slots do not exclude each other. If Slots and Shared are
// given together, the error is ErrInvalid.
//
// Callers that wait with the same n get permits in the order of arrival. A caller that does not
// wait may overtake the waiting callers: it may take a permit that has just become free. If the
// store does not implement driver.SlotTaker, a new caller that is ready to wait may also overtake
// the waiting callers.
func Slots(n int) Option {
	if n < 1 {
		n = -1 // 0 means that Slots is not given
	}
	return option(func(s *settings) { s.slots = n })
}

// permitCall is one call that takes one of n permits. The call has one of three states:
//
//   - scanning: The call tries every permit once. It does so with one request if the store is a
//     driver.SlotTaker, and otherwise from permit 0 to permit n-1.
//   - queueing: The call waits for the gate. The gate is a lock that only the first of all waiting
//     callers has.
//   - watching: The call has the gate. It tries every permit, waits until one may be free, and
//     tries again.
//
// A call begins with scanning. If other callers of this process already wait, it begins with
// queueing, so that the order is kept. The transitions are:
//
//	state     event                     what happens
//	scanning  The call gets a permit.   The call is done.
//	scanning  All permits are held.     The call is queueing, or refused if it does not wait.
//	scanning  There is another error.   The call is refused.
//	queueing  The call gets the gate.   The call is watching.
//	queueing  The wait is over.         The call is refused.
//	watching  The call gets a permit.   The call releases the gate and is done.
//	watching  The wait is over.         The call releases the gate and is refused.
//	watching  The gate is lost.         The call is still watching, because only the order of callers
//	                                    depends on the gate.
//
// The gate has a short lease. So if the caller at the gate dies, the others wait for that lease
// only. The callers of this process wait for the gate in the Locker's own line.
type permitCall struct {
	call
	l       *Locker
	ctx     context.Context
	name    string
	set     settings
	start   driver.Instant
	events  *eventQueue // nil if there is no observer
	got     *hold       // the permit that the store has handed over
	held    []error     // for each permit the last *HeldError
	noted   bool        // EventContended was noted
	pending bool        // EventAcquiring was counted
	singly  bool        // the store cannot serve this call in one step
	timeout bool        // the time of Wait is over
	poll    poller
}

// beginPermit does the work of tryAtOnce for a call with Slots. It tries all permits of name in one
// step, if the store can do that and nothing else needs to be checked.
func (a *attempt) beginPermit(name string) (*hold, *Lock, *attempt, error) {
	l := a.l
	if l.slotTaker == nil || l.locator != nil || a.set.shared || lockFrom(a.ctx) != nil {
		onHeap := *a
		return nil, nil, &onHeap, nil
	}
	if l.cfg.observers != nil {
		a.observe(name)
	}
	a.anySlot, a.overtake = true, a.set.wait == 0
	err := driver.CheckSlots(name, a.set.slots, &l.guarantees)
	if err == nil {
		err = a.prepare(name)
	}
	if err == nil {
		sent := l.sendTime()
		a.start = sent
		err = a.tryStore(sent)
	}
	switch refused := errors.Is(err, ErrHeld) || splitVote(err); {
	case err == nil:
		if a.unannounced() {
			a.announce()
		}
		return a.h, a.handle, nil, nil
	case refused:
		a.noteContended(err)
		if a.set.wait == 0 {
			return nil, nil, nil, a.failCall(name, err)
		}
	case !errors.Is(err, errors.ErrUnsupported):
		return nil, nil, nil, a.failCall(name, err)
	}
	a.drop(err)
	onHeap := *a
	onHeap.counted, onHeap.anySlot = false, false
	return nil, nil, &onHeap, nil
}

// takePermit takes one of the permits of name. The attempt already has the options of the call. If
// beginPermit has tried every permit, a.held is the error.
//
//go:noinline
func (a *attempt) takePermit(name string) (*hold, error) {
	if a.l.cfg.observers != nil && a.events == nil {
		a.observe(name)
	}
	p := &permitCall{
		call: a.call, l: a.l, ctx: a.ctx, name: name, set: a.set, start: a.start, events: a.events, noted: a.noted, pending: a.pending,
		poll: poller{l: a.l},
	}
	err := p.check()
	if err == nil {
		var h *hold
		if h, err = p.runStates(a.held); err == nil {
			return h, nil
		}
	}
	a.start, a.timeout, a.pending = p.start, p.timeout, p.pending
	return nil, a.failCall(name, err)
}

// check finds the errors in the call, before anything is sent to the store.
func (p *permitCall) check() error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if p.set.shared {
		return fmt.Errorf("%w: Slots and Shared cannot be combined", ErrInvalid)
	}
	if err := driver.CheckSlots(p.name, p.set.slots, &p.l.guarantees); err != nil {
		return err
	}
	for h := lockFrom(p.ctx); h != nil; h = h.outer {
		if base, _, ok := driver.SplitSlot(h.name); ok && base == p.name && h.locker == p.l && h.endCause() == nil {
			return ErrAlreadyHeld
		}
	}
	if err := p.set.check(&p.l.guarantees); err != nil {
		return err
	}
	return p.checkPlaces()
}

// checkPlaces returns ErrInvalid if the gate and one of the permits are the same lock. In some
// stores two names can share one lock. The caller that has the gate waits for a permit, so it would
// wait for itself.
func (p *permitCall) checkPlaces() error {
	where := p.l.locator
	if where == nil {
		return nil
	}
	gate, err := where.Location(driver.SlotGate(p.name, p.set.slots))
	for i := 0; i < p.set.slots && err == nil; i++ {
		var place string
		if place, err = where.Location(driver.SlotName(p.name, i)); err == nil && place == gate {
			return fmt.Errorf("%w: permit %d and the callers that wait for it share one lock in this store; choose another name", ErrInvalid, i)
		}
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// runStates takes a permit. It goes through the states that the comment at permitCall describes,
// until the call is done or refused. triedErr is nil, or the error of beginPermit after it has
// tried every permit.
func (p *permitCall) runStates(triedErr error) (*hold, error) {
	l := p.l
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, ErrClosed
	}
	l.attempts++ // so that Close waits for this call
	crowded := l.queues[driver.SlotGate(p.name, p.set.slots)] != nil
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.attemptOver()
		l.mu.Unlock()
	}()
	if p.start == 0 {
		p.start = l.clock.Now()
	}
	p.held = make([]error, p.set.slots)
	if wait := p.set.wait != 0; triedErr != nil || !wait || !crowded || p.set.skip {
		h, err := p.firstScan(triedErr)
		if err == nil || !errors.Is(err, ErrHeld) && !splitVote(err) || !wait || p.skips() {
			return h, err
		}
	}
	p.noteContended(nil)
	return p.queueForPermit()
}

// firstScan makes the first scan. If triedErr is not nil, beginPermit has already tried every
// permit. Then firstScan only returns a *HeldError made from triedErr.
func (p *permitCall) firstScan(triedErr error) (*hold, error) {
	if triedErr != nil {
		return nil, p.heldAll(triedErr)
	}
	return p.scan(p.set.wait == 0)
}

// scan tries each permit once, with one request if possible. If overtake is true, this call may
// overtake the callers that wait for the gate.
func (p *permitCall) scan(overtake bool) (*hold, error) {
	if p.l.slotTaker == nil || p.singly {
		return p.scanSingly()
	}
	a := p.attempt()
	a.anySlot, a.overtake = true, overtake
	h, err := a.takeOrWait(p.name)
	switch {
	case err == nil:
		return h, nil
	case errors.Is(err, errors.ErrUnsupported):
		p.singly = true
		return p.scanSingly()
	case errors.Is(err, ErrHeld):
		err = p.heldAll(err)
	}
	return nil, err
}

// heldAll records that all permits are held, and returns the error for the caller. The holders of
// the permits come from err.
func (p *permitCall) heldAll(err error) error {
	clear(p.held)
	var all *HeldError
	if errors.As(err, &all) {
		for i := range min(len(all.Holds), len(p.held)) {
			p.held[i] = &HeldError{Holds: all.Holds[i : i+1], Until: all.Holds[i].Until}
		}
	}
	err = p.refusal()
	p.poll.until(err)
	return err
}

// scanSingly tries one permit after the other. If there are many permits, it begins with a random
// one, because the first ones are more likely to be held.
func (p *permitCall) scanSingly() (*hold, error) {
	first := 0
	if len(p.held) > watchMost {
		first = rand.IntN(len(p.held))
	}
	for i := range p.held {
		i = (first + i) % len(p.held)
		h, err := p.attempt().takeOrWait(driver.SlotName(p.name, i))
		if err == nil {
			return h, nil
		}
		if !errors.Is(err, ErrHeld) && !splitVote(err) {
			return nil, err
		}
		p.held[i] = err
	}
	err := p.refusal()
	p.poll.until(err)
	return nil, err
}

// refusal returns one *HeldError for all permits.
func (p *permitCall) refusal() error {
	all := &HeldError{Waiters: -1}
	for _, err := range p.held {
		var held *HeldError
		if !errors.As(err, &held) {
			continue
		}
		all.Holds = append(all.Holds, held.Holds...)
		if all.Until.IsZero() || !held.Until.IsZero() && held.Until.Before(all.Until) {
			all.Until = held.Until
		}
	}
	err := error(all)
	p.noteContended(err)
	return err
}

// noteContended counts the call as contended and reports EventContended to observers, once for each
// call.
func (p *permitCall) noteContended(err error) {
	if p.noted {
		return
	}
	p.noted = true
	p.l.mu.Lock()
	p.l.stats.contended++
	p.pending = p.pending || p.events.countPending()
	p.events.noteCall(Event{Kind: EventContended, Err: err})
	p.l.unlock()
}

// skips reports whether SkipIfOutlived applies: the holder of every permit plans to keep it beyond
// the end of this wait.
func (p *permitCall) skips() bool {
	for _, held := range p.held {
		a := attempt{l: p.l, ctx: p.ctx, set: p.set, start: p.start, held: held}
		if !a.skips() {
			return false
		}
	}
	return p.set.skip
}

// gateTTL is the lease of the gate, the lock of the first waiting caller. If that caller dies, the
// others must wait until this lease ends. A shorter lease would have to be renewed more often while
// the caller waits.
const gateTTL = time.Second

// queueForPermit waits for the gate, and then for a permit.
func (p *permitCall) queueForPermit() (*hold, error) {
	gateName := driver.SlotGate(p.name, p.set.slots)
	if err := p.l.beginPermitWait(gateName); err != nil {
		return nil, err
	}
	defer p.l.endPermitWait(gateName)
	g := &attempt{l: p.l, ctx: p.ctx, call: p.call}
	if p.awaitsPermit() {
		g.awaitPermit = p.awaitHandOver
	}
	g.part, g.gate, g.noted, g.within = true, true, true, false
	g.set = settings{ttl: max(gateTTL, p.l.guarantees.MinTTL), wait: p.remaining(), label: p.set.label}
	gate, err := g.takeOrWait(gateName)
	p.timeout = g.timeout
	switch {
	case p.got != nil:
		return p.got, nil
	case errors.Is(err, ErrHeld) && p.ctx.Err() != nil:
		return nil, &joined{p.refusal(), p.ctx.Err()}
	case errors.Is(err, ErrHeld):
		return nil, p.refusal()
	case err != nil:
		return nil, err
	}
	ctx, stop := p.bounded()
	defer stop()
	h, err := p.watch(ctx)
	// The call does not wait for the store's reply. Close does, because the gate is a hold.
	go gate.giveBack(context.Background(), 0, nil)
	return h, err
}

// remaining returns how much is left of the time that Wait allows. If only the context bounds the
// wait, it returns waitForContext.
func (p *permitCall) remaining() time.Duration {
	if p.set.wait < 0 {
		return p.set.wait
	}
	return max(0, p.set.wait-p.l.clock.Now().Sub(p.start))
}

// bounded returns the context for the wait for a permit. This context ends under the same
// conditions as in a wait for a lock without slots.
func (p *permitCall) bounded() (context.Context, func()) {
	a := &attempt{l: p.l, ctx: p.ctx}
	if p.set.wait < 0 {
		return a.bounded(nil)
	}
	over := make(chan struct{})
	stopTimer := p.l.clock.AfterFunc(p.remaining(), func() { close(over) })
	ctx, stop := a.bounded(over)
	return ctx, func() { stopTimer(); stop() }
}

// watch tries the permits whenever one may be free, until it gets one or ctx ends.
func (p *permitCall) watch(ctx context.Context) (*hold, error) {
	a := &attempt{l: p.l, ctx: p.ctx}
	var downSince driver.Instant
	var trouble error // the last error; nil if the store has replied since
	for {
		began := p.l.clock.Now()
		h, err := p.scan(true)
		switch {
		case err == nil:
			return h, nil
		case errors.Is(err, ErrHeld) || splitVote(err):
			if downSince, trouble = 0, nil; p.skips() {
				return nil, err
			}
			p.awaitPermit(ctx)
		case ctx.Err() == nil && !a.tolerates(err, began, &downSince):
			return nil, err
		default:
			trouble = err
			p.l.sleep(ctx, p.poll.next())
		}
		if ctx.Err() != nil {
			return nil, p.waitOver(ctx, trouble)
		}
	}
}

// waitOver returns the error of a wait that ended, as attempt.waitEnded does.
func (p *permitCall) waitOver(ctx context.Context, trouble error) error {
	err := p.refusal()
	p.timeout = context.Cause(ctx) == errWaitOver
	switch {
	case p.ctx.Err() != nil:
		err = &joined{err, p.ctx.Err()}
	case errors.Is(context.Cause(ctx), ErrClosed):
		err = ErrClosed
	}
	if trouble != nil {
		err = &joined{err, trouble}
	}
	return err
}

// The first waiting caller watches at most watchMost permits of one name at the same time. If the
// name has more permits, this caller also tries all of them every 250 ms (rescanAfter).
const (
	watchMost   = 16
	rescanAfter = 250 * time.Millisecond
)

// awaitPermit waits until a permit may be free, or until ctx ends.
func (p *permitCall) awaitPermit(ctx context.Context) {
	if p.l.slotWaiter != nil && !p.singly {
		err := p.l.slotWaiter.WaitSlot(ctx, p.request(p.name), p.set.slots)
		if !errors.Is(err, errors.ErrUnsupported) {
			if err != nil {
				p.l.sleep(ctx, p.poll.next())
			}
			return
		}
	}
	if p.l.waiter == nil {
		p.l.sleep(ctx, p.poll.next())
		return
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := rand.Perm(len(p.held))
	if len(watched) > watchMost {
		watched = watched[:watchMost]
		stop := p.l.clock.AfterFunc(rescanAfter, cancel)
		defer stop()
	}
	woken := make(chan error, len(watched))
	for _, i := range watched {
		go func() {
			_, err := p.l.waiter.Wait(watching, p.request(driver.SlotName(p.name, i)), false)
			woken <- err
		}()
	}
	cannotWait := <-woken != nil && watching.Err() == nil
	cancel()
	for range len(watched) - 1 {
		<-woken
	}
	if cannotWait {
		p.l.sleep(ctx, p.poll.next())
	}
}

// request returns the request with which the caller waits for permits. This request takes no place
// in the store's queue.
func (p *permitCall) request(name string) driver.Request {
	l := p.l
	l.mu.Lock()
	defer l.mu.Unlock()
	return driver.Request{
		Name: name, Token: l.newToken(), TTL: p.set.ttl,
		Holder: driver.Holder{Host: l.host, PID: l.pid, Label: p.set.label},
	}
}
