//go:build linux

package main

import (
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/benchtest"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// The trials start this binary again as their processes.
func TestMain(m *testing.M) {
	trial.PlayChild(play)
	os.Exit(m.Run())
}

// short is a plan for a test that all still works. The times that it measures mean nothing, but the
// counts are valid.
var short = plan{
	processes: 4, callers: 50, takes: 50 * time.Millisecond,
	rate: 50, lasts: 1500 * time.Millisecond, ttl: 300 * time.Millisecond, slow: 2500 * time.Millisecond, killAfter: 50 * time.Millisecond,
}

// counts returns the bounds for how often functions may run in a case, over all processes.
func counts(name string, took time.Duration) (least, most float64) {
	switch {
	case strings.Contains(name, "calls per second"):
		return 2, float64(took/(short.ttl+short.takes)) + 1
	case strings.Contains(name, "longer than the lease"):
		// If a process learns of the value so late that it is stale again, the process makes it
		// once more.
		return 1, float64(short.processes)
	}
	return 1, 1
}

// TestRuns: values are made by one process at a time, and as often as necessary. No caller gets an
// error unless the function fails, even if a process dies.
func TestRuns(t *testing.T) {
	t.Parallel()
	b := &bench{plan: short, redis: startRedis(t)}
	for _, e := range b.experiments() {
		e.Choose(regexp.MustCompile("^padlock"))
		t.Run(e.Name, func(t *testing.T) {
			start := time.Now()
			r := e.Run(1, io.Discard)
			least, most := counts(e.Name, time.Since(start))
			for _, row := range e.Rows {
				if err, failed := r.Errors[row.Name]; failed {
					t.Errorf("%s: %v", row.Name, err)
					continue
				}
				f, errors := r.Trials[row.Name][0], 0.0
				if strings.Contains(e.Name, "fails after") {
					errors = float64(short.processes * short.callers)
				}
				if f["errors"] != errors || f["at once"] != 1 || f["runs"] < least || f["runs"] > most {
					t.Errorf("%s: %v, want %v to %v runs", row.Name, f, least, most)
				}
			}
		})
	}
}

// TestPeers shows that the rows of the other libraries still work.
func TestPeers(t *testing.T) {
	t.Parallel()
	b := &bench{plan: short, redis: startRedis(t)}
	b.plan.ttl = time.Second // go-redis/cache has no shorter TTL
	for _, e := range []*measure.Experiment{b.cold(), b.steady()} {
		e.Choose(regexp.MustCompile("^[^p]"))
		r := e.Run(1, io.Discard)
		for _, row := range e.Rows {
			if f := r.Trials[row.Name][0]; r.Errors[row.Name] != "" || f["runs"] < 1 || f["errors"] != 0 {
				t.Errorf("%s, %s: %v, %v", e.Name, row.Name, f, r.Errors[row.Name])
			}
		}
		if len(e.Rows) != 4 || len(e.Targets) != 0 {
			t.Errorf("%d rows, targets %v", len(e.Rows), e.Targets)
		}
	}
}

func TestPrinted(t *testing.T) {
	server.Needs(t, "redis")
	t.Parallel()
	for _, asJSON := range []bool{false, true} {
		text, err := benchtest.Output(&benchmark, short, measure.Run{Rounds: 1, Only: "^200 callers", Rows: "^padlock$", JSON: asJSON})
		if err != nil {
			t.Fatal(err)
		}
		if asJSON && !allJSON(text) || !asJSON && !strings.Contains(text, "runs 1 ≤ 1 met") {
			t.Error(text)
		}
	}
}

// allJSON reports whether each line is an object, one for each experiment.
func allJSON(text string) bool {
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if !json.Valid([]byte(line)) {
			return false
		}
	}
	return true
}
