//go:build linux

package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/benchtest"
	"github.com/padlock-go/padlock/lab/bench/measure"
)

// tiny shows that every step works; its figures of time mean nothing.
var tiny = plan{
	holds: 300, ttl: 12 * time.Second, processes: 3, waited: 300 * time.Millisecond,
	lockers: 2, names: 6, trial: 300 * time.Millisecond, patience: time.Minute,
}

// TestHolds takes holds on every server and restarts it. Where the data outlive a restart no hold
// is lost, and where they do not every hold is lost. All of that is in the figures.
func TestHolds(t *testing.T) {
	server.Needs(t, "redis", "postgres")
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			f, err := (&bench{plan: tiny, progress: io.Discard}).holdMany(e)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range (&bench{plan: tiny, progress: io.Discard}).experiments()[:3] {
				for _, c := range x.Columns {
					if _, ok := f[c]; !ok && !(e.name == advisoryRow && mayLack(c)) {
						t.Errorf("there is no figure for %q", c)
					}
				}
			}
			holds := float64(tiny.holds / e.part)
			kept, lost := holds, 0.0
			if !e.keeps {
				kept, lost = 0, holds
			}
			if f["holds"] != holds || f["lost"] != 0 || f["kept"] != kept || f["lost by it"] != lost {
				t.Errorf("of %v holds, %v were lost before the restart; it kept %v and lost %v, want %v and %v",
					f["holds"], f["lost"], f["kept"], f["lost by it"], kept, lost)
			}
			if renewed := f["renewals/s"] > 0; renewed == (e.name == advisoryRow) {
				t.Errorf("%v renewals a second", f["renewals/s"])
			}
		})
	}
}

// mayLack reports whether a figure is about renewals.
func mayLack(column string) bool {
	return strings.HasSuffix(column, " us") || strings.HasSuffix(column, " carries")
}

// TestContended runs the tables of waiting processes and of hand-overs.
func TestContended(t *testing.T) {
	server.Needs(t, "redis")
	t.Parallel()
	text, err := benchtest.Output(&benchmark, tiny, measure.Run{Only: "processes", Rows: "^Redis"})
	if err != nil {
		t.Fatal(err)
	}
	for row, tables := range map[string]int{redisRow: 3, clusterRow: 2} {
		if n := strings.Count(text, "\n| "+row+" "); n != tables {
			t.Errorf("%d tables have the row %q, want %d", n, row, tables)
		}
	}
	if strings.Contains(text, "FAILED") {
		t.Errorf("a row failed:\n%s", text)
	}
}

// TestClusterSharesTheNames: each of the three primaries gets the requests for a third of the
// names.
func TestClusterSharesTheNames(t *testing.T) {
	server.Needs(t, "redis")
	t.Parallel()
	h := &server.Host{}
	t.Cleanup(h.End)
	r, err := startCluster(h, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{plan: tiny, progress: io.Discard}
	all, err := b.openProcesses(r, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer all.close()
	names, err := r.pickNames(30)
	if err != nil || len(names) != 30 {
		t.Fatalf("%d names: %v", len(names), err)
	}
	before := requestsOfEach(t, r)
	for _, name := range names {
		if err := all[0].Do(t.Context(), name, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range requestsOfEach(t, r) {
		if n-before[i] < 20 {
			t.Errorf("primary %d got %v requests, want 20: 10 names taken and released", i, n-before[i])
		}
	}
}

func requestsOfEach(t *testing.T, r *rig) (all []float64) {
	for _, s := range r.servers {
		one := &rig{servers: []*server.Server{s}}
		one.setFunctions()
		n, err := one.requests()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}
