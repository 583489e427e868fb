package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Inspect implements driver.Admin. Under [Majority] it reports the holds that a quorum may
// have. Under [All] it reports every hold at any member. State.Fence is at least as great as the
// fence of every grant so far, even if some members do not answer.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name, &s.guarantees); err != nil {
		return driver.State{}, err
	}
	answers, err := s.inspect(ctx, name)
	if err != nil {
		return driver.State{}, err
	}
	return s.merge(name, answers), nil
}

func (s *Store) inspect(ctx context.Context, name string) ([]answer, error) {
	if s.cannot(driver.AbilityInspect) {
		return nil, fmt.Errorf("inspection: %w", errors.ErrUnsupported)
	}
	if err := s.calls.Begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Work.Done()
	r := s.newRound(ctx, nil, s.timeout(0), len(s.members))
	defer r.endRound()
	answers := r.askEveryMember(func(ctx context.Context, _ int, m *member, report func(answer)) {
		state, err := m.admin.Inspect(ctx, name)
		report(answer{verdict: judge(err), state: state, err: err})
	})
	cause := r.collect(ctx, answers, r.timeout+grace, func() bool { return false })
	return answers, s.enoughAnswers(answers, cause)
}

// enoughAnswers returns an error if the members that did not answer could be a quorum by
// themselves. Such a quorum may have a hold that the answers do not show.
func (s *Store) enoughAnswers(answers []answer, cause error) error {
	if s.refuses(count(answers, yes)) {
		return nil
	}
	if err := refusal(answers); err != nil {
		return err
	}
	if cause != nil {
		return cause
	}
	return s.fail(driver.ErrUnavailable, answers, nil)
}

// merge combines the members' answers into one state.
func (s *Store) merge(name string, answers []answer) driver.State {
	out := driver.State{Name: name, Waiters: -1}
	var m merger
	for i := range answers {
		if answers[i].verdict == yes {
			m.add(answers[i].state.Holds)
		}
	}
	least := 1
	if silent := len(answers) - count(answers, yes); s.rule == Majority {
		least = max(1, s.need-silent)
	}
	out.Holds = m.holdsOf(least, s.need)
	if s.fences {
		out.Fence = s.fenceOf(answers)
	}
	return out
}

// fenceOf returns a number that is at least as great as the fence of every grant so far. It returns
// 0 if that number is not known.
//
// A grant writes its fence to a quorum, and any two quorums have a member in common. So fenceOf
// returns the greatest fence of the quorum with the smallest fences. If no member is silent, every
// later quorum includes a member that has this fence, so the fence of a later grant is at least as
// great. A member is silent if it does not answer, or has forgotten the free name. If fewer members
// than a quorum answer, fenceOf returns the greatest fence of these.
func (s *Store) fenceOf(answers []answer) uint64 {
	var fences []uint64
	for i := range answers {
		if answers[i].verdict == yes && answers[i].state.Fence > 0 {
			fences = append(fences, answers[i].state.Fence)
		}
	}
	if !s.refuses(len(fences)) {
		return 0 // the other members could be a quorum
	}
	slices.Sort(fences)
	return fences[min(len(fences), s.need)-1]
}

// List implements driver.Admin, under the same rules as Inspect. A quorum has no queue of its own,
// so List does not report a name that has waiters but no holder.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	if s.cannot(driver.AbilityList) {
		return nil, fmt.Errorf("list: %w", errors.ErrUnsupported)
	}
	if err := s.calls.Begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Work.Done()
	lists := make([][]driver.State, len(s.members))
	r := s.newRound(ctx, nil, s.timeout(0), len(s.members))
	defer r.endRound()
	answers := r.askEveryMember(func(ctx context.Context, i int, m *member, report func(answer)) {
		list, err := m.admin.List(ctx, prefix)
		s.mu.Lock()
		lists[i] = list
		s.mu.Unlock()
		report(answer{verdict: judge(err), err: err})
	})
	cause := r.collect(ctx, answers, r.timeout+grace, func() bool { return false })
	if err := s.enoughAnswers(answers, cause); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mergeLists(answers, lists), nil
}

func (s *Store) mergeLists(answers []answer, lists [][]driver.State) []driver.State {
	byName := make(map[string][]answer)
	for i, list := range lists {
		if answers[i].verdict != yes {
			continue
		}
		for _, state := range list {
			if byName[state.Name] == nil {
				byName[state.Name] = slices.Clone(answers)
			}
			byName[state.Name][i].state = state
		}
	}
	var out []driver.State
	for name, states := range byName {
		if state := s.merge(name, states); len(state.Holds) > 0 {
			out = append(out, state)
		}
	}
	return out
}

// Break implements driver.Admin. seenFence is the fence that Inspect reported. Break looks twice at
// each member, half a second apart, and then makes it break exactly the hold that both looks have
// seen. A lock with a greater fence than seenFence goes on, so a member that has a greater fence is
// not asked, and may still have the hold after that. Break succeeds if such members are too few for
// a quorum. It returns a fence that is greater than the former holder's fence and less than all
// later fences.
//
// ErrUncertain means that too few members are known to have broken the hold, or that the members'
// clocks are so far apart that no fence fits between the former holder's and all later ones.
func (s *Store) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	if err := driver.CheckName(name, &s.guarantees); err != nil {
		return 0, err
	}
	if s.cannot(driver.AbilityBreak) {
		return 0, fmt.Errorf("break: %w", errors.ErrUnsupported)
	}
	before, err := s.stillSeen(ctx, name, seenFence)
	if err != nil {
		return 0, err
	}
	storekit.Sleep(ctx, maxPatience) // the next look fails if the context or the store has ended
	seen, err := s.stillSeen(ctx, name, seenFence)
	if err != nil {
		return 0, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return 0, err
	}
	defer s.calls.Work.Done()
	return s.breakAt(ctx, name, before, seen, seenFence)
}

// stillSeen asks the members about the name, whose fence must still be seenFence.
func (s *Store) stillSeen(ctx context.Context, name string, seenFence uint64) ([]answer, error) {
	seen, err := s.inspect(ctx, name)
	if err == nil && s.fenceOf(seen) != seenFence {
		err = driver.ErrLost
	}
	return seen, err
}

func (s *Store) breakAt(ctx context.Context, name string, before, seen []answer, seenFence uint64) (uint64, error) {
	r := s.newRound(ctx, nil, s.timeout(0), len(s.members))
	defer r.endRound()
	answers := s.ballot(never)
	for i := range seen {
		// What is new may be a grant to an Acquire that is under way (see chooseFence). A hold with a
		// greater fence may still be joined by readers, which get its fence.
		is, was := &seen[i], &before[i]
		if is.verdict != yes || was.verdict != yes || was.state.Fence != is.state.Fence || is.state.Fence > seenFence {
			continue
		}
		answers[i].verdict = pending
		r.askMember(i, func(ctx context.Context, i int, m *member, report func(answer)) {
			fence, err := m.admin.Break(ctx, name, seen[i].state.Fence)
			report(answer{verdict: judge(err), grant: driver.Grant{Fence: fence}, err: err})
		})
	}
	cause := r.collect(ctx, answers, r.timeout+grace, func() bool { return false })
	var minted []uint64
	for i := range answers {
		if answers[i].verdict == yes {
			minted = append(minted, answers[i].grant.Fence)
		}
	}
	// Every quorum includes a member of any group of this size.
	overlap := len(answers) - s.need + 1
	switch {
	case len(minted) >= overlap:
		slices.Sort(minted)
		if fence := minted[len(minted)-overlap]; fence > seenFence {
			return fence, nil
		}
	case len(minted) == 0 && count(answers, gone) > 0:
		return 0, driver.ErrLost
	case len(minted) == 0 && refusal(answers) != nil:
		return 0, refusal(answers)
	case len(minted) == 0 && cause == nil && count(answers, unsure)+count(answers, pending) == 0:
		return 0, s.fail(driver.ErrUnavailable, answers, nil)
	}
	return 0, s.fail(driver.ErrUncertain, answers, cause)
}

// Status implements driver.Reporter. It reports which members could be asked, and the findings of
// each of them.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	if s.cannot(driver.AbilityReporter) {
		return nil, fmt.Errorf("status: %w", errors.ErrUnsupported)
	}
	if err := s.calls.Begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Work.Done()
	found := make([][]driver.Finding, len(s.members))
	r := s.newRound(ctx, nil, maxPatience, len(s.members))
	defer r.endRound()
	answers := r.askEveryMember(func(ctx context.Context, i int, m *member, report func(answer)) {
		list, err := m.status(ctx)
		s.mu.Lock()
		found[i] = list
		s.mu.Unlock()
		report(answer{verdict: judge(err), err: err})
	})
	if err := r.collect(ctx, answers, r.timeout+grace, func() bool { return false }); err != nil {
		return nil, err
	}
	if count(answers, yes) == 0 {
		return nil, s.fail(driver.ErrUnavailable, answers, nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findings(answers, found), nil
}

func (m *member) status(ctx context.Context) ([]driver.Finding, error) {
	if m.reporter == nil {
		return nil, errors.ErrUnsupported
	}
	return m.reporter.Status(ctx)
}

func (s *Store) findings(answers []answer, found [][]driver.Finding) []driver.Finding {
	var out []driver.Finding
	for i, m := range s.members {
		reach := driver.Finding{Name: m.String(), Value: "reached"}
		switch answers[i].verdict {
		case yes:
		case refused:
			reach.Value = driver.Unknown
		default:
			reach.Value, reach.Advice = "not reached", "bring it back: a hold needs "+fmt.Sprint(s.need)+" members"
		}
		out = append(out, reach)
		for _, f := range found[i] {
			f.Name = m.String() + ": " + f.Name
			out = append(out, f)
		}
	}
	return out
}
