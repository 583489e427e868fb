package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// try is one try to take a name.
type try struct {
	s       *Store
	h       *hold
	r       driver.Request
	swap    bool
	spent   []*hold // earlier tries of this caller, as far as something is left of them
	round   *round
	second  *round // writes back; exists when the vote is won
	sent    driver.Instant
	answers []answer

	pause     time.Duration // before refusals are asked again
	asksUntil time.Time     // and until when

	stage stage  // guarded by Store.mu
	fence uint64 // set before stage is won, and not changed afterwards
}

// stage is how far a try, or a conversion, has come.
//
//	from        event                                          to
//	undecided   need members granted                           won
//	undecided   so many refuse that no quorum is left          lost: ErrHeld
//	undecided   too few can be asked, or time is up            lost: ErrUnavailable, ErrUncertain
//	undecided   a member finds the request invalid             lost: its error, or ErrUncertain if others may have granted
//	undecided   the caller's context ends                      lost: its error
//	won         a quorum has the fence, and AtLeast            the caller gets the grant
//	won         no quorum has them in time, or context ends    lost: ErrUncertain, or what members say
//
// The answer of one member, by the stage in which it comes:
//
//	answer      undecided                          won                              lost
//	yes         counts                             is secured: fence and AtLeast    is released, see settlement
//	held        a refusal; asked again if this     the hold is mended there soon    -
//	            try has the first member
//	leftover    unknown; asked again as held is    mended soon                      -
//	unsure      unknown; asked again if it came    mended soon                      is released, see settlement
//	            early
//	never       the member is out of the vote      -                                -
//	busy        the same                           -                                -
//	gone        a refusal of a swap                mended soon                      -
//	refused     ends the vote                      -                                -
//
// Lost is final: the token is spent, no member is asked for it again, and withdraw gives back what it
// may have got.
type stage int

const (
	undecided stage = iota
	won
	lost
)

// seqBudget bounds how long members that are asked one by one may take.
const seqBudget = 5 * driver.MaxSilence / 10

func (s *Store) newTry(h *hold, r driver.Request) *try {
	t := &try{s: s, h: h, r: r, swap: r.Replaces != "", pause: time.Millisecond}
	t.answers = s.ballot(unasked)
	if len(r.Spent) == 0 {
		return t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, token := range r.Spent {
		if spent := s.holds[id{r.Name, token}]; spent != nil && !spent.live {
			t.spent = append(t.spent, spent)
		}
	}
	return t
}

// leftAt reports whether an earlier try of this caller may have left something at member i. A spent
// token is never asked for again: once nothing is left, nothing comes. The caller holds mu.
func (t *try) leftAt(i int) bool {
	return slices.ContainsFunc(t.spent, func(h *hold) bool {
		sl := &h.slots[i]
		return sl.sent || sl.turn.taken || sl.settling != nil
	})
}

// isOwn reports whether all that is in the way of r may be a hold of r's own caller.
func isOwn(err error, r *driver.Request) bool {
	var e *driver.HeldError
	if !errors.As(err, &e) || isFirm(err) {
		return false
	}
	return !slices.ContainsFunc(e.Holds, func(h driver.Hold) bool {
		named := h.Host != "" || h.PID != 0 || h.Label != ""
		return h.Foreign || h.Cooling || named && (h.Host != r.Holder.Host || h.PID != r.Holder.PID || h.Label != r.Holder.Label)
	})
}

func (t *try) run(ctx context.Context) (driver.Grant, error) {
	s := t.s
	patience := s.timeout(t.r.TTL)
	if t.inOrder() {
		patience = min(patience, seqBudget/time.Duration(len(s.members)))
	}
	s.mu.Lock()
	t.h.tried, t.h.live = true, false
	t.h.request = t.r
	s.mu.Unlock()
	t.round = s.newRound(ctx, t.h, patience, 16*len(s.members))
	defer t.round.done()
	t.sent = s.clock.Now()
	t.asksUntil = time.Now().Add(patience * 3 / 2)
	began := time.Now()
	err := t.vote(ctx)
	if err == nil && t.r.Shared && s.fences && !t.swap {
		t.hearRest(ctx, max(minRest, 2*time.Since(began)))
	}
	if err == nil && t.win(ctx) {
		var g driver.Grant
		if g, err = t.declare(ctx); err == nil {
			return g, nil
		}
	}
	return driver.Grant{}, t.lose(ctx, err)
}

// inOrder reports whether members are asked one after the other. A swap needs
// no order: two cannot both have the hold that is replaced.
func (t *try) inOrder() bool { return t.s.rule == All && !t.swap }

// probe is what members are sent first. AtLeast comes with the second request,
// when a quorum is won: else whoever loses a vote would leave a cool-down.
func (t *try) probe() driver.Request {
	r := t.r
	if !t.swap {
		r.AtLeast = 0
	}
	return r
}

// ask is the script of a first request. What is granted after the vote is won
// is secured here; after it is lost, whoever gives it back stands in line
// behind this request.
func (t *try) ask(ctx context.Context, i int, m *member, report func(answer)) {
	began, s := time.Now(), t.s
	a := answer{member: i}
	may, left := t.mayAsk(i, m, &a)
	if !may {
		report(a)
		return
	}
	a.grant, a.err = m.store.Acquire(ctx, t.probe())
	a.verdict = judge(a.err)
	a.fast = time.Since(began) < t.round.patience/2
	s.mu.Lock()
	t.h.slots[i].asked(a.verdict)
	if a.verdict == held && left && isOwn(a.err, &t.r) {
		a.verdict, a.err = leftover, errLeftover
	}
	stage := t.stage
	if a.verdict == yes && stage == won {
		s.watch(t.h, i, a.grant.Bound)
	}
	report(a) // within mu, so that who decides has seen all that came before
	s.mu.Unlock()
	if stage != won {
		return
	}
	switch a.verdict {
	case yes:
		a = t.secure(i, m, a.grant)
	case held, leftover, unsure, gone:
		s.mendSoon(t.h, t.round.patience)
	}
	t.second.answers <- a // it counts for the write-back as the others do
}

// mayAsk notes that a request is sent, or says why none is. left says that it may meet what an
// earlier try of this caller left there.
func (t *try) mayAsk(i int, m *member, a *answer) (may, left bool) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	switch {
	case t.stage == lost:
		a.verdict, a.err = never, errGivenUp
	case m.unsettled.Load() >= maxUnsettled:
		a.verdict, a.err = never, errCrowded
	default:
		t.h.slots[i].sending()
		return true, t.leftAt(i)
	}
	return false, false
}

// vote asks until it is decided. An error is that of ctx; otherwise the
// answers tell.
func (t *try) vote(ctx context.Context) error {
	t.first()
	overdue := time.NewTimer(t.round.patience + grace)
	defer overdue.Stop()
	var again <-chan time.Time
	for now := time.Now(); t.standing(now) == undecided; now = time.Now() {
		if again == nil && t.worthAsking(now) {
			again = time.After(t.pause)
			t.pause *= 2
		}
		select {
		case a := <-t.round.answers:
			t.answers[a.member] = a
			if t.inOrder() && t.next(a) {
				overdue.Reset(t.round.patience + grace)
			}
		case <-again:
			again = nil
			t.askAgain()
			overdue.Reset(t.round.patience + grace)
		case <-overdue.C:
			t.overdue()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// minRest is how long a reader that has a quorum waits at least for the other
// members.
const minRest = 2 * time.Millisecond

// hearRest waits for the members that have not answered a reader that has a quorum. At each member
// the first of several readers mints the fence of all. Readers that have heard all members take the
// greatest of the same numbers; a member that is heard too late may have a greater one, which the next
// reader meets.
func (t *try) hearRest(ctx context.Context, limit time.Duration) {
	if count(t.answers, yes) >= t.s.need {
		t.round.collect(ctx, t.answers, limit, func() bool { return false })
	}
}

func (t *try) first() {
	for i := range t.answers {
		t.answers[i].verdict = pending
		t.round.ask(i, t.ask)
		if t.inOrder() {
			return
		}
	}
}

// next asks the next member in order.
func (t *try) next(a answer) bool {
	i := a.member + 1
	if a.verdict != yes || i == len(t.answers) {
		return false
	}
	t.answers[i].verdict = pending
	t.round.askLater(i, t.ask)
	return true
}

func (t *try) overdue() {
	for i := range t.answers {
		if t.answers[i].verdict == pending {
			t.answers[i].verdict, t.answers[i].err = unsure, errOverdue
		}
	}
}

// standing says whether the vote is decided by what was answered so far.
//
// When callers come at once, each may get a part of the members and none a
// quorum. Then the one that has the first member in order of those that
// answer goes on asking for a while, and all others give up what they have:
// so one of them gets through, and no chance is needed.
func (t *try) standing(now time.Time) stage {
	s := t.s
	got, on := count(t.answers, yes), count(t.answers, pending)+count(t.answers, unasked)
	switch {
	case got >= s.need:
		return won
	case refusal(t.answers) != nil:
		return lost
	case got+on >= s.need:
		return undecided
	case t.swap && count(t.answers, pending) > 0 && !s.refuses(count(t.answers, gone)):
		return undecided
	case t.swap || t.inOrder() || s.refuses(t.firmly()):
		return lost
	}
	switch t.lead() {
	case pending:
		return undecided
	case held:
		// Whether it is "held" or "cannot know" may still be open.
		if count(t.answers, pending) > 0 && !s.refuses(count(t.answers, held)) {
			return undecided
		}
		return lost
	}
	if count(t.answers, pending) > 0 || got+t.askable() >= s.need && now.Before(t.asksUntil) {
		return undecided
	}
	return lost
}

// lead is what the first member says that says yes or held: pending while one
// before it may still answer, unasked if there is none.
func (t *try) lead() verdict {
	for i := range t.answers {
		if v := t.answers[i].verdict; v == yes || v == held || v == pending {
			return v
		}
	}
	return unasked
}

// firmly counts the refusals that are not those of somebody who came a moment
// ago and may have to give up.
func (t *try) firmly() (n int) {
	for i := range t.answers {
		if t.answers[i].verdict == held && isFirm(t.answers[i].err) {
			n++
		}
	}
	return n
}

// firmAge is more than any vote takes.
const firmAge = 2 * driver.MaxSilence

func isFirm(err error) bool {
	var h *driver.HeldError
	if !errors.As(err, &h) {
		return false
	}
	for i := range h.Holds {
		if since := h.Holds[i].Since; h.Holds[i].Cooling || !since.IsZero() && time.Since(since) > firmAge {
			return true
		}
	}
	return false
}

// askable counts the members that may say something else when asked again.
func (t *try) askable() (n int) {
	for i := range t.answers {
		if t.answers[i].askable() {
			n++
		}
	}
	return n
}

func (a *answer) askable() bool {
	return a.verdict == held && !isFirm(a.err) || a.verdict == leftover || a.verdict == unsure && a.fast
}

func (t *try) worthAsking(now time.Time) bool {
	if t.swap || t.inOrder() || now.After(t.asksUntil) || t.askable() == 0 {
		return false
	}
	lead := t.lead()
	return lead == yes || lead == unasked
}

func (t *try) askAgain() {
	for i := range t.answers {
		if t.answers[i].askable() {
			t.answers[i].verdict = pending
			t.round.askLater(i, t.ask)
		}
	}
}
