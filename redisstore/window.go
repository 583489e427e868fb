package redisstore

import (
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// When a name is handed over, the waiter gets a reservation, which is a short lease. Normally the
// waiter must claim the reservation with a request before it uses the name. But if the waiter knows
// when the reservation ends, it may use the name at once and send the claim later. The time in
// which the waiter may use the name without a claim is called the window.
//
// The message about the hand-over has the time of the hand-over on the server's clock. The waiter
// converts that time to its own clock. For this, it needs a sample, which is an earlier reading of
// the server's clock:
//
//	t0  when the waiter's process sent a request, on the local clock
//	S   the server's time in the reply to that request
//	h   the server's time of the hand-over; the reservation ends at h + MaxReservation
//	p   when the message arrived, on the local clock
//
// When the server's clock showed S, the local clock showed t0 or later. So the hand-over was at the
// local time t0 + (h - S) or later. The window begins at this local time, so that it ends before
// the reservation ends at the server. The states of a reservation:
//
//	state    when a reservation enters it                  what the waiter does
//	made     a release hands the name over                 it gets the message
//	usable   the message has arrived, and the window is    Wait returns From. The caller may use the
//	         known                                         name until From+TTL, and claims before that.
//	unknown  the message has arrived, and the window is    Wait returns no From. The caller claims
//	         not known; or a look found the reservation    before it uses the name.
//	held     the claim has arrived                         it has a full lease
//	over     a Release has ended it, or its time has       nothing; a claim that arrives later gets
//	         passed                                        ErrLost
//
// The transitions are made → usable, unknown, over; usable → held, over; unknown → held, over;
// held → over.
//
// The window is not known in these cases:
//
//	case                                             because
//	the store has no fences                          nothing would protect a resource from a late holder
//	the option Foreign                               pass.lua does not hand the name over
//	the option Replicas                              the hand-over may still be missing at the replicas
//	a cluster, and the message came by PUBLISH       each server has its own clock
//	the message has no time                          an older padlock sent it
//	the sample is older than maxSampleAge            the two clocks may have drifted apart
//	a connection was made or lost since the sample   the server may be another one, or may have
//	                                                 restarted
//	t0 + (h - S) is after p                          the server's clock was set forward
//	less than half of the window is left             a claim could come too late

// In a cluster, a sample has the time of the server to which the subscription is connected. Sharded
// messages come from that server, because a script can use SPUBLISH only at the server that has the
// slot of the channel.
//
// If the slot moves to another server, the subscription ends. But a message of the other server may
// arrive before that. Its time comes from another clock, so the window is too early or too late. If
// it is too early, it also ends too early, which is safe. If it begins after the message has
// arrived, it is not used. So a window that is used is too late by at most the time that the
// message travelled.

// maxSampleAge is how old a sample may be. In this time two clocks drift apart by 100 ms at most,
// which is one per cent.
const maxSampleAge = 10 * time.Second

// sample is one reading of the server's clock, from the reply to a request.
type sample struct {
	sent   driver.Instant // when the request was sent
	micros int64          // the server's time, in microseconds since 1970
	turns  uint64         // gate.turns before the request was sent
}

// samples has the latest sample of the server.
type samples struct {
	mu   sync.Mutex
	last sample
}

// beginSample returns a sample for a request that is sent now.
func (s *Store) beginSample() sample {
	return sample{turns: s.gate.turns.Load(), sent: s.clock.Now()}
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

// window returns the time in which a reservation can be used without a claim, or false if that time
// is not known. Its parameters are the server's time of the hand-over in microseconds since 1970,
// the local time at which the message arrived, and, in a cluster, samples of the clock of the
// server that sent the message. The last parameter is nil if that server is not known.
func (s *Store) window(handed int64, p driver.Instant, clock *samples) (from driver.Instant, ttl time.Duration, ok bool) {
	if !s.config.fences || s.config.foreign || s.config.replicas > 0 || handed == 0 {
		return 0, 0, false
	}
	if !s.server.Cluster {
		clock = &s.samples
	}
	if clock == nil {
		return 0, 0, false
	}
	a := clock.latest()
	if a.sent == 0 || p.Sub(a.sent) > maxSampleAge || a.turns != s.gate.turns.Load() || !s.gate.open.Load() {
		return 0, 0, false
	}
	return windowOf(a, handed, p, s.clock.Now())
}

// windowOf is the arithmetic of window.
func windowOf(a sample, handed int64, p, now driver.Instant) (from driver.Instant, ttl time.Duration, ok bool) {
	from = a.sent.Add(time.Duration(handed-a.micros) * time.Microsecond)
	if from > p || from <= 0 {
		return 0, 0, false
	}
	drift := (p.Sub(a.sent) + from.Add(driver.MaxReservation).Sub(p)) / 100
	ttl = driver.MaxReservation - drift - 2*time.Millisecond
	return from, ttl, from.Add(ttl).Sub(now) >= driver.MaxReservation/2
}
