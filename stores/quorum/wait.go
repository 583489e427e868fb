package quorum

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// waitLimit is how long Wait lasts at most. Up to a quarter of it is added or subtracted at random.
const waitLimit = time.Second

// wait waits at all members until a quorum of them reports that a try may succeed, or for about a
// second.
func (s *Store) wait(ctx context.Context, r driver.Request) error {
	h := s.addUser(r.Name, r.Token.Text())
	defer s.removeUser(h)
	queued, leave := context.WithTimeout(ctx, jittered(waitLimit, waitLimit/4))
	defer leave()
	answers := s.ballot(pending)
	replies := make(chan answer, len(answers))
	for i := range answers {
		s.waitAt(queued, h, i, r, false, replies)
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
		case <-s.calls.Closing.Done():
			return driver.ErrClosed
		}
	}
}

// waitAt waits at one member. If an earlier Wait with the same token is still in that member's
// queue, waitAt does not join the queue again and reports the verdict busy.
func (s *Store) waitAt(ctx context.Context, h *hold, i int, r driver.Request, reserve bool, replies chan<- answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := &h.members[i]
	if sl.waiting {
		replies <- answer{member: i, verdict: busy, err: errUnsettled}
		return
	}
	sl.waiting = true
	h.refs++
	s.calls.Work.Go(func() {
		defer s.removeUser(h)
		g, err := s.members[i].wait(ctx, r, reserve)
		s.mu.Lock()
		sl.waiting = false
		s.mu.Unlock()
		replies <- answer{member: i, verdict: judge(err), grant: g, err: err}
	})
}

// poll is how long Wait sleeps, on average, for a member that has no Wait. The sleep is up to a
// half shorter or longer, at random.
const poll = 200 * time.Millisecond

func (m *member) wait(ctx context.Context, r driver.Request, reserve bool) (g driver.Grant, err error) {
	if m.waiter != nil {
		return m.waiter.Wait(ctx, r, reserve)
	}
	if !storekit.Sleep(ctx, jittered(poll, poll/2)) {
		return g, ctx.Err()
	}
	return g, nil
}

func jittered(d, spread time.Duration) time.Duration {
	return d - spread + rand.N(2*spread)
}
