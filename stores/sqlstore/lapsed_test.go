package sqlstore

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A waiter uses its reservation without a claim, and its release comes after the reservation has
// lapsed. The release tells whether somebody else got the name since.
func TestReleaseOfALapsedReservation(t *testing.T) {
	for other, want := range map[string]driver.Outcome{"": driver.Expired, "c": driver.Gone} {
		s := newScript(t).acquire("a", nil).joinPushed("b")
		s.st.release("a", 0, s.now)
		if handed := s.st.handOver(s.now); len(handed) != 1 {
			t.Fatalf("the name was handed over to %d waiters", len(handed))
		}
		s.passTime(driver.MaxReservation + time.Millisecond)
		if other != "" {
			s.acquire(other, nil)
		}
		s.st.trim(s.now)
		if got := s.st.release("b", 0, s.now); got != want {
			t.Errorf("the release after %q got the name: %v, want %v", other, got, want)
		}
	}
}
