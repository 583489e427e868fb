package newest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/newest"
)

// A run is what came of one.
type run struct {
	plan    []deviation
	options []deviation // that were possible after the last one of the plan
	trace   []string
	broken  error
	unheard bool // a caller was dropped, and no newer one had its turn
}

// try makes a run.
func try(t *testing.T, callers int, plan []deviation) (r *run) {
	r = &run{plan: plan}
	defer func() {
		if p := recover(); p != nil {
			r.broken = cmp.Or(r.broken, fmt.Errorf("goroutines are left: %v", p))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w := newWorld(callers, plan)
		w.run()
		r.options, r.trace, r.broken = w.options, w.trace, w.broken
		for _, c := range w.callers {
			r.unheard = r.unheard || errors.Is(c.err, newest.ErrSuperseded) && c.blind < keepLast && w.newest < c.number
		}
	})
	return r
}

// An explorer counts what it has tried.
type explorer struct {
	*testing.T
	callers              int
	runs, steps, unheard atomic.Int64
	failed               atomic.Bool
}

// all makes the runs of some plans, and returns them in their order. One in 64 is made twice.
func (e *explorer) all(plans [][]deviation) []*run {
	runs := make([]*run, len(plans))
	var next atomic.Int64
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(plans)) && !e.failed.Load(); i = next.Add(1) - 1 {
				r := try(e.T, e.callers, plans[i])
				if e.runs.Add(1)%64 == 1 && r.broken == nil {
					if again := try(e.T, e.callers, plans[i]); !slices.Equal(again.trace, r.trace) {
						r.broken = fmt.Errorf("a second run differs:\n%s", strings.Join(again.trace, "\n"))
					}
				}
				e.steps.Add(int64(len(r.trace)))
				if r.unheard {
					e.unheard.Add(1)
				}
				if runs[i] = r; r.broken != nil && !e.failed.Swap(true) {
					e.Errorf("%v\ncallers: %d\n%s\n\n%s", r.broken, e.callers, story(r.plan), strings.Join(r.trace, "\n"))
				}
			}
		})
	}
	group.Wait()
	return slices.DeleteFunc(runs, func(r *run) bool { return r == nil })
}

// more returns the plans with one deviation more than each of the runs.
func more(runs []*run) (plans [][]deviation) {
	for _, r := range runs {
		for _, d := range r.options {
			plans = append(plans, append(slices.Clone(r.plan), d))
		}
	}
	return plans
}

// some draws n of the plans.
func some(plans [][]deviation, n int) [][]deviation {
	random := rand.New(rand.NewPCG(20261128, 0))
	random.Shuffle(len(plans), func(i, j int) { plans[i], plans[j] = plans[j], plans[i] })
	return plans[:min(n, len(plans))]
}

func TestNewest(t *testing.T) {
	for _, space := range []struct{ callers, pairs, triples, thoroughPairs int }{{3, 1000, 0, 1 << 30}, {4, 0, 0, 20000}} {
		t.Run(fmt.Sprintf("%d callers", space.callers), func(t *testing.T) {
			e := &explorer{T: t, callers: space.callers}
			start := time.Now()
			said := func(what string) {
				t.Logf("%s: %d runs, %d steps, %d in which nobody had the turn that another was dropped for, %.1f s", what, e.runs.Load(), e.steps.Load(), e.unheard.Load(), time.Since(start).Seconds())
			}
			runs := e.all(more(e.all([][]deviation{nil})))
			said("one deviation")
			pairs, n := more(runs), space.pairs
			t.Logf("%d pairs", len(pairs))
			if server.IsThorough() {
				n = space.thoroughPairs
			}
			runs = e.all(some(pairs, n))
			said("two")
		})
	}
}

// story writes a plan as TestStories reads it.
func story(plan []deviation) string {
	var lines []string
	for _, d := range plan {
		lines = append(lines, d.String())
	}
	return strings.Join(lines, "\n")
}

// TestStories tells each story in testdata: a run that broke a promise with a bug in newest.go, which the
// first line names. Where the code does not do what the bug did, a deviation may not be possible.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			callers, plan := 3, []deviation(nil)
			for line := range strings.Lines(string(text)) {
				line = strings.TrimSpace(line)
				if what, before, ok := strings.Cut(line, ", before "); ok && line[0] != '#' {
					plan = append(plan, deviation{before, what})
				} else if n, err := fmt.Sscanf(line, "callers: %d", &callers); n == 0 && line != "" && line[0] != '#' {
					t.Fatal(line, err)
				}
			}
			if r := try(t, callers, plan); r.broken != nil {
				t.Errorf("%v\n%s", r.broken, strings.Join(r.trace, "\n"))
			}
		})
	}
}
