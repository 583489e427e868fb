package padlock

import (
	"context"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// The renewer watches the deadlines of all locks of a Locker and renews their leases. However many
// locks there are, it uses one heap, one timer and a few workers, which end when nothing is due.
// Locker.mu guards all its fields.
type renewer struct {
	l        *Locker
	heap     schedule       // contains all locks that are held, without the unwatched ones
	gates    int            // how many holds in the heap are gates; see permitCall
	armed    driver.Instant // when the timer fires; farFuture if there is no timer
	disarm   func() bool
	due      []*hold              // holds that wait for a worker to renew them
	batcher  driver.BatchExtender // nil if the store cannot renew many holds with one request
	offset   float64              // the random part of the next planned time; see schedule.go
	workers  int
	starting int // workers that have not begun yet
	stopped  bool
	running  sync.WaitGroup
	ctx      context.Context // of all renewals; it ends when the renewer stops
	abort    context.CancelFunc
}

// maxRenewers is how many renewals of one Locker may be under way at once.
const maxRenewers = 32

func (k *renewer) init(l *Locker) {
	k.l, k.armed = l, farFuture
	k.ctx, k.abort = context.WithCancel(context.Background())
	k.batcher, _ = driver.As[driver.BatchExtender](l.store)
	k.drawOffset()
}

// recordGrant records in h that the store has granted the lock, and adds h to the heap. It returns
// false if the lease is over already. The caller holds mu.
func (k *renewer) recordGrant(h *hold, sent, now driver.Instant, g driver.Grant, maxHold time.Duration) bool {
	usable := usableFor(sent, g)
	h.maxHoldAt = farFuture
	if maxHold > 0 {
		h.maxHoldAt = endOf(now, maxHold)
	}
	if usable <= now {
		return false
	}
	h.fence, h.grantedAt, h.shared = g.Fence, now, h.shared || g.Shared
	h.usable.Store(int64(min(usable, h.maxHoldAt)))
	h.scheduleRenewal(sent, g)
	k.plan(h)
	if g.Bound != nil {
		k.watch(h, g.Bound)
	}
	return true
}

// endOf returns the instant at which HoldAtMost ends a lock that is held since now. If the sum
// overflows, HoldAtMost has no effect.
func endOf(now driver.Instant, maxHold time.Duration) driver.Instant {
	if at := now.Add(maxHold); at > now {
		return at
	}
	return farFuture
}

// limit sets the instant at which HoldAtMost ends h. The caller holds mu.
func (h *hold) limit(at driver.Instant) {
	if h.cause != nil {
		return // a release may be reading maxHoldAt without mu
	}
	h.maxHoldAt = at
	h.usable.Store(min(h.usable.Load(), int64(at)))
	h.locker.renewer.plan(h)
}

// watch ends h when boundCtx ends. boundCtx is Grant.Bound, which ends together with the
// connection, session or process that h is bound to. It may be nil. After a conversion, h may be
// bound to a different connection, session or process. The caller holds mu.
func (k *renewer) watch(h *hold, boundCtx context.Context) {
	if boundCtx == nil || h.bond != nil && h.bond.Context == boundCtx {
		return
	}
	if h.bond != nil {
		h.bond.unwatch()
	}
	b := &bond{Context: boundCtx}
	h.bond = b
	b.unwatch = context.AfterFunc(boundCtx, func() {
		k.l.mu.Lock()
		defer k.l.unlock()
		if h.bond == b {
			k.l.endHold(h, &joined{ErrLost, context.Cause(boundCtx)})
		}
	})
}

// recordExtension moves the end of the lease to a later time. A late reply never moves it to an
// earlier time, and never revives a lock that is over. The caller holds mu.
func (h *hold) recordExtension(sent driver.Instant, g driver.Grant) {
	if h.cause != nil {
		return
	}
	h.noticeMode(sent, g)
	usable := min(usableFor(sent, g), h.maxHoldAt)
	if usable > driver.Instant(h.usable.Load()) {
		h.usable.Store(int64(usable))
	}
	h.scheduleRenewal(sent, g)
	h.locker.renewer.plan(h)
}

// noticeMode notices that another program, which knows the token, demoted the lock. If the request
// was sent before a Promote, noticeMode ignores the reply. The caller holds mu.
func (h *hold) noticeMode(sent driver.Instant, g driver.Grant) {
	if g.Shared && !h.shared && sent > h.convertedAt {
		h.shared = true
		h.locker.unlist(h)
		h.noteHold(Event{Kind: EventConverted})
	}
}

// endHold ends h for the given reason, if h is not over already. The caller holds mu.
func (l *Locker) endHold(h *hold, why error) {
	if h.cause != nil {
		return
	}
	h.cause = why
	if why != ErrReleased && !h.gate && h.endKind(why) == EventLost {
		l.stats.lost++
	}
	if h.events != nil {
		h.leaveWatch()
		h.noteEnd(why)
	}
	h.usable.Store(0)
	if h.index >= 0 {
		l.renewer.heap.remove(h)
	}
	if h.gate {
		l.renewer.gates--
	}
	if h.bond != nil {
		h.bond.unwatch()
	}
	if h.cancel != nil {
		h.cancel(failed(OpHold, h.name, why))
	}
	l.unlist(h)
}

// endKind is the kind of the event that reports the end of h.
func (h *hold) endKind(why error) EventKind {
	switch {
	case why == ErrReleased:
		return EventReleasing
	case why == ErrMaxHold || why == ErrClosed || h.noRenewal && h.ranOut():
		return EventEnded
	}
	return EventLost
}

// ranOut reports whether the lease of h is over. Only renewals that the store has confirmed count.
func (h *hold) ranOut() bool { return h.locker.clock.Now() >= driver.Instant(h.usable.Load()) }

// noteEnd puts the event that reports the end of h into the queue.
func (h *hold) noteEnd(why error) {
	e := Event{Kind: h.endKind(why), Outcome: holdOutcome(why), Took: h.locker.clock.Now().Sub(h.grantedAt)}
	if e.Kind != EventReleasing {
		e.Err = why
	} else {
		e.Err = h.events.result
	}
	if e.Outcome == OutcomeLost && h.ranOut() {
		e.Outcome = OutcomeExpired
	}
	h.events.held = e.Took
	h.noteHold(e)
}

// arm sets the timer for the first hold in the heap, unless the timer is already set for an earlier
// time.
func (k *renewer) arm() {
	if len(k.heap) == 0 || k.stopped {
		return
	}
	at := k.heap[0].at
	if at == farFuture || k.armed <= at {
		return
	}
	now := k.l.clock.Now()
	d := at.Sub(now)
	if nap := k.l.clock.Nap(); nap > 0 && !k.heap[0].h.endless() { // only a lease can end during a suspend
		d = min(d, nap)
	}
	at = now.Add(d)
	if k.armed <= at {
		return
	}
	if k.disarm != nil {
		k.disarm()
	}
	k.armed = at
	k.disarm = k.l.clock.AfterFunc(d, k.tick)
}

// tick is called by the timer. It looks at all locks whose time in the heap has come.
func (k *renewer) tick() {
	k.l.mu.Lock()
	defer k.l.unlock()
	if k.stopped {
		return
	}
	k.armed = farFuture
	now := k.l.clock.Now()
	woken := len(k.heap) > 0 && k.heap[0].at <= now
	for len(k.heap) > 0 && (k.heap[0].at <= now || woken && k.hasRoom() && k.heap[0].goesAlong(now)) {
		k.lookAt(k.heap[0].h, now)
	}
	k.arm()
}

// endless reports whether h has neither a lease nor a HoldAtMost.
func (h *hold) endless() bool { return driver.Instant(h.usable.Load()) == farFuture }

// lookAt ends h if its time is over. Otherwise it begins to renew h.
func (k *renewer) lookAt(h *hold, now driver.Instant) {
	switch {
	case now >= h.maxHoldAt:
		k.l.endHold(h, ErrMaxHold)
	case now >= driver.Instant(h.usable.Load()):
		h.timedOut = true
		k.l.endHold(h, ErrLost)
	default:
		h.renewAt = farFuture
		// A renewal under way plans the next one when it is done. During a Release none begins.
		if h.renewing == nil && h.released.Load() == nil {
			h.renewing = &renewal{}
			k.renewSoon(h)
		}
		k.plan(h)
	}
}

// renewSoon queues h for a worker, and starts a worker if one is needed.
func (k *renewer) renewSoon(h *hold) {
	k.due = append(k.due, h)
	if k.workers < maxRenewers && (k.workers == 0 || !k.l.guarantees.InProcess) && k.needsWorker() {
		k.workers++
		k.starting++
		k.running.Add(1)
		go k.renewDue()
	}
}

// renewDue is a worker: it renews holds until none is due.
func (k *renewer) renewDue() {
	defer k.running.Done()
	k.l.mu.Lock()
	k.starting--
	for len(k.due) > 0 {
		k.renew(k.takeDue())
	}
	k.due = nil
	k.workers--
	k.l.unlockApart()
}

// renew sends one request to renew the given holds. The caller holds mu. renew unlocks mu while it
// waits for the store, and locks mu again before it returns.
func (k *renewer) renew(holds []*hold) {
	if len(holds) == 0 {
		return
	}
	b := k.newBatch(holds)
	k.l.unlockApart()
	sent := k.l.clock.Now()
	answers := b.askStore(k.l.store)
	brokenOff := b.isBrokenOff()
	b.cancel()
	k.l.mu.Lock()
	if b.incomplete {
		k.batcher = nil
	}
	k.drawOffset()
	for i, h := range holds {
		h.renewing.brokenOff = h.renewing.brokenOff || brokenOff
		k.recordRenewal(h, sent, answers[i].Grant, answers[i].Err)
		if d := h.renewing.done; d != nil {
			close(d)
		}
		h.renewing = nil
		k.offset += offsetStep
	}
}

// recordRenewal applies the store's answer to a renewal of h. The caller holds mu.
func (k *renewer) recordRenewal(h *hold, sent driver.Instant, g driver.Grant, err error) {
	r := h.renewing
	if h.cause != nil {
		return
	}
	if err == nil {
		err = k.l.checkLease(h.detached, &g)
	}
	leased := g.TTL > 0 || err != nil && !r.brokenOff
	if leased {
		k.l.stats.renewals++
	}
	h.cutOff = err != nil && r.brokenOff
	switch lost := lossIn(err); {
	case err == nil:
		slack := h.slack()
		h.recordExtension(sent, g)
		if leased {
			h.noteRenewal(sent, slack)
		}
	case lost != nil:
		k.l.endHold(h, lost)
	case r.brokenOff:
		h.renewAt = k.l.clock.Now() // the Release may be of another hold
		k.plan(h)
	default:
		// The outcome is not known. The lease is still good until it ends.
		k.l.stats.renewalErrors++
		h.noteHold(Event{Kind: EventRenewFailed, Outcome: holdOutcome(err), Slack: h.slack(), Err: err})
		h.renewAt = h.renewAgain(k.l.clock.Now())
		k.plan(h)
	}
}

// slack returns how much of h's lease is left, or 0 if there is no observer. The caller holds mu.
func (h *hold) slack() time.Duration {
	if h.events == nil {
		return 0
	}
	return h.remaining()
}

// noteRenewal notes that the store has confirmed a request that was sent at the given instant.
func (h *hold) noteRenewal(sent driver.Instant, slack time.Duration) {
	if h.events != nil {
		h.noteHold(Event{Kind: EventRenewed, Took: h.locker.clock.Now().Sub(sent), Slack: slack})
	}
}

// remaining implements Lock.Remaining.
func (h *hold) remaining() time.Duration {
	switch usable := driver.Instant(h.usable.Load()); usable {
	case 0:
		return 0
	case farFuture:
		return 1<<63 - 1
	default:
		if h.noRenewal && h.locker.isClosed() { // Close does not find h if h is unwatched
			return 0
		}
		return max(0, usable.Sub(h.locker.clock.Now()))
	}
}

// isClosed reports whether the first Close is done.
func (l *Locker) isClosed() bool {
	select {
	case <-l.closeDone:
		return true
	default:
		return false
	}
}

// joinRenewal cancels a renewal under way and waits until the renewal has ended, so that none of
// its requests is sent after the release. The caller holds mu; joinRenewal unlocks mu while it
// waits.
func (h *hold) joinRenewal(ctx context.Context) {
	r := h.renewing
	if r == nil {
		return
	}
	if r.cancel == nil { // not sent yet
		h.renewing = nil
		return
	}
	r.brokenOff = true
	r.cancel()
	if r.done == nil {
		r.done = make(chan struct{})
	}
	h.locker.unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
	}
	h.locker.mu.Lock()
}

// plan puts h into the heap, or moves it there after its times have changed. The renewer looks at h
// when it ends or when its renewal is due, whichever is earlier. h is not over. The caller holds
// mu.
func (k *renewer) plan(h *hold) {
	k.heap.put(scheduled{min(driver.Instant(h.usable.Load()), h.renewAt), h})
	k.arm()
}
