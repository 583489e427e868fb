package redisstore

import (
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A waiter that gets a name by a hand-over has only a short lease at first, a reservation. To get a
// full lease, it sends a claim. Normally it uses the name only after the reply to the claim. But if
// the waiter knows when the reservation ends, it uses the name at once and sends the claim later.
// The time in which it may use the name without a claim is called the window.
//
// A reservation has one of these states:
//
//	state    what the waiter does
//	made     waits for the message
//	usable   uses the name; Wait returns From, and the claim must arrive before From+TTL
//	unknown  claims the name before using it, because the window is not known
//	held     has a full lease
//	over     nothing; a late claim gets ErrLost
//
// The transitions:
//
//	from     event                                             to
//	-        a release hands the name over                     made
//	made     the message arrives, and the window is known      usable
//	made     the message arrives, and the window is not known  unknown
//	made     the waiter looks, and finds the reservation       unknown
//	usable   the claim arrives                                 held
//	unknown  the claim arrives                                 held
//	any      a Release, or the lease has ended                 over

// In a cluster, a subscription has samples of the clock of one server: the server to which it is
// connected. Sharded messages come from that server, because a script can use SPUBLISH only at the
// server that has the slot of the channel.
//
// If the slot moves, the subscription ends. But a message from the new server may arrive before the
// end. The clock of the new server is different, so the calculated window is early or late. An
// early window is safe, because it also ends early. A late window is not used if it begins after
// the message arrived. So a window that is used is late by at most the time that the message
// travelled.

// maxSampleAge is how old a sample may be. In this time two clocks drift apart by 100 ms at most,
// which is one per cent.
const maxSampleAge = 10 * time.Second

// sample is one reading of the server's clock, from the reply to a request.
type sample struct {
	sent   driver.Instant // when the request was sent
	micros int64          // the server's time, in microseconds since 1970
	turns  uint64         // serverChecks.turns before the request was sent
}

// samples has the latest sample of the server.
type samples struct {
	mu   sync.Mutex
	last sample
}

// beginSample returns a sample for a request that is sent now.
func (s *Store) beginSample() sample {
	return sample{turns: s.checks.turns.Load(), sent: s.clock.Now()}
}

// addSample stores the sample b after its request was answered. micros is the server's time in the
// reply.
func (a *samples) addSample(b sample, micros int64) {
	if micros <= 0 {
		return
	}
	b.micros = micros
	a.mu.Lock()
	defer a.mu.Unlock()
	if b.sent > a.last.sent {
		a.last = b
	}
}

// clear forgets the sample, because a new connection may lead to another server.
func (a *samples) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = sample{}
}

func (a *samples) latest() sample {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// reservation returns the grant of a hand-over.
func (s *Store) reservation(m *message) driver.Grant {
	g := driver.Grant{Fence: s.callerFence(m.value), TTL: driver.MaxReservation}
	if from, ttl, ok := s.window(m.handed, m.from, m.clock); ok {
		g.From, g.TTL = from, ttl
	}
	return g
}

// window returns the time in which a reservation can be used without a claim. It returns false if
// there is no such time, or if the time is not known:
//
//   - Without fences, nothing would protect a resource from a late holder.
//   - With the option Foreign, pass.lua does not hand the name over.
//   - With the option Replicas, the hand-over may still be missing at the replicas.
//   - In a cluster, a message that came by PUBLISH may be from any server, and each server has its
//     own clock. Then the parameter clock is nil.
//   - A message of an older padlock does not have the time of the hand-over.
//   - After maxSampleAge, the two clocks may have drifted apart.
//   - If a connection was made or lost after the sample, the server may be another one, or may have
//     restarted.
//   - See windowOf for two more cases.
//
// handedAt is the server's time of the hand-over in microseconds since 1970, or 0. arrivedAt is the
// local time at which the message arrived.
func (s *Store) window(handedAt int64, arrivedAt driver.Instant, clock *samples) (from driver.Instant, ttl time.Duration, ok bool) {
	if !s.config.fences || s.config.foreign || s.config.replicas > 0 || handedAt == 0 {
		return 0, 0, false
	}
	if !s.server.Cluster {
		clock = &s.samples
	}
	if clock == nil {
		return 0, 0, false
	}
	a := clock.latest()
	if a.sent == 0 || arrivedAt.Sub(a.sent) > maxSampleAge || a.turns != s.checks.turns.Load() || !s.checks.valid.Load() {
		return 0, 0, false
	}
	return windowOf(a, handedAt, arrivedAt, s.clock.Now())
}

// windowOf calculates the window from a sample. The server read its clock after a.sent. So the
// hand-over was at the calculated local time or later. The window begins at the calculated time, so
// it ends before the reservation ends at the server.
//
// The result is false if the calculated time is after the message arrived: then somebody has set
// the server's clock forward. It is also false if less than half of the window is left, because a
// claim could come too late.
func windowOf(a sample, handedAt int64, arrivedAt, now driver.Instant) (from driver.Instant, ttl time.Duration, ok bool) {
	from = a.sent.Add(time.Duration(handedAt-a.micros) * time.Microsecond)
	if from > arrivedAt || from <= 0 {
		return 0, 0, false
	}
	drift := (arrivedAt.Sub(a.sent) + from.Add(driver.MaxReservation).Sub(arrivedAt)) / 100
	ttl = driver.MaxReservation - drift - 2*time.Millisecond
	return from, ttl, from.Add(ttl).Sub(now) >= driver.MaxReservation/2
}
