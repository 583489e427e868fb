package padlockweb

import (
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/observe/sampler"
)

// chart is a picture of the last 24 hours of a name. The server draws it as SVG, so it needs no
// script.
type chart struct {
	Steps []chartStep // those in which something is to be seen
	Text  string      // says the same as the picture
}

// chartStep is a part of the chart, which is sampler.DaySteps wide. Steps without news that were not
// watched are one wide part.
type chartStep struct {
	At, Width     int
	Title         string // the time, and what happened
	Unwatched     bool
	Held, Waiting int // percent of the height of a lane
	Lost          bool
}

// leastHeight is the least height of what is to be seen in a chart.
const leastHeight = 7

// newChart draws what the sampler saw.
func newChart(d sampler.Day) *chart {
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
		step := chartStep{At: i, Width: 1, Unwatched: s.Watched == 0 && s.Held == 0, Lost: s.Lost > 0}
		if s.Held > 0 {
			step.Held = max(leastHeight, int(100*s.Held/sampler.DayStep))
		}
		if s.Waiters > 0 {
			step.Waiting = max(leastHeight, 100*s.Waiters/most)
		}
		switch last := len(c.Steps) - 1; {
		case step.Unwatched && last >= 0 && c.Steps[last].Unwatched && c.Steps[last].At+c.Steps[last].Width == i && !step.Lost:
			c.Steps[last].Width++
		case step.Unwatched || step.Held > 0 || step.Waiting > 0 || step.Lost:
			step.Title = stepTitle(at, &s, step.Unwatched)
			c.Steps = append(c.Steps, step)
		}
	}
	c.Text = chartText(sum, most, lastLost)
	return c
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
	text := "This page saw it held for " + span(sum.Held) + " in the last 24 hours"
	if sum.Held == 0 {
		text = "This page did not see it held in the last 24 hours"
	}
	if mostWaiters > 0 {
		text += "; at most " + count(mostWaiters, "caller", "callers") + " waited"
	}
	if sum.Lost > 0 {
		text += "; " + count(sum.Lost, "hold was", "holds were") + " lost, the last one at about " + lastLost.UTC().Format("15:04") + " UTC"
	}
	if unwatched := 24*time.Hour - sampler.DayStep - sum.Watched; unwatched > sampler.DayStep {
		text += ", and did not watch for " + span(unwatched.Round(time.Minute)) + " of them"
	}
	return text + "."
}
