package padlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// Slots lets up to n callers hold name at the same time, each with one of n permits. Lock.Slot
// returns the number of the permit, from 0 to n-1; no other caller has that number while this
// caller's lock lasts. The number of permits, n, is from 1 to fast.MaxSlots (1,024); otherwise
// the error is ErrInvalid. Without Slots, one caller holds name.
//
// A permit is a lock like any other, with a lease, a fence and a holder. If a process dies, its
// permit becomes free when the lease ends; on a store whose holds end with their process, such as
// files, at once. With HoldAtLeast(d), at most n callers start within d.
//
// Callers need not give the same n: each caller takes a permit whose number is below its own n. A
// caller with Slots and a caller without Slots do not exclude each other. If Slots and Shared are
// given together, the error is ErrInvalid.
//
// Callers that wait with the same n get permits in the order of arrival, on every store with
// Guarantees.FIFO. A caller that does not wait, or that gives SkipIfOutlived, may overtake the
// waiting callers: it may take a permit that has just become free.
func Slots(n int) Option {
	if n < 1 {
		n = -1 // 0 means that Slots is not given
	}
	return option(func(s *settings) { s.slots = n })
}

// permitCall is one call that takes one of n permits. The call has one of three states:
//
//   - scanning: The call tries every permit once. It does so with one request if the store is a
//     fast.SlotTaker, and otherwise from permit 0 to permit n-1.
//   - queueing: The call waits for the gate. The gate is a lock that only the first of all waiting
//     callers has.
//   - watching: The call has the gate. It tries every permit, waits until one may be free, and
//     tries again.
//
// A call begins with scanning. But if the call is ready to wait and other callers already wait, it
// begins with queueing, so that the order is kept. The transitions are:
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
	*call
	name string
	held []error // for each permit the last *HeldError
	next int     // the permit after the last one that scanSingly got
	poll poller

	// unsure is true if the caller's token may have a permit, because the outcome of a request is
	// not known and there is no clean-up; see Token.
	unsure bool
}

// takePermit takes one of the permits of name.
func (c *call) takePermit(name string) (*hold, error) {
	p := &permitCall{call: c, name: name}
	if err := p.check(); err != nil {
		return nil, err
	}
	h, err := p.runStates()
	if err != nil && p.unsure {
		err = withUncertain(err)
	}
	return h, callerError(p.ctx, err)
}

// check finds the errors in the call, before anything is sent to the store.
func (p *permitCall) check() error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if p.set.shared {
		return fmt.Errorf("%w: Slots and Shared cannot be combined", ErrInvalid)
	}
	if err := fast.CheckSlots(p.name, p.set.slots, &p.l.guarantees); err != nil {
		return err
	}
	p.outer = lockFrom(p.ctx)
	if locksIn(p.ctx, p.outer, func(h *hold) bool {
		base, _, ok := fast.SplitSlot(h.name)
		return ok && base == p.name && h.endCause() == nil && p.l.sharesStore(h.locker)
	}) {
		return ErrAlreadyHeld
	}
	if err := cmp.Or(p.set.wrong, p.checkToken()); err != nil {
		return err
	}
	return p.checkLocations()
}

// checkLocations returns ErrInvalid if a gate and one of the permits, or two gates, are the same lock.
// In some stores two names can share one lock. The caller that has the gate waits for a permit, so it
// would wait for itself.
func (p *permitCall) checkLocations() error {
	where := p.l.locations
	if where == nil || !p.l.guarantees.Hashed {
		return nil
	}
	gate, err := where.Location(fast.SlotGate(p.name, p.set.slots))
	second := gate
	if p.set.weight != 0 && err == nil {
		if second, err = where.Location(fast.SlotGate(p.name, 0)); err == nil && second == gate {
			return fmt.Errorf("%w: the callers that wait share one lock with each other in this store; choose another name", ErrInvalid)
		}
	}
	for i := 0; i < p.set.slots && err == nil; i++ {
		var place string
		if place, err = where.Location(fast.SlotName(p.name, i)); err == nil && (place == gate || place == second) {
			return fmt.Errorf("%w: permit %d and the callers that wait for it share one lock in this store; choose another name", ErrInvalid, i)
		}
	}
	return err
}

// runStates takes a permit. It goes through the states that the comment at permitCall describes,
// until the call is done or refused.
func (p *permitCall) runStates() (*hold, error) {
	l := p.l
	l.mu.Lock()
	closed := l.beginCall()
	crowded := l.permitWaiters[fast.SlotGate(p.name, p.set.slots)] > 0
	l.mu.Unlock()
	if closed != nil {
		return nil, closed
	}
	defer l.endCalls(1)
	p.start = l.clock.Now()
	p.held = make([]error, p.set.slots)
	if wait := p.set.wait != 0; !wait || !crowded || p.set.skip || !p.set.token.IsZero() {
		h, err := p.scan(!wait)
		if err == nil || !errors.Is(err, ErrHeld) && !splitVote(err) || !wait || p.skips() {
			return h, err
		}
	}
	l.mu.Lock()
	p.noteContended(nil)
	l.unlock()
	return p.queueForPermit()
}

// gateTTL is the lease of the gate, the lock of the first waiting caller. If that caller dies, the
// others must wait until this lease ends. A shorter lease would have to be renewed more often while
// the caller waits.
const gateTTL = time.Second

// queueForPermit waits for the gate, and then for a permit.
func (p *permitCall) queueForPermit() (*hold, error) {
	gateName := fast.SlotGate(p.name, p.set.slots)
	if err := p.l.beginPermitWait(gateName); err != nil {
		return nil, err
	}
	defer p.l.endPermitWait(gateName)
	gate, err := p.takeGate(gateName, p.remaining())
	if errors.Is(err, ErrHeld) && p.ctx.Err() == nil && !p.set.token.IsZero() {
		return p.scan(false) // a repeat of this call may have got a permit meanwhile
	}
	if err != nil {
		return nil, err
	}
	var h *hold
	err = p.watch(&lockSet{holds: []*hold{gate}}, func() (err error) { h, err = p.scan(true); return err })
	return h, err
}

// takeGate waits for a gate for at most that long.
func (p *permitCall) takeGate(name string, wait time.Duration) (*hold, error) {
	g := &attempt{call: call{method: method{hidden: true}, l: p.l, ctx: p.ctx, noted: true}}
	g.set = settings{ttl: max(gateTTL, p.l.guarantees.MinTTL), wait: wait, label: p.set.label}
	gate, err := g.take(name)
	p.timeout = g.timeout
	switch {
	case errors.Is(err, ErrHeld) && p.ctx.Err() != nil:
		err = fmt.Errorf("%w; %w", p.refusal(), p.ctx.Err())
	case errors.Is(err, ErrHeld):
		err = p.refusal()
	}
	return gate, err
}

// watch calls try whenever a permit may be free, until try succeeds or the wait is over, or until a
// weighted call loses one of its gates. Then it releases the gates.
func (p *permitCall) watch(gates *lockSet, try func() error) error {
	over, stopTimer := p.startTimer()
	if stopTimer != nil {
		defer stopTimer()
	}
	ctx, stop := p.bounded(over)
	defer stop()
	// The call does not wait for the store's reply. Close does, because a gate is a hold.
	defer func() { go gates.giveUp(nil) }()
	if len(gates.holds) > 1 {
		watching, stop := gates.until(ctx)
		defer stop(nil)
		ctx = watching
	}
	return p.tryUntil(ctx, try)
}

// tryUntil is watch without the gate. It ends with ctx.
func (p *permitCall) tryUntil(ctx context.Context, try func() error) error {
	var downSince driver.Instant
	var trouble error // the last error; nil if the store has replied since
	w := p.newWatch(ctx)
	defer w.stop()
	for {
		began := p.l.clock.Now()
		err := try()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrHeld) || splitVote(err):
			if downSince, trouble = 0, nil; p.skips() {
				return err
			}
			p.poll.slowDown(ctx, p.l)
			w.await()
		case ctx.Err() == nil && !p.tolerates(err, began, &downSince):
			return err
		default:
			trouble = err
			p.l.sleep(ctx, p.poll.next())
		}
		if ctx.Err() != nil {
			return p.waitEnded(p.refusal(), context.Cause(ctx), trouble)
		}
	}
}

// The first waiting caller watches at most watchMost permits of one name at the same time. If the
// name has more permits, this caller also tries all of them every 250 ms (rescanAfter).
const (
	watchMost   = 16
	rescanAfter = 250 * time.Millisecond
)

// permitWatch waits in the store for several permits at the same time, without a place in their
// queues. The waits go on while the caller tries the permits. So a wait that has ended is started
// again, and the others cost no further requests.
type permitWatch struct {
	p        *permitCall
	ctx      context.Context
	cancel   context.CancelFunc
	idle     []int       // the permits whose wait has ended, or has not begun
	ended    chan waited // one for each wait that has ended
	watching sync.WaitGroup
}

// waited is the end of one wait.
type waited struct {
	permit int
	err    error
}

// newWatch chooses the permits to watch.
func (p *permitCall) newWatch(ctx context.Context) *permitWatch {
	w := &permitWatch{p: p}
	w.idle = rand.Perm(len(p.held))
	w.idle = w.idle[:min(len(w.idle), watchMost)]
	w.ended = make(chan waited, len(w.idle))
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

// await waits until a permit may be free, or until ctx ends.
func (w *permitWatch) await() {
	p := w.p
	if p.l.waiter == nil {
		p.l.sleep(w.ctx, p.poll.next())
		return
	}
	for _, i := range w.idle {
		w.watching.Go(func() {
			_, err := p.l.waiter.Wait(w.ctx, p.request(fast.SlotName(p.name, i)), false)
			w.ended <- waited{i, err}
		})
	}
	w.idle = w.idle[:0]
	var rescan chan struct{}
	if len(p.held) > watchMost {
		rescan = make(chan struct{})
		defer p.l.clock.AfterFunc(rescanAfter, func() { close(rescan) })()
	}
	select {
	case <-w.ctx.Done():
	case <-rescan:
	case e := <-w.ended:
		w.idle = append(w.idle, e.permit)
		if e.err != nil {
			p.l.sleep(w.ctx, p.poll.next())
		}
	}
}

// stop ends all waits.
func (w *permitWatch) stop() {
	w.cancel()
	w.watching.Wait()
}

// request returns the request with which the caller waits for permits. This request takes no place
// in the store's queue.
func (p *permitCall) request(name string) driver.Request {
	return driver.Request{
		Name: name, Token: driver.TokenOf(newToken()), TTL: p.set.ttl,
		Holder: driver.Holder{Host: p.l.host, PID: p.l.pid, Label: p.set.label},
	}
}

// beginPermitWait counts a caller that begins to wait for a permit. If as many callers wait already
// as MaxWaiters allows, it returns ErrTooManyWaiters. The caller that has the gate counts too,
// although it has left the line for the gate.
func (l *Locker) beginPermitWait(gateName string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.permitWaiters[gateName] >= l.cfg.maxWaiters {
		return ErrTooManyWaiters
	}
	if l.permitWaiters == nil {
		l.permitWaiters = make(map[string]int)
	}
	l.permitWaiters[gateName]++
	l.stats.waiting++
	return nil
}

// endPermitWait ends the wait that beginPermitWait has counted.
func (l *Locker) endPermitWait(gateName string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.permitWaiters[gateName]--; l.permitWaiters[gateName] == 0 {
		delete(l.permitWaiters, gateName)
	}
	l.stats.waiting--
}
