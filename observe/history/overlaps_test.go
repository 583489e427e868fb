package history

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/safety"
)

// past makes runs of a name on three hosts, whose clocks differ by up to two seconds. Now and then a
// run begins before the one before it has ended; past returns how often.
func past(r *rand.Rand, overlapping bool) (runs []Run, overlaps int) {
	hosts := map[string]time.Duration{"a": 0, "b": 2 * time.Second, "c": -time.Duration(r.IntN(2000)) * time.Millisecond}
	now := time.Date(2026, 11, 27, 2, 0, 0, 0, time.UTC) // of the store
	for i := range MaxRuns {
		host := []string{"a", "b", "c"}[r.IntN(3)]
		took := time.Duration(1000+r.IntN(5000)) * time.Millisecond
		start := now.Add(time.Duration(r.IntN(30)) * time.Millisecond) // the reply, and the start of the command
		begins := start.Add(hosts[host])
		runs = append(runs, Run{Name: "job", ID: fmt.Sprint(i), Host: host, Fence: uint64(now.UnixMicro()), Slot: -1, Start: begins, End: begins.Add(took)})
		end := start.Add(took)
		now = end.Add(time.Duration(r.IntN(2000)) * time.Microsecond) // the release, or a hand-over
		if overlapping && r.IntN(10) == 0 && i < MaxRuns-1 {
			now = end.Add(-500 * time.Millisecond)
			overlaps++
		}
	}
	r.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	return runs, overlaps
}

// 10,000 clean runs on hosts whose clocks differ by two seconds have no overlap, and each overlap that
// was made on purpose is found.
func TestCheckOverlaps(t *testing.T) {
	compared, found := 0, 0
	for seed := range uint64(10000 / MaxRuns) {
		runs, _ := past(rand.New(rand.NewPCG(seed, 74)), false)
		out := CheckOverlaps(runs)
		compared += out.Runs
		if len(out.Overlaps) > 0 {
			t.Fatalf("seed %d: invented: %+v", seed, out.Overlaps[0])
		}
		if d := out.Clocks["b"] - out.Clocks["a"]; d < 1900*time.Millisecond || d > 2100*time.Millisecond {
			t.Errorf("seed %d: the clock of b is %v ahead of that of a", seed, d)
		}
		runs, made := past(rand.New(rand.NewPCG(seed, 75)), true)
		out = CheckOverlaps(runs)
		if found += made; len(out.Overlaps) != made {
			t.Errorf("seed %d: %d overlaps were made, %d found", seed, made, len(out.Overlaps))
		}
		for _, o := range out.Overlaps {
			if d := o.To.Sub(o.From); o.ByClocks || d < 300*time.Millisecond || d > 600*time.Millisecond {
				t.Errorf("seed %d: %+v", seed, o)
			}
			safety.Rises(t, o.Second.Fence, o.First.Fence, "seed", seed)
		}
	}
	if compared < 10000 || found < 100 {
		t.Errorf("%d runs, %d overlaps", compared, found)
	}
}

func TestCheckOverlapsEdges(t *testing.T) {
	at := time.Date(2026, 11, 27, 2, 0, 0, 0, time.UTC)
	run := func(fence uint64, host string, start, end time.Duration) Run {
		r := Run{Name: "job", Host: host, Fence: fence, Slot: -1, Start: at.Add(start)}
		if end != 0 {
			r.End = at.Add(end)
		}
		return r
	}
	stored := func(d time.Duration) uint64 { return uint64(at.Add(d).UnixMicro()) }
	slot := run(stored(0), "a", 0, time.Minute)
	slot.Slot = 1
	lost := run(stored(0), "a", 0, time.Minute)
	lost.Exit, lost.Reason = 79, "lost"
	reader, later := run(stored(0), "a", 0, time.Minute), run(stored(time.Second), "b", time.Second, time.Minute)
	reader.Shared, later.Shared = true, true
	for what, c := range map[string]struct {
		runs                         []Run
		overlaps, unsure, lost, open int
	}{
		"one fence":             {[]Run{run(stored(0), "a", 0, time.Minute), run(stored(0), "b", time.Second, time.Minute)}, 0, 0, 0, 0},
		"shared":                {[]Run{reader, later}, 0, 0, 0, 0},
		"one of two is shared":  {[]Run{reader, run(stored(time.Second), "b", time.Second, time.Minute)}, 1, 0, 0, 0},
		"another slot":          {[]Run{slot, run(stored(time.Second), "b", time.Second, time.Minute)}, 0, 0, 0, 0},
		"lost":                  {[]Run{lost, run(stored(30*time.Second), "b", 30*time.Second, 2*time.Minute)}, 1, 0, 1, 0},
		"no end":                {[]Run{run(stored(0), "a", 0, 0), run(stored(time.Second), "b", time.Second, time.Minute)}, 0, 0, 0, 1},
		"the second goes on":    {[]Run{run(stored(0), "a", 0, time.Minute), run(stored(time.Second), "b", time.Second, 0)}, 1, 0, 0, 1},
		"fences of no clock":    {[]Run{run(7, "a", 0, 10*time.Second), run(8, "b", 8*time.Second, time.Minute)}, 1, 1, 0, 0},
		"a fence was raised":    {[]Run{run(stored(0), "a", 0, 10*time.Second), run(stored(20*time.Second), "a", 20*time.Second, 30*time.Second), run(stored(35*time.Second), "a", 31*time.Second, 34*time.Second), run(stored(35*time.Second)+1, "b", 35*time.Second, 40*time.Second)}, 0, 0, 0, 0},
		"no fence, and skipped": {[]Run{run(0, "a", 0, time.Minute), {Skipped: true, Fence: 0}}, 0, 0, 0, 0},
	} {
		out := CheckOverlaps(c.runs)
		unsure := 0
		for _, o := range out.Overlaps {
			if o.ByClocks {
				unsure++
			}
		}
		if len(out.Overlaps) != c.overlaps || unsure != c.unsure || len(out.Lost) != c.lost || len(out.Open) != c.open {
			t.Errorf("%s: %+v", what, out)
		}
	}
}
