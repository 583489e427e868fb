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
	"github.com/padlock-go/padlock/lab/bench/trial"
)

func TestMain(m *testing.M) {
	trial.PlayChild(trial.Obey(filePeers))
	os.Exit(m.Run())
}

// tiny shows that every experiment still works; its figures mean nothing.
func tiny() *plan {
	return &plan{
		trial: 5 * time.Millisecond, waiters: 50, drains: 2, processes: []int{2, 4},
	}
}

// Every row of every experiment gives every one of its figures.
func TestEveryRowHasFigures(t *testing.T) {
	for _, e := range experiments(tiny()) {
		t.Run(e.Name, func(t *testing.T) {
			r := e.Run(1, io.Discard)
			for row, err := range r.Errors {
				t.Errorf("%s: %v", row, err)
			}
			for _, row := range r.Rows {
				for _, c := range r.Columns {
					if v := r.Median(row, c); v-v != 0 {
						t.Errorf("%s: %s is %v", row, c, v)
					}
				}
			}
			for _, v := range r.Targets {
				if v.Value == nil {
					t.Errorf("target %v has no figure", v)
				}
			}
		})
	}
}

func TestOnlyAndJSON(t *testing.T) {
	text, err := benchtest.Output(&bench, *tiny(), measure.Run{Only: "^memory, uncontended$", JSON: true})
	if err != nil {
		t.Fatal(err)
	}
	var got measure.Record
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if got.Name != "memory, uncontended" || got.Trials["channel semaphore"][0]["ns/op"] <= 0 {
		t.Errorf("got %+v", got)
	}
}
