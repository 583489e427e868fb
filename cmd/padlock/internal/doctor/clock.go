package doctor

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/texts"
)

// A store makes each fence from the server's clock: the fence is the time in microseconds since
// 1970. If the previous fence is not smaller than that time, the new fence is the previous fence
// plus one. The server also ends leases by this clock. So doctor takes a lock and reads the
// server's clock from the lock's fence.

// closest returns the reading with the shortest round trip, which is the most precise one.
func closest(seen []reading) reading {
	return slices.MinFunc(seen, func(a, b reading) int { return cmp.Compare(a.trip(), b.trip()) })
}

// stuck reports whether each fence is only the previous fence plus one. That happens while the
// fences are ahead of the server's clock.
func (c *clock) stuck() bool {
	first, last := c.seen[0], c.seen[len(c.seen)-1]
	return last.server()-first.server() < (last.sent-first.got)/2
}

// wholeSeconds reports whether the server's clock has whole seconds, as that of object storage,
// which is read from the Date of a reply. Then each fence is such a second and a few counts.
func (c *clock) wholeSeconds() bool {
	return !slices.ContainsFunc(c.seen, func(r reading) bool { return r.fence%1_000_000 > 1000 })
}

const (
	// offsetLimit is the tolerated difference between the clocks. Clocks that differ more are not
	// synchronised, or not with the same source.
	offsetLimit = time.Second
	// driftMargin is the drift that padlock allows for: a process that holds a lock stops using it
	// 1 % of the lease early.
	driftMargin = 0.01
	// driftLimit is the drift above which the clock is reported. A clock does not drift this fast
	// by itself, and ntpd corrects a clock more slowly (0.05 %). So another program corrects the
	// clock, or sets it.
	driftLimit = 0.001
)

func (v *visit) clocks(ctx context.Context, l *padlock.Locker, c *clock) {
	first := closest(c.seen)
	if off := c.offset(first) + time.Second/2; c.wholeSeconds() && off.Abs() <= offsetLimit+time.Second/2+first.trip()/2 {
		v.good("clock", "the server's clock has whole seconds, and those of this machine's")
		return
	}
	if c.stuck() {
		v.problem("clock", "the fences of "+v.Name+" are ahead of the server's clock",
			"that clock was set back, or another store's was ahead: as far as it was set, leases last longer than they were asked for",
			"have the server's clock kept by NTP, slewed and never set while locks are held")
		return
	}
	v.offset(c, first)
	v.drift(ctx, l, c, first)
}

// offset returns by how much a reading is ahead of this machine's clock.
func (c *clock) offset(r reading) time.Duration {
	return r.server() - time.Duration(c.base.UnixNano()) - (r.sent+r.got)/2
}

// offset compares the server's clock with the clock of this machine.
func (v *visit) offset(c *clock, r reading) {
	off, give := c.offset(r), r.trip()/2
	seen := fmt.Sprintf("the server's clock is %s, give or take %s", ahead(off), texts.Span(give))
	switch {
	case off.Abs()-give > offsetLimit:
		v.problem("clock", seen,
			"one of the two is not kept: when it is set right, leases end early or late by as much; and times of holders are shown wrong",
			"have both clocks kept by NTP (chronyd, systemd-timesyncd) from the same source")
	case off.Abs()+give > offsetLimit:
		v.unknown("clock", seen, "over so slow a connection nobody can say whether the clocks agree", "run doctor on a machine that is nearer to the server")
	default:
		v.good("clock", seen)
	}
}

func ahead(d time.Duration) string {
	if d < 0 {
		return fmt.Sprintf("%s behind this machine's", texts.Span(-d))
	}
	return fmt.Sprintf("%s ahead of this machine's", texts.Span(d))
}

// drift measures how fast the server's clock runs, compared with the local clock. Processes that
// hold locks use the local clock to find out when their leases end.
func (v *visit) drift(ctx context.Context, l *padlock.Locker, c *clock, first reading) {
	if !pause(ctx, v.Measure) {
		return
	}
	later := &clock{base: c.base}
	if err := v.cycle(ctx, l, later); err != nil {
		v.unknown("drift", "the second look failed: "+plain(err), "the speed of the server's clock is unknown", "try again")
		return
	}
	second := closest(later.seen)
	local := (second.sent+second.got)/2 - (first.sent+first.got)/2
	server := second.server() - first.server()
	rate := float64(server-local) / float64(local)
	give := float64((first.trip()+second.trip())/2) / float64(local)
	seen := fmt.Sprintf("the server's clock runs %s, give or take %s, over %s", speed(rate), percent(give), texts.Span(local))
	const why = "holders allow for 1 % between the clocks: when leases run out faster at the server, two have the same lock; " +
		"a clock that is slewed may run up to 8 % off (chrony), and one that is stepped by anything"
	switch {
	case math.Abs(rate)-give > driftMargin:
		v.problem("drift", seen, why, "find out what moves the clock (NTP, or a virtual machine that was moved or paused); let chrony slew slowly (maxslewrate 500)")
	case math.Abs(rate)-give > driftLimit:
		v.problem("drift", seen, why, "the clock is being corrected; let chrony slew slowly (maxslewrate 500), and try again later")
	case give > driftLimit:
		v.unknown("drift", seen, why, fmt.Sprintf("watch longer: --measure %v", max(2*time.Second, time.Duration(float64(v.Measure)*give/driftLimit*1.5).Round(time.Second))))
	default:
		v.good("drift", seen)
	}
}

func speed(rate float64) string {
	if rate < 0 {
		return percent(-rate) + " slow"
	}
	return percent(rate) + " fast"
}

func percent(rate float64) string { return fmt.Sprintf("%.3f %%", rate*100) }

// pause waits.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
