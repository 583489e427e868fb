package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/lab/chaos/rig"
	"github.com/padlock-go/padlock/lab/soak"
)

// TestPublish adds lines to a copy of the file of runs.
func TestPublish(t *testing.T) {
	text, err := os.ReadFile("runs/runs.csv")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "runs.csv")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &settings{append: file}
	row := rig.Rows()[0]
	for _, all := range []bool{false, true} {
		if err := s.publish(row, all, &soak.Report{Name: row.Name, Seed: 123456789012, Grants: 9}); err != nil {
			t.Fatal(err)
		}
	}
	after, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(after), string(text)) || strings.Count(string(after), ",123456789012,") != 2 {
		t.Errorf("the file has not the two lines more: %v", err)
	}
	if s.append += ".gone"; s.publish(row, false, &soak.Report{}) == nil {
		t.Error("a file that does not exist was published to")
	}
}

// Each row is in one of the parts.
func TestParts(t *testing.T) {
	rows := rig.Rows()[:7]
	seen := map[string]int{}
	for i, want := range []int{3, 2, 2} {
		s := &settings{part: fmt.Sprintf("%d/3", i+1)}
		part, err := s.partOf(rows)
		if err != nil || len(part) != want {
			t.Errorf("part %s has %d rows, %v, want %d", s.part, len(part), err, want)
		}
		for _, row := range part {
			seen[row.Name]++
		}
	}
	if len(seen) != len(rows) {
		t.Errorf("the parts have %v", seen)
	}
	for _, wrong := range []string{"", "2", "0/2", "3/2", "1/8"} {
		if part, err := (&settings{part: wrong}).partOf(rows); err == nil {
			t.Errorf("-part %q: %d rows, want an error", wrong, len(part))
		}
	}
}

// The last lines of a failed run say what failed, where, and how to run it again.
func TestSummaryOfFailure(t *testing.T) {
	t.Parallel()
	s := fake([]*run{{row: rig.Row{Name: "redis (x)"}}}, func(string, bool) ([]soak.Event, error) {
		return []soak.Event{{Op: soak.Broken, Name: "n", At: 1, Err: "I1 two holders"}}, nil
	})
	s.keep, s.Seed, s.For, s.Workers = t.TempDir(), 42, time.Second, 4
	s.makeRuns(t.Context())
	text := fmt.Sprint(s.verdict())
	for _, want := range []string{"redis (x)", "I1 1", "I1 n: two holders", "-seed 42", `-only '^redis \(x\)$'`, "-faults covered", "-for 1s"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if kept, err := filepath.Glob(filepath.Join(s.keep, "redis-x--false-42", "*")); err != nil || len(kept) != 2 {
		t.Errorf("the run left %v, %v; want its history and its report", kept, err)
	}
}

// fake returns settings that play each row by a function, without servers.
func fake(runs []*run, play func(name string, all bool) (events []soak.Event, err error)) *settings {
	s := &settings{runs: runs, keep: os.DevNull}
	s.Say = func(string) {}
	s.play = func(row *rig.Row, _ context.Context, o rig.Options) (*soak.Run, *soak.Outcome, error) {
		events, err := play(row.Name, o.All)
		return &soak.Run{Name: row.Name}, &soak.Outcome{Events: events, To: 1}, err
	}
	return s
}

// A rig that fails does not stop the other rows. It is tried again after them, and left out if it
// fails again.
func TestRigThatFails(t *testing.T) {
	t.Parallel()
	var order []string
	runs := []*run{{row: rig.Row{Name: "dead"}}, {row: rig.Row{Name: "flaky"}}, {row: rig.Row{Name: "good"}}}
	s := fake(runs, func(name string, _ bool) ([]soak.Event, error) {
		order = append(order, name)
		if name == "dead" || name == "flaky" && len(order) < 4 {
			return nil, errors.New("the server did not start")
		}
		return nil, nil
	})
	s.makeRuns(t.Context())
	if want := []string{"dead", "flaky", "good", "dead", "flaky"}; !slices.Equal(order, want) {
		t.Errorf("the rows ran in the order %v, want %v", order, want)
	}
	if runs[0].result != rigFailed || runs[1].result != ok || runs[2].result != ok {
		t.Errorf("results: %q, %q and %q", runs[0].result, runs[1].result, runs[2].result)
	}
	var table strings.Builder
	s.printTable(&table)
	for _, line := range []string{"NO RIG       covered                             dead", "ok           covered         0       0  0.00 ms  flaky", "ok           covered         0       0  0.00 ms  good"} {
		if !strings.Contains(table.String(), line) {
			t.Errorf("the table lacks %q\n%s", line, &table)
		}
	}
	err := s.verdict()
	if err == nil || !strings.Contains(err.Error(), "the server did not start") || !strings.Contains(err.Error(), "-only '^dead$'") {
		t.Errorf("the verdict is %v", err)
	}
}

// A worker that fails is a broken promise, and is not tried again.
func TestWorkerThatFails(t *testing.T) {
	t.Parallel()
	runs := []*run{{row: rig.Row{Name: "crashes"}, all: true}, {row: rig.Row{Name: "good"}}}
	tries := 0
	s := fake(runs, func(name string, _ bool) ([]soak.Event, error) {
		if tries++; name == "crashes" {
			return nil, fmt.Errorf("%w: worker 2: panic", soak.ErrWorker)
		}
		return nil, nil
	})
	s.makeRuns(t.Context())
	if err := s.verdict(); tries != 2 || runs[0].result != broken || err == nil || !strings.Contains(err.Error(), "worker 2: panic") {
		t.Errorf("after %d runs the result is %q and the verdict %v", tries, runs[0].result, err)
	}
}

// A row that hardly got a lock proves nothing, as a row whose servers do not start.
func TestRowWithoutGrants(t *testing.T) {
	t.Parallel()
	runs := []*run{{row: rig.Row{Name: "starved"}}, {row: rig.Row{Name: "all faults"}, all: true}}
	s := fake(runs, func(string, bool) ([]soak.Event, error) { return nil, nil })
	s.least = 1
	s.makeRuns(t.Context())
	if err := s.verdict(); runs[0].result != rigFailed || runs[1].result != ok || err == nil || !strings.Contains(err.Error(), "0 grants prove nothing") {
		t.Errorf("the results are %q and %q, the verdict %v", runs[0].result, runs[1].result, err)
	}
}
