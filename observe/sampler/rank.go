package sampler

import (
	"cmp"
	"sort"
	"strings"
	"time"
)

// A hold is Long if it lasts longer than longAtLeast, and longer than longFactor times the usual
// time. The usual time is the 95th percentile of the hold times of the name. If the name has fewer
// than longCount holds, rank takes the percentile from the hold times of the whole group. If the
// group has fewer than longCount holds, too, the usual time is unknown.
const (
	longFactor  = 3
	longAtLeast = 10 * time.Second
	longCount   = 5
)

// pastEndAfter is the time from the planned end of a hold until the hold counts as PastEnd. A
// release takes a moment.
const pastEndAfter = 2 * time.Second

// rank finds out whether the name needs attention. The arguments own and group are the hold times
// of the name and of its group. The argument own may be nil.
func rank(n *Name, own, group *histogram) {
	usual := time.Duration(0)
	switch {
	case own != nil && own.sum >= longCount:
		usual = own.percentile(.95)
	case group.sum >= longCount:
		usual = group.percentile(.95)
	}
	reasons := map[Reason]bool{}
	for i := range n.Holds {
		h := &n.Holds[i]
		if h.Cooling {
			continue
		}
		slowness := 0.0
		if usual > 0 {
			slowness = h.Held.Seconds() / usual.Seconds()
		}
		reasons[Long] = reasons[Long] || slowness > longFactor && h.Held > longAtLeast
		if plan := h.PlannedEnd.Sub(h.Since); !h.PlannedEnd.IsZero() && !h.Since.IsZero() && plan > 0 {
			slowness = max(slowness, h.Held.Seconds()/plan.Seconds())
			reasons[PastEnd] = reasons[PastEnd] || h.Held > plan+pastEndAfter
		}
		reasons[NotRenewed] = reasons[NotRenewed] || h.Missed > 0
		n.Slowness = max(n.Slowness, slowness)
	}
	for _, r := range []Reason{NotRenewed, PastEnd, Long} {
		if reasons[r] {
			n.Stuck = append(n.Stuck, r)
		}
	}
}

// order sorts rows. Stuck names come first, the slowest at the top. Names with waiters follow,
// sorted by the sum of the times that the callers have waited (see Name.Waiting). The other names
// come last, sorted by their longest hold.
func order(rows []Name) {
	sort.Slice(rows, func(i, j int) bool {
		a, b := &rows[i], &rows[j]
		return cmp.Or(
			cmp.Compare(min(1, len(b.Stuck)), min(1, len(a.Stuck))),
			cmp.Compare(slownessOf(b), slownessOf(a)),
			cmp.Compare(b.Waiting, a.Waiting),
			cmp.Compare(b.Waiters, a.Waiters),
			cmp.Compare(longest(b), longest(a)),
			strings.Compare(a.Name, b.Name),
			strings.Compare(a.Path, b.Path),
		) < 0
	})
}

// slownessOf returns the slowness of a stuck name, and 0 for other names.
func slownessOf(n *Name) float64 {
	if len(n.Stuck) == 0 {
		return 0
	}
	return n.Slowness
}

// longest returns how long the longest hold of a name lasts.
func longest(n *Name) time.Duration {
	d := time.Duration(0)
	for i := range n.Holds {
		if !n.Holds[i].Cooling {
			d = max(d, n.Holds[i].Held)
		}
	}
	return d
}
