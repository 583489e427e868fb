package sampler

import (
	"time"

	"github.com/padlock-go/padlock"
)

// live is a hold or a cool-down that the last sample saw.
type live struct {
	padlock.Hold
	fence       uint64
	first, seen time.Time // the times of the first and the last sample that saw the hold
	witnessed   bool      // the previous sample succeeded and did not show this hold

	lease    time.Duration // what was left of the lease at the last renewal, or at the first sample
	least    time.Duration // the shortest lease after a renewal
	renewals int
	missed   int // how many renewals are overdue
}

func newLive(h padlock.Hold, fence uint64, now time.Time, witnessed bool) *live {
	n := &live{Hold: h, fence: fence, first: now, seen: now, witnessed: witnessed}
	if !h.Until.IsZero() {
		n.lease = h.Until.Sub(now)
	}
	return n
}

// jitter is how much a time, such as Hold.Since, may differ between two samples of one hold
// although nothing has changed. Each sample converts the time from the server's clock to the clock
// of this process. The error of that conversion can be as long as a round trip.
const jitter = 100 * time.Millisecond

// isSame reports whether h is still the hold n. h was seen in a later sample, with the given fence.
// RaiseFence and a promotion change the fence of a hold, so a new fence alone does not mean a new
// hold. If the beginning of the hold is known, that time decides.
func (n *live) isSame(h *padlock.Hold, fence uint64) bool {
	if n.Host != h.Host || n.PID != h.PID || n.Label != h.Label || n.Foreign != h.Foreign || n.Cooling != h.Cooling {
		return false
	}
	changed := fence != n.fence && !n.Shared && !h.Shared
	switch {
	case h.Cooling:
		return true
	case h.Since.IsZero() != n.Since.IsZero():
		return false
	case h.Since.IsZero():
		return !changed && !h.Until.Before(n.Until.Add(-jitter))
	case h.Since.After(n.seen.Add(jitter)):
		return false
	case h.Since.Before(n.seen.Add(-jitter)):
		return h.Since.Sub(n.Since).Abs() < time.Second
	}
	return !changed // it began at about the time of the last sample
}

// update records the state of the hold in a new sample. It returns how many renewals have been
// missed since the previous sample.
func (n *live) update(h padlock.Hold, fence uint64, now time.Time) (missed int) {
	old := n.Hold
	n.Hold, n.fence, n.seen = h, fence, now
	if h.Until.IsZero() || h.Cooling {
		return 0
	}
	left := h.Until.Sub(now)
	tolerance := max(n.lease/20, 20*time.Millisecond)
	switch moved := h.Until.Sub(old.Until); {
	case moved > tolerance:
		if n.renewals++; n.renewals == 1 || left < n.least {
			n.least = left
		}
		n.lease, n.missed = left, 0
		return 0
	case moved < -tolerance:
		n.lease = left
	}
	before := n.missed
	n.missed = n.lateRenewals(left)
	return max(0, n.missed-before)
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

// endOf describes the end of the hold. The end came after the last sample that saw the hold, and
// before now. The argument next is the hold that came after this one, or nil. The argument
// continuous says that no sample failed in between.
func (n *live) endOf(now time.Time, next *padlock.Hold, continuous bool) Ended {
	e := Ended{
		Host: n.Host, PID: n.PID, Label: n.Label, Fence: n.fence, Shared: n.Shared, Foreign: n.Foreign,
		Since: n.Since, End: n.seen.Add(now.Sub(n.seen) / 2), Held: -1, How: Vanished,
	}
	if next != nil && next.Since.After(n.seen) && next.Since.Before(now) {
		e.End = next.Since
	}
	left := n.Until.Sub(n.seen)
	switch {
	case n.Until.IsZero() || !continuous:
	case now.Before(n.Until):
		e.How = Released
	case left < n.lease/4 || n.missed > 0:
		e.How, e.End = Expired, n.Until
	}
	began := n.Since
	if began.IsZero() && n.witnessed {
		began = n.first
	}
	if !began.IsZero() && continuous {
		e.Held = max(0, e.End.Sub(began))
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
		Name: name, Slot: slot, Fence: n.fence,
		Host: n.Host, PID: n.PID, Label: n.Label, Shared: n.Shared, Foreign: n.Foreign, Cooling: n.Cooling,
		Since: n.Since, Until: n.Until, PlannedEnd: n.PlannedEnd, FirstSeen: n.first,
		Held: max(0, now.Sub(began)), AtLeast: n.Since.IsZero() && !n.witnessed,
		Renewals: n.renewals, Missed: n.missed,
	}
}
