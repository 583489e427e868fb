package padlocktest

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// Op is a kind of request that a Locker sends to its store, or several of them in one:
// Acquire|Extend.
type Op int

// The kinds of requests.
const (
	Acquire Op = 1 << iota // also of Do, TryAcquire and Adopt, and each try of a wait
	Extend                 // also each renewal, and Check
	Release                // also each clean-up
	Convert                // Promote and Demote
	Wait                   // for a name that is held; a store is asked once for many waiters
	All     Op = 1<<iota - 1
)

// Always stands for a number of times without end: until Heal.
const Always = -1

// plan is what becomes of some requests.
type plan struct {
	op    Op
	left  int // times; negative = always
	delay time.Duration
	err   error
	after bool // the request is carried out, and then err
}

// Fail makes the next n requests of kind op fail with err, and the store does nothing.
// ErrUnavailable tells the Locker so; after ErrUncertain, or an error that the package does not
// know, the Locker cannot know whether anything was done.
func (s *Script) Fail(op Op, n int, err error) { s.plan(plan{op: op, left: n, err: err}) }

// LoseReplies makes the store carry out the next n requests of kind op, and lose its replies.
func (s *Script) LoseReplies(op Op, n int) {
	err := errors.Join(padlock.ErrUncertain, errors.New("padlocktest: the reply is lost, as the script says"))
	s.plan(plan{op: op, left: n, err: err, after: true})
}

// Delay makes each request of kind op take d before the store sees it, until Heal. The caller gives
// up when its context ends.
func (s *Script) Delay(op Op, d time.Duration) { s.plan(plan{op: op, left: Always, delay: d}) }

// Down makes the store say nothing at all until Heal, as one whose machine is gone: each request
// hangs until its context ends or driver.MaxSilence is over. Use Fail with ErrUnavailable for one
// that refuses at once.
func (s *Script) Down() {
	err := errors.Join(padlock.ErrUncertain, errors.New("padlocktest: the store is silent, as the script says"))
	s.plan(plan{op: All, left: Always, delay: driver.MaxSilence, err: err})
}

// Heal ends all that Fail, LoseReplies, Delay and Down began.
func (s *Script) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plans = nil
}

// Requests returns how many requests of kind op have come so far.
func (s *Script) Requests(op Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for of, count := range s.requests {
		if of&op != 0 {
			n += count
		}
	}
	return n
}

func (s *Script) plan(p plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plans = append(s.plans, &p)
}

// on sends a request through what is planned for it, with serve in the middle.
func (s *Script) on(ctx context.Context, op Op, serve func(context.Context) error) error {
	var lost error
	for _, p := range s.take(op) {
		if p.delay > 0 {
			if err := pause(ctx, p.delay); err != nil {
				return errors.Join(padlock.ErrUncertain, err)
			}
		}
		if p.err != nil && !p.after {
			return p.err
		}
		lost = errors.Join(lost, p.err)
	}
	err := serve(ctx)
	if lost != nil {
		return lost
	}
	return err
}

// take returns the plans for one request of kind op: all delays, and the first failure.
func (s *Script) take(op Op) []plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[op]++
	var due []plan
	for _, p := range s.plans {
		if p.op&op == 0 || p.left == 0 {
			continue
		}
		due = append(due, *p)
		if p.left > 0 {
			p.left--
		}
		if p.err != nil {
			break
		}
	}
	return due
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
