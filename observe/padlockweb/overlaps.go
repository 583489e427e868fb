package padlockweb

import (
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/printable"
	"github.com/padlock-go/padlock/observe/history"
)

// timeline is a picture of the recorded runs of a name, with a lane for each host. The server draws it
// as SVG. Times are those of the store's clock, so that the clocks of the hosts make no overlap.
type timeline struct {
	Lanes    []lane
	Height   int
	From, To time.Time
	Text     string // says the same as the picture
}

// lane has the runs of one host.
type lane struct {
	Host string
	Y    int
	Bars []bar
}

// bar is a run, in thousandths of the width of the picture.
type bar struct {
	X, Width int
	Title    string
	Two      bool // another run worked at the same time
}

const (
	laneHeight = 20
	maxLanes   = 8
)

// newTimeline draws the runs of a name, or returns nil if there are not two to compare.
func newTimeline(past []history.Run) *timeline {
	found := history.CheckOverlaps(past)
	if len(found.Placed) < 2 {
		return nil
	}
	t := &timeline{From: found.Placed[0].From, To: found.Placed[0].To}
	for _, p := range found.Placed {
		if p.From.Before(t.From) {
			t.From = p.From
		}
		if p.To.After(t.To) {
			t.To = p.To
		}
	}
	two := map[*history.Run]bool{}
	for _, o := range found.Overlaps {
		two[o.First], two[o.Second] = true, true
	}
	whole := max(t.To.Sub(t.From), time.Millisecond)
	for _, p := range found.Placed {
		i := slices.IndexFunc(t.Lanes, func(l lane) bool { return l.Host == p.Host })
		if i < 0 && len(t.Lanes) == maxLanes {
			continue
		}
		if i < 0 {
			i = len(t.Lanes)
			t.Lanes = append(t.Lanes, lane{Host: p.Host, Y: i * laneHeight})
		}
		x := int(1000 * p.From.Sub(t.From) / whole)
		title := printable.Name(p.Host) + ", " + p.From.UTC().Format("2006-01-02 15:04:05") + " UTC, for " + span(p.Duration())
		t.Lanes[i].Bars = append(t.Lanes[i].Bars, bar{x, max(2, int(1000*p.To.Sub(p.From)/whole)), title, two[p.Run]})
	}
	t.Height = len(t.Lanes) * laneHeight
	t.Text = overlapsText(&found)
	return t
}

// overlapsText says in sentences what the picture shows.
func overlapsText(found *history.Afterwards) string {
	if len(found.Overlaps) == 0 {
		return "Of " + count(found.Runs, "recorded run", "recorded runs") + ", no two worked at once."
	}
	text := count(len(found.Overlaps), "time two worked at once", "times two worked at once") + ": "
	var times []string
	for _, o := range found.Overlaps[:min(len(found.Overlaps), 3)] {
		one := o.From.UTC().Format("2006-01-02 15:04:05") + " UTC for " + span(o.To.Sub(o.From)) + ", " + holderName(o.Second.Host, o.Second.PID, false) + " beside " + holderName(o.First.Host, o.First.PID, false)
		if o.ByClocks {
			one += " (by the clocks of the hosts alone)"
		}
		times = append(times, one)
	}
	return text + strings.Join(times, "; ") + ". padlock history --overlaps has all."
}
