package quorum

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// round is a group of requests that go to the members at the same time. A request does not end with
// the caller's context, so it is completed even if the caller stops waiting for it. Each request
// ends after the round's timeout.
type round struct {
	s       *Store
	h       *hold           // the hold that the requests are for; nil if the requests may arrive in any order
	base    context.Context // for requests that begin later; each gets a timeout of its own
	ctx     context.Context // for the first requests; it ends when the timeout is over
	cancel  context.CancelFunc
	timeout time.Duration
	answers chan answer
	running atomic.Int32
}

// memberCall sends requests to one member and reports one answer. It may send more requests after
// the report. If the round has a hold, the memberCalls for this hold at one member run one after
// the other, because each of them first waits for memberHold.turn.
type memberCall func(ctx context.Context, i int, m *member, report func(answer))

// newRound returns a round for at most n answers.
func (s *Store) newRound(ctx context.Context, h *hold, patience time.Duration, n int) *round {
	r := &round{s: s, h: h, timeout: patience, answers: make(chan answer, n)}
	base, end := context.WithCancel(context.WithoutCancel(ctx))
	first, stop := context.WithTimeout(base, patience)
	r.base, r.ctx, r.cancel = base, first, func() { stop(); end() }
	r.running.Store(1)
	return r
}

// endRound notes that a request has ended, or that the caller of newRound will begin no more
// requests.
func (r *round) endRound() {
	if r.running.Add(-1) == 0 {
		r.cancel()
	}
}

// askMember runs f for member i in a new goroutine. It joins the queue of memberHold.turn before it
// returns. So the requests of one hold reach a member in the order of the calls of askMember.
func (r *round) askMember(i int, f memberCall) { r.beginAt(r.ctx, i, f) }

// askLater is like askMember, but the timeout begins now, not when the round began.
func (r *round) askLater(i int, f memberCall) {
	ctx, cancel := context.WithTimeout(r.base, r.timeout)
	r.beginAt(ctx, i, func(ctx context.Context, i int, m *member, report func(answer)) {
		defer cancel()
		f(ctx, i, m, report)
	})
}

func (r *round) beginAt(ctx context.Context, i int, f memberCall) {
	r.running.Add(1)
	var p place
	if r.h != nil {
		r.s.mu.Lock()
		r.h.refs++
		p = r.h.members[i].turn.enqueue()
		r.s.mu.Unlock()
	}
	r.s.calls.Work.Go(func() { r.perform(ctx, i, p, f) })
}

func (r *round) perform(ctx context.Context, i int, p place, f memberCall) {
	defer r.endRound()
	report := func(a answer) {
		a.member = i
		r.answers <- a
	}
	if r.h == nil {
		f(ctx, i, r.s.members[i], report)
		return
	}
	defer r.s.removeUser(r.h)
	turn := &r.h.members[i].turn
	if turn.await(ctx, p) != nil {
		report(answer{verdict: busy, err: errUnsettled})
		return
	}
	defer turn.leave()
	f(ctx, i, r.s.members[i], report)
}

// askEveryMember calls askMember for each member. It returns one pending answer for each member.
func (r *round) askEveryMember(f memberCall) []answer {
	for i := range r.s.members {
		r.askMember(i, f)
	}
	return r.s.ballot(pending)
}

// collect waits for answers and puts them into the given slice. It returns when isEnough returns
// true, when all members have answered, or after the time limit. If ctx ends first, it returns the
// error of ctx. Members that have not answered stay pending. After the time limit, their error
// is errOverdue.
func (r *round) collect(ctx context.Context, answers []answer, limit time.Duration, isEnough func() bool) error {
	overdue := time.NewTimer(limit)
	defer overdue.Stop()
	for !isEnough() && count(answers, pending) > 0 {
		select {
		case a := <-r.answers:
			answers[a.member] = a
		case <-ctx.Done():
			return ctx.Err()
		case <-overdue.C:
			for i := range answers {
				if answers[i].verdict == pending {
					answers[i].err = errOverdue
				}
			}
			return nil
		}
	}
	return nil
}

// drain puts the answers that have arrived so far into the given slice. It does not wait for more
// answers. The caller holds mu.
func (r *round) drain(answers []answer) {
	for {
		select {
		case a := <-r.answers:
			answers[a.member] = a
		default:
			return
		}
	}
}

// minQueue is the shortest time for which a caller that has a quorum waits for the member with the
// queue.
const minQueue = 10 * time.Millisecond

// hearQueue waits for the answer of the member in whose queue the waiters stand (see isOutOfTurn). A
// member that is much slower than the quorum is not worth the time, nor is one that has not answered
// this process yet.
func (s *Store) hearQueue(ctx context.Context, r *round, answers []answer, took time.Duration) {
	limit := max(minQueue, 4*took)
	i := slices.IndexFunc(s.members, s.hasQueue)
	if i < 0 {
		return
	}
	if m := s.members[i]; m.heard.Load() && time.Duration(m.took.Load()) <= limit {
		r.collect(ctx, answers, limit, func() bool { return answers[i].verdict != pending })
	}
}
