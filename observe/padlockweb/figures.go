package padlockweb

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/padlock-go/padlock/internal/printable"
	"github.com/padlock-go/padlock/internal/promtext"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/sampler"
)

// showFigures answers with figures in the text format of Prometheus.
func (w *Web) showFigures(rw http.ResponseWriter, r *http.Request, v *visitor) {
	var out bytes.Buffer
	s := w.snapshot(r.Context())
	f := &figures{&out, promtext.Label("store", s.Store)}
	f.ofStore(s)
	promtext.BuildInfo(&out)
	if v.prefix == "" {
		f.ofGroups(s.Groups)
		f.counters(s.Groups)
	} else {
		f.ofGroups(groupsOf(rows(s, v, query{Kind: "table"})))
	}
	if w.history != nil {
		jobs, err := w.jobs(r.Context(), s, v, query{})
		complete := 1.0
		if err != nil {
			complete = 0
			w.logger.Warn("the history could not be read", "error", err.Error())
		}
		f.head("padlock_history_complete", "gauge", "1 if all recorded runs could be read.")
		f.line("padlock_history_complete", "", complete)
		_ = history.WriteMetrics(&out, jobs) // a buffer takes everything
	}
	rw.Header().Set("Content-Type", promtext.ContentType)
	rw.Write(out.Bytes())
}

// figures writes figures of one store.
type figures struct {
	out   *bytes.Buffer
	store string // the label
}

func (f *figures) head(name, kind, help string) { promtext.Head(f.out, name, kind, help) }

func (f *figures) line(name, labels string, value float64) {
	if labels != "" {
		labels = "," + labels
	}
	fmt.Fprintf(f.out, "%s{%s%s} %s\n", name, f.store, labels, promtext.Number(value))
}

// groupLabel returns the label of a group. Two groups whose names are not UTF-8 get different
// labels, because two lines with the same labels would make the whole page invalid.
func groupLabel(group string) string { return promtext.Label("group", printable.Name(group)) }

func (f *figures) ofStore(s *sampler.Snapshot) {
	f.head("padlock_store_up", "gauge", "1 if the store could be read at the last attempt.")
	f.line("padlock_store_up", "", truth(s.Err == nil && !s.Taken.IsZero()))
	f.head("padlock_store_complete", "gauge", "1 if the store knows all of its locks.")
	f.line("padlock_store_complete", "", truth(s.Incomplete == nil && !s.Taken.IsZero()))
	if !s.Taken.IsZero() {
		f.head("padlock_sample_timestamp_seconds", "gauge", "When the store was last read, in seconds since 1970.")
		f.line("padlock_sample_timestamp_seconds", "", float64(s.Taken.UnixMilli())/1000)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// each writes a figure of each group.
func (f *figures) each(groups []sampler.Group, name, kind, help string, of func(g *sampler.Group) float64) {
	f.head(name, kind, help)
	for i := range groups {
		f.line(name, groupLabel(groups[i].Group), of(&groups[i]))
	}
}

func (f *figures) ofGroups(groups []sampler.Group) {
	f.each(groups, "padlock_sampled_names", "gauge", "Names that are held, cool down or have waiters.", func(g *sampler.Group) float64 { return float64(g.Names) })
	f.each(groups, "padlock_sampled_holds", "gauge", "Holds of all programs.", func(g *sampler.Group) float64 { return float64(g.Holds) })
	f.each(groups, "padlock_sampled_waiters", "gauge", "Callers that wait, where the store knows it.", func(g *sampler.Group) float64 { return float64(g.Waiters) })
	f.each(groups, "padlock_sampled_stuck_names", "gauge", "Names that need attention.", func(g *sampler.Group) float64 { return float64(g.Stuck) })
}

// counters writes what the sampler counts for each group. A group may contain names that a visitor
// with a prefix must not see.
func (f *figures) counters(groups []sampler.Group) {
	f.each(groups, "padlock_sampled_wait_seconds_total", "counter", "Waiters multiplied by time.", func(g *sampler.Group) float64 { return g.WaitTime.Seconds() })
	f.each(groups, "padlock_sampled_grants_total", "counter", "Holds that began; short ones between two samples are not seen.", func(g *sampler.Group) float64 { return float64(g.Grants) })
	f.each(groups, "padlock_sampled_missed_renewals_total", "counter", "Renewals that did not come in time.", func(g *sampler.Group) float64 { return float64(g.Missed) })
	f.each(groups, "padlock_sampled_expired_total", "counter", "Holds that ran out without a release.", func(g *sampler.Group) float64 { return float64(g.Expired) })
	const usual = "padlock_sampled_hold_seconds"
	f.head(usual, "summary", "How long holds lasted, of those that were seen to end.")
	for _, g := range groups {
		label := groupLabel(g.Group)
		if g.Usual.Count > 0 {
			f.line(usual, label+`,quantile="0.5"`, g.Usual.P50.Seconds())
			f.line(usual, label+`,quantile="0.95"`, g.Usual.P95.Seconds())
			f.line(usual, label+`,quantile="0.99"`, g.Usual.P99.Seconds())
		}
		f.line(usual+"_count", label, float64(g.Usual.Count))
	}
}

// groupsOf returns the groups of the rows, for a visitor who may see only these.
func groupsOf(visible []row) (groups []sampler.Group) {
	byName := map[string][]row{}
	for _, r := range visible {
		byName[r.Group] = append(byName[r.Group], r)
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		t := sum(byName[name])
		groups = append(groups, sampler.Group{Group: name, Names: t.Names, Holds: t.Holds, Waiters: t.Waiters, Stuck: t.Stuck})
	}
	return groups
}
