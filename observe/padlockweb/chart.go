package padlockweb

import (
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/sampler"
)

// chart is a picture of the last 24 hours of a name. The server draws it as SVG, so it needs no
// script.
type chart struct {
	Steps []chartStep // those in which something is to be seen
	Text  string      // says the same as the picture
}

// chartStep is a part of the chart: stepWidth wide, at X. The heights are of the lanes of the
// chart, laneHeight each. Steps without news that were not watched are one wide part.
type chartStep struct {
	X, Width         int
	Title            string // the time, and what happened
	Unwatched        bool
	Held, HeldAt     int
	Waiting, WaitsAt int
	Lost             bool
}

// The chart has sampler.DaySteps steps. The lane of the waiters is below that of the holds, after a
// gap, and the lane of lost holds is below that.
const (
	stepWidth  = 5
	laneHeight = 30
	waitLane   = 40 // where the lane begins
	lostLane   = 72
	lostHeight = 12
)

// chartSize has the sizes that the template needs.
type chartSize struct{ Width, Height, Step, HeldEnd, WaitEnd, LostAt, Lost int }

// Size returns the same sizes for every chart.
func (*chart) Size() chartSize {
	return chartSize{
		Width: stepWidth * sampler.DaySteps, Height: lostLane + lostHeight, Step: stepWidth,
		HeldEnd: laneHeight, WaitEnd: waitLane + laneHeight, LostAt: lostLane, Lost: lostHeight,
	}
}

// newChart draws what the sampler saw, and the runs that the history has for the time before that.
func newChart(d sampler.Day, past []history.Run, now time.Time) *chart {
	recorded := addRuns(d, past, now)
	var sum sampler.Step
	var lastLost time.Time
	most := 0
	for _, s := range d.Steps {
		most = max(most, s.Waiters)
	}
	c := &chart{}
	for i, s := range d.Steps {
		at := d.Start.Add(time.Duration(i) * sampler.DayStep)
		sum.Held, sum.Watched, sum.Lost = sum.Held+s.Held, sum.Watched+s.Watched, sum.Lost+s.Lost
		if s.Lost > 0 {
			lastLost = at
		}
		step := chartStep{X: i * stepWidth, Width: stepWidth, Unwatched: s.Watched == 0 && !recorded[i], Lost: s.Lost > 0}
		if s.Held > 0 {
			step.Held = max(2, int(s.Held*laneHeight/sampler.DayStep))
		}
		if s.Waiters > 0 {
			step.Waiting = max(2, s.Waiters*laneHeight/most)
		}
		step.HeldAt, step.WaitsAt = laneHeight-step.Held, waitLane+laneHeight-step.Waiting
		switch last := len(c.Steps) - 1; {
		case step.Unwatched && last >= 0 && c.Steps[last].Unwatched && c.Steps[last].X+c.Steps[last].Width == step.X && !step.Lost:
			c.Steps[last].Width += stepWidth
		case step.Unwatched || step.Held > 0 || step.Waiting > 0 || step.Lost:
			step.Title = stepTitle(at, &s, step.Unwatched)
			c.Steps = append(c.Steps, step)
		}
	}
	c.Text = chartText(sum, most, lastLost)
	return c
}

// addRuns adds the runs to the steps in which the sampler did not look, or saw less. It returns in
// which steps a run was recorded.
func addRuns(d sampler.Day, past []history.Run, now time.Time) (recorded []bool) {
	recorded = make([]bool, len(d.Steps))
	held := make([]time.Duration, len(d.Steps))
	for i := range past {
		r := &past[i]
		end := r.End
		if r.Outcome() == history.Running {
			end = now
		}
		if r.Skipped || end.IsZero() {
			continue
		}
		for n := range d.Steps {
			from := d.Start.Add(time.Duration(n) * sampler.DayStep)
			to := from.Add(sampler.DayStep)
			if r.Start.Before(to) && end.After(from) {
				recorded[n] = true
				held[n] += earlier(end, to).Sub(later(r.Start, from))
			}
			if r.Reason == "lost" && !end.Before(from) && end.Before(to) {
				d.Steps[n].Lost = max(1, d.Steps[n].Lost)
			}
		}
	}
	for n := range d.Steps {
		d.Steps[n].Held = max(d.Steps[n].Held, min(held[n], sampler.DayStep))
	}
	return recorded
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// stepTitle describes one step.
func stepTitle(at time.Time, s *sampler.Step, isUnwatched bool) string {
	text := []string{at.UTC().Format("15:04") + " UTC"}
	if isUnwatched {
		text = append(text, "not watched from then on")
	}
	if s.Held > 0 {
		text = append(text, "held for "+span(s.Held))
	}
	if s.Waiters > 0 {
		text = append(text, strconv.Itoa(s.Waiters)+" waiting")
	}
	if s.Lost > 0 {
		text = append(text, strconv.Itoa(s.Lost)+" lost")
	}
	return strings.Join(text, ", ")
}

// chartText says in sentences what the chart shows.
func chartText(sum sampler.Step, mostWaiters int, lastLost time.Time) string {
	text := "It was held for " + span(sum.Held) + " in the last 24 hours"
	if sum.Held == 0 {
		text = "It was not seen held in the last 24 hours"
	}
	if mostWaiters > 0 {
		text += "; at most " + count(mostWaiters, "caller", "callers") + " waited"
	}
	if sum.Lost > 0 {
		text += "; " + count(sum.Lost, "hold was", "holds were") + " lost, the last one at about " + lastLost.UTC().Format("15:04") + " UTC"
	}
	if unwatched := 24*time.Hour - sampler.DayStep - sum.Watched; unwatched > sampler.DayStep {
		text += ". This page did not watch it for " + span(unwatched.Round(time.Minute)) + " of them, and knows only the recorded runs of that time"
	}
	return text + "."
}
