//go:build linux

package main

import (
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/benchtest"
	"github.com/padlock-go/padlock/lab/bench/measure"
)

// tiny shows that all still works; its times mean nothing, its counts do.
var tiny = plan{
	requests: 20, work: 5 * time.Millisecond, spread: 100 * time.Millisecond, logouts: 3, readers: 1, workers: 6,
}

// lacks are what peers have no word for.
var lacks = regexp.MustCompile(`^(Incr kept|x work)$`)

// TestEveryRow: every stack keeps what it guarantees, and every figure is there.
func TestEveryRow(t *testing.T) {
	t.Parallel()
	stacks, err := startStacks(t, func(string) bool { return true }, tiny.workers)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{plan: tiny, stacks: stacks}
	for _, e := range b.experiments() {
		r := e.Run(1, io.Discard)
		for name, err := range r.Errors {
			t.Errorf("%s: %v", name, err)
		}
		for _, target := range r.Targets {
			if target.AtLeast != 0 && !target.Met { // a count
				t.Errorf("%s: %v", target.Row, target)
			}
		}
		for _, row := range r.Rows {
			if row != "no session" {
				checkFigures(t, r, row)
			}
		}
	}
}

func checkFigures(t *testing.T, r *measure.Record, row string) {
	for _, c := range r.Columns {
		if v := r.Median(row, c); v-v != 0 && (!lacks.MatchString(c) || strings.HasSuffix(row, "memory")) {
			t.Errorf("%s: %s is %v", row, c, v)
		}
	}
}

func TestPrinted(t *testing.T) {
	server.Needs(t, "redis")
	t.Parallel()
	for _, asJSON := range []bool{false, true} {
		text, err := benchtest.Output(&benchmark, tiny, measure.Run{Rounds: 1, Only: "^20 requests", Rows: "Delta, memory", JSON: asJSON})
		if err != nil {
			t.Fatal(err)
		}
		if asJSON && !json.Valid([]byte(text)) || !asJSON && !strings.Contains(text, "kept 20 ≥ 20 met; no work: kept 20 ≥ 20 met; spread: kept 20 ≥ 20 met") {
			t.Error(text)
		}
	}
}
