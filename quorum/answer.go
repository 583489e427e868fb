package quorum

import (
	"errors"

	"github.com/padlock-go/padlock/driver"
)

// verdict is what an answer comes to.
type verdict int

const (
	unasked  verdict = iota // and perhaps will be
	pending                 // asked, no answer yet
	yes                     // granted, confirmed, done
	held                    // by others, or cooling down
	leftover                // held, perhaps by what an earlier try of this caller left there
	conflict                // another reader is being promoted
	gone                    // the token holds nothing there
	never                   // not asked, or nothing came of it: for certain
	busy                    // not asked, for an earlier request for the token is unsettled
	refused                 // as invalid or unsupported
	unsure                  // it may have been done
)

// judge takes every error that does not say that nothing was done as one that
// leaves it open.
func judge(err error) verdict {
	switch {
	case err == nil:
		return yes
	case errors.Is(err, driver.ErrUncertain):
		return unsure
	case errors.Is(err, driver.ErrHeld):
		return held
	case errors.Is(err, driver.ErrPromotionConflict):
		return conflict
	case errors.Is(err, driver.ErrLost), errors.Is(err, driver.ErrExpired):
		return gone
	case errors.Is(err, driver.ErrInvalid), errors.Is(err, errors.ErrUnsupported):
		return refused
	case errors.Is(err, errUnsettled):
		return busy
	case errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrClosed):
		return never
	}
	return unsure
}

// answer is what one member said.
type answer struct {
	member  int
	verdict verdict
	grant   driver.Grant
	outcome driver.Outcome
	state   driver.State
	err     error
	fast    bool // it came early in its time
	settled bool // nothing is left of what was released, nor can come
	ours    bool // what is gone there may have been given back by us
}

// ballot is an empty list of answers.
func (s *Store) ballot(v verdict) []answer {
	answers := make([]answer, len(s.members))
	for i := range answers {
		answers[i] = answer{member: i, verdict: v}
	}
	return answers
}

func count(answers []answer, v verdict) (n int) {
	for i := range answers {
		if answers[i].verdict == v {
			n++
		}
	}
	return n
}

func greatest(answers []answer) (fence uint64) {
	for i := range answers {
		if answers[i].verdict == yes {
			fence = max(fence, answers[i].grant.Fence)
		}
	}
	return fence
}

// needs stops collecting when a quorum said yes.
func (s *Store) needs(answers []answer) func() bool {
	return func() bool { return count(answers, yes) >= s.need }
}

// refuses is more denials than a quorum can do without.
func (s *Store) refuses(n int) bool { return n > len(s.members)-s.need }

// refusal is what a member finds wrong with the request, or nil.
func refusal(answers []answer) error {
	for i := range answers {
		if answers[i].verdict == refused {
			return answers[i].err
		}
	}
	return nil
}
