package padlockweb

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/printable"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/sampler"
)

// jobRow is a job as the page of jobs shows it.
type jobRow struct {
	*history.Job
	Key   string // identifies the row on the page
	Title string // the name, safe to show
	Link  string // to the page of the name
	State string // the level of the job, or "stuck" if its lock is
	Why   string // why the lock is stuck
	Run   run    // the newest start that the filter chose
	Usual string
	Slow  bool
	Due   time.Time
	Held  []sampler.Hold // who holds the name now
}

// jobs returns the jobs of the names that the visitor sees. It reads the histories for one filter
// at a time, because there are as many filters as visitors can think of.
func (w *Web) jobs(ctx context.Context, s *sampler.Snapshot, v *visitor, q query) ([]history.Job, error) {
	since, _ := time.ParseDuration(q.Since) // 0 for any time
	key := jobsKey{v.prefix, since, q.Failed}
	if l := w.keptJobs.get(key); l != nil {
		return l.jobs, l.err
	}
	select {
	case w.readingJobs <- struct{}{}:
		defer func() { <-w.readingJobs }()
	case <-time.After(runsPatience):
		return nil, errors.New("other visitors ask for too many other lists of jobs")
	}
	l := w.keptJobs.get(key) // another visitor may have read it meanwhile
	if l == nil {
		l = w.readJobs(ctx, s, key)
		w.keptJobs.put(key, l)
	}
	return l.jobs, l.err
}

func (w *Web) readJobs(ctx context.Context, s *sampler.Snapshot, key jobsKey) *jobList {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), runsPatience)
	defer cancel()
	f := history.Filter{Failed: key.failed}
	if key.since > 0 {
		f.Since = time.Now().Add(-key.since)
	}
	ask := w.locker.Inspect
	if s.Err != nil { // the store does not answer
		ask = func(context.Context, string) (padlock.State, error) { return padlock.State{}, s.Err }
	}
	jobs, err := w.history.Jobs(ctx, key.prefix, f, func(_ string, runs []history.Run) error {
		return history.AskRunning(ctx, runs, ask)
	})
	return &jobList{jobs: jobs, err: err}
}

// addJobs adds the content of the page of jobs.
func (w *Web) addJobs(ctx context.Context, s *sampler.Snapshot, v *visitor, c *content) {
	if w.history == nil { // a stream of a page that does not exist
		return
	}
	jobs, err := w.jobs(ctx, s, v, c.Query)
	if err != nil {
		c.NoRuns = "There may be more jobs than these, and some may be running: " + printable.Name(v.reason(err, "the history cannot be read"))
	}
	held := byName(s)
	var look, rest []jobRow
	running := 0
	for i := range jobs {
		row := newJobRow(&jobs[i], c.Query, held[jobs[i].Name])
		if !row.matches(c.Query.Filter) {
			continue
		}
		if row.Run.Outcome == history.Running {
			running++
		}
		if row.Level.NeedsAttention() || row.Why != "" {
			look = append(look, row)
		} else {
			rest = append(rest, row)
		}
	}
	c.Jobs = append(look, rest...)
	c.OneSummary = count(len(c.Jobs), "job", "jobs") + ", " + count(len(look), "needs a look", "need a look") + ", " + count(running, "is running", "are running") + "."
	c.More = max(0, len(c.Jobs)-maxRows)
	c.Jobs = c.Jobs[:min(len(c.Jobs), maxRows)]
	c.Nothing = "No job has a run that the filter chooses."
	if c.Query.isPlain() {
		c.Nothing = "No runs are recorded. padlock run --record records them."
	}
}

func newJobRow(j *history.Job, q query, now *sampler.Name) jobRow {
	row := jobRow{
		Job: j, Key: "j" + rowKey(j.Name), Title: printable.Name(j.Name), Link: q.nameLink(j.Name),
		State: string(j.Level), Run: newRun(&j.Start), Slow: j.IsSlow(time.Now()),
	}
	if j.Usual > 0 {
		row.Usual = span(j.Usual)
	}
	if j.Level == history.LevelOverdue {
		row.Due = j.Due
	}
	if now != nil {
		row.Held, row.Why = now.Holds, stuckFor(now)
		if row.Why != "" && !j.Level.NeedsAttention() {
			row.State = "stuck"
		}
	}
	return row
}

// matches reports whether the row contains the text of the filter.
func (r *jobRow) matches(filter string) bool {
	text := strings.ToLower(filter)
	for _, s := range []string{r.Title, string(r.Level), r.State, string(r.Run.Outcome), r.Run.Host, r.Run.Detail, r.Run.Also} {
		if strings.Contains(strings.ToLower(s), text) {
			return true
		}
	}
	return false
}

// choice is a link that changes a filter of the page of jobs.
type choice struct {
	Title, Link string
	Current     bool
}

// choose returns the choice that leads to the query to.
func (q query) choose(title string, to query) choice { return choice{title, to.page(), q == to} }

// Failures returns the choices of which jobs the page shows.
func (q query) Failures() []choice {
	all, failed := q, q
	all.Failed, failed.Failed = false, true
	return []choice{q.choose("All", all), q.choose("Failed or overdue", failed)}
}

// times are the choices of since when the page shows runs: their titles, and durations.
var times = [][2]string{{"Any time", ""}, {"12 hours", "12h"}, {"24 hours", "24h"}, {"7 days", "168h"}}

// Times returns the links to these choices.
func (q query) Times() (list []choice) {
	for _, t := range times {
		to := q
		to.Since = t[1]
		list = append(list, q.choose(t[0], to))
	}
	return list
}
