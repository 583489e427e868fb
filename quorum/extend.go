package quorum

import (
	"cmp"
	"context"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Extend implements driver.Store: a quorum must confirm. When so many members
// deny the hold that no quorum is left, it is lost at once; silence alone loses
// nothing. A member that denies the hold, because it restarted empty for
// example, is given it again if a quorum of others confirms in this same round.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if err := s.validHold(name, token); err != nil {
		return driver.Grant{}, err
	}
	if ttl != 0 {
		if err := driver.CheckTTL("TTL", ttl, &s.guarantees); err != nil {
			return driver.Grant{}, err
		}
	}
	h, err := s.begin(ctx, name, token)
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.finish(h)
	return s.confirm(ctx, h, ttl)
}

// confirmation is one round of Extend.
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
	defer r.done()
	answers := r.everybody(c.ask)
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
		h.over()
		s.mu.Unlock()
		return driver.Grant{}, lost
	}
	return driver.Grant{}, s.undecided(answers, ttl != 0, err)
}

// undecided is the error when neither a quorum nor its impossibility shows.
func (s *Store) undecided(answers []answer, changes bool, cause error) error {
	if err := refusal(answers); err != nil {
		return err
	}
	if !changes && cause == nil {
		return s.fail(driver.ErrUnavailable, answers, nil)
	}
	return s.open(answers, cause)
}

func (s *Store) confirmed(h *hold, ttl time.Duration, sent driver.Instant, answers []answer) driver.Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !h.live { // another process's, as far as this one knows
		return driver.Grant{TTL: s.lease(sent, answers), Shared: s.toldShared(answers)}
	}
	if ttl != 0 {
		h.request.TTL = ttl
	}
	return s.grant(h, sent, answers)
}

// ask is the script of one member. When the member denies the hold it waits
// for what the others say, and repairs it there or not.
func (c *confirmation) ask(ctx context.Context, i int, m *member, report func(answer)) {
	s, sl := c.s, &c.h.slots[i]
	var a answer
	a.grant, a.err = m.store.Extend(ctx, c.h.name, c.h.token, c.ttl)
	a.verdict = judge(a.err)
	s.mu.Lock()
	switch a.verdict {
	case yes:
		sl.has, sl.sent = true, true
	case gone:
		sl.has = false
	}
	amiss := !sl.has || sl.odd
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
