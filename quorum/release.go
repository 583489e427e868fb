package quorum

import (
	"context"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Release implements driver.Store. It returns when a quorum has released, or when it is certain
// that no quorum can have the hold. Members that have not answered by then are asked again in the
// background until they answer or the lease is over.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckHold(name, token, &s.guarantees); err != nil {
		return driver.Gone, err
	}
	if err := driver.CheckKeep("cool-down", keep, &s.guarantees); err != nil {
		return driver.Gone, err
	}
	h, err := s.beginCall(ctx, name, token)
	if err != nil {
		return driver.Gone, err
	}
	defer s.finishCall(h)
	return s.release(ctx, h, keep)
}

func (s *Store) release(ctx context.Context, h *hold, keep time.Duration) (driver.Outcome, error) {
	s.mu.Lock()
	if h.live {
		keep = max(keep, s.restAtLeast(h))
	}
	h.endHold()
	patience := s.timeout(h.request.TTL)
	answers, ask := s.whomToRelease(h)
	s.mu.Unlock()
	began := time.Now()
	r := s.freeAt(ctx, h, ask, keep, patience, answers)
	defer r.endRound()
	released := func() bool { return countOutcome(answers, driver.Released) >= s.need }
	err := r.collect(ctx, answers, patience+grace, released)
	if err == nil && released() {
		// The other members usually answer at about the same time. If they do, the next holder
		// finds all members free. So Release waits for them a little: as long as the first answers
		// took, but at least 1 ms.
		r.collect(ctx, answers, max(time.Millisecond, time.Since(began)), func() bool { return false })
	}
	if out, certain := s.outcome(answers); certain {
		return out, nil
	}
	if refused := refusal(answers); refused != nil {
		return driver.Gone, refused
	}
	return driver.Gone, s.openError(answers, err)
}

// whomToRelease finds out which members may still have the hold, and must be asked to release it.
// It returns their indexes. The other members need not be asked: the returned answers contain what
// these members would answer. The caller holds mu.
func (s *Store) whomToRelease(h *hold) (answers []answer, ask []int) {
	answers = s.ballot(pending)
	for i := range h.slots {
		switch sl := &h.slots[i]; {
		case h.tried && !sl.sent && !sl.turn.taken && sl.settling == nil:
			answers[i].verdict, answers[i].outcome, answers[i].released = yes, driver.Gone, sl.mayBeReleased
		default:
			ask = append(ask, i)
		}
	}
	return answers, ask
}

// outcome returns what became of the hold, and whether that is certain. When Release succeeds,
// other callers must be able to get the name. So it is not enough to know that this hold has ended:
// members that have not answered may still have the hold, and refuse other callers.
//
// A member may answer that it does not have the hold. Usually this means that the hold ended before
// the release. But this process may have sent a release to that member before, which ended the
// hold. Then the answer does not count.
func (s *Store) outcome(answers []answer) (out driver.Outcome, certain bool) {
	released, passed := countOutcome(answers, driver.Released), countOutcome(answers, driver.Inherited)
	expired, taken := countOutcome(answers, driver.Expired), countOutcome(answers, driver.Taken)
	switch {
	case released >= s.need:
		return driver.Released, true
	case released+passed >= s.need:
		return driver.Inherited, true
	case !s.refuses(count(answers, yes) - released - passed):
		return driver.Gone, false
	case s.refuses(expired):
		// Another caller would have needed at least one of these members. So no other caller has
		// taken the name since the lease expired.
		return driver.Expired, true
	case s.refuses(taken):
		return driver.Taken, true
	}
	return driver.Gone, count(answers, yes) >= s.need || s.refuses(countDenials(answers))
}

func countDenials(answers []answer) (n int) {
	for i := range answers {
		if a := &answers[i]; a.verdict == yes && a.outcome != driver.Released && a.outcome != driver.Inherited && !a.released {
			n++
		}
	}
	return n
}

func countOutcome(answers []answer, o driver.Outcome) (n int) {
	for i := range answers {
		if answers[i].verdict == yes && answers[i].outcome == o {
			n++
		}
	}
	return n
}

// withdraw releases everything that a lost try may have left at the members. It waits only for the
// members that have granted the hold, because the others probably do not answer. It returns the
// number of members at which something may still be left.
func (s *Store) withdraw(h *hold, patience time.Duration) (unknown int) {
	answers := s.ballot(unasked)
	granted := s.ballot(unasked)
	s.mu.Lock()
	var ask []int
	for i := range h.slots {
		switch sl := &h.slots[i]; {
		case sl.settling != nil:
			unknown++
		case sl.sent:
			ask = append(ask, i)
			answers[i].verdict = pending
			if sl.has {
				granted[i].verdict = pending
			}
		}
	}
	s.mu.Unlock()
	// The caller's context may have ended, but the release is still needed.
	ctx := context.Background()
	r := s.freeAt(ctx, h, ask, 0, patience, answers)
	defer r.endRound()
	r.collect(ctx, answers, patience+grace, func() bool {
		for i := range granted {
			if granted[i].verdict == pending && answers[i].verdict == pending {
				return false
			}
		}
		return true
	})
	r.collect(ctx, answers, grace, func() bool { return unknown+len(ask)-countSettled(answers) < s.need })
	return unknown + len(ask) - countSettled(answers)
}

func countSettled(answers []answer) (n int) {
	for i := range answers {
		if answers[i].settled {
			n++
		}
	}
	return n
}

// freeAt begins to release h at the members with the given indexes. Under [All], it begins with the
// last member and ends with the first. If a member has the hold, freeAt waits for its answer before
// it goes on to the next member. But once a member has not answered in time, freeAt does not wait
// any more.
//
// The order matters, because callers ask the first member first. A caller that finds the first
// member free should find the others free, too.
func (s *Store) freeAt(ctx context.Context, h *hold, indexes []int, keep, patience time.Duration, answers []answer) *round {
	r := s.newRound(ctx, h, patience, 2*len(s.members))
	inOrder := s.rule == All
	for n := len(indexes) - 1; n >= 0; n-- {
		i := indexes[n]
		answered := func() bool { return answers[i].verdict != pending }
		if granted := s.settle(r, i, keep); granted && inOrder && n > 0 {
			r.collect(ctx, answers, patience+grace, answered)
			inOrder = answered()
		}
	}
	return r
}

const (
	firstPause = 50 * time.Millisecond
	maxPause   = 5 * time.Second
)

// settlement is the work of releasing a hold at one member. It sends the release again until
// nothing of the hold is left at the member, and no earlier request can arrive there any more. A
// late request would do harm: it could grant the hold again, or end a later grant of the same
// token. Until the settlement ends, it occupies the gate slot.turn, so no other request with the
// token goes to the member.
//
// A slot has what this process knows of one hold at one member. These are the states of a slot:
//
//	state      fields of the slot           what the member may have
//	unasked    sent is false                It has nothing, and no request can arrive.
//	asked      sent is true, and turn is    It may have the hold: a request is under way.
//	           taken
//	granted    sent and has are true        It has the hold.
//	unsure     sent is true, and lateUntil  It may have the hold, or get it until
//	           is in the future             lateUntil.
//	releasing  settling is set              It may have the hold: it has not answered a
//	                                        release yet.
//	released   settling is set, and         It has nothing, but a request may arrive
//	           lateUntil is in the future   until lateUntil.
//	given up   sent is true, and settling   It may have the hold until the end of the
//	           is nil                       lease.
//
// The transitions are:
//
//	state       event                                     next state
//	unasked     a request is sent (noteSending)           asked
//	asked       the member grants (noteAnswer)            granted
//	asked       the member refuses, or it could not be    the state before the request
//	            asked
//	asked       no answer comes, or the outcome is not    unsure
//	            known
//	granted,    the try is lost, or Release is called     releasing, as soon as the requests
//	unsure                                                before it have returned
//	releasing   the release is answered after lateUntil   unasked: the hold is settled there
//	releasing   the release is answered before lateUntil  released
//	releasing   no answer comes                           releasing: the release is sent again
//	                                                      after a pause, with a new lateUntil
//	releasing   the member refuses the release as         given up
//	            invalid
//	releasing   the lease is over, the member has too     given up, after a last try
//	            many unsettled releases, or the store
//	            closes
//	released    lateUntil has passed                      releasing: the release is sent once
//	                                                      more, for a request that has arrived
type settlement struct {
	s        *Store
	h        *hold
	i        int
	keep     time.Duration
	patience time.Duration
	report   func(answer)
	until    driver.Instant
	cleared  chan struct{} // closed as soon as the member is known not to have the hold
}

// settle releases the hold at member i in the background, by means of a settlement. If a settlement
// is already under way there, settle waits in the background until that settlement ends. settle
// reports whether the member is known to have granted the hold.
func (s *Store) settle(r *round, i int, keep time.Duration) (granted bool) {
	s.work.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := &r.h.slots[i]
	r.h.refs++
	if sl.settling != nil {
		go sl.settling.join(r)
		return false
	}
	until := s.clock.Now().Add(s.leaseOf(r.h))
	x := &settlement{s, r.h, i, keep, r.timeout, nil, until, make(chan struct{})}
	sl.settling = x
	told := 0
	x.report = func(a answer) {
		if a.member = i; told == 0 || told == 1 && a.verdict == yes {
			told++
			r.answers <- a
		}
	}
	go x.run(sl.turn.enqueue())
	return sl.has
}

// join is called if the same token is released a second time while this settlement is under way. It
// sends no request. It waits until the member does not have the hold any more, but no longer than
// the timeout of r. Then it puts an answer into r, the round of the second release.
func (x *settlement) join(r *round) {
	defer x.s.work.Done()
	defer x.s.removeUser(x.h)
	t := time.NewTimer(r.timeout)
	defer t.Stop()
	select {
	case <-x.cleared:
		r.answers <- answer{member: x.i, verdict: yes, outcome: driver.Gone, released: true}
	case <-t.C:
		r.answers <- answer{member: x.i, verdict: busy, err: errUnsettled}
	}
}

func (x *settlement) run(p place) {
	s, sl := x.s, &x.h.slots[x.i]
	defer s.work.Done()
	defer s.removeUser(x.h)
	// After 2 × MaxSilence, every request that was under way has returned.
	err := s.awaitFor(2*driver.MaxSilence, &sl.turn, p)
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		sl.settling = nil
		if err == nil {
			sl.turn.letIn()
		}
	}()
	if err != nil {
		x.report(answer{verdict: busy, err: errUnsettled})
		return
	}
	a, late := x.askOnce()
	if a.settled || a.verdict == refused {
		return
	}
	crowded := false
	if m := s.members[x.i]; a.verdict != yes {
		crowded = m.unsettled.Add(1) > 4*maxUnsettled
		defer m.unsettled.Add(-1)
	}
	x.askAgain(a, late, crowded)
}

// askAgain sends the release again until the hold is settled or the lease is over. When the store
// closes, askAgain makes one last try. The first argument is the last answer so far.
func (x *settlement) askAgain(a answer, late time.Duration, last bool) {
	pause := firstPause
	for !a.settled && a.verdict != refused {
		switch {
		case a.verdict == yes:
			// Nothing is left at the member, but an earlier request may still arrive there. It can
			// do so only for a short time (lateRequest). So askAgain waits for the end of that
			// time, even if the store closes.
			<-time.After(late)
		case last || x.s.clock.Now() > x.until:
			return
		default:
			last = !x.s.sleep(context.Background(), pause)
			pause = min(2*pause, maxPause)
		}
		a, late = x.askOnce()
	}
}

// askOnce sends the release to the member once. An earlier request may still be on its way to the
// member. The second result is how long that request may still take to arrive.
func (x *settlement) askOnce() (a answer, late time.Duration) {
	s, sl := x.s, &x.h.slots[x.i]
	ctx, cancel := context.WithTimeout(context.Background(), x.patience)
	defer cancel()
	a.outcome, a.err = s.members[x.i].store.Release(ctx, x.h.name, x.h.token, x.keep)
	a.verdict = judge(a.err)
	s.mu.Lock()
	defer s.mu.Unlock()
	a.released = sl.mayBeReleased && a.outcome == driver.Gone
	switch {
	case a.verdict == unsure:
		sl.lateUntil, sl.mayBeReleased = time.Now().Add(lateRequest), true
	case a.verdict == yes && a.outcome == driver.Released:
		sl.mayBeReleased = true
	}
	late = time.Until(sl.lateUntil)
	if a.verdict == yes {
		sl.has, sl.sent = false, late > 0
		a.settled = late <= 0
		select {
		case <-x.cleared:
		default:
			close(x.cleared)
		}
	}
	x.report(a)
	return a, late
}
