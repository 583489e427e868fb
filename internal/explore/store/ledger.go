package store

import (
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/storekit/decide"
)

// maxTokens is how many tokens a world has at most.
const maxTokens = 4

// What a token has, as its caller may conclude from package driver and from the answers so far.
const (
	nothing uint8 = iota
	hold
	reservation
)

// An account says what a token has. It is kept by the rules of package driver, from the answers that
// the store gave, and never from the store's state.
type account struct {
	has    uint8
	shared bool
	taken  bool // its last hold was broken, or lapsed before somebody came; the next Release says so
	risen  bool // the fence rose during this hold, because of another reader
	closed bool // the caller has sent Release: it never sends this token to Acquire again
	fence  uint64
	end    decide.Time
	spent  decide.Time // it was released without a hold; until then it gets nothing
}

// A ledger is the outside view of a name.
type ledger struct {
	now     decide.Time
	wall    uint64
	tokens  [maxTokens]account
	cool    decide.Time
	wish    int8        // the reader that waits for its promotion, or -1
	wishEnd decide.Time // when its intent ends
	top     uint64      // the highest fence
}

func (l *ledger) live(i int) bool { return l.tokens[i].has != nothing && l.tokens[i].end > l.now }

// tidy forgets the reservations and the intent that have ended.
func (l *ledger) tidy() {
	for i := range l.tokens {
		if a := &l.tokens[i]; a.has == reservation && a.end <= l.now {
			a.has = nothing
		}
	}
	if l.wish >= 0 && (l.wishEnd <= l.now || !l.live(int(l.wish))) {
		l.wish, l.wishEnd = -1, 0
	}
}

// others reports whether another token has a live hold. If shared is true, only exclusive ones count.
func (l *ledger) others(i int, shared bool) bool {
	for j := range l.tokens {
		if j != i && l.live(j) && !(shared && l.tokens[j].shared) {
			return true
		}
	}
	return false
}

// excluded reports whether a request of a token has to wait.
func (l *ledger) excluded(i int, shared bool) bool {
	return l.cool > l.now || shared && l.wish >= 0 && int(l.wish) != i || l.others(i, shared)
}

// given notes that the store gave token i a hold or a reservation that it did not have before, and
// checks the fence. joins says that the hold may have the fence of the readers that it joins.
func (l *ledger) given(i int, has uint8, shared, joins bool, above, fence uint64) error {
	var err error
	switch {
	case joins && above < l.top && fence != l.top:
		err = safety.ErrBroken("a reader that joins others gets fence %d, and theirs is %d", fence, l.top)
	case joins && above < l.top:
	default:
		err = errors.Join(safety.FenceRises(fence, max(l.top, above)), safety.FenceKeeps(fence, l.wall))
	}
	for j := range l.tokens {
		switch a := &l.tokens[j]; {
		case j == i || a.has == nothing:
		case a.end <= l.now:
			a.has, a.taken = nothing, true
		case fence > l.top:
			a.risen = true
		}
	}
	closed := l.tokens[i].closed
	l.tokens[i] = account{has: has, shared: shared, fence: fence, closed: closed}
	l.top = max(l.top, fence)
	return err
}

// lacks returns the error for a request that needs a live hold of token i, and whether ErrLost is
// allowed instead: a store that knows the fences only cannot tell a grant from a fence that rose
// during the hold.
func (l *ledger) lacks(i int) (want error, lenient bool) {
	switch a := &l.tokens[i]; {
	case a.has != hold:
		return driver.ErrLost, false
	case a.end <= l.now:
		return driver.ErrExpired, a.risen
	}
	return nil, false
}

// released notes a Release, and returns what it has to say.
func (l *ledger) released(i int, keep decide.Time) (want driver.Outcome, lenient bool) {
	a := &l.tokens[i]
	live := l.live(i)
	switch {
	case live:
		if want = driver.OutcomeReleased; keep > 0 && a.has == hold {
			l.cool = max(l.cool, l.now+keep)
		}
	case a.has == hold:
		want, lenient = driver.OutcomeExpired, a.risen
	case a.taken:
		want = driver.OutcomeTaken
	default:
		a.spent = l.now.Add(decide.SpentFor)
		return driver.OutcomeGone, false
	}
	*a = account{closed: a.closed}
	l.tidy()
	return want, lenient
}

// broken notes a Break.
func (l *ledger) broken(fence uint64) error {
	err := errors.Join(safety.FenceRises(fence, l.top), safety.FenceKeeps(fence, l.wall))
	for i := range l.tokens {
		if a := &l.tokens[i]; a.has != nothing {
			a.has, a.taken = nothing, true
		}
	}
	l.cool, l.wish, l.wishEnd, l.top = 0, -1, 0, fence
	return err
}

// firstEnd returns when the first live hold, cool-down or intent ends, or 0.
func (l *ledger) firstEnd() decide.Time {
	var first decide.Time
	for _, t := range []decide.Time{l.cool, l.wishEnd, l.tokens[0].until(), l.tokens[1].until(), l.tokens[2].until(), l.tokens[3].until()} {
		if t > l.now && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}

func (a *account) until() decide.Time {
	if a.has == nothing {
		return 0
	}
	return a.end
}

// differs compares two answers.
func differs[T comparable](what string, got, want T) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("%s: %v, want %v", what, got, want)
}
