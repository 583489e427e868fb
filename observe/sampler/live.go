package sampler

import (
	"time"

	"github.com/padlock-go/padlock"
)

// live is a hold or a cool-down that the last sample saw.
type live struct {
	padlock.Hold      // as of the last sample; Since is the earliest that any sample showed
	fence             uint64
	first, asked, now time.Time // when the first sample that saw the hold ended, and when the last began and ended
	witnessed         bool      // the sample before the first succeeded and did not show this hold

	lease    time.Duration // what was left of the lease at the last renewal, or at the first sample
	least    time.Duration // the shortest lease after a renewal
	renewals int
	missed   int // how many renewals are late
}

func newLive(h padlock.Hold, fence uint64, s *sight) *live {
	n := &live{Hold: h, fence: fence, first: s.now, asked: s.asked, now: s.now, witnessed: s.continuous}
	if !h.Until.IsZero() {
		n.lease = h.Until.Sub(s.now)
	}
	return n
}

// jitter is how much a time, such as Hold.Since, may differ between two samples of one hold
// although nothing has changed and the store replies at once.
const jitter = 100 * time.Millisecond

// isSame reports whether h, which is in the sample s, is still the hold n.
//
// An end is reported only if it is certain. The same holder with the same fence has the same hold,
// whatever the times say. Without a fence of its own (a store without fences, a shared lock), or
// after a new fence (RaiseFence and promotions raise it), the times decide. Each sample converts
// them from the server's clock when a reply arrives. So in a sample that took long, they may be too
// late by that long, and an earlier time is the better one.
func (n *live) isSame(h *padlock.Hold, fence uint64, s *sight) bool {
	if n.Host != h.Host || n.PID != h.PID || n.Label != h.Label || n.Foreign != h.Foreign || n.Cooling != h.Cooling {
		return false
	}
	alone := !n.Shared && !h.Shared
	isNew := alone && fence != n.fence
	switch {
	case h.Cooling, alone && !isNew && fence != 0:
		return true
	case h.Since.IsZero() || n.Since.IsZero():
		return !isNew && !h.Until.Before(n.Until.Add(-jitter-n.now.Sub(n.asked)))
	case h.Since.After(n.Since.Add(jitter + s.now.Sub(s.asked))):
		return false
	}
	return !isNew || h.Since.Before(n.asked.Add(-jitter)) // two exclusive holds cannot overlap
}

// update records the state of the hold in a new sample. It returns how many renewals have been
// missed since the previous sample.
func (n *live) update(h padlock.Hold, fence uint64, s *sight) (missed int) {
	old, before := n.Hold, n.now.Sub(n.asked)
	n.Hold, n.fence, n.asked, n.now = h, fence, s.asked, s.now
	if !old.Since.IsZero() && (h.Since.IsZero() || old.Since.Before(h.Since)) {
		n.Since = old.Since
	}
	if h.Until.IsZero() || h.Cooling {
		return 0
	}
	// The store was read at some time between s.asked and s.now. The lease had from least to most
	// left then.
	least, most := h.Until.Sub(s.now), h.Until.Sub(s.asked)
	tolerance := max(n.lease/20, 20*time.Millisecond)
	switch moved := h.Until.Sub(old.Until); {
	case moved > tolerance+most-least:
		if n.renewals++; n.renewals == 1 || least < n.least {
			n.least = least
		}
		n.lease, n.missed = least, 0
		return 0
	case moved < -tolerance-before:
		n.lease = least
	}
	was := n.missed
	n.missed = n.lateRenewals(most)
	return max(0, n.missed-was)
}

// lateRenewals returns how many renewals the holder has missed since the last renewal that was
// seen. The argument left is the time until the lease ends.
func (n *live) lateRenewals(left time.Duration) int {
	switch {
	case n.renewals == 0:
		// Nobody renews the locks of other programs, or the locks that "padlock acquire" takes.
		// This may be such a lock.
		return 0
	case n.lease > n.least*3/2:
		// The program has asked for a long lease with Lock.Extend. The holder renews such a lease
		// when a third of the TTL is left.
		if left < n.least*3/10 {
			return 1
		}
		return 0
	}
	// A holder renews its lease when 30 to 37 % of the TTL has passed. If the request fails, the
	// holder tries again after another 10 % of the TTL, and once more after another 10 %. If all
	// these requests fail, a renewal counts as missed at 60 % of the TTL.
	gone := float64(n.lease-left) / float64(max(n.lease, 1))
	switch {
	case gone < 0.6:
		return 0
	case gone < 0.93:
		return 1
	case gone < 1.27:
		return 2
	}
	return 3
}

// endOf describes the end of the hold, which the sample s did not see any more. The argument next
// is the hold that came after this one, or nil.
func (n *live) endOf(next *padlock.Hold, s *sight) Ended {
	e := Ended{
		Host: n.Host, PID: n.PID, Label: n.Label, Fence: n.fence, Shared: n.Shared, Foreign: n.Foreign,
		Since: n.Since, End: n.now.Add(s.now.Sub(n.now) / 2), Held: -1, How: Vanished,
	}
	if next != nil && next.Since.After(n.now) && next.Since.Before(s.now) {
		e.End = next.Since
	}
	left := n.Until.Sub(n.asked)
	switch {
	case n.Until.IsZero() || !s.continuous:
	case s.now.Before(n.Until):
		e.How = Released
	case left < n.lease/4 || n.missed > 0:
		e.How, e.End = Expired, n.Until
	}
	began := n.Since
	if began.IsZero() && n.witnessed {
		began = n.first
	}
	held := max(0, e.End.Sub(began))
	// The end is wrong by half the time between the samples. If nobody looked for a while, that may be
	// more than the hold.
	if between := s.now.Sub(n.now); !began.IsZero() && s.continuous && (between <= max(2*s.interval, held/5) || e.How == Expired) {
		e.Held = held
	}
	return e
}

// row describes the hold at the time of a sample.
func (n *live) row(name string, slot int, now time.Time) Hold {
	began := n.Since
	if began.IsZero() {
		began = n.first
	}
	return Hold{
		Name: name, Slot: slot, Fence: n.fence, Hold: n.Hold, FirstSeen: n.first,
		Held: max(0, now.Sub(began)), AtLeast: n.Since.IsZero() && !n.witnessed,
		Renewals: n.renewals, Missed: n.missed,
	}
}
