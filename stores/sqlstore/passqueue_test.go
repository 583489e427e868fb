package sqlstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// A wait that takes over a place sends nothing at its first look, unless the connection that
// listens was opened or lost since the place was taken.
func TestTakenPlace(t *testing.T) {
	listeningStore(t, func(s *Store, l *scripted, _ *waiting) {
		s.clock = driver.SystemClock()
		defer s.listen()()
		synctest.Wait()
		r := driver.Request{Name: "name", Token: "mine", TTL: time.Minute}
		first := func() (time.Duration, error) {
			w := &wait{s: s, r: &r, reserve: true, taken: s.waits.takePlace(r.Token)}
			w.waiting = w.taken.waiting
			_, _, pause, err := w.lookOnce(context.Background())
			return pause, err
		}
		keep := func() *takenPlace {
			now := decide.Time(time.Now().UnixMicro())
			p := &takenPlace{push: s.waits.pushChannel(), switches: s.waits.countSwitches(), renew: time.Now().Add(placeFor / 2), now: now, ahead: 1}
			p.st.State = decide.State{Holds: []decide.Hold{{Token: "other", Reserved: true, Since: now, Until: now.Add(driver.MaxReservation)}}}
			p.waiting, p.remove = s.waits.add(r.Name, opaque(r.Token))
			s.waits.keepPlace(r.Token, p)
			return p
		}
		keep()
		if pause, err := first(); err != nil || pause < driver.MaxReservation || pause > 3*driver.MaxReservation {
			t.Errorf("the first look: %v, %v", pause, err)
		}
		keep()
		hears := func(on bool) {
			s.waits.mu.Lock()
			s.waits.listener.on = on
			s.waits.mu.Unlock()
		}
		hears(false) // as if the connection had been lost just before the place was registered
		if _, err := first(); err == nil {
			t.Error("the wait does not look although no notifications arrive")
		}
		hears(true)
		keep()
		l.lose <- errors.New("lost")
		passTime(time.Second)
		if _, err := first(); err == nil {
			t.Error("the wait does not look although a notification may have been lost")
		}
		p := keep()
		s.waits.dropPlace(r.Token)
		if s.waits.takePlace(r.Token) != nil || s.waits.waiter(opaque(r.Token).hash()) == p.waiting {
			t.Error("a place that was dropped is still known")
		}
	})
}

func TestTextRow(t *testing.T) {
	var b []byte
	var n int
	var u uint64
	var at decide.Time
	var text string
	err := textRow{`\x6162`, "9007199254740990", "5000000", "c", "", "7"}.Scan(&b, &u, &at, &text, &text, &n)
	if err != nil || string(b) != "ab" || u != 9007199254740990 || at != 5_000_000 || n != 7 {
		t.Errorf("%q, %d, %d, %d, %v", b, u, at, n, err)
	}
	for _, bad := range []textRow{{}, {"x"}, {`\xzz`}} {
		if err := bad.Scan(&b); err == nil {
			t.Errorf("%q is a byte string", []string(bad))
		}
	}
}
