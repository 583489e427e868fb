package sqlstore

import (
	"slices"

	"github.com/padlock-go/padlock/driver"
)

// dropReservations moves the lapsed reservations from s.holds to s.lapsed, which is not written to
// the table. Release reads s.lapsed: a waiter may have used its reservation without claiming it,
// and release the name late. Release then reports Expired, or Gone if somebody else has got the
// name since the reservation.
func (s *state) dropReservations(now micros) {
	s.holds = slices.DeleteFunc(s.holds, func(h hold) bool {
		if !h.Reserved || h.Until > now {
			return false
		}
		s.lapsed = append(s.lapsed, h)
		return true
	})
}

// releaseNothing is the part of release for a token that has no hold.
func (s *state) releaseNothing(token opaque, waits bool, now micros) driver.Outcome {
	if i := slices.Index(s.lost, token); i >= 0 {
		s.lost = slices.Delete(s.lost, i, i+1)
		return driver.Taken
	}
	s.spent = append(s.spent, spent{token, now.add(spentFor)})
	if waits {
		return driver.Released
	}
	if slices.ContainsFunc(s.lapsed, func(h hold) bool { return h.Token == token && !s.overtaken(&h) }) {
		return driver.Expired
	}
	return driver.Gone
}

// overtaken reports whether somebody else got the name after h was granted. Every later grant has a
// higher fence, so overtaken compares fences. The list of holds cannot tell, because fast.go grants
// the name without removing lapsed shared holds.
func (s *state) overtaken(h *hold) bool { return h.Fence < s.fence }
