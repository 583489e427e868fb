//go:build linux

package filestore

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// cools checks how long the name stays taken.
func cools(t testing.TB, s *Store, r driver.Request, want time.Duration) {
	t.Helper()
	h := refused(t, s, r)
	if left := time.Until(h.Until); len(h.Holds) != 1 || !h.Holds[0].Cooling || left < want-10*time.Second || left > want {
		t.Errorf("%v left, want %v: %+v", left, want, h)
	}
}

func releaseFor(t testing.TB, s *Store, token string, keep time.Duration) {
	t.Helper()
	if o, err := s.Release(patience(t), "job", token, keep); o != driver.OutcomeReleased || err != nil {
		t.Fatal(o, err)
	}
}

func TestCoolDownIsNeverShortened(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, shared("job", "a"))
	take(t, s, shared("job", "b"))
	releaseFor(t, s, "a", time.Hour)
	cools(t, s, shared("job", "reader"), time.Hour)
	releaseFor(t, s, "b", time.Second)
	cools(t, s, request("job", "writer"), time.Hour)
}
