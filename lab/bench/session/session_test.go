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
		for _, target := range e.Targets {
			if target.AtLeast != 0 && !r.Met(target) { // a count
				t.Errorf("%s: %s is %v, want %v", target.Row, target.Column, r.Value(target), target.AtLeast)
			}
		}
		for _, row := range e.Rows {
			if row.Name != "no session" {
				checkFigures(t, r, row.Name)
			}
		}
	}
}

func checkFigures(t *testing.T, r *measure.Result, row string) {
	for _, c := range r.Experiment.Columns {
		if v := r.Median(row, c.Name); v-v != 0 && (!lacks.MatchString(c.Name) || strings.HasSuffix(row, "memory")) {
			t.Errorf("%s: %s is %v", row, c.Name, v)
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
		if asJSON && !json.Valid([]byte(text)) || !asJSON && !strings.Contains(text, "padlock Delta, memory: kept 20; no work: kept 20; spread: kept 20") {
			t.Error(text)
		}
	}
}
