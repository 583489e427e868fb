package quorum

import (
	"cmp"
	"context"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// win ends the vote with a grant, unless it turns out that it was not won.
// From here on, members that grant late take the fence over by themselves.
func (t *try) win(ctx context.Context) bool {
	t.second = t.s.newRound(ctx, t.h, t.round.patience, len(t.answers))
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.round.drain(t.answers)
	if count(t.answers, yes) < t.s.need {
		t.second.done()
		return false
	}
	t.stage = won
	if t.s.fences {
		t.fence = greatest(t.answers)
	}
	return true
}

func greatest(answers []answer) (fence uint64) {
	for i := range answers {
		if answers[i].verdict == yes {
			fence = max(fence, answers[i].grant.Fence)
		}
	}
	return fence
}

// declare makes the grant safe to tell: the fence is written back to a quorum,
// and AtLeast is armed there.
func (t *try) declare(ctx context.Context) (driver.Grant, error) {
	s := t.s
	secured := s.ballot(never)
	r := t.second
	defer r.done()
	for i, a := range t.answers {
		switch {
		case a.verdict == pending:
			secured[i].verdict = pending
		case a.verdict != yes:
		case t.isSecure(a.grant):
			secured[i] = a
		default:
			secured[i].verdict = pending
			r.ask(i, func(_ context.Context, i int, m *member, report func(answer)) { report(t.secure(i, m, a.grant)) })
		}
	}
	if err := r.collect(ctx, secured, r.patience+grace, s.needs(secured)); err != nil {
		return driver.Grant{}, err
	}
	if count(secured, yes) < s.need {
		t.answers = secured
		return driver.Grant{}, s.open(secured, nil)
	}
	g := t.settled(secured)
	if count(t.answers, held)+count(t.answers, leftover)+count(t.answers, unsure)+count(t.answers, gone) > 0 {
		s.mendSoon(t.h, r.patience)
	}
	return g, nil
}

func (t *try) isSecure(g driver.Grant) bool {
	return (t.swap || t.r.AtLeast == 0) && (!t.s.fences || g.Fence >= t.fence)
}

// secure is done in the hold's turn at a member that granted.
func (t *try) secure(i int, m *member, g driver.Grant) answer {
	a := answer{member: i, verdict: yes, grant: g}
	if t.isSecure(g) {
		return a
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.round.patience)
	defer cancel()
	if !t.swap && t.r.AtLeast > 0 {
		a = t.s.armAt(ctx, t.h, i, m, t.r)
	}
	if a.err == nil && t.s.fences {
		a.err = m.raiser.RaiseFence(ctx, t.r.Name, t.r.Token, t.fence)
	}
	a.verdict = judge(a.err)
	return a
}

// settled notes a hold that a quorum has granted and secured.
func (t *try) settled(secured []answer) driver.Grant {
	s, h := t.s, t.h
	s.mu.Lock()
	defer s.mu.Unlock()
	h.live, h.fence, h.bound, h.end = true, t.fence, nil, nil
	h.request, h.mode, h.until = t.r, modeOf(t.r.Shared), 0
	h.request.Replaces = ""
	if t.r.AtLeast > 0 {
		h.atLeast = s.clock.Now().Add(t.r.AtLeast)
	}
	if t.swap {
		h.mode = unknown
		if old := s.holds[id{t.r.Name, t.r.Replaces}]; old != nil {
			h.mode, h.atLeast = old.mode, max(h.atLeast, old.atLeast)
			old.over()
		}
		if h.mode == unknown && s.toldShared(t.answers) {
			h.setMode(true) // whatever the exporter's key says
		}
	}
	return s.grant(h, t.sent, secured)
}

// lose gives back what was granted and says why nothing was.
func (t *try) lose(ctx context.Context, cause error) error {
	s := t.s
	s.mu.Lock()
	t.stage = lost
	t.round.drain(t.answers)
	t.h.over()
	s.mu.Unlock()
	if t.swap && !s.refuses(count(t.answers, gone)) {
		return t.swapOpen(cause)
	}
	unknown := s.withdraw(t.h, t.round.patience)
	if unknown > 0 {
		// What is left somewhere is in nobody's way as long as the others make a
		// quorum, and for that they have to be there.
		unknown += count(t.answers, never)
	}
	switch err := refusal(t.answers); {
	case cause == nil && s.refuses(count(t.answers, held)):
		return s.heldError(t.answers)
	case cause == nil && t.swap:
		return s.fail(driver.ErrLost, t.answers, nil)
	case s.refuses(unknown): // it may be a grant, or keep others from one
		return s.fail(driver.ErrUncertain, t.answers, cmp.Or(ctx.Err(), driver.ErrSpent))
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case cause == nil && t.contended():
		return s.fail(driver.ErrUnavailable, t.answers, driver.ErrSpent)
	case cause != nil && judge(cause) != unsure:
		return cause
	}
	return s.fail(driver.ErrUnavailable, t.answers, nil)
}

// contended reports whether another try is worth while: what an earlier one of
// this caller left was in the way, or the members that could be asked would
// make a quorum if some were not in other hands, mostly those of rivals that
// split the vote. It cannot be known whether somebody holds the name.
func (t *try) contended() bool {
	refusals := count(t.answers, held)
	return count(t.answers, leftover) > 0 || refusals > 0 && refusals+count(t.answers, yes) >= t.s.need
}

// swapOpen is the answer when a hand-over neither has a quorum nor can be
// told to have none. What was swapped stays: asked again, the same token may
// win the rest. To swap back would need the very members that are silent.
func (t *try) swapOpen(cause error) error {
	if err := refusal(t.answers); err != nil && count(t.answers, yes) == 0 {
		return err
	}
	return t.s.open(t.answers, cause)
}

// mendSoon renews the hold a little later and in the background, because some
// member did not grant when a quorum of others did: so that the hold comes to
// all members.
func (s *Store) mendSoon(h *hold, patience time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.mending {
		return
	}
	h.mending = true
	h.refs++
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		defer s.unuse(h)
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		defer cancel()
		awake := s.sleep(ctx, patience/8)
		s.mu.Lock()
		h.mending = false
		p := h.turn.line()
		s.mu.Unlock()
		if s.await(ctx, &h.turn, p) != nil {
			return
		}
		defer s.leave(&h.turn)
		if awake && s.isLive(h) {
			s.confirm(ctx, h, h.request.TTL)
		}
	}()
}

// mend brings member i back to what the hold is. It is done in the hold's turn
// there, and only right after a quorum of other members confirmed the hold:
// then nobody else can have it. Done at any other time, it could take a name
// that somebody else had in between.
func (s *Store) mend(h *hold, i int, patience time.Duration) {
	m, sl := s.members[i], &h.slots[i]
	s.mu.Lock()
	r := h.request
	r.Shared = h.isShared()
	r.AtLeast = s.restAtLeast(h)
	mayMend := h.live && (!sl.has || sl.odd) && h.until.Sub(s.clock.Now()) > patience
	convert, fence := sl.has && sl.odd, h.fence
	if mayMend && !convert {
		sl.sending()
	}
	s.mu.Unlock()
	if !mayMend {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if convert {
		s.convertAt(ctx, h, i, r)
		return
	}
	g, err := m.store.Acquire(ctx, r)
	s.mu.Lock()
	sl.asked(judge(err))
	if err == nil && h.live {
		s.watch(h, i, g.Bound)
	}
	s.mu.Unlock()
	if err == nil && s.fences && g.Fence < fence {
		m.raiser.RaiseFence(ctx, r.Name, r.Token, fence)
	}
}

func (h *hold) isShared() bool {
	if h.mode == unknown {
		return h.request.Shared
	}
	return h.mode == shared
}

// restAtLeast is how long the name must stay taken at least; 0 if that is over
// or too short for a store. The caller holds mu.
func (s *Store) restAtLeast(h *hold) time.Duration {
	rest := h.atLeast.Sub(s.clock.Now())
	if h.atLeast == 0 || rest < max(driver.MinTTL, s.guarantees.MinTTL) {
		return 0
	}
	return rest
}
