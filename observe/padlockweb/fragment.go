package padlockweb

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"strconv"
	"sync"
	"time"

	"github.com/padlock-go/padlock/internal/printable"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/sampler"
)

// drawn keeps parts of pages. All of them show the current snapshot. Many streams send the same
// part, so it is made only once.
type drawn struct {
	mu     sync.Mutex
	number uint64 // of the snapshot
	all    map[drawnKey]func() template.HTML
}

// drawnKey is everything that a part of a page depends on.
type drawnKey struct {
	query  query
	prefix string
	right  Right
	known  bool
}

// maxDrawn is how many parts are kept for one snapshot. Further parts are made again for each
// request.
const maxDrawn = 256

// fragment returns the part of a page that shows the snapshot.
func (w *Web) fragment(ctx context.Context, s *sampler.Snapshot, v *visitor, q query) template.HTML {
	once := sync.OnceValue(func() template.HTML {
		return render(q.Kind, w.liveContent(context.WithoutCancel(ctx), s, v, q))
	})
	return w.drawn.keep(s.Number, drawnKey{q, v.prefix, v.right, v.known()}, once)()
}

// keep keeps the part of a page that shows the snapshot with the given number, and returns the part
// that is kept.
func (d *drawn) keep(number uint64, key drawnKey, part func() template.HTML) func() template.HTML {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case number < d.number:
		return part
	case number > d.number || d.all == nil:
		d.number, d.all = number, make(map[drawnKey]func() template.HTML)
	}
	if kept := d.all[key]; kept != nil {
		return kept
	}
	if len(d.all) < maxDrawn {
		d.all[key] = part
	}
	return part
}

// firstPatience is how long a request waits for a sample that is not there yet.
const firstPatience = 2 * time.Second

// snapshot returns the newest snapshot. It waits for the first one, and for one that is overdue.
func (w *Web) snapshot(ctx context.Context) *sampler.Snapshot {
	s := w.sampler.Snapshot()
	if s.Number > 0 && time.Since(s.Tried) <= s.Cost.Interval {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, firstPatience)
	defer cancel()
	if next, err := w.sampler.Next(ctx, s.Number); err == nil {
		return next
	}
	return s
}

// liveContent collects the content of a page that changes by itself.
func (w *Web) liveContent(ctx context.Context, s *sampler.Snapshot, v *visitor, q query) *content {
	c := &content{Query: q, MayBreak: w.allowBreak && v.right >= RightBreak && v.known()}
	c.Taken, c.Trouble, c.Partial = s.Taken, trouble(s, v), partial(s, v)
	if v.prefix == "" { // the cost would show how many other names there are
		c.Cost = cost(s)
	}
	if q.Kind == "jobs" {
		w.addJobs(ctx, s, v, c)
		return c
	}
	c.Rows = rows(s, v, q)
	c.Totals = sum(c.Rows)
	c.More = max(0, len(c.Rows)-maxRows)
	c.Rows = c.Rows[:min(len(c.Rows), maxRows)]
	if q.Kind == "name" {
		w.addName(ctx, s, v, c)
		return c
	}
	c.Caption, c.Nothing = "Names that are held, cool down or have waiters", "Nothing is held."
	if q.Filter != "" {
		c.Caption, c.Nothing = "Names that match "+q.Filter, "Nothing that is held matches the filter."
	}
	if s.Taken.IsZero() || c.Trouble != "" && len(c.Rows) == 0 {
		c.Nothing = "It is not known what is held."
	}
	return c
}

// addName adds the content of the page of one name.
func (w *Web) addName(ctx context.Context, s *sampler.Snapshot, v *visitor, c *content) {
	if len(c.Rows) > 0 {
		c.One = &c.Rows[0]
	} else {
		one := v.newRow(w.lookUp(ctx, s, c.Query.name), c.Query)
		c.One = &one
	}
	state := string(c.One.State)
	c.OneSummary = map[string]string{
		"held": "It is held by " + count(len(c.One.Holds), "holder", "holders") + ".", "cooling": "It is cooling down.",
		"free": "It is free.", "unknown": "The store cannot tell whether it is held.",
	}[state]
	past, err := w.pastRuns(ctx, c.Query.name, c.One.Name)
	starts := history.Starts(past)
	c.Runs, c.NoRuns = v.latestRuns(starts, err)
	c.Timeline = newTimeline(past)
	if usual := history.Usual(starts); usual > 0 {
		c.UsualRun = span(usual)
	}
	c.Chart = newChart(w.sampler.Day(c.Query.name))
}

// trouble returns a warning if the page may be out of date, otherwise "".
func trouble(s *sampler.Snapshot, v *visitor) string {
	switch {
	case s.Err == nil && s.Taken.IsZero():
		return "The store has not been read yet."
	case s.Err == nil:
		return ""
	}
	reason := printable.Name(v.reason(s.Err, "a visitor who may see all names sees the reason"))
	if s.Taken.IsZero() {
		return "The store cannot be read: " + reason
	}
	return fmt.Sprintf("The store cannot be read, so this is %s old: %s", span(s.Age(time.Now())), reason)
}

// partial returns a note if the page may not show all locks, otherwise "".
func partial(s *sampler.Snapshot, v *visitor) string {
	switch {
	case errors.Is(s.Incomplete, errors.ErrUnsupported):
		return "This store cannot list its locks. The page shows only the names that were chosen to be watched; the address name?n=NAME shows any other."
	case s.Incomplete != nil:
		return "There may be more locks than these: " + printable.Name(v.reason(s.Incomplete, "a visitor who may see all names sees the reason"))
	}
	return ""
}

// cost returns a text about the work that the page causes at the store. It is empty while the store
// cannot be read.
func cost(s *sampler.Snapshot) string {
	if s.Err != nil {
		return ""
	}
	return fmt.Sprintf("One look every %s reads %s and makes %s requests a second.",
		span(s.Cost.Interval), count(s.Cost.Names, "name", "names"), strconv.FormatFloat(s.Cost.Requests, 'f', 1, 64))
}
