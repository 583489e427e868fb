package command

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/history"
)

// afterwards is what history --overlaps prints of a name in JSON.
type afterwards struct {
	named
	Runs     int                `json:"runs"`
	Overlaps []pastOverlap      `json:"overlaps"`
	Lost     []pastRun          `json:"lost,omitempty"`
	NoEnd    []pastRun          `json:"no_end,omitempty"`
	Clocks   map[string]float64 `json:"clocks,omitempty"` // seconds ahead of the store
}

// pastOverlap is an overlap in JSON.
type pastOverlap struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Seconds  float64   `json:"seconds"`
	ByClocks bool      `json:"by_clocks,omitempty"` // a difference of the hosts' clocks may explain it
	First    pastRun   `json:"first"`
	Second   pastRun   `json:"second"`
}

// tellOverlaps answers whether two runs of a name worked at once. An empty name stands for all names.
func (a *app) tellOverlaps(ctx context.Context, page *bytes.Buffer, l *padlock.Locker, log *history.Log, name string, set *past) (incomplete error) {
	names := []string{name}
	if name == "" {
		names, incomplete = log.Names(ctx, "")
	}
	now := time.Now()
	for _, name := range names {
		runs, err := log.Runs(ctx, name)
		incomplete = cmp.Or(incomplete, err, markRunning(ctx, l, runs))
		out := history.CheckOverlaps(runs)
		set.within(&out)
		if len(out.Overlaps) > 0 {
			a.status = 1
		}
		if a.json {
			_ = a.print(page, newAfterwards(name, &out)) // the page takes everything
			continue
		}
		fmt.Fprintln(page, strings.Join(afterwardsLines(name, &out, now), "\n"))
	}
	return incomplete
}

// within leaves only what lies between --since and --until.
func (p *past) within(out *history.Afterwards) {
	outside := func(from, to time.Time) bool {
		return !p.since.IsZero() && !to.IsZero() && to.Before(p.since.Time) || !p.until.IsZero() && from.After(p.until.Time)
	}
	out.Overlaps = slices.DeleteFunc(out.Overlaps, func(o history.Overlap) bool { return outside(o.From, o.To) })
	out.Lost = slices.DeleteFunc(out.Lost, func(r *history.Run) bool { return outside(r.Start, r.End) })
	out.Open = slices.DeleteFunc(out.Open, func(r *history.Run) bool { return outside(r.Start, r.End) })
}

func newAfterwards(name string, from *history.Afterwards) afterwards {
	out := afterwards{named: newNamed(name), Runs: from.Runs, Overlaps: []pastOverlap{}, Clocks: map[string]float64{}}
	for _, o := range from.Overlaps {
		out.Overlaps = append(out.Overlaps, pastOverlap{o.From.UTC(), o.To.UTC(), o.To.Sub(o.From).Seconds(), o.ByClocks, newPastRun(o.First), newPastRun(o.Second)})
	}
	for _, r := range from.Lost {
		out.Lost = append(out.Lost, newPastRun(r))
	}
	for _, r := range from.Open {
		out.NoEnd = append(out.NoEnd, newPastRun(r))
	}
	for host, d := range from.Clocks {
		out.Clocks[host] = d.Seconds()
	}
	return out
}

// afterwardsLines describes the same for a person.
func afterwardsLines(name string, out *history.Afterwards, now time.Time) []string {
	lines := []string{fmt.Sprintf("%s: %s compared, no two worked at once", show(name), several(out.Runs, "run is", "runs are"))}
	if n := len(out.Overlaps); n > 0 {
		lines[0] = fmt.Sprintf("%s: %s compared, %s", show(name), several(out.Runs, "run is", "runs are"), several(n, "time two worked at once", "times two worked at once"))
	}
	for _, o := range out.Overlaps {
		line := fmt.Sprintf("  %s for %s: %s (fence %d) beside %s (fence %d)", clock(o.From, now), span(o.To.Sub(o.From)), processOf(o.Second), o.Second.Fence, processOf(o.First), o.First.Fence)
		if o.ByClocks {
			line += "; only by the clocks of the hosts, which may differ by so much"
		}
		lines = append(lines, line)
	}
	for _, r := range out.Lost {
		lines = append(lines, fmt.Sprintf("  lost its lock: %s, from %s to %s", processOf(r), clock(r.Start, now), clock(r.End, now)))
	}
	for _, r := range out.Open {
		lines = append(lines, fmt.Sprintf("  no end recorded: %s, from %s", processOf(r), clock(r.Start, now)))
	}
	var clocks []string
	for _, host := range slices.Sorted(maps.Keys(out.Clocks)) {
		clocks = append(clocks, fmt.Sprintf("%s %+.3fs", show(host), out.Clocks[host].Seconds()))
	}
	if len(clocks) > 0 {
		lines = append(lines, "  clocks, beside that of the store: "+strings.Join(clocks, ", "))
	}
	return lines
}

func processOf(r *history.Run) string { return fmt.Sprintf("%s:%d", show(r.Host), r.PID) }
