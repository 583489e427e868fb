package sqlstore

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// The server's clock showed 5 s when the local clock showed 100 s or later. A name was handed over
// some time after that.
func TestWindowOf(t *testing.T) {
	a := sample{sent: driver.Instant(100 * time.Second), server: 5_000_000}
	const ms = time.Millisecond
	for name, one := range map[string]struct {
		since, arrived, looked time.Duration // after the sample
		ok                     bool
	}{
		"at once":                       {time.Second, time.Second + ms, time.Second + ms, true},
		"the waiter was stopped":        {time.Second, time.Second + ms, time.Second + 260*ms, false},
		"the notification was late":     {time.Second, time.Second + 300*ms, time.Second + 300*ms, false},
		"it came before the hand-over":  {time.Second, time.Second - ms, time.Second - ms, false},
		"the server's clock was set":    {time.Hour, time.Second, time.Second, false},
		"handed over before the sample": {-100 * ms, 50 * ms, 50 * ms, true},
		"the clock was set far back":    {-200 * time.Second, ms, ms, false},
	} {
		from, ttl, ok := windowOf(a, a.server.Add(one.since), a.sent.Add(one.arrived), a.sent.Add(one.looked))
		if ok != one.ok {
			t.Errorf("%s: %v, %v, %v", name, from, ttl, ok)
		}
		if ok && (from != a.sent.Add(one.since) || ttl >= driver.MaxReservation || ttl < 400*ms) {
			t.Errorf("%s: from %v for %v", name, from, ttl)
		}
	}
}

// A reservation has a window only if a young sample was taken over the same connection for
// notifications.
func TestWindow(t *testing.T) {
	listeningStore(t, func(s *Store, l *scripted, one *waiting) {
		s.clock = driver.SystemClock()
		defer s.listen()()
		synctest.Wait()
		took := func() { s.samples.addSample(s.beginSample(), 5_000_000) }
		handed := func() handedName {
			return handedName{fence: 7, since: 5_000_000 + decide.Time(time.Second/time.Microsecond), arrived: s.clock.Now()}
		}
		check := func(what string, h handedName, want bool) {
			t.Helper()
			g := s.reservationFor(h, false)
			if (g.From != 0) != want || g.Fence != 7 || g.TTL > driver.MaxReservation {
				t.Errorf("%s: %+v", what, g)
			}
		}
		check("no sample", handed(), false)
		took()
		passTime(time.Second)
		check("a sample", handed(), true)
		h := handed()
		h.since = 0
		check("an older build handed it over", h, false)
		h = handed()
		h.arrived = 0
		check("nobody noted when it arrived", h, false)
		l.lose <- errors.New("lost")
		passTime(time.Second)
		h = handed()
		h.since += decide.Time(time.Second / time.Microsecond)
		check("another connection since the sample", h, false)
		took()
		passTime(time.Second)
		check("a sample over the new connection", handed(), true)
		took()
		passTime(maxSampleAge + time.Second)
		h = handed()
		h.since += decide.Time(maxSampleAge / time.Microsecond)
		check("an old sample", h, false)
	})
}
