package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Extend implements driver.Store. It succeeds if a quorum confirms the hold. The hold is lost as
// soon as so many members deny it that no quorum is left. A missing answer is not a denial.
//
// A member that lost all its data in a restart denies the hold, too. If a quorum of other members
// confirms the hold in the same round, that member gets the hold back.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if err := driver.CheckExtend(name, token, ttl, &s.guarantees); err != nil {
		return driver.Grant{}, err
	}
	h, err := s.beginCall(ctx, name, token, 1)
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.finishCall(h)
	return s.confirm(ctx, h, ttl)
}

// confirmation is one round of requests to extend a hold.
type confirmation struct {
	s        *Store
	h        *hold
	ttl      time.Duration
	patience time.Duration
	decided  chan struct{} // closed when ok is known
	ok       bool
}

func (s *Store) confirm(ctx context.Context, h *hold, ttl time.Duration) (driver.Grant, error) {
	s.mu.Lock()
	patience := s.timeout(cmp.Or(ttl, h.request.TTL))
	s.mu.Unlock()
	c := &confirmation{s: s, h: h, ttl: ttl, patience: patience, decided: make(chan struct{})}
	sent := s.clock.Now()
	r := s.newRound(ctx, h, patience, len(s.members))
	defer r.endRound()
	answers := r.askEveryMember(c.extendMember)
	err := r.collect(ctx, answers, patience+grace, func() bool {
		return count(answers, yes) >= s.need || s.refuses(count(answers, gone))
	})
	c.ok = count(answers, yes) >= s.need
	close(c.decided)
	if c.ok {
		return s.confirmed(h, ttl, sent, answers), nil
	}
	if lost := s.loss(answers); lost != nil {
		s.mu.Lock()
		h.endHold()
		s.mu.Unlock()
		return driver.Grant{}, lost
	}
	return driver.Grant{}, s.undecided(answers, ttl != 0, err)
}

func (s *Store) confirmed(h *hold, ttl time.Duration, sent driver.Instant, answers []answer) driver.Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !h.live { // the hold was not taken by this process
		return driver.Grant{TTL: s.leaseOfQuorum(sent, answers), Shared: s.toldShared(answers)}
	}
	if ttl != 0 {
		h.request.TTL = ttl
	}
	return s.grant(h, sent, answers)
}

// extendMember extends the hold at one member. It is a memberCall. If the member has lost the hold,
// extendMember waits for the result of the round. If a quorum of other members has confirmed the
// hold, extendMember repairs the hold at this member (see mend).
func (c *confirmation) extendMember(ctx context.Context, i int, m *member, report func(answer)) {
	s, sl := c.s, &c.h.members[i]
	var a answer
	a.grant, a.err = m.leased(m.store.Extend(ctx, c.h.name, c.h.token.Text(), c.ttl))
	a.verdict = judge(a.err)
	s.mu.Lock()
	switch a.verdict {
	case yes:
		sl.has, sl.sent = true, true
	case gone:
		sl.has = false
	}
	amiss := !sl.has
	s.mu.Unlock()
	report(a)
	if !amiss || c.ttl == 0 || a.verdict != yes && a.verdict != gone {
		return
	}
	select {
	case <-c.decided:
	case <-ctx.Done():
		return
	}
	if c.ok {
		s.mend(c.h, i, c.patience)
	}
}

// mendSoon renews the hold in the background, a little later. It is called when a quorum has
// granted the hold but some members have not. The renewal offers the hold to these members again.
// It comes in the first quarter of the lease, which counts from sent, or not at all: a hold that
// the caller does not extend may not last longer than its TTL and two fifths of it.
func (s *Store) mendSoon(h *hold, patience time.Duration, sent driver.Instant, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.mending {
		return
	}
	h.mending = true
	h.refs++
	last := sent.Add(ttl / 4)
	s.calls.Work.Go(func() {
		defer s.removeUser(h)
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		defer cancel()
		awake := storekit.Sleep(s.calls.Closing, min(patience, ttl)/8)
		s.mu.Lock()
		h.mending = false
		p := h.turn.enqueue()
		s.mu.Unlock()
		if h.turn.await(ctx, p) != nil {
			return
		}
		defer h.turn.leave()
		if awake && s.isLive(h) && s.clock.Now() <= last {
			s.confirm(ctx, h, h.request.TTL)
		}
	})
}

// mend asks member i, which has lost the hold, to grant it again. The caller holds memberHold.turn, so
// the member gets no other request of the hold meanwhile.
//
// mend is called only right after a quorum of other members confirmed the hold, because then no
// other caller can have had the name. At any other time, another caller may have had the name, and
// then the hold must not come back.
func (s *Store) mend(h *hold, i int, patience time.Duration) {
	m, sl := s.members[i], &h.members[i]
	s.mu.Lock()
	r := h.request
	r.Token = h.token
	r.Shared = h.isShared()
	if h.until != math.MaxInt64 {
		r.TTL = max(r.TTL, h.until.Sub(s.clock.Now())) // as long as at the other members
	}
	mayMend := h.live && !sl.spent && !sl.has && h.until.Sub(s.clock.Now()) > patience
	fence := h.fence
	if mayMend {
		sl.noteSending()
	}
	s.mu.Unlock()
	if !mayMend {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	g, err := m.leased(m.store.Acquire(ctx, r))
	s.mu.Lock()
	sl.noteAnswer(judge(err))
	if err == nil && h.live {
		s.watch(h, i, g.Bound)
	}
	s.mu.Unlock()
	if err == nil && s.fences && g.Fence < fence {
		m.raiser.RaiseFence(ctx, r.Name, r.Token.Text(), fence)
	}
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
