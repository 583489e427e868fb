//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/host"
	"github.com/padlock-go/padlock/lab/bench/measure"
)

// The trials start this binary again as their processes.
func TestMain(m *testing.M) {
	playChild()
	os.Exit(m.Run())
}

// short is a plan for a test that all still works. The times that it measures mean nothing, but the
// counts are valid.
var short = plan{
	rounds: 1, processes: 4, callers: 50, takes: 50 * time.Millisecond,
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
	b := &bench{plan: short, redis: startRedis(t), rows: regexp.MustCompile("^padlock")}
	for _, e := range b.experiments() {
		t.Run(e.Name, func(t *testing.T) {
			start := time.Now()
			r := e.Run(1, io.Discard)
			least, most := counts(e.Name, time.Since(start))
			for _, row := range e.Rows {
				if err := r.Errors[row.Name]; err != nil {
					t.Errorf("%s: %v", row.Name, err)
					continue
				}
				f := r.Trials[row.Name][0]
				errors := 0.0
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
	b := &bench{plan: short, redis: startRedis(t), rows: regexp.MustCompile("^[^p]")}
	b.plan.ttl = time.Second // go-redis/cache has no shorter TTL
	for _, e := range []*measure.Experiment{b.cold(), b.steady()} {
		r := e.Run(1, io.Discard)
		for _, row := range e.Rows {
			if f := r.Trials[row.Name][0]; r.Errors[row.Name] != nil || f["runs"] < 1 || f["errors"] != 0 {
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
	var out bytes.Buffer
	h := &host.Host{}
	defer h.End()
	if err := run(h, short, &out, io.Discard, "^200 callers", "^padlock$", false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "runs 1 ≤ 1 met") {
		t.Error(out.String())
	}
	out.Reset()
	if err := run(h, short, &out, io.Discard, "^200 callers", "^padlock$", true); err != nil {
		t.Error(err)
	}
	experiments := 0
	for d := json.NewDecoder(bytes.NewReader(out.Bytes())); ; experiments++ { // one object for each
		var e map[string]any
		if err := d.Decode(&e); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in %s", err, out.String())
		}
	}
	if experiments == 0 {
		t.Error("nothing was printed")
	}
	if err := run(h, short, io.Discard, io.Discard, "", "(", false); err == nil {
		t.Error("a broken pattern is no error")
	}
}
