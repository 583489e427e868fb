package quorum

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Wait implements driver.Waiter. A quorum has no queue of its own. With reserve, Wait stands in the
// queue of one member, the first one that works. So all waiters of all processes stand in one
// queue, and a release wakes one of them. When that member hands the name over, Wait takes the name
// at the others, and returns the hold.
//
// About once a second, a waiter in the queue looks whether that member alone is in the way. It may
// be silent, or have a hold that reached no quorum. Then Wait returns, so that its caller tries, and
// the next Wait stands in the queue of another member. If the members' holds have no lease, or the
// queue hands over a name that others have at a quorum of the members, Wait waits at all members,
// and returns when a quorum of them reports that a try may succeed.
func (s *Store) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if err := s.valid(&r); err != nil {
		return driver.Grant{}, err
	}
	if s.cannot(driver.AbilityWaiter) {
		return driver.Grant{}, fmt.Errorf("waiting: %w", errors.ErrUnsupported)
	}
	if err := s.calls.Begin(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.calls.Work.Done()
	if reserve && s.guarantees.Lease {
		if g, done, err := s.waitInQueue(ctx, r); done {
			return g, err
		}
		r.Token = driver.TokenOf(rand.Text()) // what is left of the old token may still be released, and that would end the wait
	}
	return driver.Grant{}, s.wait(ctx, r)
}

// waitInQueue stands in the queue of the first member that works. The result done is false if Wait
// must wait at all members instead.
func (s *Store) waitInQueue(ctx context.Context, r driver.Request) (g driver.Grant, done bool, err error) {
	h := s.addUser(r.Name, r.Token.Text())
	defer s.removeUser(h)
	i := slices.IndexFunc(s.members, s.hasQueue)
	if i < 0 || s.refuses(s.counted(func(m *member) bool { return m.failing.Load() })) {
		return g, false, nil
	}
	a := s.queueAt(ctx, h, i, r)
	switch {
	case a.verdict == yes && a.grant.TTL > 0:
		return s.claim(ctx, h, i, r)
	case ctx.Err() != nil:
		return g, true, ctx.Err()
	case s.calls.Closing.Err() != nil:
		return g, true, driver.ErrClosed
	case errors.Is(a.err, driver.ErrQueueFull):
		return g, true, a.err
	case a.verdict == never || a.verdict == unsure:
		// The member may release the token at any time from now on, so no member may be asked to
		// grant it. The caller tries with a new token.
		s.members[i].failing.Store(true)
		s.members[i].avoided.Store(int64(s.clock.Now().Add(waitLimit)))
		return g, true, nil
	}
	return g, a.verdict == yes, nil // if it is true, the caller tries
}

// queueAt stands in the queue of member i. It returns the member's answer, or an answer without a
// grant if it left the queue. The verdict is then yes if the caller should try.
func (s *Store) queueAt(ctx context.Context, h *hold, i int, r driver.Request) answer {
	queued, leave := context.WithCancel(ctx)
	defer leave()
	replies := make(chan answer, 1)
	s.waitAt(queued, h, i, r, true, replies)
	a, answered := s.standAt(ctx, i, r.Name, replies)
	if answered {
		return a
	}
	leave()
	// The member leaves the queue before it answers. If that takes too long, it goes on in the
	// background.
	t := time.NewTimer(s.timeout(r.TTL))
	defer t.Stop()
	select {
	case late := <-replies:
		if late.grant.TTL > 0 {
			return late
		}
		return a
	case <-t.C:
	}
	s.addUser(r.Name, r.Token.Text())
	s.calls.Work.Go(func() {
		defer s.removeUser(h)
		if late := <-replies; late.grant.TTL > 0 {
			s.giveBack(h, i)
		}
	})
	return a
}

// lookAgain is how long, on average, a waiter that saw the name free at the other members waits
// before it looks again. Between two holds the name is free for a moment, while the queue hands it
// over.
const lookAgain = 75 * time.Millisecond

// standAt waits for the answer of member i, and returns it. About once a second it looks at the
// name. It returns false if the waiter should leave the queue, and then an answer that says why.
func (s *Store) standAt(ctx context.Context, i int, name string, replies <-chan answer) (a answer, answered bool) {
	next := time.NewTimer(jittered(waitLimit, waitLimit/4))
	defer next.Stop()
	looks := make(chan look, 1)
	var before look
	for {
		select {
		case a := <-replies:
			return a, true
		case <-next.C:
			s.calls.Work.Go(func() { looks <- s.look(ctx, i, name) })
		case now := <-looks:
			switch {
			case now.silent:
				return answer{member: i, verdict: unsure, err: errOverdue}, false
			case now.free && before.free && now.fence == before.fence:
				// For a while, this process asks no leave of that member's queue.
				s.members[i].avoided.Store(int64(s.clock.Now().Add(waitLimit)))
				return answer{member: i, verdict: yes}, false
			case now.free:
				next.Reset(jittered(lookAgain, lookAgain/3))
			default:
				next.Reset(jittered(waitLimit, waitLimit/4))
			}
			before = now
		case <-ctx.Done():
			return answer{member: i, verdict: unsure, err: ctx.Err()}, false
		case <-s.calls.Closing.Done():
			return answer{member: i, verdict: unsure, err: driver.ErrClosed}, false
		}
	}
}

// look is what a waiter in the queue of one member learns about the name.
type look struct {
	silent bool   // the member in whose queue it stands does not answer
	free   bool   // the name is free at so many other members that a try would succeed
	fence  uint64 // of the last hold at the member in whose queue it stands; 0 if unknown
}

// look asks all members about the name, for a waiter in the queue of member i. If they cannot tell,
// the result is that the name is free.
func (s *Store) look(ctx context.Context, i int, name string) look {
	answers, err := s.inspect(ctx, name)
	if answers == nil || ctx.Err() != nil {
		return look{free: err != nil}
	}
	free := 0
	for j := range answers {
		s.members[j].failing.Store(answers[j].verdict != yes)
		if j != i && answers[j].verdict == yes && len(answers[j].state.Holds) == 0 {
			free++
		}
	}
	return look{answers[i].verdict != yes, free >= min(s.need, len(answers)-1), answers[i].state.Fence}
}

// giveBack releases, in the background, what member i has handed over.
func (s *Store) giveBack(h *hold, i int) {
	s.mu.Lock()
	sl := &h.members[i]
	sl.sent, sl.has = true, true
	patience := s.timeout(h.request.TTL)
	s.mu.Unlock()
	s.freeAt(context.Background(), h, []int{i}, 0, patience, s.ballot(unasked)).endRound()
}

// claim takes the name at all members, after member i has handed it over.
func (s *Store) claim(ctx context.Context, h *hold, i int, r driver.Request) (g driver.Grant, done bool, err error) {
	if _, err := s.beginCall(ctx, r.Name, r.Token.Text(), 4); err != nil {
		s.giveBack(h, i)
		return g, true, err
	}
	defer s.finishCall(h)
	s.mu.Lock()
	h.members[i].noteSending() // if the try is lost, the member must release what it handed over
	s.mu.Unlock()
	t := s.newTry(h, r)
	g, err = t.run(ctx)
	switch {
	case err == nil:
		g.From = t.sent
		return g, true, nil
	case errors.Is(err, driver.ErrHeld) && ctx.Err() == nil:
		return g, false, nil
	case errors.Is(err, driver.ErrUnavailable) && errors.Is(err, driver.ErrSpent):
		return g, true, nil // rivals split the vote: the caller tries again
	}
	return g, true, err
}
