//go:build linux

package filestore

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// cools checks how long the name stays taken.
func cools(t testing.TB, s *Store, r driver.Request, atLeast time.Duration) {
	t.Helper()
	h := refused(t, s, r)
	if left := time.Until(h.Until); len(h.Holds) != 1 || !h.Holds[0].Cooling || left < atLeast-10*time.Second || left > atLeast {
		t.Errorf("%v left, want %v: %+v", left, atLeast, h)
	}
}

func releaseFor(t testing.TB, s *Store, token string, keep time.Duration) {
	t.Helper()
	if o, err := s.Release(patience(t), "job", token, keep); o != driver.OutcomeReleased || err != nil {
		t.Fatal(o, err)
	}
}

func forAnHour(r driver.Request) driver.Request {
	r.AtLeast = time.Hour
	return r
}

// While the AtLeast of a reader runs, other readers may join, but writers may not. When another
// reader releases the lock, that does not shorten the AtLeast.
func TestAtLeastOfReaders(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, forAnHour(shared("job", "dead")))
	abandon(s, "job", "dead")
	take(t, s, shared("job", "a"))
	take(t, s, shared("job", "b"))
	release(t, s, "job", "a", driver.OutcomeReleased)
	if _, err := promote(s, "job", "b"); err == nil {
		t.Error("promoted in spite of the AtLeast of another")
	}
	demote(t, s, "job", "b") // removes the intent
	release(t, s, "job", "b", driver.OutcomeReleased)
	cools(t, s, request("job", "writer"), time.Hour)
	take(t, s, shared("job", "c"))
}

// The AtLeast of a reader does not prevent the promotion of that same reader.
func TestPromotionWithAtLeast(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, forAnHour(shared("job", "us")))
	if _, err := promote(s, "job", "us"); err != nil {
		t.Fatal(err)
	}
	release(t, s, "job", "us", driver.OutcomeReleased)
	cools(t, s, shared("job", "reader"), time.Hour)
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

func TestReleaseBeforeAtLeast(t *testing.T) {
	t.Parallel()
	for _, r := range []driver.Request{request("job", "us"), shared("job", "us")} {
		s := open(t, t.TempDir())
		take(t, s, forAnHour(r))
		releaseFor(t, s, "us", time.Second)
		cools(t, s, shared("job", "next"), time.Hour)
	}
}

// A repeat renews AtLeast, as it would renew a lease.
func TestRepeatArmsAtLeast(t *testing.T) {
	t.Parallel()
	for _, r := range []driver.Request{request("job", "us"), shared("job", "us")} {
		s := open(t, t.TempDir())
		g := take(t, s, r)
		if again := take(t, s, forAnHour(r)); again.Fence != g.Fence {
			t.Errorf("the repeat of %+v gives %+v", g, again)
		}
		abandon(s, "job", "us")
		cools(t, s, request("job", "next"), time.Hour)
	}
}
