package quorum

import (
	"errors"

	"github.com/padlock-go/padlock/driver"
)

// verdict says what the answer of a member means.
type verdict int

const (
	unasked  verdict = iota // not asked yet
	pending                 // asked, no answer yet
	yes                     // granted, confirmed or done
	held                    // refused: others hold the name, or it cools down
	leftover                // refused, perhaps only because an earlier try of this caller left something there
	gone                    // the member has no hold with this token
	never                   // the request has certainly changed nothing
	busy                    // not asked, because an earlier request for the token is unsettled
	refused                 // the request is invalid or unsupported
	unsure                  // the request may or may not have been carried out
)

// judge returns the meaning of err. An error counts as unsure unless it says that nothing was done.
func judge(err error) verdict {
	switch {
	case err == nil:
		return yes
	case errors.Is(err, driver.ErrUncertain):
		return unsure
	case errors.Is(err, driver.ErrHeld):
		return held
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

// answer is the answer of one member.
type answer struct {
	member   int
	verdict  verdict
	grant    driver.Grant
	outcome  driver.Outcome
	state    driver.State
	err      error
	spent    bool // the member has refused the token, and must not be asked to grant it again
	fast     bool // the answer came in the first half of the timeout
	settled  bool // the member has no hold, and no late request can arrive there
	released bool // the hold may be gone because this process released it
}

// ballot returns one answer for each member, all with the verdict v.
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

// reachesQuorum returns a condition for collect, which is true when a quorum has said yes.
func (s *Store) reachesQuorum(answers []answer) func() bool {
	return func() bool { return count(answers, yes) >= s.need }
}

// refuses reports whether n refusals make a quorum impossible.
func (s *Store) refuses(n int) bool { return n > len(s.members)-s.need }

// refusal returns the error of the first member that rejected the request as invalid or
// unsupported, or nil if no member did.
func refusal(answers []answer) error {
	for i := range answers {
		if answers[i].verdict == refused {
			return answers[i].err
		}
	}
	return nil
}
