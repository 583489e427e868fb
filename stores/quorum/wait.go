package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Wait implements driver.Waiter. It waits at all members and returns when a quorum of them reports
// that a try may succeed, or after about a second. It never makes reservations, because a
// reservation at only some of the members would block every caller, even one that could get a
// quorum.
func (s *Store) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if err := s.valid(&r); err != nil {
		return driver.Grant{}, err
	}
	if !s.waits {
		return driver.Grant{}, fmt.Errorf("waiting: %w", errors.ErrUnsupported)
	}
	if err := s.enter(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.work.Done()
	h := s.addUser(r.Name, r.Token)
	defer s.removeUser(h)
	return driver.Grant{}, s.wait(ctx, h, r)
}

// waitLimit is how long Wait lasts at most. Up to a quarter of it is added or subtracted at random.
const waitLimit = time.Second

func (s *Store) wait(ctx context.Context, h *hold, r driver.Request) error {
	queued, leave := context.WithTimeout(ctx, jittered(waitLimit, waitLimit/4))
	defer leave()
	answers := s.ballot(pending)
	replies := make(chan answer, len(answers))
	for i := range answers {
		s.waitAt(queued, h, i, r, replies)
	}
	err := s.listen(ctx, queued, answers, replies)
	leave()
	// Wait leaves the members' queues before it returns. If that takes too long, it goes on in the
	// background.
	t := time.NewTimer(s.timeout(r.TTL))
	defer t.Stop()
	for count(answers, pending) > 0 {
		select {
		case a := <-replies:
			answers[a.member] = a
		case <-t.C:
			return err
		}
	}
	return err
}

// listen returns nil when a try may succeed.
func (s *Store) listen(ctx, queued context.Context, answers []answer, replies <-chan answer) error {
	for {
		if count(answers, yes) >= s.need {
			return nil
		}
		if queued.Err() != nil {
			return ctx.Err() // nil if only waitLimit has passed: the caller may wait again
		}
		if failed := len(answers) - count(answers, yes) - count(answers, pending); s.refuses(failed) {
			if err := refusal(answers); err != nil {
				return err
			}
			return s.fail(driver.ErrUnavailable, answers, nil)
		}
		select {
		case a := <-replies:
			answers[a.member] = a
		case <-queued.Done():
		case <-s.closing:
			return driver.ErrClosed
		}
	}
}

// waitAt waits at one member. If an earlier Wait with the same token is still in that member's
// queue, waitAt does not join the queue again and reports the verdict busy.
func (s *Store) waitAt(ctx context.Context, h *hold, i int, r driver.Request, replies chan<- answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := &h.slots[i]
	if sl.waiting {
		replies <- answer{member: i, verdict: busy, err: errUnsettled}
		return
	}
	sl.waiting = true
	h.refs++
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		defer s.removeUser(h)
		err := s.members[i].wait(ctx, r)
		s.mu.Lock()
		sl.waiting = false
		s.mu.Unlock()
		replies <- answer{member: i, verdict: judge(err), err: err}
	}()
}

// poll is how long Wait sleeps, on average, for a member that has no Wait. The sleep is up to a
// half shorter or longer, at random.
const poll = 200 * time.Millisecond

func (m *member) wait(ctx context.Context, r driver.Request) error {
	if m.waiter != nil {
		_, err := m.waiter.Wait(ctx, r, false)
		if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	t := time.NewTimer(jittered(poll, poll/2))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func jittered(d, spread time.Duration) time.Duration {
	return d - spread + rand.N(2*spread)
}
