package metrics

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/promtext"
)

// ServeHTTP shows the figures in the text format of Prometheus, version 0.0.4.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the method is not allowed", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", promtext.ContentType)
	if r.Method == http.MethodGet {
		m.WriteTo(w)
	}
}

// WriteTo writes what ServeHTTP shows.
func (m *Metrics) WriteTo(w io.Writer) (int64, error) {
	p := &page{w: new(bytes.Buffer)}
	m.write(p)
	return p.w.WriteTo(w)
}

// row has the figures of one group of a store, and its labels.
type row struct {
	labels string
	*series
}

// rows returns one row for each group, sorted by store and group.
func (m *Metrics) rows() []row {
	m.mu.RLock()
	defer m.mu.RUnlock()
	places := slices.SortedFunc(maps.Keys(m.all), func(a, b place) int {
		return cmp.Or(strings.Compare(a.store, b.store), strings.Compare(a.group, b.group))
	})
	var all []row
	for _, p := range places {
		all = append(all, row{promtext.Label("store", p.store) + "," + promtext.Label("group", p.group), m.all[p]})
	}
	return all
}

func (m *Metrics) write(p *page) {
	rows := m.rows()
	p.histograms(rows, "padlock_lock_wait_seconds", "How long acquires took, by mode and outcome.", func(s *series) histograms { return byOutcome(&s.wait) })
	p.histograms(rows, "padlock_lock_use_seconds", "How long locks were held, by mode and outcome.", func(s *series) histograms { return byOutcome(&s.use) })
	p.gauge(rows, "padlock_locks", "Locks that are held now.", (*series).heldNow)
	p.gauge(rows, "padlock_lock_pending_requests", "Acquires that are under way now.", func(s *series) int64 { return s.pending.Load() })
	p.counter(rows, "padlock_lock_contended_total", "Acquires that found the name held.", func(s *series) []figure { return []figure{{"", s.contended.Load()}} })
	p.counter(rows, "padlock_lock_hand_overs_total", "Locks that came directly from the previous holder.", func(s *series) (all []figure) {
		for way := 1; way < handOvers; way++ {
			all = append(all, figure{"," + promtext.Label("way", padlock.HandOver(way).String()), s.handedOver[way].Load()})
		}
		return all
	})
	p.counter(rows, "padlock_lock_lost_total", "Locks that ended under their holder.", func(s *series) (all []figure) {
		for _, reason := range lossReasons {
			all = append(all, figure{"," + promtext.Label("reason", reason.String()), s.lost[reason].Load()})
		}
		return all
	})
	p.counter(rows, "padlock_lock_forgotten_total", "Locks that the program dropped without Release.", func(s *series) []figure { return []figure{{"", s.forgotten.Load()}} })
	p.histograms(rows, "padlock_lock_renewal_slack_seconds", "Rest of the lease when a renewal was confirmed.", func(s *series) histograms { return histograms{{"", &s.slack}} })
	p.counter(rows, "padlock_lock_renewal_failures_total", "Renewals that were not confirmed.", func(s *series) []figure { return []figure{{"", s.failed.Load()}} })
	p.histograms(rows, "padlock_store_operation_seconds", "How long requests to the store took.", func(s *series) histograms {
		return histograms{{promtext.Label("operation", "renew"), &s.renewal}}
	})
	p.counter(rows, "padlock_store_uncertain_total", "Requests without a reply.", func(s *series) []figure { return []figure{{"", s.unsure.Load()}} })
	p.counter(rows, "padlock_store_cleanups_total", "Ends of clean-ups after requests without a reply.", func(s *series) []figure {
		return []figure{{",outcome=\"cleaned\"", s.cleaned.Load()}, {",outcome=\"dropped\"", s.dropped.Load()}}
	})
	m.writeElections(p)
	m.writeCaches(p)
	promtext.BuildInfo(p.w)
}

// lossReasons are the outcomes of EventLost.
var lossReasons = []padlock.Outcome{padlock.OutcomeLost, padlock.OutcomeExpired}

func (m *Metrics) writeElections(p *page) {
	m.mu.RLock()
	elections := maps.Clone(m.elections)
	m.mu.RUnlock()
	p.head("padlock_election_leading", "gauge", "1 if this process leads.")
	for _, name := range slices.Sorted(maps.Keys(elections)) {
		leads := 0
		if elections[name].Leads() {
			leads = 1
		}
		fmt.Fprintf(p.w, "padlock_election_leading{%s} %d\n", promtext.Label("election", name), leads)
	}
}

// writeCaches asks each Cache once, so that its figures belong together.
func (m *Metrics) writeCaches(p *page) {
	m.mu.RLock()
	type stats struct{ hits, stale, misses, runs, errors uint64 }
	all := make(map[string]stats)
	for name, c := range m.caches {
		var s stats
		s.hits, s.stale, s.misses, s.runs, s.errors = c.Figures()
		all[name] = s
	}
	m.mu.RUnlock()
	for _, metric := range []struct {
		name, help string
		figures    func(stats) []figure
	}{
		{"padlock_stampede_gets_total", "Calls of Get, by their result.", func(s stats) []figure {
			return []figure{{",result=\"hit\"", s.hits}, {",result=\"stale\"", s.stale}, {",result=\"miss\"", s.misses}}
		}},
		{"padlock_stampede_runs_total", "Calls of the function that makes a value.", func(s stats) []figure { return []figure{{"", s.runs}} }},
		{"padlock_stampede_errors_total", "Calls of the function that failed.", func(s stats) []figure { return []figure{{"", s.errors}} }},
	} {
		p.head(metric.name, "counter", metric.help)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			for _, f := range metric.figures(all[name]) {
				fmt.Fprintf(p.w, "%s{%s%s} %d\n", metric.name, promtext.Label("cache", name), f.labels, f.n)
			}
		}
	}
}

// figure is a counter with the labels that follow those of its row, or the name of its Cache.
type figure struct {
	labels string
	n      uint64
}

// page collects what WriteTo writes.
type page struct{ w *bytes.Buffer }

func (p *page) head(name, kind, help string) {
	promtext.Head(p.w, name, kind, help)
}

func (p *page) gauge(rows []row, name, help string, of func(*series) int64) {
	p.head(name, "gauge", help)
	for _, r := range rows {
		fmt.Fprintf(p.w, "%s{%s} %d\n", name, r.labels, of(r.series))
	}
}

func (p *page) counter(rows []row, name, help string, of func(*series) []figure) {
	p.head(name, "counter", help)
	for _, r := range rows {
		for _, f := range of(r.series) {
			fmt.Fprintf(p.w, "%s{%s%s} %d\n", name, r.labels, f.labels, f.n)
		}
	}
}

// histograms is a list of histograms of one row. All of them have the labels of the row, and each
// of them has further labels of its own.
type histograms []struct {
	labels string
	h      *histogram
}

// byOutcome returns the histograms that have been used.
func byOutcome(all *[modes][outcomes]atomic.Pointer[histogram]) (used histograms) {
	for mode := range all {
		for outcome := range all[mode] {
			if h := all[mode][outcome].Load(); h != nil {
				labels := promtext.Label("mode", padlock.Mode(mode).String()) + "," + promtext.Label("outcome", padlock.Outcome(outcome).String())
				used = append(used, struct {
					labels string
					h      *histogram
				}{labels, h})
			}
		}
	}
	return used
}

func (p *page) histograms(rows []row, name, help string, of func(*series) histograms) {
	p.head(name, "histogram", help)
	for _, r := range rows {
		for _, h := range of(r.series) {
			labels := r.labels
			if h.labels != "" {
				labels += "," + h.labels
			}
			p.histogram(name, labels, h.h)
		}
	}
}

// histogram writes one histogram.
func (p *page) histogram(name, labels string, h *histogram) {
	n := uint64(0)
	counts, sum := h.read()
	for i, k := range counts {
		n += k
		le := "+Inf"
		if i < len(bounds) {
			le = seconds(bounds[i])
		}
		fmt.Fprintf(p.w, "%s_bucket{%s,le=\"%s\"} %d\n", name, labels, le, n)
	}
	fmt.Fprintf(p.w, "%s_sum{%s} %s\n%s_count{%s} %d\n", name, labels, seconds(sum), name, labels, n)
}

func seconds(d time.Duration) string { return promtext.Number(d.Seconds()) }
