package quorum

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// win marks the vote as won. First it reads the answers that have come in meanwhile. If they show
// that there is no quorum after all, win returns false. If a member grants later, acquireMember
// writes the fence to that member.
func (t *try) win(ctx context.Context) bool {
	t.second = t.s.newRound(ctx, t.h, t.round.timeout, len(t.answers))
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.round.drain(t.answers)
	if count(t.answers, yes) < t.s.need || t.overtakes() {
		t.second.endRound()
		return false
	}
	t.stage = won
	if t.s.fences {
		t.fence = t.chooseFence()
	}
	return true
}

// chooseFence returns the fence of the grant. For a reader, and for a hold that replaces another
// one, it is the greatest fence of the members that have granted. If the vote has lasted for half
// the time that Break waits, a Break may have ended a grant meanwhile. So the fence is one that no
// member has, and declare asks all of them: a member whose grant has ended refuses it, and one that
// takes it refuses the Break.
func (t *try) chooseFence() uint64 {
	switch {
	case t.s.clock.Now().Sub(t.sent) > maxPatience/2:
		return greatest(t.answers) + 1
	case t.r.Shared || t.swap:
		return greatest(t.answers)
	}
	return t.s.fenceOfWriter(t.answers)
}

// fenceOfWriter returns the fence of an exclusive grant. More members may have granted than a
// quorum needs. fenceOfWriter takes the quorum with the smallest fences, and returns the greatest
// fence of that quorum. Of 3 members this is the second fence, of 5 members the third. If all
// members have granted and their number is odd, a quorum has this fence or a greater one already,
// so declare returns at once. Otherwise the fence is one that no member has (see chooseFence).
//
// Why the fence is greater than all earlier ones: it is as if the members of this quorum had
// answered first, and the others after the vote was won. Acquire never relies on the order in which
// members answer. In detail, let p be the fence of an earlier grant. Before that grant was
// declared, each member of a quorum had a fence of at least p for its hold. That quorum and the one
// that fenceOfWriter takes have a member in common. The member grants an exclusive hold only when
// it has no other hold of the name. So it had p before it granted this hold, and made a greater
// fence for it. The greatest fence of the quorum is at least as great as that.
func (s *Store) fenceOfWriter(answers []answer) uint64 {
	var fences []uint64
	for i := range answers {
		if answers[i].verdict == yes {
			fences = append(fences, answers[i].grant.Fence)
		}
	}
	slices.Sort(fences)
	if fence := fences[s.need-1]; fences[len(fences)-s.need] >= fence {
		return fence
	}
	return fences[len(fences)-1] + 1
}

// declare makes the grant safe to return. It writes the fence to all members that have granted with
// a smaller fence, and waits until a quorum has the fence.
func (t *try) declare(ctx context.Context) (driver.Grant, error) {
	s := t.s
	secured := s.ballot(never)
	r := t.second
	defer r.endRound()
	for i, a := range t.answers {
		switch {
		case a.verdict == pending:
			secured[i].verdict = pending
		case a.verdict != yes:
		case t.isSecure(a.grant):
			secured[i] = a
		default:
			secured[i].verdict = pending
			r.askMember(i, func(_ context.Context, i int, m *member, report func(answer)) { report(t.secure(i, m, a.grant)) })
		}
	}
	if err := r.collect(ctx, secured, r.timeout+grace, s.reachesQuorum(secured)); err != nil {
		return driver.Grant{}, err
	}
	if count(secured, yes) < s.need {
		t.answers = secured
		return driver.Grant{}, s.openError(secured, nil)
	}
	g := t.recordGrant(secured)
	if t.swap {
		t.releaseReplaced()
	}
	if count(t.answers, held)+count(t.answers, leftover)+count(t.answers, unsure)+count(t.answers, gone) > 0 {
		s.mendSoon(t.h, r.timeout, t.sent, t.r.TTL)
	}
	return g, nil
}

// releaseReplaced releases the old token, in the background, at members that have not replaced it.
// Otherwise it would keep the name there until its lease ends.
func (t *try) releaseReplaced() {
	s := t.s
	for i := range t.answers {
		t.second.askMember(i, func(_ context.Context, i int, _ *member, _ func(answer)) {
			s.mu.Lock()
			missed := !t.h.members[i].has
			s.mu.Unlock()
			old := s.addUser(t.r.Name, t.r.Replaces.Text())
			defer s.removeUser(old)
			if missed {
				s.freeAt(context.Background(), old, []int{i}, 0, t.round.timeout, s.ballot(unasked)).endRound()
			}
		})
	}
}

func (t *try) isSecure(g driver.Grant) bool {
	return !t.s.fences || g.Fence >= t.fence
}

// secure completes the grant at one member that has granted the hold. It raises the member's fence
// to the fence of the grant. The caller holds memberHold.turn, so the member gets no other request
// of the hold meanwhile.
func (t *try) secure(i int, m *member, g driver.Grant) answer {
	a := answer{member: i, verdict: yes, grant: g}
	if t.isSecure(g) {
		return a
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.round.timeout)
	defer cancel()
	a.err = m.raiser.RaiseFence(ctx, t.r.Name, t.r.Token.Text(), t.fence)
	a.verdict = judge(a.err)
	return a
}

// recordGrant updates the hold after a quorum has granted and secured it, and returns the grant.
func (t *try) recordGrant(secured []answer) driver.Grant {
	s, h := t.s, t.h
	s.mu.Lock()
	defer s.mu.Unlock()
	h.live, h.fence, h.bound, h.end = true, t.fence, nil, nil
	h.note(t.r)
	h.mode, h.until = modeOf(t.r.Shared), 0
	if t.swap {
		h.mode = unknown
		if old := s.holds[storekit.IDOf(t.r.Name, t.r.Replaces.Text())]; old != nil {
			h.mode = old.mode
			old.endHold()
		}
	}
	if (h.mode == unknown || !t.swap) && s.toldShared(t.answers) {
		h.setMode(true) // even if the imported key, or a request that repeats the token, says exclusive
	}
	return s.grant(h, t.sent, secured)
}

// isOutOfTurn reports whether other callers wait for the name, and this one has overtaken them. All
// waiters stand in the queue of one member, and the others know nothing of it. So if that member
// refuses the hold, and has waiters, the caller gives up what the others have granted. It does the
// same if that member has a new hold, because its last waiter may just have got it. A waiter whose
// turn has come is not refused there.
func (t *try) isOutOfTurn() bool {
	if t.swap || t.s.rule == All { // under All, every caller asks the first member first
		return false
	}
	if count(t.answers, yes)+count(t.answers, held) < t.s.need {
		return false // the others are silent, so the name may be free
	}
	var e *driver.HeldError
	i := slices.IndexFunc(t.s.members, t.s.hasQueue)
	return i >= 0 && t.answers[i].verdict == held && errors.As(t.answers[i].err, &e) && (e.Waiters != 0 || slices.ContainsFunc(e.Holds, isNew))
}

// overtakes is isOutOfTurn, and stays true once it was: the hold at the member with the queue is new for
// a time only, which may end while the try gives up what the others have granted.
func (t *try) overtakes() bool {
	t.outOfTurn = t.outOfTurn || t.isOutOfTurn()
	return t.outOfTurn
}

// isNew reports whether the vote for a hold may not be decided yet.
func isNew(h driver.Hold) bool {
	return !h.Since.IsZero() && time.Since(h.Since).Abs() < driver.MaxReservation
}

// lose releases the hold at the members that granted it, and returns the error of the try.
func (t *try) lose(ctx context.Context, cause error) error {
	s := t.s
	if refusal(t.answers) != nil {
		// The other members are about to answer. Without their answers, it would be uncertain whether
		// they have granted the hold.
		t.round.collect(ctx, t.answers, t.round.timeout+grace, func() bool { return false })
	}
	s.mu.Lock()
	t.stage = lost
	t.round.drain(t.answers)
	t.h.endHold()
	s.mu.Unlock()
	if t.swap && !s.refuses(count(t.answers, gone)) {
		return t.swapOpen(cause)
	}
	// What is left may block other callers, even at one member: it may be the one whose queue another
	// process uses (see isOutOfTurn). That counts only for a caller that gives up. Any other one tries
	// again, and must not be told that the outcome is uncertain because one member is silent.
	blocks := func(left []int) bool { return s.refuses(len(left)) || ctx.Err() != nil && len(left) > 0 }
	left := s.withdraw(t.h, t.round.timeout, blocks)
	for i := range t.answers {
		// Other callers get no grant from a member that may still have the hold. They also get none
		// from a member that cannot be asked now (verdict never). So both kinds are counted.
		if len(left) > 0 && t.answers[i].verdict == never {
			left = append(left, i)
		}
	}
	switch err := refusal(t.answers); {
	case cause == nil && s.refuses(count(t.answers, held)):
		return s.heldError(t.answers)
	case cause == nil && t.swap:
		return s.fail(driver.ErrLost, t.answers, nil)
	case blocks(left): // the members may hold a grant, or block other callers
		return s.fail(driver.ErrUncertain, t.answers, cmp.Or(ctx.Err(), driver.ErrSpent))
	case ctx.Err() != nil:
		return ctx.Err()
	case cause == nil && t.overtakes():
		return s.heldError(t.answers)
	case err != nil:
		return err
	case cause == nil && t.contended():
		return s.fail(driver.ErrUnavailable, t.answers, driver.ErrSpent)
	case cause != nil && judge(cause) != unsure:
		return cause
	}
	return s.fail(driver.ErrUnavailable, t.answers, nil)
}

// contended reports whether another try may succeed. There are two cases:
//
//   - A member refused because an earlier try of this caller may have left a hold there.
//   - Enough members for a quorum either granted the lock or refused it because of other callers.
//     Usually several callers have then split the vote. But another caller may also hold the name.
func (t *try) contended() bool {
	refusals := count(t.answers, held)
	return count(t.answers, leftover) > 0 || refusals > 0 && refusals+count(t.answers, yes) >= t.s.need
}

// swapOpen returns the error of a hand-over whose outcome is not known. A hand-over gives the hold
// a new token. Some members may have the new token already, and they keep it. The hold cannot go
// back to the old token, because that would need the members that do not answer. But if the caller
// repeats the request with the new token, the other members may follow.
func (t *try) swapOpen(cause error) error {
	if err := refusal(t.answers); err != nil && count(t.answers, yes) == 0 {
		return err
	}
	return t.s.openError(t.answers, cause)
}
