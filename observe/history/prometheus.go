package history

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/printable"
	"github.com/padlock-go/padlock/internal/promtext"
)

// MaxMetricNames is the maximum number of names that WriteMetrics writes. If there are more, it
// writes those whose last run began most recently.
const MaxMetricNames = 1000

// figures are the metrics of a summary. A metric is left out for a name that has no such run.
var figures = []struct {
	name, help string
	run        func(*Summary) *Run
	of         func(*Run) float64
}{
	{"padlock_run_last_success_timestamp_seconds", "When the last successful run of a name ended, in seconds since 1970.", func(s *Summary) *Run { return s.LastSuccess }, ended},
	{"padlock_run_last_failure_timestamp_seconds", "When the last failed run of a name ended, in seconds since 1970.", func(s *Summary) *Run { return s.LastFailure }, ended},
	{"padlock_run_last_start_timestamp_seconds", "When the last run of a name began, in seconds since 1970.", func(s *Summary) *Run { return s.Last }, started},
	{"padlock_run_last_skipped_timestamp_seconds", "When a run of a name was last skipped, in seconds since 1970.", func(s *Summary) *Run { return s.LastSkipped }, started},
	{"padlock_run_last_success_duration_seconds", "How long the last successful run of a name took.", func(s *Summary) *Run { return s.LastSuccess }, func(r *Run) float64 { return r.Duration().Seconds() }},
}

func started(r *Run) float64 { return float64(r.Start.UnixMicro()) / 1e6 }
func ended(r *Run) float64   { return float64(r.End.UnixMicro()) / 1e6 }

// WriteMetrics writes metrics of the jobs in the text format of Prometheus. For each name, they tell
// when a run last began, succeeded, failed and was skipped, and how long the last successful run
// took. The labels are the name and, if the Log has one, the place. They have escapes, such as \x1b,
// for bytes that are not printable.
func WriteMetrics(w io.Writer, jobs []Job) error {
	labels := map[*Summary]string{}
	known := map[string]bool{}
	newest := make([]*Summary, 0, len(jobs))
	for i := range jobs {
		newest = append(newest, &jobs[i].Summary)
	}
	slices.SortStableFunc(newest, func(a, b *Summary) int { return lastOf(b).Compare(lastOf(a)) })
	newest = newest[:min(len(newest), MaxMetricNames)]
	slices.SortFunc(newest, func(a, b *Summary) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range newest {
		label := promtext.Label("name", printable.Name(s.Name))
		if s.Place != "" {
			label += "," + promtext.Label("place", printable.Name(s.Place))
		}
		if known[label] {
			continue // Prometheus refuses a whole page that has the same label twice
		}
		known[label], labels[s] = true, label
	}
	out := bufio.NewWriter(w)
	for _, f := range figures {
		promtext.Head(out, f.name, "gauge", f.help)
		for _, s := range newest {
			if r := f.run(s); r != nil && labels[s] != "" {
				fmt.Fprintf(out, "%s{%s} %s\n", f.name, labels[s], strconv.FormatFloat(f.of(r), 'f', -1, 64))
			}
		}
	}
	return out.Flush()
}

func lastOf(s *Summary) (last time.Time) {
	for _, r := range []*Run{s.Last, s.LastSkipped} {
		if r != nil && r.Start.After(last) {
			last = r.Start
		}
	}
	return last
}
