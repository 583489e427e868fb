package sqlstore

import (
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// A waiter that is notified of a hand-over may use the name at once, before it claims the
// reservation. To do so, it has to know by its own clock when the reservation ends. The method
// window computes this.
//
// The states of a reservation:
//
//	state    when a reservation enters it
//	made     a release hands the name over
//	usable   the notification has arrived, and the method window returns true
//	unknown  the notification has arrived, and the method window returns false; or the waiter has
//	         found the reservation in the row
//	held     the claim has arrived at the server
//	over     the release has arrived at the server, or the time of the reservation has passed
//
// In the state "usable", Wait returns From. The caller may use the name until From+TTL, and claims
// it before that. In the state "unknown", Wait returns no From, and the caller claims the name
// before it uses it. In the state "held", the waiter has a full lease. A claim that arrives in the
// state "over" gets ErrLost.
//
// The transitions are made → usable, unknown, over; usable → held, over; unknown → held, over; held
// → over.

// maxSampleAge is how old a sample may be. The store assumes that two clocks drift apart by at most
// one per cent, so by at most 100 ms in this time.
const maxSampleAge = 10 * time.Second

// A sample says what the server's clock showed at a time of the local clock.
type sample struct {
	sent     driver.Instant // when the statement was sent
	server   decide.Time    // the server's time in the reply
	switches uint64         // waits.switches before the statement was sent
}

// samples contains the latest sample.
type samples struct {
	mu   sync.Mutex
	last sample
}

// beginSample returns a sample for a statement that is sent now.
func (s *Store) beginSample() sample {
	return sample{sent: s.clock.Now(), switches: s.waits.countSwitches()}
}

// addSample completes a sample with the time in the reply.
func (a *samples) addSample(b sample, server decide.Time) {
	if server <= 0 {
		return
	}
	b.server = server
	a.mu.Lock()
	defer a.mu.Unlock()
	if b.sent > a.last.sent {
		a.last = b
	}
}

func (a *samples) latest() sample {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// A handedName tells a waiter that the name was handed over to the waiter.
type handedName struct {
	fence uint64
	since decide.Time // the time of the hand-over, by the server's clock; 0 if it is not known

	alone   bool           // at the hand-over, nobody else waited
	arrived driver.Instant // when the notification reached this process, or 0
}

// reservationFor returns the grant for a reservation that the waiter has just heard of.
func (s *Store) reservationFor(h handedName, shared bool) driver.Grant {
	g := driver.Grant{Fence: h.fence, TTL: driver.MaxReservation, Shared: shared}
	if from, ttl, ok := s.window(h); ok {
		g.From, g.TTL = from, ttl
	}
	return g
}

// window returns the time span in which a reservation can be used without a claim. It returns false
// if it cannot rely on the result:
//
//	case                                               because
//	the notification has no time                       an older padlock sent it
//	the sample is older than maxSampleAge              the two clocks may have drifted apart
//	the connection was made or lost since the sample   the server may be another one
//	by the result, the notification came too early     the server's clock was set forward
//	less than half of the time is left                 a claim could come too late
func (s *Store) window(h handedName) (from driver.Instant, ttl time.Duration, ok bool) {
	a, p := s.samples.latest(), h.arrived
	if h.since == 0 || p == 0 || a.sent == 0 || p.Sub(a.sent) > maxSampleAge || s.waits.pushChannel() == "" || a.switches != s.waits.countSwitches() {
		return 0, 0, false
	}
	return windowOf(a, h.since, p, s.clock.Now())
}

// windowOf is the arithmetic of window. The notification has the time of the hand-over by the
// server's clock. A sample shows what this time is by the local clock:
//
//	start = local time of the sample + (server's time of the hand-over - server's time of the sample)
//
// The local time of the sample is when its statement was sent. The server read its clock later. So
// the hand-over came at start or later, and the reservation lasts at least until start +
// MaxReservation.
func windowOf(a sample, since decide.Time, arrived, now driver.Instant) (start driver.Instant, ttl time.Duration, ok bool) {
	start = a.sent.Add(since.Sub(a.server))
	if start > arrived || start <= 0 {
		return 0, 0, false
	}
	drift := (arrived.Sub(a.sent) + start.Add(driver.MaxReservation).Sub(arrived)) / 100
	ttl = driver.MaxReservation - drift - 2*time.Millisecond
	return start, ttl, start.Add(ttl).Sub(now) >= driver.MaxReservation/2
}
