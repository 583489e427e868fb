package holder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

// The facts about a token are what its requests and their replies say. The judge compares the Lock
// with them.
type facts struct {
	who       int
	first     time.Duration    // when its first request was sent
	lease     time.Duration    // the end of the lease that replies prove, counted from the sending
	margin    time.Duration    // by how much earlier the holder stops
	confirmed time.Duration    // when the last request was sent to which the server has agreed
	tried     time.Duration    // when the last renewal was sent; 0 if none was since confirmed
	trying    bool             // a renewal has no reply yet
	cut       bool             // the release of another lock has cancelled the last renewal
	failed    time.Duration    // when the last renewal got no reply
	planned   time.Duration    // when the next renewal is planned, less a tenth of a third of the TTL
	asked     map[string]error // the last reply to each operation that the caller asked for
	lossTold  bool             // a reply has said that the lock is lost
	released  bool             // a release has found the lock
	outcome   driver.Outcome
	replied   bool          // a release was answered, with outcome
	over      bool          // the holder has stopped, or had to
	cleaned   time.Duration // until when its clean-up is repeated
	demoting  time.Duration // the end of the patience for its last demotion
	keep      time.Duration // the cool-down that its last release asked for
	leaving   bool          // the caller has called Release
	late      bool          // an acquire came after its sender had left, and no release came later
	releasing bool          // a release was sent
	log       []byte        // what became of the requests, since the Locker was at rest
	broken    error
}

// margin is what docs/design.md states: drift and time to stop.
func margin(ttl time.Duration) time.Duration {
	return ttl/100 + min(2*time.Millisecond, ttl/20) + min(50*time.Millisecond, ttl/10)
}

// usable is when the holder has to stop.
func (f *facts) usable() time.Duration { return f.lease - f.margin }

// noteSent notes that r is sent now.
func (f *facts) noteSent(r *request) {
	switch r.op {
	case opRenew:
		if f.releasing {
			f.broken = fmt.Errorf("a renewal is sent after the release")
		}
		f.tried, f.trying = r.sent, true
	case opDemote:
		f.demoting = r.deadline
	case opRelease:
		if f.trying {
			f.broken = fmt.Errorf("a release is sent while a renewal is under way")
		}
		if f.releasing, f.keep = true, r.keep; r.cleanUp && f.cleaned == 0 {
			if f.cleaned = r.sent + ttl; f.leaving && !f.replied {
				f.cleaned += max(0, f.usable()-r.sent)
			}
		}
	}
}

// note notes what the client of r hears.
func (f *facts) note(r *request, a *answer, now time.Duration) {
	f.log = append(f.log, r.op[0], class(a.err))
	switch r.op {
	case opRelease:
		if f.log = append(f.log, byte('0'+a.outcome)); a.err == nil {
			f.outcome, f.replied = a.outcome, true
		}
		return
	case opRenew:
		f.trying, f.failed, f.cut = false, now, errors.Is(a.err, context.Canceled)
	case opExtend, opCheck, opPromote, opDemote:
		f.asked[r.op] = a.err
	case opWait:
		return
	}
	switch {
	case a.err == nil && r.op != opCheck:
		if end := r.sent + a.grant.TTL; end > f.lease {
			f.lease, f.margin = end, margin(a.grant.TTL)
		}
		f.confirmed, f.planned = r.sent, r.sent+min(ttl, a.grant.TTL)/3
		if a.grant.TTL > ttl {
			f.planned = max(f.planned, r.sent+a.grant.TTL-margin(a.grant.TTL)-ttl*2/3)
		}
		if !f.trying {
			f.tried = 0
		}
	case r.op != opAcquire && isLoss(a.err):
		f.lossTold = true
	}
}

func isLoss(err error) bool {
	return errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrExpired)
}

// class is one letter for an error.
func class(err error) byte {
	for i, known := range []error{driver.ErrUncertain, driver.ErrUnavailable, driver.ErrHeld, driver.ErrExpired, driver.ErrLost} {
		if errors.Is(err, known) {
			return "?uhel"[i]
		}
	}
	if err != nil {
		return '!'
	}
	return '+'
}

// judge returns the promise that is broken now, if one is. Everything rests.
func (w *world) judge() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.facts {
		if f.broken != nil {
			return f.broken
		}
	}
	if err := w.judgeCutOff(); err != nil {
		return err
	}
	believers, alone := 0, false
	for _, c := range w.callers {
		if err := c.judgeLock(); err != nil {
			return fmt.Errorf("%w (%s)", err, c.name)
		}
	}
	for _, c := range w.callers {
		if err := cmp.Or(c.judgeCounts(), c.judgeTime(), c.judgeAsked()); err != nil {
			return fmt.Errorf("%w (%s)", err, c.name)
		}
		if !w.space.batch && c.lock != nil && c.lock.Remaining() > 0 {
			believers++
			alone = alone || !c.lock.Shared()
		}
	}
	if believers > 1 && alone {
		return safety.ErrTwoHold("both callers go on, and one of them believes to be alone")
	}
	return w.judgeStore()
}

// judgeCutOff says if a renewal of several locks was cancelled too early. A release of one of them has
// to wait for the renewal for a while.
func (w *world) judgeCutOff() error {
	const patience = 50 * time.Millisecond
	waited := func(c *caller) bool {
		return c.closing || c.call == opRelease && w.at() >= c.begun+patience
	}
	if len(w.cutOff) > 0 && !slices.ContainsFunc(w.callers, waited) {
		return fmt.Errorf("a release cancels the renewal of several locks at %v, and it has not waited for it", w.at())
	}
	return nil
}

// judgeCounts compares Stats and the events with what c has seen.
func (c *caller) judgeCounts() error {
	s, held := c.locker.Stats(), 0
	if c.w.space.batch {
		return c.judgeSum(s)
	}
	if c.lock != nil && c.lock.Remaining() > 0 && !(c.exported && c.ctx == nil && c.w.space.noRenewal && !c.w.space.observed) {
		held = 1
	}
	waiting := 0
	if c.call == callAcquire {
		waiting = 1
	}
	if s.Held != held || s.Waiting > waiting || s.Acquired != c.got || s.Refused != c.refused || s.Lost != c.lost && !c.closing {
		return fmt.Errorf("Stats returns %+v; held %d, acquired %d, refused %d, lost %d", s, held, c.got, c.refused, c.lost)
	}
	if (s.Renewals != c.w.renewals[c.who] || s.RenewalErrors != c.w.failed[c.who]) && !c.closing {
		return fmt.Errorf("Stats returns %+v; renewals %d, failed %d", s, c.w.renewals[c.who], c.w.failed[c.who])
	}
	if c.w.space.observed && c.call == "" && !c.closing {
		return c.events.judge(c, held)
	}
	return nil
}

// judgeSum does the same for two callers of one Locker.
func (c *caller) judgeSum(s padlock.Stats) error {
	sum := padlock.Stats{Renewals: c.w.renewals[0] + c.w.renewals[1], RenewalErrors: c.w.failed[0] + c.w.failed[1]}
	for _, o := range c.w.callers {
		sum.Acquired, sum.Refused, sum.Lost = sum.Acquired+o.got, sum.Refused+o.refused, sum.Lost+o.lost
		if o.lock != nil && o.lock.Remaining() > 0 {
			sum.Held++
		}
	}
	sum.Uncertain, sum.CleanUps, sum.CleanUpsDropped, sum.Contended, sum.Waiting = s.Uncertain, s.CleanUps, s.CleanUpsDropped, s.Contended, s.Waiting
	if s != sum && !c.closing {
		return fmt.Errorf("Stats returns %+v, and should return %+v", s, sum)
	}
	return nil
}

// judgeTime says if a call takes too long, or if the name is free before the time of HoldAtLeast.
func (c *caller) judgeTime() error {
	w, now := c.w, c.w.at()
	for _, r := range w.requests { // a try that is under way may take longer than Wait allows
		if r.who == c.who && r.op == opWait && w.space.wait > 0 && now > c.begun+w.space.wait {
			return fmt.Errorf("the call waits at %v, since %v", now, c.begun)
		}
	}
	if c.call == callAcquire && !w.space.own && c.refusedFirst() {
		return fmt.Errorf("the store could not be reached at the start, and the call goes on")
	}
	if now < c.keptUntil && !w.named(c.job).Excludes("another", false, w.now()) {
		return safety.ErrTooEarly("the name is free at %v, and HoldAtLeast lasts until %v", now, c.keptUntil)
	}
	return nil
}

// judgeLock compares what the Lock of c says with what the replies prove, and with the server.
func (c *caller) judgeLock() error {
	if c.lock == nil || c.call == opRelease {
		return nil
	}
	now, f := c.w.at(), c.w.facts[c.token]
	end := f.usable()
	if c.most > 0 {
		end = min(end, c.most)
	}
	if !c.over && !c.closing && (f.lossTold || now >= end) {
		c.over, f.over = true, true
		if f.lossTold || end == f.usable() && !c.w.space.noRenewal {
			c.lost++
		}
	}
	believes := c.lock.Remaining() > 0
	if err := c.judgeContext(believes); err != nil {
		return err
	}
	switch {
	case believes && c.over:
		return safety.ErrBroken("the holder goes on at %v; its replies prove the lock until %v, and it knows of a loss: %v", now, end, f.lossTold)
	case !believes && !c.over && !c.closing:
		return fmt.Errorf("the holder stops at %v, and its replies prove the lock until %v", now, end)
	}
	if !believes {
		return nil
	}
	h := c.w.named(c.job).Live(c.token, c.w.now())
	if h == nil || h.Reserved || until(h.Until) < f.lease-time.Microsecond {
		return safety.ErrTwoHold("the holder goes on at %v, and the store has given the name away, or will before %v", now, f.lease)
	}
	if c.w.space.noRenewal || c.closing {
		return nil
	}
	return c.judgeRenewal(f, now, end)
}

// judgeContext compares Context with Remaining.
func (c *caller) judgeContext(believes bool) error {
	if c.ctx == nil { // nobody has asked for it yet
		return nil
	}
	done := false
	select {
	case <-c.ctx.Done():
		done = true
	default:
	}
	switch cause := context.Cause(c.ctx); {
	case believes == done || done == (c.ctx.Err() == nil):
		return fmt.Errorf("Remaining is %v, and Context ended is %v", c.lock.Remaining(), done)
	case !done || c.closing:
		return nil
	case !c.w.facts[c.token].lossTold && c.most > 0 && c.w.at() >= c.most && c.most <= c.w.facts[c.token].usable():
		if !errors.Is(cause, padlock.ErrMaxHold) {
			return fmt.Errorf("HoldAtMost is over, and the cause is %w", cause)
		}
	case !isLoss(cause):
		return fmt.Errorf("the lock is lost, and the cause is %w", cause)
	}
	return nil
}

// judgeRenewal says if a renewal is late. A renewal takes a sixth of the TTL at most.
func (c *caller) judgeRenewal(f *facts, now, end time.Duration) error {
	if f.trying {
		if now > f.tried+ttl/6 {
			return fmt.Errorf("a renewal has no reply for %v, and is not given up", now-f.tried)
		}
		return nil
	}
	if f.cut {
		return fmt.Errorf("the release of another lock has cancelled the renewal, and none follows")
	}
	due := f.planned + ttl/30
	if f.tried > 0 {
		due = f.failed + max(min(ttl/10, (end-f.failed)/2), ttl/50)*11/10
	}
	if now > due && c.most == 0 {
		return fmt.Errorf("no renewal is sent at %v, and one was due at %v", now, due)
	}
	return nil
}

// refusedFirst reports whether the store could not be reached for the first request of a call.
func (c *caller) refusedFirst() bool {
	for token, f := range c.w.facts {
		if f.who == c.who && c.w.tokens[token] == c.firstToken && strings.HasPrefix(string(f.log), "au") {
			return true
		}
	}
	return false
}

// judgeStore finds a lock in the store that nobody has, and that nobody will release.
func (w *world) judgeStore() error {
	now := w.now()
	for _, state := range w.names {
		for i := range state.Holds {
			h := &state.Holds[i]
			f := w.facts[h.Token]
			if state.Live(h.Token, now) != h || f == nil || f.late || w.callers[f.who].minds(h.Token) {
				continue // without facts it is a question, which ends with its lease
			}
			return fmt.Errorf("the store keeps the lock of token %d of %s, which nobody has and nobody releases", w.tokens[h.Token], w.callers[f.who].name)
		}
	}
	return nil
}

// minds reports whether c, its Locker or a request has to do with token.
func (c *caller) minds(token string) bool {
	if c.w.space.own || c.token == token && c.lock != nil || c.call != "" || c.face.open() > 0 {
		return true
	}
	for _, r := range c.w.requests {
		if r.token == token {
			return true
		}
	}
	return false
}

// judgeAcquire looks at the result of an acquire.
func (c *caller) judgeAcquire(lock *leased, err error) error {
	w := c.w
	if c.cancelled && !c.closing && !errors.Is(err, context.Canceled) && (!c.once || err == nil) {
		return fmt.Errorf("the caller has given up, and Acquire returns %v", err)
	}
	if err == nil {
		before := w.fence[c.job]
		w.fence[c.job] = max(before, lock.Fence())
		if w.space.shared {
			return safety.FenceKeeps(lock.Fence(), before)
		}
		return safety.FenceRises(lock.Fence(), before)
	}
	if errors.Is(err, driver.ErrUncertain) || c.unsure {
		c.unsure = w.space.own // the next call repeats this one
		return nil
	}
	waits := !c.once && !c.cancelled && !c.closing && (w.space.wait == 0 || w.at() < c.begun+w.space.wait)
	if waits && errors.Is(err, driver.ErrHeld) {
		return fmt.Errorf("Acquire returns %w, and its time to wait is not over", err)
	}
	for token, f := range w.facts {
		if f.who == c.who && c.once && c.face.open() == 0 && (c.w.space.own || f.first >= c.begun) && w.named(c.job).Live(token, w.now()) != nil {
			return fmt.Errorf("the call returns %w, which is certain, and the store keeps the name for it", err)
		}
	}
	return nil
}

// judgeRelease looks at the result of a release.
func (c *caller) judgeRelease(err error) error {
	f := c.w.facts[c.token]
	uncertain := errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrUnavailable)
	unwatched := c.exported && c.w.space.noRenewal // nobody notices its end before the store replies
	switch {
	case err == nil && (c.over && !unwatched || !f.released):
		return safety.ErrBroken("Release reports no loss; the lock was over: %v, the store had it: %v", c.over, f.released)
	case err == nil || c.closing:
	case f.replied && uncertain && !c.exported: // another program may have released what was exported
		return fmt.Errorf("Release returns %w, although the store has replied", err)
	case !f.replied && !uncertain:
		return fmt.Errorf("Release returns %w, and the store has not replied", err)
	case isLoss(err) && !c.over && !f.lossTold && f.released && c.w.at() < f.usable() && (c.most == 0 || c.w.at() < c.most):
		return fmt.Errorf("Release returns %w, and the lock was held until then", err)
	}
	return nil
}

// askedBy has the operation of a call that asks about a lock.
var askedBy = map[string]string{callCheck: opCheck, callExtend: opExtend, callPromote: opPromote, callDemote: opDemote}

// judgeAsk looks at the result of such a call.
func (c *caller) judgeAsk(err error) error {
	f := c.w.facts[c.token]
	reply := f.asked[askedBy[c.call]]
	check, asked := f.asked[opCheck] // about a lock that is over
	asked = asked && (check == nil || isLoss(check))
	switch {
	case c.closing:
	case c.overAtCall && asked && isLoss(err) && errors.Is(err, driver.ErrLost) != errors.Is(check, driver.ErrLost):
		return fmt.Errorf("the store says %v, and %s returns %w", check, c.call, err)
	case c.overAtCall && !isLoss(err) && !errors.Is(err, padlock.ErrMaxHold):
		return fmt.Errorf("the lock is over, and %s returns %w", c.call, err)
	case c.over || err != nil && reply != nil:
	case reply == nil && err != nil && !c.cancelled:
		return fmt.Errorf("the store has agreed, and %s returns %w", c.call, err)
	case reply != nil && err == nil:
		return safety.ErrBroken("%s returns nil, and the store has not agreed: %v", c.call, reply)
	case err == nil && c.call == callPromote:
		if h := c.w.named(c.job).Live(c.token, c.w.now()); h == nil || h.Shared || c.lock.Shared() {
			return safety.ErrBroken("Promote returns nil, and the lock is shared")
		}
	case err == nil && c.call == callDemote && !c.lock.Shared():
		return safety.ErrBroken("Demote returns nil, and the Lock says that it is exclusive")
	}
	return nil
}
