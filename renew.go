package padlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// The renewer watches the deadlines of all locks of a Locker and renews their leases. However many
// locks there are, it uses one heap, one timer and a few workers, which end when nothing is due.
// Locker.mu guards all its fields.
type renewer struct {
	l        *Locker
	heap     schedule       // contains all locks that are held, without the unwatched ones
	hidden   int            // how many holds in the heap are hidden
	armed    driver.Instant // when the timer fires; farFuture if there is no timer
	disarm   func() bool
	due      []*hold            // holds that wait for a worker to renew them
	batcher  fast.BatchExtender // nil if the store cannot renew many holds with one request
	offset   float64            // the random part of the next planned time; see schedule.go
	random   func() float64     // draws offset; internal/explore/holder fixes it
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
	k.l, k.armed, k.random = l, farFuture, rand.Float64
	k.ctx, k.abort = context.WithCancel(context.Background())
	k.batcher, _ = driver.As[fast.BatchExtender](l.store)
	k.drawOffset()
}

// recordGrant records in h that the store has granted the lock, and adds h to the heap. It returns
// false if the lease is over already. The caller holds mu.
func (k *renewer) recordGrant(h *hold, sent, now driver.Instant, g driver.Grant, maxHold time.Duration) bool {
	usable := h.lastsUntil(sent, g, h.ttl)
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
			k.l.endHold(h, fmt.Errorf("%w; %w", ErrLost, context.Cause(boundCtx)))
		}
	})
}

// lastsUntil returns the instant until which h can be used. With NoRenewal, a hold without a lease
// ends in this process ttl after the request, and the store keeps it until Release.
func (h *hold) lastsUntil(sent driver.Instant, g driver.Grant, ttl time.Duration) driver.Instant {
	if g.TTL == 0 && h.noRenewal {
		return sent.Add(ttl)
	}
	return usableFor(sent, g)
}

// recordExtension moves the end of the lease to a later time. ttl is what an Extend asked for, and 0
// for a renewal. A late reply never moves the end to an earlier time, and never revives a lock that
// is over. The caller holds mu.
func (h *hold) recordExtension(sent driver.Instant, g driver.Grant, ttl time.Duration) {
	if h.cause != nil {
		return
	}
	if h.noticeChange(sent, g); h.cause != nil {
		return
	}
	usable := min(h.lastsUntil(sent, g, ttl), h.maxHoldAt)
	if usable > driver.Instant(h.usable.Load()) {
		h.usable.Store(int64(usable))
	}
	h.scheduleRenewal(sent, g)
	h.locker.renewer.plan(h)
}

// errTakenAnew is why a hold is over if its token has another hold now; see Token.
var errTakenAnew = fmt.Errorf("%w: the lock ended, and its token took it again later", ErrLost)

// errRanOut is why a hold is over if its lease ran out by the clock of this process. Only the store
// knows whether another client has taken the name since.
var errRanOut = fmt.Errorf("%w by the clock of this process; %w", ErrExpired, ErrLost)

// noticeChange notices what other programs that know the token have done. If one has taken the name
// again after this hold ended in the store, the token has a greater fence, and this hold is over.
// If one has demoted the lock, it is shared. noticeChange ignores replies that a Promote or Demote
// of this hold may have overtaken. The caller holds mu.
func (h *hold) noticeChange(sent driver.Instant, g driver.Grant) {
	if g.Fence > h.fence && h.fence > 0 && !h.shared && !g.Shared && h.converting == nil {
		h.locker.endHold(h, errTakenAnew)
		return
	}
	if g.Shared && !h.shared && sent > h.convertedAt {
		h.shared = true
		h.locker.unlist(h)
		h.noteHold(Event{Kind: EventConverted})
	}
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
		k.l.endHold(h, errRanOut)
	default:
		h.renewAt = farFuture
		// A renewal under way plans the next one when it is done.
		if h.renewing == nil && !h.letGo {
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
	answers := b.send(k.l.store)
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
		if h.recordExtension(sent, g, 0); leased && h.cause == nil {
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

// renewal is one renewal under way.
type renewal struct {
	cancel    context.CancelFunc // nil until the request is sent
	done      chan struct{}      // closed when the renewal ends; made by a Release that waits for that
	brokenOff bool               // a Release cancelled the renewal
}

// mostTogether is the largest number of holds that one request renews. A store may divide a batch
// further.
const mostTogether = 2048

// hasRoom reports whether one request can renew more holds than those that are due. If so, tick
// adds holds that will be due soon. If there is no room, tick adds none. So thousands of holds that
// were taken at the same time are not renewed at the same time for ever. The caller holds mu.
func (k *renewer) hasRoom() bool { return len(k.due) < mostTogether }

// needsWorker reports whether another worker is needed, because the workers that are about to begin
// cannot take all holds that are due. The caller holds mu.
func (k *renewer) needsWorker() bool {
	if k.batcher == nil {
		return true
	}
	return k.starting*mostTogether < len(k.due)
}

// takeDue takes holds that are due and can be renewed with one request. It returns no holds if none
// of the queued holds needs a renewal any more. The caller holds mu.
func (k *renewer) takeDue() (holds []*hold) {
	for len(k.due) > 0 && len(holds) < mostTogether {
		h := k.due[0]
		needed := h.renewing != nil && h.cause == nil
		if needed && len(holds) > 0 && k.batcher == nil {
			return holds
		}
		k.due[0] = nil
		k.due = k.due[1:]
		if !needed {
			h.renewing = nil
			continue
		}
		holds = append(holds, h)
	}
	return holds
}

// renewalBatch contains the renewals that are sent with one request.
type renewalBatch struct {
	ctx        context.Context
	cancel     context.CancelFunc
	holds      []*hold
	batcher    fast.BatchExtender
	incomplete bool // the store did not answer for every hold
}

// A Release waits for a renewal of its hold that is under way. If the request also renews other
// holds, the Release waits for firstPatience and then cancels the request. The Locker at once sends
// a second request, which renews the other holds.
//
// During the second request, a Release of one of those holds waits for secondPatience. That is
// longer, because Releases must not cancel one request after another. If they did, a slow store
// would not renew the remaining holds in time.
const (
	firstPatience  = 50 * time.Millisecond
	secondPatience = time.Second
)

// isBrokenOff reports whether a Release has cancelled the request.
func (b *renewalBatch) isBrokenOff() bool { return b.ctx.Err() == context.Canceled }

// newBatch makes the batch for a request that renews the given holds. The caller holds mu.
func (k *renewer) newBatch(holds []*hold) *renewalBatch {
	b := &renewalBatch{holds: holds, batcher: k.batcher}
	now := k.l.clock.Now()
	patience := holds[0].patience(now)
	for _, h := range holds[1:] {
		patience = min(patience, h.patience(now))
	}
	b.ctx, b.cancel = context.WithTimeout(k.ctx, patience)
	leave := b.cancel
	if len(holds) > 1 {
		wait := firstPatience
		if slices.ContainsFunc(holds, func(h *hold) bool { return h.cutOff }) {
			wait = secondPatience
		}
		leave = func() { k.l.clock.AfterFunc(wait, b.cancel) }
	}
	for _, h := range holds {
		h.renewing.cancel = leave
	}
	return b
}

// send returns the store's answer for each hold.
func (b *renewalBatch) send(store driver.Store) []fast.Extended {
	if len(b.holds) > 1 {
		together, err := b.together()
		if err == nil && len(together) == len(b.holds) {
			return together
		}
		if err != nil {
			return slices.Repeat([]fast.Extended{{Err: err}}, len(b.holds))
		}
		b.incomplete = true
	}
	answers := make([]fast.Extended, len(b.holds))
	for i, h := range b.holds {
		answers[i].Grant, answers[i].Err = store.Extend(b.ctx, h.name, h.token.Text(), h.ttl)
	}
	return answers
}

func (b *renewalBatch) together() ([]fast.Extended, error) {
	all := make([]fast.Extension, len(b.holds))
	for i, h := range b.holds {
		all[i] = fast.Extension{Name: h.name, Token: h.token, TTL: h.ttl}
	}
	return b.batcher.ExtendBatch(b.ctx, all)
}

// patience is how long one renewal may take. It is at most half of the remaining time, so that
// there is time for another try.
func (h *hold) patience(now driver.Instant) time.Duration {
	return min(h.ttl/6, driver.Instant(h.usable.Load()).Sub(now)/2)
}

// request returns a request for h's token.
func (h *hold) request(shared bool) driver.Request {
	l := h.locker
	return driver.Request{
		Name: h.name, Token: h.token, Shared: shared, TTL: h.ttl,
		Holder: driver.Holder{Host: l.host, PID: l.pid, Label: h.label, Plan: h.plan},
	}
}
