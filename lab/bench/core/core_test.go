//go:build linux

package main

import (
	"encoding/json"
	"io"
	"os"
	"testing"
	"time"

	"github.com/padlock-go/padlock/lab/bench/benchtest"
	"github.com/padlock-go/padlock/lab/bench/measure"
)

func TestMain(m *testing.M) {
	if os.Getenv(waiterEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// tiny shows that every experiment still works; its figures mean nothing.
func tiny(t *testing.T) *plan {
	return &plan{
		trial: 5 * time.Millisecond, waiters: 50, drains: 2, crowds: []int{50},
		idle: 2 * time.Second, idleHolds: 50, idleTTL: 3 * time.Second, manyHolds: 500, maxRoutines: 100,
		dir: t.TempDir(), processes: []int{2, 4}, runs: []int{1, 2},
	}
}

// Every row of every experiment gives every one of its figures.
func TestEveryRowHasFigures(t *testing.T) {
	for _, e := range experiments(tiny(t)) {
		t.Run(e.Name, func(t *testing.T) {
			r := e.Run(1, io.Discard)
			for row, err := range r.Errors {
				t.Errorf("%s: %v", row, err)
			}
			for _, row := range e.Rows {
				for _, c := range e.Columns {
					if v := r.Median(row.Name, c.Name); !measured(v) {
						t.Errorf("%s: %s is %v", row.Name, c.Name, v)
					}
				}
			}
			for _, target := range e.Targets {
				if v := r.Value(target); !measured(v) {
					t.Errorf("the figure of target %+v is %v", target, v)
				}
			}
		})
	}
}

// measured is false for NaN and infinities.
func measured(v float64) bool { return v-v == 0 }

func TestOnlyAndJSON(t *testing.T) {
	text, err := benchtest.Output(&bench, *tiny(t), measure.Run{Only: "^memory, uncontended$", JSON: true})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Name   string
		Trials map[string][]measure.Figures
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if got.Name != "memory, uncontended" || got.Trials["channel semaphore"][0]["ns/op"] <= 0 {
		t.Errorf("got %+v", got)
	}
}
