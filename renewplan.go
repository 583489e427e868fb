package padlock

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

// This file decides when a hold is renewed. A third is a third of the TTL, or of the lease if the
// lease is shorter. All times are counted from the beginning of the lease.
//
//	                         stores that renew many       other stores
//	                         leases with one request
//	earliest renewal         0.8 thirds                   0.9 thirds
//	earliest planned time    1.0 thirds                   0.9 thirds + early
//	latest planned time      1.1 thirds                   1.1 thirds
//	latest renewal           at the planned time          at the planned time
//	early (renewEarlyBy)     0.2 thirds                   0.03 thirds, at most 100 ms
//	random part drawn for    each request                 each hold
//
// These are the states of a hold in the renewer:
//
//	state       event                                    next state
//	planned     the planned time has come                queued
//	planned     another renewal is due, the planned      queued
//	            time is at most early away, and the
//	            request has room (hasRoom)
//	queued      a worker takes it with other holds       under way
//	under way   the store has renewed the lease          planned; the holds of a request get the same
//	                                                     time, in the order of the request
//	under way   the outcome is not known                 planned for renewAgain; as above
//	under way   a Release cancelled the request          planned for now
//	under way   the lease is lost                        over
//	any         Release, MaxHold, or the lease ends      over

// usableFor returns the instant at which a holder must stop:
//
//	start + TTL − clock drift − time to stop
//
//	clock drift   TTL/100 + min(2 ms, TTL/20)
//	time to stop  min(50 ms, TTL/10)
//
// The start is Grant.From if Grant.From is set. Otherwise the start is sentAt, the instant just
// before the request was sent.
func usableFor(sentAt driver.Instant, g driver.Grant) driver.Instant {
	if g.TTL == 0 {
		return farFuture
	}
	if g.From != 0 {
		sentAt = g.From
	}
	margin := g.TTL/100 + min(2*time.Millisecond, g.TTL/20)
	return sentAt.Add(g.TTL - margin - min(50*time.Millisecond, g.TTL/10))
}

// lookEvery is the time between two checks of a hold that has no lease and no Grant.Bound. The
// checks are needed because, for example, a lock file may be removed or replaced while it is held.
const lookEvery = 2 * time.Second

// placeStep is the difference between the offsets of two holds that follow each other in a request.
// It is so small that the holds are still renewed together, and it keeps their order: the next
// request contains them in the same order. Holds that were taken one after the other are near each
// other in memory, so the processor finds them faster in this order.
const placeStep = 1e-8

// drawOffset draws the random part of planned times: 0 for the earliest time, 1 for the latest. The
// caller holds mu.
func (k *renewer) drawOffset() float64 {
	k.offset = float64(k.l.random.Uint64()>>11) / (1 << 53)
	return k.offset
}

// newOffset returns the random part for a hold that is granted or extended alone. If the store
// renews many leases with one request, the holds that are granted between two such requests get the
// same random part. So they are renewed in the order in which they were taken. The caller holds mu.
func (k *renewer) newOffset() float64 {
	if k.batcher == nil {
		return k.drawOffset()
	}
	return k.offset
}

// offsetAt returns the random part for the hold at place i of a request. It draws a new random part
// for each request, or for each hold if the store needs one request for each hold. The caller holds
// mu.
func (k *renewer) offsetAt(i int) float64 {
	if i == 0 || k.batcher == nil {
		return k.drawOffset()
	}
	return k.offset*(1-mostTogether*placeStep) + float64(i)*placeStep // below 1 for each i
}

// renewEarlyBy returns how much earlier than planned a lease may be renewed, together with other
// leases. Waking up separately for each lease costs more than renewing it. If the store can renew
// many leases with one request, the time is longer, so that one request renews more leases. For
// example, it is two seconds for a TTL of 30 s. If the store needs one request for each lease, the
// time is short, because renewing many leases together would send a burst of requests.
func (k *renewer) renewEarlyBy(ttl time.Duration) time.Duration {
	if k.batcher == nil {
		return min(ttl/100, 100*time.Millisecond)
	}
	return ttl / 15
}

// goesAlong reports whether the renewal of the hold is due so soon that the hold is renewed now,
// together with other holds.
func (e scheduled) goesAlong(now driver.Instant) bool {
	h := e.h
	early := h.locker.renewer.renewEarlyBy(h.ttl)
	if h.withoutLease() { // it is checked every lookEvery, however long the TTL is
		early = min(early, lookEvery/2)
	}
	return e.at == h.renewAt && h.renewAt.Sub(now) <= early
}

// withoutLease reports whether h has no lease, or a lease longer than MaxHold.
func (h *hold) withoutLease() bool { return driver.Instant(h.usable.Load()) == h.maxHoldAt }

// scheduleRenewal plans the next renewal of h, normally after a third of the TTL or up to a tenth
// of that later; see the table above. The offset is the random part. It keeps processes apart that
// began at the same time.
//
// If the store granted a lease longer than the TTL, the renewal is planned for two thirds of the
// TTL before the time at which the holder must stop. After a hand-over the lease may be shorter
// than the TTL. Then the renewal is planned after a third of the lease.
func (h *hold) scheduleRenewal(sent driver.Instant, g driver.Grant, offset float64) {
	h.renewAt = farFuture
	if g.From != 0 {
		sent = g.From
	}
	if h.unclaimed {
		h.renewAt = sent.Add(claimAfter)
		return
	}
	if g.TTL == 0 && g.Bound == nil && h.bond == nil {
		h.renewAt = sent.Add(lookEvery - h.locker.jitter(lookEvery/10))
	}
	if h.noRenewal || g.TTL == 0 {
		return
	}
	ttl := min(h.ttl, g.TTL)
	third := ttl / 3
	at := sent.Add(third)
	if g.TTL > h.ttl {
		at = max(at, usableFor(sent, g).Add(-2*third))
	}
	k := &h.locker.renewer
	width := third / 10
	if k.batcher == nil {
		width = third/5 - k.renewEarlyBy(ttl)
	}
	h.renewAt = at.Add(third/10 - time.Duration((1-offset)*float64(width)))
}

// renewAgain is called when a renewal of h has failed. It returns the time of the next attempt.
func (h *hold) renewAgain(now driver.Instant, offset float64) driver.Instant {
	again := max(min(h.ttl/10, driver.Instant(h.usable.Load()).Sub(now)/2), h.ttl/50)
	if h.withoutLease() {
		again = lookEvery
	}
	if h.unclaimed {
		again = claimAfter
	}
	return now.Add(again + time.Duration((2*offset-1)*float64(again/10)))
}
