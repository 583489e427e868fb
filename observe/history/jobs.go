package history

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// Filter chooses starts. The zero Filter chooses all.
type Filter struct {
	Failed bool      // only those whose run failed, see Start.Failed
	Since  time.Time // only those whose run began, or was skipped, then or later
	Host   string    // only those that were on this host
}

// Matches reports whether the filter chooses the start.
func (f *Filter) Matches(s *Start) bool {
	return (!f.Failed || s.Failed()) && !s.Last().Start.Before(f.Since) && (f.Host == "" || s.isOn(f.Host))
}

// Level says in one word how a job is.
type Level string

// The levels. Each job has the first one that is true.
const (
	LevelFailed  Level = "failed"  // the last run failed, or was killed together with padlock
	LevelOverdue Level = "overdue" // the job has not run for longer than usual
	LevelSlow    Level = "slow"    // the last run takes, or took, much longer than usual
	LevelRunning Level = "running" // the last run holds the lock
	LevelSkipped Level = "skipped" // every run that is known was skipped
	LevelGood    Level = "ok"      // the last run was a success
)

// order is the order of the levels in a list of jobs.
var order = []Level{LevelFailed, LevelOverdue, LevelSlow}

// NeedsAttention reports whether somebody should look at a job of this level.
func (l Level) NeedsAttention() bool { return slices.Contains(order, l) }

func (l Level) rank() int {
	if i := slices.Index(order, l); i >= 0 {
		return i
	}
	return len(order)
}

// Job is a name with its latest news. Level and the Summary are about all of its runs, whatever the
// filter chose.
type Job struct {
	Summary
	Level Level
	Start Start         // the newest one that the filter chose
	Usual time.Duration // median of the successful runs before Start; 0 if there are none
	Due   time.Time     // when the next start is due at the latest; zero if that is not known
}

// A run is slow if it takes longer than slowFactor times the usual duration, and longer than that
// by slowAtLeast.
const (
	slowFactor  = 3
	slowAtLeast = 10 * time.Second
)

// IsSlow reports whether the run of the job's start takes, or took, much longer than usual.
func (j *Job) IsSlow(now time.Time) bool {
	if j.Start.Run == nil || j.Usual == 0 {
		return false
	}
	took := j.Start.Run.Duration()
	if j.Start.Run.Outcome() == Running {
		took = now.Sub(j.Start.Run.Start)
	}
	return took > slowFactor*j.Usual && took > j.Usual+slowAtLeast
}

// Jobs returns the names that begin with prefix and have a start that the filter chooses. The jobs
// that need attention come first, then those that were started last.
//
// With Filter.Failed, Jobs returns the names whose last run failed, and those that are overdue. If
// Filter.Since is also set, it returns those with any failed run since then.
//
// Jobs calls mark for the runs of each name. mark calls AskRunning, or MarkRunning if the state of
// the lock is known. Without it, a job that is running looks like one that was killed. If mark
// fails, or the directory or the store cannot be read, Jobs returns an error and the jobs that it
// could read. It knows the 1,000 names for which something was recorded last, in the directory and in
// the store each, and reads the histories of all of them, so a web page that is requested often
// should keep the result for some seconds.
func (l *Log) Jobs(ctx context.Context, prefix string, f Filter, mark func(name string, runs []Run) error) ([]Job, error) {
	all, err := l.readAll(ctx, prefix)
	var jobs []Job
	for _, name := range slices.Sorted(maps.Keys(all)) {
		runs := all[name]
		if ctx.Err() != nil {
			err = cmp.Or(err, ctx.Err()) // the directory and mark may have used up the time without an error
			break
		}
		if mark != nil {
			if problem := mark(name, runs); problem != nil {
				err = problem
			}
		}
		if j, ok := newJob(summarize(name, l.place, runs), runs, &f, time.Now()); ok {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b Job) int {
		return cmp.Or(cmp.Compare(a.Level.rank(), b.Level.rank()), b.Start.At.Compare(a.Start.At), strings.Compare(a.Name, b.Name))
	})
	return jobs, err
}

// newJob describes a name by its records, the newest first. It returns false if the filter chooses
// no start.
func newJob(s Summary, records []Run, f *Filter, now time.Time) (Job, bool) {
	j := Job{Summary: s}
	starts := Starts(latest(records))
	if len(starts) == 0 {
		return j, false
	}
	lastRun := 0
	for lastRun < len(starts)-1 && starts[lastRun].Run == nil {
		lastRun++
	}
	if j.Start = starts[lastRun]; j.Start.Run == nil {
		j.Start = starts[0]
	}
	j.Due = due(starts, lastRun)
	j.Usual = Usual(starts[lastRun:])
	j.Level = j.level(now)
	chosen := j.choose(starts, lastRun, f)
	if chosen < 0 {
		return j, false
	}
	j.Start, j.Usual = starts[chosen], Usual(starts[chosen:])
	j.own()
	return j, true
}

// own copies the runs of the job. Otherwise a job that a program keeps would keep all records of
// its name in memory, which are more than ten times as many.
func (j *Job) own() {
	place := []**Run{&j.Start.Run, &j.Last, &j.LastSuccess, &j.LastFailure, &j.LastSkipped}
	j.Start.Skipped = slices.Clone(j.Start.Skipped)
	for i := range j.Start.Skipped {
		place = append(place, &j.Start.Skipped[i])
	}
	copies := map[*Run]*Run{}
	for _, p := range place {
		if *p == nil {
			continue
		}
		if copies[*p] == nil {
			own := **p
			copies[*p] = &own
		}
		*p = copies[*p]
	}
}

// choose returns the index of the start that the list shows, or -1. The argument lastRun is the
// index of the newest start with a run.
func (j *Job) choose(starts []Start, lastRun int, f *Filter) int {
	first := 0
	if f.Host == "" && f.Since.IsZero() {
		first = lastRun // the last run says more than the hosts that were skipped during it
		if starts[lastRun].Run == nil {
			first = 0
		}
	}
	anyHost := Filter{Host: f.Host}
	overdue := -1 // what the list shows if no run failed
	for i := first; i < len(starts); i++ {
		s := &starts[i]
		if f.Matches(s) {
			return i
		}
		if f.Failed && j.Level == LevelOverdue && overdue < 0 && anyHost.Matches(s) {
			overdue = i
		}
		if f.Failed && f.Since.IsZero() && s.Run != nil && anyHost.Matches(s) {
			break // the last run did not fail
		}
	}
	return overdue
}

// level judges the job by its last run.
func (j *Job) level(now time.Time) Level {
	isRunning := j.Start.Run != nil && j.Start.Run.Outcome() == Running
	switch {
	case j.Start.Failed():
		return LevelFailed
	case !isRunning && !j.Due.IsZero() && now.After(j.Due):
		return LevelOverdue
	case j.IsSlow(now):
		return LevelSlow
	case isRunning:
		return LevelRunning
	case j.Start.Run == nil:
		return LevelSkipped
	}
	return LevelGood
}

// Usual returns the median duration of the successful runs before the first of the starts, or 0 if
// there are none.
func Usual(starts []Start) time.Duration {
	var all []time.Duration
	for i := range starts {
		if r := starts[i].Run; i > 0 && r != nil && r.Outcome() == Success {
			all = append(all, r.Duration())
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// A job is regular if at least regularGaps times between two of its starts are known, and if their
// 90th percentile is at most regularFactor times their median. So a job that runs on five days of
// the week is regular, and a command that people start by hand usually is not.
const (
	regularGaps   = 4
	regularFactor = 4
)

// due returns when the next start of a regular job is due at the latest: after the 90th percentile
// of the times between its starts, and a tenth of it, and a minute. The time begins at the newest
// start with a run, which is the one with the index lastRun, or at a later one that was skipped
// while that run was under way. Other skipped starts do not count: a job that is always skipped
// does not run.
func due(starts []Start, lastRun int) time.Time {
	var gaps []time.Duration
	for i := range starts[:len(starts)-1] {
		gaps = append(gaps, starts[i].At.Sub(starts[i+1].At))
	}
	if len(gaps) < regularGaps {
		return time.Time{}
	}
	slices.Sort(gaps)
	long := gaps[(9*len(gaps)+9)/10-1]
	if long > regularFactor*gaps[len(gaps)/2] {
		return time.Time{}
	}
	last := lastRun
	for run := starts[lastRun].Run; last > 0 && (run == nil || run.Outcome() == Running || starts[last-1].At.Before(run.End)); {
		last--
	}
	return starts[last].At.Add(long + long/10 + time.Minute)
}
