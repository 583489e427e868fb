package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// try is one attempt to take a name.
type try struct {
	s       *Store
	h       *hold
	r       driver.Request
	swap    bool
	spent   []*hold // earlier tries of this caller that may have left something behind
	round   *round
	second  *round // writes the fence to the members; nil until the vote is won
	sent    driver.Instant
	answers []answer

	pause     time.Duration // how long to wait before members that refused are asked again
	asksUntil time.Time     // until this time, members that refused are asked again

	outOfTurn bool   // see overtakes
	stage     stage  // guarded by Store.mu
	fence     uint64 // the fence of the hold; 0 until the vote is won
}

// stage says how far the vote of the members has come, in a try to take a hold.
// Each row of the two tables has a test in stages_test.go. A member counts as secured when it has
// the fence of the grant (see secure).
//
// The first table shows how a vote goes on:
//
//	stage      event                          next stage  result
//	undecided  a quorum granted               won
//	undecided  a quorum granted, but others   lost        ErrHeld
//	           wait in the members' queue
//	undecided  too many members refused       lost        ErrHeld
//	undecided  too few can be asked           lost        ErrUnavailable
//	undecided  the time is up                 lost        ErrUncertain
//	undecided  a member finds the request     lost        the member's error, or ErrUncertain
//	           invalid                                    if other members may have granted
//	undecided  the caller's context ends      lost        the error of the context
//	won        a quorum is secured            won         the grant
//	won        too many cannot be secured     lost        an error made from the answers
//	won        no quorum is secured in time   lost        ErrUncertain
//	won        the caller's context ends      lost        the error of the context
//
// The second table shows what the answer of one member does in each stage:
//
//	answer    undecided        won                   lost
//	yes       vote for         member is secured     hold is released
//	held      vote against     hold is offered       none
//	leftover  no vote          hold is offered       none
//	unsure    no vote          hold is offered       hold is released
//	never     no vote          none                  none
//	busy      no vote          none                  none
//	gone      vote against     hold is offered       none
//	refused   vote ends        none                  none
//
// While the vote is undecided, members that answered held, leftover or unsure may be asked again
// (see worthAsking). In the stage won, mendSoon offers the hold again to members that do not have
// it. In the stage lost, withdraw releases the hold at members that may have it. The token is then
// spent: no member is asked to grant the hold again. Only a request that replaces a token gets the
// answer gone.
type stage int

const (
	undecided stage = iota
	won
	lost
)

// seqBudget is how long all members together may take if they are asked one after the other.
const seqBudget = 5 * driver.MaxSilence / 10

func (s *Store) newTry(h *hold, r driver.Request) *try {
	t := &try{s: s, h: h, r: r, swap: r.Replaces.Text() != "", pause: time.Millisecond}
	t.answers = s.ballot(unasked)
	if len(r.Spent) == 0 {
		return t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, token := range r.Spent {
		if spent := s.holds[storekit.IDOf(r.Name, token.Text())]; spent != nil && !spent.live {
			t.spent = append(t.spent, spent)
		}
	}
	return t
}

// leftAt reports whether an earlier try of this caller may have left something at member i: a hold,
// or a request that may still arrive. An earlier try sends no more requests, so a result of false
// stays false. The caller holds mu.
func (t *try) leftAt(i int) bool {
	return slices.ContainsFunc(t.spent, func(h *hold) bool {
		sl := &h.members[i]
		return sl.sent || sl.turn.isTaken() || sl.settling != nil
	})
}

// isOwn examines the error of a member that refused the request r. It reports whether all holds in
// the error may belong to the caller itself. If a hold certainly belongs to another caller, the
// result is false.
func isOwn(err error, r *driver.Request) bool {
	var e *driver.HeldError
	if !errors.As(err, &e) || isFirm(err) {
		return false
	}
	return !slices.ContainsFunc(e.Holds, func(h driver.Hold) bool {
		named := h.Host != "" || h.PID != 0 || h.Label != ""
		return h.Foreign || h.Cooling || named && (h.Host != r.Holder.Host || h.PID != r.Holder.PID || h.Label != r.Holder.Label)
	})
}

func (t *try) run(ctx context.Context) (driver.Grant, error) {
	s := t.s
	patience := s.timeout(t.r.TTL)
	if t.inOrder() {
		patience = min(patience, seqBudget/time.Duration(len(s.members)))
	}
	s.mu.Lock()
	t.h.tried, t.h.live = true, false
	t.h.note(t.r)
	s.mu.Unlock()
	t.round = s.newRound(ctx, t.h, patience, 16*len(s.members))
	defer t.round.endRound()
	t.sent = s.clock.Now()
	t.asksUntil = t.h.began.Add(patience * 3 / 2)
	began := time.Now()
	err := t.vote(ctx)
	switch took := time.Since(began); {
	case err != nil || t.swap:
	case s.fences:
		t.hearRest(ctx, took)
	default:
		t.s.hearQueue(ctx, t.round, t.answers, took)
	}
	if err == nil && t.win(ctx) {
		var g driver.Grant
		if g, err = t.declare(ctx); err == nil {
			return g, nil
		}
	}
	return driver.Grant{}, t.lose(ctx, err)
}

// inOrder reports whether members are asked one after the other. A swap needs no order: it replaces
// a hold, and only one caller has that hold.
func (t *try) inOrder() bool { return t.s.rule == All && !t.swap }

// acquireMember asks one member to grant the hold. It is a memberCall. The vote may be decided
// before the member answers. If the vote was won and the member grants the hold, acquireMember also
// sets the fence there (see secure). If the vote was lost, a release of the
// hold already waits in the queue for this member.
func (t *try) acquireMember(ctx context.Context, i int, m *member, report func(answer)) {
	began, s := time.Now(), t.s
	a := answer{member: i}
	may, isLeft := t.mayAsk(i, m, &a)
	if !may {
		report(a)
		return
	}
	a.grant, a.err = m.leased(m.store.Acquire(ctx, t.r))
	a.verdict = judge(a.err)
	took := time.Since(began)
	m.took.Store(int64(took))
	m.heard.Store(true)
	a.fast = took < t.round.timeout/2
	m.failing.Store(a.verdict == never || a.verdict == unsure)
	s.mu.Lock()
	t.h.members[i].noteAnswer(a.verdict)
	a.spent = a.verdict == held && m.g.RefusedIsSpent
	t.h.members[i].spent = a.spent
	if a.verdict == held && isLeft && isOwn(a.err, &t.r) {
		a.verdict, a.err = leftover, errLeftover
	}
	stage := t.stage
	if a.verdict == yes && stage == won {
		s.watch(t.h, i, a.grant.Bound)
	}
	// mu stays locked from reading t.stage to reporting the answer. t.win and t.lose change the
	// stage and read the answers while they have mu. If one of them runs after this code, it reads
	// this answer. If it has run before, t.stage is already the new stage.
	report(a)
	s.mu.Unlock()
	if stage != won {
		return
	}
	switch a.verdict {
	case yes:
		a = t.secure(i, m, a.grant)
	case held, leftover, unsure, gone:
		s.mendSoon(t.h, t.round.timeout, t.sent, t.r.TTL)
	}
	t.second.answers <- a // declare may be waiting for this member
}

// mayAsk reports whether a request may be sent to member i. If the request may be sent, mayAsk
// records that. Otherwise it puts the reason into the answer a. The second result is true if an
// earlier try of this caller may have left something at the member (see leftAt).
func (t *try) mayAsk(i int, m *member, a *answer) (may, isLeft bool) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	switch {
	case t.stage == lost:
		a.verdict, a.err = never, errGivenUp
	case m.unsettled.Load() >= maxUnsettled:
		a.verdict, a.err = never, errCrowded
	default:
		t.h.members[i].noteSending()
		return true, t.leftAt(i)
	}
	return false, false
}

// vote asks the members until the vote is decided, and leaves the result in t.answers. It returns
// an error only if ctx ends.
func (t *try) vote(ctx context.Context) error {
	t.askFirst()
	overdue := time.NewTimer(t.round.timeout + grace)
	defer overdue.Stop()
	var again <-chan time.Time
	for now := time.Now(); t.standing(now) == undecided; now = time.Now() {
		if again == nil && t.worthAsking(now) {
			again = time.After(t.pause)
			t.pause *= 2
		}
		select {
		case a := <-t.round.answers:
			t.answers[a.member] = a
			if t.inOrder() && t.askNext(a) {
				overdue.Reset(t.round.timeout + grace)
			}
		case <-again:
			again = nil
			t.askAgain()
			overdue.Reset(t.round.timeout + grace)
		case <-overdue.C:
			t.overdue()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// minRest is the shortest time for which a reader that has a quorum waits for the other members.
const minRest = 2 * time.Millisecond

// hearRest is called for a caller that has a quorum. It waits a little for the other members. The
// argument took is how long the quorum took to answer.
//
// A reader waits so that all readers get the same fence. Each member grants one fence to all
// readers, but the fences of the members may differ. A reader gets the greatest fence that it
// hears. So a reader that misses a member may get a smaller fence than other readers.
//
// A writer waits because it usually saves a round of requests: if all members grant, no fence must
// be written before Acquire returns (see fenceOfWriter). It waits no longer than that round would
// take, and only for members that answered their last request so fast.
func (t *try) hearRest(ctx context.Context, took time.Duration) {
	limit, worthWaiting := took, func(a answer) bool {
		m := t.s.members[a.member]
		return a.verdict == pending && !m.failing.Load() && time.Duration(m.took.Load()) <= 2*took
	}
	if t.r.Shared {
		limit, worthWaiting = max(minRest, 2*took), func(a answer) bool { return a.verdict == pending }
	}
	if count(t.answers, yes) >= t.s.need {
		t.s.hearQueue(ctx, t.round, t.answers, took)
		t.round.collect(ctx, t.answers, limit, func() bool { return !slices.ContainsFunc(t.answers, worthWaiting) })
	}
}

func (t *try) askFirst() {
	for i := range t.answers {
		t.answers[i].verdict = pending
		t.round.askMember(i, t.acquireMember)
		if t.inOrder() {
			return
		}
	}
}

// askNext asks the next member in order, and returns true. If the answer a is not a grant, or comes
// from the last member, askNext does nothing and returns false.
func (t *try) askNext(a answer) bool {
	i := a.member + 1
	if a.verdict != yes || i == len(t.answers) {
		return false
	}
	t.answers[i].verdict = pending
	t.round.askLater(i, t.acquireMember)
	return true
}

func (t *try) overdue() {
	for i := range t.answers {
		if t.answers[i].verdict == pending {
			t.answers[i].verdict, t.answers[i].err = unsure, errOverdue
		}
	}
}

// standing returns the stage that the vote has reached with the answers so far.
//
// If several callers come at once, each may get a part of the members, and none gets a quorum. One
// of the callers should then go on asking for a while, and all others should release what they
// have. To agree on that caller without depending on chance, all of them look at the members in the
// same order. The first member that answers decides: the caller that has the hold there goes on.
func (t *try) standing(now time.Time) stage {
	s := t.s
	got, on := count(t.answers, yes), count(t.answers, pending)+count(t.answers, unasked)
	switch {
	case got >= s.need && t.overtakes():
		return lost
	case got >= s.need:
		return won
	case refusal(t.answers) != nil:
		return lost
	case got+on >= s.need:
		return undecided
	case t.swap && count(t.answers, pending) > 0 && !s.refuses(count(t.answers, gone)):
		return undecided
	case t.swap || t.inOrder() || s.refuses(t.firmRefusals()):
		return lost
	}
	switch t.lead() {
	case pending:
		return undecided
	case held:
		// Wait for the missing answers, because they decide the error: if enough members refuse the
		// hold, the error is ErrHeld.
		if count(t.answers, pending) > 0 && !s.refuses(count(t.answers, held)) {
			return undecided
		}
		return lost
	}
	if count(t.answers, pending) > 0 || got+t.askable() >= s.need && now.Before(t.asksUntil) {
		return undecided
	}
	return lost
}

// lead looks for the first member, in order, with the verdict yes, held or pending. It returns that
// verdict, or unasked if there is no such member. It does not wait for a member that has not
// answered the last request either.
func (t *try) lead() verdict {
	for i, m := range t.s.members {
		if v := t.answers[i].verdict; v == yes || v == held || v == pending && !m.failing.Load() {
			return v
		}
	}
	return unasked
}

// firmRefusals counts the members that refuse because of a cool-down or an old hold; see isFirm.
func (t *try) firmRefusals() (n int) {
	for i := range t.answers {
		if t.answers[i].verdict == held && isFirm(t.answers[i].err) {
			n++
		}
	}
	return n
}

// firmAge is longer than any vote takes.
const firmAge = 2 * driver.MaxSilence

// isFirm reports whether err says that the name is cooling down, or that a holder has had it for
// longer than firmAge. The vote for such a holder ended long ago, so asking the member again is
// useless.
func isFirm(err error) bool {
	var h *driver.HeldError
	if !errors.As(err, &h) {
		return false
	}
	for i := range h.Holds {
		if since := h.Holds[i].Since; h.Holds[i].Cooling || !since.IsZero() && time.Since(since) > firmAge {
			return true
		}
	}
	return false
}

// askable counts the members that may answer differently when asked again.
func (t *try) askable() (n int) {
	for i := range t.answers {
		if t.answers[i].askable() {
			n++
		}
	}
	return n
}

func (a *answer) askable() bool {
	return !a.spent && (a.verdict == held && !isFirm(a.err) || a.verdict == leftover || a.verdict == unsure && a.fast)
}

func (t *try) worthAsking(now time.Time) bool {
	if t.swap || t.inOrder() || now.After(t.asksUntil) || t.askable() == 0 {
		return false
	}
	lead := t.lead()
	return lead == yes || lead == unasked
}

func (t *try) askAgain() {
	for i := range t.answers {
		if t.answers[i].askable() {
			t.answers[i].verdict = pending
			t.round.askLater(i, t.acquireMember)
		}
	}
}
