//go:build linux

package main

import (
	"context"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// A tally is the result of one worker. It goes from a child process to its parent as JSON.
type tally struct {
	Locks    int           // how often it got the lock
	Handed   int           // how often it got the lock from another worker
	Hands    measure.Times // how long these hand-overs took
	Longest  int64         // longest wait for the lock, in nanoseconds
	Stranded int           // 1 if it was still waiting for the lock long after the end of the trial
	CPU      time.Duration // CPU time of the process during the work; only a child sets it
	Err      string
}

// work locks and unlocks in a loop until the trial ends. A worker that is waiting for the lock at
// the end gets some extra time. If the lock does not come then, the worker sets Stranded.
func (p *page) work(l Locker, id int32) (t tally) {
	end := p.end.Load()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(p.over.Load()-now()))
	defer cancel()
	for asked := now(); asked < end; asked = now() {
		unlock, err := l.Lock(ctx)
		got := now()
		t.Longest = max(t.Longest, got-asked)
		if err != nil {
			t.failed(ctx, err)
			return t
		}
		before, released := p.enter(id), p.released.Load()
		if got <= end {
			t.got(before != id && before != 0, got-released)
		}
		p.leave(id)
		if err := unlock(); err != nil {
			t.failed(ctx, err)
			return t
		}
	}
	return t
}

func (t *tally) got(handed bool, after int64) {
	t.Locks++
	if handed {
		t.Handed++
		t.Hands = append(t.Hands, after)
	}
}

func (t *tally) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		t.Stranded = 1
		return
	}
	t.Err = err.Error()
}

var workColumns = append([]measure.Column{
	{Name: "hand-offs/s", Format: "%.0f"}, {Name: "locks/s", Format: "%.0f"},
	{Name: "other %", Format: "%.1f"}, // share of locks that came from another worker
	{Name: "Jain", Format: "%.2f"},
	{Name: "longest ms", Format: "%.1f"}, // longest wait
	{Name: "hand p50 us", Format: "%.0f"}, {Name: "hand p99 us", Format: "%.0f"},
	{Name: "violations", Format: "%.0f"}, {Name: "stranded", Format: "%.0f"},
}, costColumns...)

// summary computes the figures of a trial of length d from its workers' tallies.
func (p *page) summary(tallies []tally, d time.Duration) measure.Figures {
	var sum tally
	var shares []float64
	for _, t := range tallies {
		sum.Locks += t.Locks
		sum.Handed += t.Handed
		sum.Hands = append(sum.Hands, t.Hands...)
		sum.Longest = max(sum.Longest, t.Longest)
		sum.Stranded += t.Stranded
		shares = append(shares, float64(t.Locks))
	}
	return measure.Figures{
		"hand-offs/s": float64(sum.Handed) / d.Seconds(),
		"locks/s":     float64(sum.Locks) / d.Seconds(),
		"other %":     100 * float64(sum.Handed) / float64(sum.Locks),
		"Jain":        measure.Jain(shares),
		"longest ms":  float64(sum.Longest) / float64(time.Millisecond),
		"hand p50 us": sum.Hands.Micros(0.5), "hand p99 us": sum.Hands.Micros(0.99),
		"violations": float64(p.violations.Load()), "stranded": float64(sum.Stranded),
	}
}
