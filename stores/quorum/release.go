package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Release implements driver.Store. It returns when a quorum has released, or when it is certain
// that no quorum can have the hold. Members that have not answered by then are asked again in the
// background until they answer or the lease is over.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckRelease(name, token, keep, &s.guarantees); err != nil {
		return driver.OutcomeGone, err
	}
	h, err := s.beginCall(ctx, name, token, 2)
	if err != nil {
		return driver.OutcomeGone, err
	}
	defer s.finishCall(h)
	return s.release(ctx, h, keep)
}

func (s *Store) release(ctx context.Context, h *hold, keep time.Duration) (driver.Outcome, error) {
	s.mu.Lock()
	h.endHold()
	patience := s.timeout(h.request.TTL)
	answers, ask := s.whomToRelease(h)
	s.mu.Unlock()
	began := time.Now()
	r := s.freeAt(ctx, h, ask, keep, patience, answers)
	defer r.endRound()
	released := func() bool { return countOutcome(answers, driver.OutcomeReleased) >= s.need }
	err := r.collect(ctx, answers, patience+grace, released)
	if err == nil && released() {
		// The other members usually answer at about the same time. If they do, the next holder
		// finds all members free. So Release waits for them a little: as long as the first answers
		// took, but at least 1 ms. The member with the queue can refuse a caller that all others
		// accept (see isOutOfTurn), so Release waits longer for it.
		took := time.Since(began)
		s.hearQueue(ctx, r, answers, took)
		r.collect(ctx, answers, max(time.Millisecond, took), func() bool { return false })
	}
	if out, certain := s.outcome(answers); certain {
		return out, s.noCoolDown(out, answers)
	}
	if refused := refusal(answers); refused != nil {
		return driver.OutcomeGone, refused
	}
	return driver.OutcomeGone, s.openError(answers, err)
}

// whomToRelease finds out which members may still have the hold, and must be asked to release it.
// It returns their indexes. The other members need not be asked: the returned answers contain what
// these members would answer. The caller holds mu.
func (s *Store) whomToRelease(h *hold) (answers []answer, ask []int) {
	answers = s.ballot(pending)
	for i := range h.members {
		switch sl := &h.members[i]; {
		case h.tried && !sl.sent && !sl.turn.isTaken() && sl.settling == nil:
			answers[i].verdict, answers[i].outcome, answers[i].released = yes, driver.OutcomeGone, sl.mayBeReleased
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
	released, passed := countOutcome(answers, driver.OutcomeReleased), countOutcome(answers, driver.OutcomeInherited)
	expired, taken := countOutcome(answers, driver.OutcomeExpired), countOutcome(answers, driver.OutcomeTaken)
	switch {
	case released >= s.need:
		return driver.OutcomeReleased, true
	case released+passed >= s.need:
		return driver.OutcomeInherited, true
	case !s.refuses(count(answers, yes) - released - passed):
		return driver.OutcomeGone, false
	case s.refuses(expired):
		// Without the members whose lease has expired, there is no quorum. So no other caller has
		// taken the name since the lease expired.
		return driver.OutcomeExpired, true
	case s.refuses(taken):
		return driver.OutcomeTaken, true
	}
	return driver.OutcomeGone, count(answers, yes) >= s.need || s.refuses(countDenials(answers))
}

// noCoolDown returns the error of a member that has released the hold without the cool-down, unless
// enough other members keep it.
func (s *Store) noCoolDown(out driver.Outcome, answers []answer) (err error) {
	kept := 0
	for i := range answers {
		switch a := &answers[i]; {
		case a.verdict != yes || a.outcome != driver.OutcomeReleased:
		case a.err != nil:
			err = a.err
		default:
			kept++
		}
	}
	if out != driver.OutcomeReleased || kept >= s.need {
		return nil
	}
	return err
}

func countDenials(answers []answer) (n int) {
	for i := range answers {
		if a := &answers[i]; a.verdict == yes && a.outcome != driver.OutcomeReleased && a.outcome != driver.OutcomeInherited && !a.released {
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
// members that have granted the hold, because the others probably do not answer, and a little for others
// while blocks reports true. It returns the members at which something may still be left.
func (s *Store) withdraw(h *hold, patience time.Duration, blocks func(left []int) bool) []int {
	answers := s.ballot(unasked)
	granted := s.ballot(unasked)
	s.mu.Lock()
	var settling, ask []int
	for i := range h.members {
		switch sl := &h.members[i]; {
		case sl.settling != nil:
			settling = append(settling, i)
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
	left := func() []int {
		unsettled := slices.DeleteFunc(slices.Clone(ask), func(i int) bool { return answers[i].settled })
		return append(unsettled, settling...)
	}
	r.collect(ctx, answers, grace, func() bool { return !blocks(left()) })
	return left()
}

// freeAt begins to release h at the members with the given indexes. Under [All], it goes from the
// last member to the first. Callers ask the first member first. A caller that finds the first
// member free should find all the others free, too.
//
// So under All, freeAt waits for the answer of each member that has the hold. After the first
// answer that does not come in time, freeAt no longer waits.
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

// settlement releases a hold at one member. It repeats the release until the member has nothing of
// the hold, and no earlier request can arrive there any more. A late request could grant the hold
// again, or end a later grant of the same token. During the settlement, memberHold.turn lets no
// other request with the token go to the member.
//
// A memberHold has what this process knows of one hold at one member. These are its states:
//
//	state      fields of memberHold         the member
//	unasked    sent is false                has nothing
//	asked      sent, and turn is taken      may have the hold
//	granted    sent and has                 has the hold
//	unsure     sent, and lateUntil is in    may have the hold, or get it until lateUntil
//	           the future
//	releasing  settling is set              may have the hold
//	released   settling is set, and         has nothing, but a late request may arrive
//	           lateUntil is in the future   until lateUntil
//	given up   sent, and settling is nil    may have the hold until the lease ends
//
// The transitions are:
//
//	state      event                        next state
//	unasked    a request is sent            asked
//	asked      the member grants            granted
//	asked      the member refuses, or       the state before the request
//	           could not be asked
//	asked      the outcome is unknown       unsure
//	granted    the settlement begins        releasing
//	unsure     the settlement begins        releasing
//	releasing  an answer after lateUntil    unasked
//	releasing  the last request was         unasked
//	           refused (see hasNothing)
//	releasing  an answer before lateUntil   released
//	releasing  no answer                    releasing, with a new lateUntil
//	releasing  rejected as invalid          given up
//	releasing  the last try fails           given up
//	released   lateUntil has passed         releasing
//
// A release without an answer is sent again after a pause. After the state released, one more
// release follows, in case a late request has arrived. The last try comes when the lease is over,
// the store closes, or the member has too many unsettled releases.
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
	s.calls.Work.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := &r.h.members[i]
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

// join is called for a second release of the same token while this settlement is under way. The
// argument r is the round of the second release. join sends no request. It waits until the member
// no longer has the hold, or until the timeout of r is over. Then it puts an answer into r.
func (x *settlement) join(r *round) {
	defer x.s.calls.Work.Done()
	defer x.s.removeUser(x.h)
	t := time.NewTimer(r.timeout)
	defer t.Stop()
	select {
	case <-x.cleared:
		r.answers <- answer{member: x.i, verdict: yes, outcome: driver.OutcomeGone, released: true}
	case <-t.C:
		r.answers <- answer{member: x.i, verdict: busy, err: errUnsettled}
	}
}

func (x *settlement) run(p place) {
	s, sl := x.s, &x.h.members[x.i]
	defer s.calls.Work.Done()
	defer s.removeUser(x.h)
	// After 2 × MaxSilence, every request that was under way has returned.
	err := sl.turn.awaitFor(2*driver.MaxSilence, p)
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		sl.settling = nil
		if err == nil {
			sl.turn.leave()
		}
	}()
	if err != nil {
		x.report(answer{verdict: busy, err: errUnsettled})
		return
	}
	if a, nothing := x.hasNothing(); nothing {
		x.report(a)
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

// hasNothing reports whether the member is known to have nothing of the hold, and then what it
// would answer. That is so if the request that was under way when the settlement began was refused.
// A member remembers the token of a release that found nothing, because an earlier request may be
// late. In Redis that makes the name slower for a minute.
func (x *settlement) hasNothing() (a answer, nothing bool) {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	sl := &x.h.members[x.i]
	if !x.h.tried || sl.sent || time.Now().Before(sl.lateUntil) {
		return a, false
	}
	close(x.cleared)
	return answer{verdict: yes, outcome: driver.OutcomeGone, released: sl.mayBeReleased, settled: true}, true
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
			last = !storekit.Sleep(x.s.calls.Closing, pause)
			pause = min(2*pause, maxPause)
		}
		a, late = x.askOnce()
	}
}

// askOnce sends the release to the member once. An earlier request may still be on its way to the
// member. The second result is how long that request may still take to arrive.
func (x *settlement) askOnce() (a answer, late time.Duration) {
	s, sl := x.s, &x.h.members[x.i]
	ctx, cancel := context.WithTimeout(context.Background(), x.patience)
	defer cancel()
	a.outcome, a.err = s.members[x.i].store.Release(ctx, x.h.name, x.h.token.Text(), x.keep)
	if a.verdict = judge(a.err); a.verdict == never && a.outcome == driver.OutcomeReleased {
		a.verdict = yes // the member had no room for the cool-down
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.released = sl.mayBeReleased && a.outcome == driver.OutcomeGone
	switch {
	case a.verdict == unsure:
		sl.lateUntil, sl.mayBeReleased = time.Now().Add(lateRequest), true
	case a.verdict == yes && a.outcome == driver.OutcomeReleased:
		sl.mayBeReleased = true
	}
	late = time.Until(sl.lateUntil)
	if a.verdict == yes {
		sl.has, sl.sent = false, late > 0
		sl.unwatch() // a grant may have come after endHold
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
