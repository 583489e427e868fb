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
	undone  []deviation // those of the plan that were not possible
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
		r.options, r.undone, r.trace, r.broken = w.options, w.plan, w.trace, w.broken
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
	first                sync.Once
}

// all makes the runs of some plans. One in 64 is made twice, and must be the same.
func (e *explorer) all(plans [][]deviation) []*run {
	runs := make([]*run, len(plans))
	var next atomic.Int64
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(plans)) && !e.Failed(); i = next.Add(1) - 1 {
				runs[i] = e.one(int(i), plans[i])
			}
		})
	}
	group.Wait()
	if e.Failed() {
		e.FailNow()
	}
	return runs
}

func (e *explorer) one(i int, plan []deviation) *run {
	r := try(e.T, e.callers, plan)
	if i%64 == 0 && r.broken == nil {
		if again := try(e.T, e.callers, plan); !slices.Equal(again.trace, r.trace) || !slices.Equal(again.options, r.options) {
			r.broken = fmt.Errorf("a second run differs:\n%s", strings.Join(again.trace, "\n"))
		}
	}
	if len(r.undone) > 0 && r.broken == nil {
		r.broken = fmt.Errorf("a deviation is not possible any more: %v", r.undone)
	}
	e.runs.Add(1)
	e.steps.Add(int64(len(r.trace)))
	if r.unheard {
		e.unheard.Add(1)
	}
	if r.broken != nil {
		e.first.Do(func() {
			e.Errorf("%v\ncallers: %d%s\n\n%s", r.broken, e.callers, strings.Trim(fmt.Sprint(r.plan), "[]"), strings.Join(r.trace, "\n"))
		})
	}
	r.trace = nil // there are many runs
	if n := len(r.options); n > 0 && len(plan) > 1 {
		r.options = []deviation{r.options[i*31%n]}
	}
	return r
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

var spaces = []struct {
	name                    string
	callers, pairs, triples int
	thorough                bool
}{
	{"three", 3, 1500, 0, false},
	{"three, all pairs", 3, 1 << 30, 10_000, true},
	{"four", 4, 10_000, 10_000, true},
}

// TestNewest makes all runs with one deviation, and so many with two and with three, drawn by a seed.
func TestNewest(t *testing.T) {
	for _, space := range spaces {
		t.Run(space.name, func(t *testing.T) {
			if space.thorough {
				server.Thorough(t)
			}
			e := &explorer{T: t, callers: space.callers}
			start := time.Now()
			said := func(deviations, of int) {
				t.Logf("%d: %d runs of %d, %d steps, %d in which nobody had the turn that another was dropped for, %.1f s",
					deviations, e.runs.Swap(0), of, e.steps.Swap(0), e.unheard.Swap(0), time.Since(start).Seconds())
			}
			runs := e.all([][]deviation{nil})
			for i, most := range []int{1 << 30, space.pairs, space.triples} {
				plans, random := more(runs), rand.New(rand.NewPCG(20261128, uint64(i)))
				if most < len(plans) {
					random.Shuffle(len(plans), func(i, j int) { plans[i], plans[j] = plans[j], plans[i] })
				}
				runs = e.all(plans[:min(most, len(plans))])
				said(i+1, len(plans))
			}
		})
	}
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
