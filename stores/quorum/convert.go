package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Convert implements driver.Converter. A promotion needs a quorum of members that promote the hold.
// A member promotes the hold only if no other caller has the name there. If the promotion fails,
// Convert makes the hold shared again at the members that promoted it. If two readers want to be
// promoted, the first member decides between them: one reader may wait, and the other gets
// ErrPromotionConflict.
//
// If a demotion returns ErrUncertain, other readers may already share the lock.
func (s *Store) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.valid(&r); err != nil {
		return driver.Grant{}, err
	}
	if s.cannot(driver.AbilityConverter) {
		return driver.Grant{}, fmt.Errorf("conversion: %w", errors.ErrUnsupported)
	}
	h, err := s.beginCall(ctx, r.Name, r.Token, 4)
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.finishCall(h)
	s.mu.Lock()
	was := unknown
	if h.live {
		was = h.mode
		if s.guarantees.Lease { // a member may have missed an Extend, and its lease must last as long as before
			r.TTL = max(r.TTL, h.until.Sub(s.clock.Now()))
		}
		if !r.Shared && was == shared { // a member that missed the demotion mints no fence
			r.FenceAbove = max(r.FenceAbove, min(h.fence, driver.MaxFenceAbove))
		}
	}
	s.mu.Unlock()
	c := &conversion{s: s, h: h, r: r, patience: s.timeout(r.TTL)}
	switch {
	case was == modeOf(r.Shared) || r.Shared:
		return c.weaken(ctx, was)
	case s.guarantees.Promotion == driver.PromotionNone:
		return driver.Grant{}, fmt.Errorf("promotion: %w", errors.ErrUnsupported)
	}
	return c.promote(ctx)
}

// conversion is one try to change the mode of a hold.
type conversion struct {
	s        *Store
	h        *hold
	r        driver.Request
	patience time.Duration
	sent     driver.Instant
	round    *round
	answers  []answer

	stage stage  // guarded by Store.mu
	fence uint64 // the new fence; 0 until the vote is won
}

// convertMember converts the hold at one member. It is a memberCall.
func (c *conversion) convertMember(ctx context.Context, i int, m *member, report func(answer)) {
	var a answer
	a.grant, a.err = c.s.convertAt(ctx, c.h, i, c.r)
	a.verdict = judge(a.err)
	c.s.mu.Lock()
	stage, fence := c.stage, c.fence
	if a.verdict == yes && stage == lost {
		c.h.members[i].otherMode = true
	}
	report(a)
	c.s.mu.Unlock()
	if a.verdict == yes && stage == won && a.grant.Fence < fence {
		m.raiser.RaiseFence(ctx, c.r.Name, c.r.Token, fence)
	}
}

// convertAt converts the hold at member i. The caller holds memberHold.turn, so the member gets
// no other request of the hold meanwhile.
//
// An earlier demotion with an unknown outcome may still be on its way to the member. Until it can
// no longer arrive, convertAt refuses to promote the hold. Otherwise the demotion could take effect
// after the promotion, and let readers in.
func (s *Store) convertAt(ctx context.Context, h *hold, i int, r driver.Request) (driver.Grant, error) {
	sl := &h.members[i]
	s.mu.Lock()
	early := !r.Shared && time.Now().Before(sl.demotesUntil)
	s.mu.Unlock()
	if early {
		return driver.Grant{}, errUnsettled
	}
	m := s.members[i]
	g, err := m.leased(m.converter.Convert(ctx, r))
	s.mu.Lock()
	defer s.mu.Unlock()
	switch judge(err) {
	case yes:
		sl.has, sl.otherMode = true, false
	case gone:
		sl.has = false
	case unsure:
		sl.otherMode = true
		if r.Shared {
			sl.demotesUntil = time.Now().Add(lateRequest)
		}
	case held, conflict:
		sl.otherMode = true
	}
	return g, err
}

// convertAll asks every member to convert the hold. Under the rule All, a promotion asks the
// members in order, and stops at the first member that does not agree. So of two promotions at the
// same time, only one gets past the first member.
func (c *conversion) convertAll(ctx context.Context) error {
	s := c.s
	c.sent = s.clock.Now()
	r := s.newRound(ctx, c.h, c.patience, len(s.members))
	c.round = r
	defer r.endRound()
	if s.rule == Majority || c.r.Shared {
		c.answers = r.askEveryMember(c.convertMember)
		return r.collect(ctx, c.answers, c.patience+grace, s.reachesQuorum(c.answers))
	}
	r.timeout = min(c.patience, seqBudget/time.Duration(len(s.members)))
	c.answers = s.ballot(unasked)
	for i := range c.answers {
		c.answers[i].verdict = pending
		r.askLater(i, c.convertMember)
		if err := r.collect(ctx, c.answers, r.timeout+grace, s.reachesQuorum(c.answers)); err != nil || c.answers[i].verdict != yes {
			return err
		}
	}
	return nil
}

// weaken demotes the hold, or verifies the mode that it has.
func (c *conversion) weaken(ctx context.Context, was mode) (driver.Grant, error) {
	s, h := c.s, c.h
	err := c.convertAll(ctx)
	lost := s.loss(c.answers)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case count(c.answers, yes) >= s.need:
		return c.accept(h.fence), nil
	case lost != nil:
		h.endHold()
		return driver.Grant{}, lost
	}
	if was == exclusive && c.r.Shared && count(c.answers, yes)+count(c.answers, unsure)+count(c.answers, pending) > 0 {
		h.setMode(true) // a demotion cannot be undone
		c.markOtherMode()
	}
	return driver.Grant{}, s.undecided(c.answers, true, err)
}

// accept notes that the hold has the requested mode. The caller holds mu.
func (c *conversion) accept(fence uint64) driver.Grant {
	s, h := c.s, c.h
	if !h.live {
		return driver.Grant{Fence: max(fence, greatest(c.answers)), TTL: s.leaseOfQuorum(c.sent, c.answers)}
	}
	h.fence, h.request.TTL = fence, c.r.TTL
	h.setMode(c.r.Shared)
	c.markOtherMode()
	return s.grant(h, c.sent, c.answers)
}

// markOtherMode notes at which members the hold may still have another mode.
func (c *conversion) markOtherMode() {
	for i := range c.answers {
		if v := c.answers[i].verdict; v != yes && v != gone {
			c.h.members[i].otherMode = true
		}
	}
}

func (c *conversion) promote(ctx context.Context) (driver.Grant, error) {
	s, h := c.s, c.h
	cause := c.convertAll(ctx)
	if cause == nil && count(c.answers, yes) >= s.need && c.raiseFence(ctx) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return c.accept(c.fence), nil
	}
	// Members that promote late must be converted back, too.
	c.round.collect(context.Background(), c.answers, c.patience+grace, func() bool { return false })
	s.mu.Lock()
	c.stage = lost
	c.round.drain(c.answers)
	s.mu.Unlock()
	conflicted := c.lead() == conflict
	back := c.revert(conflicted)
	if lost := s.loss(back); lost != nil {
		s.mu.Lock()
		h.endHold()
		s.mu.Unlock()
		return driver.Grant{}, lost
	}
	return driver.Grant{}, c.failed(ctx, conflicted, back, cause)
}

// failed returns the error of a promotion that failed and left the shared hold as it was. Each
// member was then asked to convert the hold back to shared. revertAnswers are the members' answers
// to that request.
func (c *conversion) failed(ctx context.Context, conflicted bool, revertAnswers []answer, cause error) error {
	s := c.s
	unknown := count(revertAnswers, unsure) + count(revertAnswers, pending) + count(revertAnswers, busy)
	switch err := refusal(c.answers); {
	case cause != nil || unknown >= s.need:
		return s.fail(driver.ErrUncertain, revertAnswers, ctx.Err())
	case err != nil:
		return err
	case conflicted:
		return driver.ErrPromotionConflict
	case s.refuses(count(c.answers, held) + count(c.answers, conflict)):
		return s.heldError(c.answers)
	}
	return s.fail(driver.ErrUnavailable, c.answers, nil)
}

// lead returns the verdict of the first member that granted or refused the promotion.
func (c *conversion) lead() verdict {
	for i := range c.answers {
		if v := c.answers[i].verdict; v == yes || v == held || v == conflict {
			return v
		}
	}
	return unasked
}

// raiseFence writes the new fence to a quorum, and reports whether that succeeded.
func (c *conversion) raiseFence(ctx context.Context) bool {
	s := c.s
	s.mu.Lock()
	c.stage = won
	if s.fences {
		c.fence = max(c.h.fence, greatest(c.answers))
	}
	s.mu.Unlock()
	raised := s.ballot(never)
	r := s.newRound(ctx, c.h, c.patience, len(s.members))
	defer r.endRound()
	for i, a := range c.answers {
		switch {
		case a.verdict != yes:
		case a.grant.Fence >= c.fence:
			raised[i].verdict = yes
		default:
			raised[i].verdict = pending
			r.askMember(i, func(ctx context.Context, _ int, m *member, report func(answer)) {
				err := m.raiser.RaiseFence(ctx, c.r.Name, c.r.Token, c.fence)
				report(answer{verdict: judge(err), err: err})
			})
		}
	}
	r.collect(ctx, raised, c.patience+grace, s.reachesQuorum(raised))
	return count(raised, yes) >= s.need
}

// revert makes the hold shared again at the members that promoted it. A member that refused the
// promotion may have noted an intent, which keeps other readers from being promoted. If the
// argument intents is true, revert makes these members forget the intent.
//
// revert returns one answer for each member. The verdict of an answer is yes if the member has the
// shared hold now.
func (c *conversion) revert(intents bool) []answer {
	s := c.s
	back := s.ballot(pending)
	r := s.newRound(context.Background(), c.h, c.patience, len(s.members))
	defer r.endRound()
	request := c.r
	request.Shared = true
	for i, a := range c.answers {
		switch {
		case a.verdict == yes || intents && a.verdict == held:
			r.askMember(i, func(ctx context.Context, i int, _ *member, report func(answer)) {
				_, err := s.convertAt(ctx, c.h, i, request)
				report(answer{verdict: judge(err), err: err})
			})
		case a.verdict == held || a.verdict == conflict:
			c.note(i, false)
			back[i].verdict = yes // after a failed promotion the shared hold is still there
		case a.verdict == pending:
			c.note(i, true)
			back[i] = answer{member: i, verdict: unsure, err: errOverdue}
		case a.verdict == unasked:
			back[i].verdict = yes
		default:
			back[i] = a
		}
	}
	r.collect(context.Background(), back, c.patience+grace, func() bool { return false })
	return back
}

func (c *conversion) note(i int, otherMode bool) {
	c.s.mu.Lock()
	c.h.members[i].otherMode = otherMode
	c.s.mu.Unlock()
}

// RaiseFence implements driver.FenceRaiser. So a quorum can itself be a member of a quorum.
func (s *Store) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	if err := driver.CheckHold(name, token, &s.guarantees); err != nil {
		return err
	}
	if err := driver.CheckFence(fence); err != nil {
		return err
	}
	if !s.fences {
		return fmt.Errorf("fences are off: %w", errors.ErrUnsupported)
	}
	h, err := s.beginCall(ctx, name, token, 1)
	if err != nil {
		return err
	}
	defer s.finishCall(h)
	patience := s.timeout(h.request.TTL)
	r := s.newRound(ctx, h, patience, len(s.members))
	defer r.endRound()
	answers := r.askEveryMember(func(ctx context.Context, _ int, m *member, report func(answer)) {
		err := m.raiser.RaiseFence(ctx, name, token, fence)
		report(answer{verdict: judge(err), err: err})
	})
	cause := r.collect(ctx, answers, patience+grace, s.reachesQuorum(answers))
	if count(answers, yes) >= s.need {
		s.mu.Lock()
		h.fence = max(h.fence, fence)
		s.mu.Unlock()
		return nil
	}
	if lost := s.loss(answers); lost != nil {
		return lost
	}
	return s.undecided(answers, true, cause)
}
