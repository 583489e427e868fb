package padlock

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// This file plans when a hold is renewed; tick in renew.go begins the renewals that are due. Each
// renewal has a planned time, which is partly random (scheduleRenewal). If other holds are renewed a
// little earlier, the hold is renewed together with them.
//
// These are the states of a hold in the renewer:
//
//	state       event                                    next state
//	planned     the planned time has come                queued
//	planned     another renewal is due, the planned      queued
//	            time comes within renewEarlyBy, and
//	            the request has room (hasRoom)
//	queued      a worker takes it with other holds       under way
//	under way   the store has renewed the lease          planned; the holds of a request get the same
//	                                                     time
//	under way   the outcome is not known                 planned for renewAgain; as above
//	under way   a Release cancelled the request          planned for now
//	under way   the lease is lost                        over
//	any         Release, HoldAtMost, or the lease ends      over

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

// errNoLease is the error for a store that should have granted a lease and granted none. Otherwise
// the lock would never end in this process, and the lease in the store might.
var errNoLease = fmt.Errorf("%w: the store granted no lease", ErrUncertain)

// checkLease returns errNoLease if a hold must have a lease and g has none.
func (l *Locker) checkLease(detached bool, g *driver.Grant) error {
	if g.TTL < 0 || g.TTL == 0 && (detached || l.guarantees.Lease) {
		return errNoLease
	}
	return nil
}

// lookEvery is the time between two checks of a hold that has no lease and no Grant.Bound. The
// checks are needed because, for example, a lock file may be removed or replaced while it is held.
const lookEvery = 2 * time.Second

// renewer.offset is the random part of the next planned time: 0 stands for the earliest time, and 1
// for the latest. If the store renews many leases with one request, all holds that are granted
// between two such requests get the same random part. So they are renewed in the order in which
// they were taken.

// drawOffset draws a new random part.
func (k *renewer) drawOffset() {
	k.offset = k.random()
}

// renewEarlyBy returns how much earlier than planned a lease may be renewed, if other leases are
// renewed at that moment. This saves wake-ups, each of which costs more than a renewal. If the
// store can renew many leases with one request, the result is large: two seconds for a TTL of 30 s.
// Otherwise the result is small, because many renewals at one moment would be a burst of requests.
func (k *renewer) renewEarlyBy(ttl time.Duration) time.Duration {
	if k.batcher == nil {
		return min(ttl/100, 100*time.Millisecond)
	}
	return ttl / 15
}

// goesAlong reports whether the hold may be renewed now, together with other holds, because its own
// renewal is due soon.
func (e scheduled) goesAlong(now driver.Instant) bool {
	h := e.h
	early := h.locker.renewer.renewEarlyBy(h.ttl)
	if h.withoutLease() { // it is checked every lookEvery, however long the TTL is
		early = min(early, lookEvery/2)
	}
	return e.at == h.renewAt && h.renewAt.Sub(now) <= early
}

// withoutLease reports whether h has no lease, or HoldAtMost ends h before its lease ends. The caller
// has found that h is renewed, and with NoRenewal only a hold without a lease is.
func (h *hold) withoutLease() bool {
	return h.noRenewal || driver.Instant(h.usable.Load()) == h.maxHoldAt
}

// scheduleRenewal chooses the time of the next renewal of h.
//
// The numbers in the table are thirds of the TTL, counted from the beginning of the lease. If the
// lease is shorter than the TTL, they are thirds of the lease.
//
//	                stores that renew many       other stores
//	                leases with one request
//	planned time    from 1.0 to 1.1              from 0.9 + renewEarlyBy to 1.1
//	renewEarlyBy    0.2                          0.03, at most 100 ms
//	random part     one for each request         one for each hold
//
// renewEarlyBy is how much earlier than planned a hold may be renewed.
//
// Without the random part, processes that began at the same time would renew their locks at the same
// time.
//
// If the lease is longer than the TTL, the renewal is planned later. At the planned time, two
// thirds of the TTL are left until the holder must stop. If the lease is shorter than the TTL, as
// after a hand-over, the renewal is planned after a third of the lease.
func (h *hold) scheduleRenewal(sent driver.Instant, g driver.Grant) {
	h.renewAt = farFuture
	if g.From != 0 {
		sent = g.From
	}
	if g.TTL == 0 && g.Bound == nil && h.bond == nil {
		h.renewAt = sent.Add(lookEvery*9/10 + rand.N(lookEvery/5))
	}
	if h.noRenewal || g.TTL == 0 {
		return
	}
	ttl := max(min(h.ttl, g.TTL), time.Millisecond) // shorter leases would be renewed without a pause
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
	h.renewAt = at.Add(third/10 - time.Duration((1-k.offset)*float64(width)))
	if k.batcher == nil {
		k.drawOffset()
	}
}

// renewAgain is called when a renewal of h has failed. It returns the time of the next attempt.
func (h *hold) renewAgain(now driver.Instant) driver.Instant {
	again := max(min(h.ttl/10, driver.Instant(h.usable.Load()).Sub(now)/2), h.ttl/50)
	if h.withoutLease() {
		again = lookEvery
	}
	return now.Add(again + time.Duration((2*h.locker.renewer.offset-1)*float64(again/10)))
}

// schedule is a heap of holds, ordered by the time at which the renewer looks at each hold next.
// Each hold knows its index. Each entry has the time of its hold, because reading a hold from
// memory is slow.
type schedule []scheduled

type scheduled struct {
	at driver.Instant
	h  *hold
}

// put puts e into the heap. If the hold of e has an entry there, e replaces that entry.
func (s *schedule) put(e scheduled) {
	if e.h.index < 0 {
		e.h.index = int32(len(*s))
		*s = append(*s, e)
	} else {
		(*s)[e.h.index] = e
	}
	heap.Fix(s, int(e.h.index))
}

func (s *schedule) remove(h *hold) {
	heap.Remove(s, int(h.index))
	h.index = -1
}

// Len implements heap.Interface.
func (s schedule) Len() int { return len(s) }

// Less implements heap.Interface.
func (s schedule) Less(i, j int) bool { return s[i].at < s[j].at }

// Swap implements heap.Interface.
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].h.index, s[j].h.index = int32(i), int32(j)
}

// Push implements heap.Interface. It is not used: put appends without an allocation.
func (s *schedule) Push(any) {}

// Pop implements heap.Interface. It removes the last entry.
func (s *schedule) Pop() any {
	last := len(*s) - 1
	(*s)[last] = scheduled{}
	*s = (*s)[:last]
	return nil
}
