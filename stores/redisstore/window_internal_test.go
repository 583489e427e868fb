package redisstore

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// TestWindowOf computes windows for two clocks that are related in a known way: the server's clock
// shows 2000 s when the local clock shows 100 s.
func TestWindowOf(t *testing.T) {
	const ms = time.Millisecond
	local := func(d time.Duration) driver.Instant { return driver.Instant(100 * time.Second).Add(d) }
	remote := func(d time.Duration) int64 { return (2000*time.Second + d).Microseconds() }
	for what, c := range map[string]struct {
		sent, read, handed, arrived, now time.Duration // the field read is the time at which the server read its clock for the sample
		step                             time.Duration // how far the server's clock was set forward or back after that
		ok                               bool
	}{
		"at once":                      {sent: 0, read: 1 * ms, handed: 2 * ms, arrived: 3 * ms, now: 3 * ms, ok: true},
		"an old sample":                {sent: 0, read: 1 * ms, handed: 9 * time.Second, arrived: 9001 * ms, now: 9001 * ms, ok: true},
		"a slow request":               {sent: 0, read: 200 * ms, handed: 300 * ms, arrived: 301 * ms, now: 301 * ms, ok: true},
		"a message that took 100 ms":   {sent: 0, read: 1 * ms, handed: 2 * ms, arrived: 102 * ms, now: 102 * ms, ok: true},
		"a message that took 300 ms":   {sent: 0, read: 1 * ms, handed: 2 * ms, arrived: 302 * ms, now: 302 * ms},
		"a goroutine that slept":       {sent: 0, read: 1 * ms, handed: 2 * ms, arrived: 3 * ms, now: 302 * ms},
		"a clock that was set forward": {sent: 0, read: 1 * ms, handed: 2 * ms, arrived: 3 * ms, now: 3 * ms, step: 10 * ms},
		"a clock that was set back":    {sent: 0, read: 1 * ms, handed: 200 * ms, arrived: 201 * ms, now: 201 * ms, step: -100 * ms, ok: true},
		"set back by a year":           {sent: 0, read: 1 * ms, handed: 2 * ms, arrived: 3 * ms, now: 3 * ms, step: -365 * 24 * time.Hour},
	} {
		from, ttl, ok := windowOf(sample{local(c.sent), remote(c.read), 1}, remote(c.handed+c.step), local(c.arrived), local(c.now))
		if ok != c.ok {
			t.Errorf("%s: %v, want %v", what, ok, c.ok)
		}
		// The server's clock may run 1 % fast, and counts in whole milliseconds.
		age := c.arrived - c.sent
		if end := local(c.handed + driver.MaxReservation - age/100 - driver.MaxReservation/100); ok && from.Add(ttl) > end.Add(-time.Millisecond) {
			t.Errorf("%s: the window ends %v after the reservation may have ended", what, from.Add(ttl).Sub(end))
		}
		if ok && c.step == 0 && ttl < driver.MaxReservation*9/10-age/100 {
			t.Errorf("%s: the window is only %v long", what, ttl)
		}
	}
}

// TestSampleOfTheSameServer starts with a sample that can be used, and removes one condition after
// the other.
func TestSampleOfTheSameServer(t *testing.T) {
	var clock *samples
	for what, c := range map[string]struct {
		change func(s *Store)
		handed int64
		known  bool
	}{
		"as it is":                           {func(*Store) {}, 1, true},
		"a connection was made or lost":      {func(s *Store) { s.checks.turns.Add(1) }, 1, false},
		"the checks are invalid":             {func(s *Store) { s.checks.valid.Store(false) }, 1, false},
		"the sample is 11 s old":             {func(s *Store) { s.samples.last.sent -= driver.Instant(11 * time.Second) }, 1, false},
		"there is no sample":                 {func(s *Store) { s.samples.last = sample{} }, 1, false},
		"a message without a time":           {func(*Store) {}, 0, false},
		"without fences":                     {func(s *Store) { s.config.fences = false }, 1, false},
		"with pollers":                       {func(s *Store) { s.config.foreign = true }, 1, false},
		"with replicas":                      {func(s *Store) { s.config.replicas = 1 }, 1, false},
		"a cluster":                          {func(s *Store) { s.server.Cluster = true }, 1, false},
		"a cluster, and its server is known": {func(s *Store) { s.server.Cluster, clock = true, &s.samples }, 1, true},
		"a cluster, after a reconnection":    {func(s *Store) { s.server.Cluster, clock = true, new(samples) }, 1, false},
		"an earlier reply that came later":   {func(s *Store) { s.samples.addSample(sample{sent: 1}, 1) }, 1, true},
		"a reply in which there is no time":  {func(s *Store) { s.samples.addSample(s.beginSample(), 0) }, 1, true},
	} {
		// No time passes, because half a window is only 250 ms.
		s, err := Open(t.Context(), Config{Addrs: []string{"127.0.0.1:1"}}, Lazy(), WithClock(&setClock{now: driver.Instant(time.Hour)}))
		if err != nil {
			t.Fatal(err)
		}
		s.checks.valid.Store(true)
		s.samples.addSample(s.beginSample(), 1_000_000)
		clock = nil
		c.change(s)
		p := s.clock.Now()
		if s.config.fences && s.samples.last.sent > 0 { // the same time has passed on the local clock and on the server's
			c.handed *= 1_000_000 + int64(p.Sub(s.samples.last.sent)/time.Microsecond)
		}
		if _, _, known := s.window(c.handed, p, clock); known != c.known {
			t.Errorf("%s: the window is known: %v, want %v", what, known, c.known)
		}
		s.Close()
	}
}
