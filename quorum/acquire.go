package quorum

import (
	"context"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// Acquire implements driver.Store. All members are asked at once (under [All]
// one after the other), and the answer is known when a quorum has granted, or
// when so many refuse that none is left. Then what was granted is given back
// before the answer is told, and what is not known to be granted in the
// background. A request that a hold of this process repeats is a renewal.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.valid(&r); err != nil {
		return driver.Grant{}, err
	}
	h, err := s.begin(ctx, r.Name, r.Token)
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.finish(h)
	if s.isLive(h) {
		// Members that lost the hold would grant it afresh, and a quorum of
		// fresh grants is not a repeat: so they are asked to confirm.
		g, err := s.confirm(ctx, h, r.TTL)
		if err == nil && r.AtLeast > 0 {
			g, err = s.arm(ctx, h, r)
		}
		if judge(err) != gone {
			return g, err
		}
	}
	t := s.newTry(h, r)
	return t.run(ctx)
}

// valid finds what no member may be asked.
func (s *Store) valid(r *driver.Request) error {
	if err := r.Validate(&s.guarantees); err != nil {
		return err
	}
	switch {
	case r.Shared && !s.guarantees.Shared:
		return fmt.Errorf("shared mode: %w", errors.ErrUnsupported)
	case r.Replaces != "" && s.guarantees.Bound != driver.ToNothing:
		return fmt.Errorf("hand-over of holds bound to a %v: %w", s.guarantees.Bound, errors.ErrUnsupported)
	}
	return nil
}

func (s *Store) isLive(h *hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.live
}

// arm lets a live hold, which was confirmed a moment ago, last for AtLeast.
func (s *Store) arm(ctx context.Context, h *hold, r driver.Request) (driver.Grant, error) {
	sent, patience := s.clock.Now(), s.timeout(r.TTL)
	round := s.newRound(ctx, h, patience, len(s.members))
	defer round.done()
	answers := s.ballot(never)
	s.mu.Lock()
	has := make([]bool, len(answers))
	for i := range has {
		has[i] = h.slots[i].has
	}
	s.mu.Unlock()
	for i := range answers {
		if has[i] {
			answers[i].verdict = pending
			round.ask(i, func(ctx context.Context, i int, m *member, report func(answer)) { report(s.armAt(ctx, h, i, m, r)) })
		}
	}
	cause := round.collect(ctx, answers, patience+grace, s.needs(answers))
	if count(answers, yes) < s.need {
		return driver.Grant{}, s.undecided(answers, true, cause)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.atLeast = max(h.atLeast, s.clock.Now().Add(r.AtLeast))
	return s.grant(h, sent, answers), nil
}

// armAt repeats a request that was granted; a repeat arms AtLeast.
func (s *Store) armAt(ctx context.Context, h *hold, i int, m *member, r driver.Request) answer {
	g, err := m.store.Acquire(ctx, r)
	a := answer{member: i, verdict: judge(err), grant: g, err: err}
	s.mu.Lock()
	h.slots[i].repeated(a.verdict)
	s.mu.Unlock()
	return a
}
