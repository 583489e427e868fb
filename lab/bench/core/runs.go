//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/filestore"
)

// commandRuns starts many jobs under `padlock run` that all wait for one lock. It compares their
// time with the time of the same number of jobs that are started one after the other. Each job is
// the command "true", which ends at once.
func commandRuns(p *plan) *measure.Experiment {
	e := &measure.Experiment{
		Name: "file, padlock run", Most: 1,
		Columns: []measure.Column{{Name: "ms/run", Format: "%.1f"}},
		Ratio:   "ms/run",
	}
	name := func(how string, n int) string { return fmt.Sprintf("%s, %d", how, n) }
	const queued, single = "waiting", "one after the other"
	for _, n := range p.runs {
		row := func(how string, trial func(binary, dir string, n int) (time.Duration, error)) measure.Row {
			return measure.Row{Name: name(how, n), Run: p.inDir(func(dir string, _ time.Duration) (measure.Figures, error) {
				binary, err := buildPadlock(dir)
				if err != nil {
					return nil, err
				}
				took, err := trial(binary, filepath.Join(dir, "locks"), n)
				return measure.Figures{"ms/run": took.Seconds() * 1e3 / float64(n)}, err
			})}
		}
		e.Rows = append(e.Rows, row(single, runOneByOne), row(queued, drainRuns))
	}
	few, many := p.runs[0], p.runs[len(p.runs)-1]
	e.Base = name(single, many)
	e.Targets = []measure.Target{
		{Row: name(queued, many), Column: "ms/run", Base: name(single, many), AtMost: 1.3},
		{Row: name(queued, many), Column: "ms/run", Base: name(queued, few), AtMost: 1.5},
	}
	return e
}

// buildPadlock builds the command in its own module, which lab does not require.
func buildPadlock(dir string) (binary string, err error) {
	root, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/padlock-go/padlock").Output()
	if err != nil {
		return "", fmt.Errorf("finding padlock: %w", err)
	}
	binary = filepath.Join(dir, "padlock")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir = filepath.Join(strings.TrimSpace(string(root)), "cmd", "padlock")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building padlock: %w: %s", err, text)
	}
	return binary, nil
}

func padlockRun(binary, dir string) *exec.Cmd {
	cmd := exec.Command(binary, "run", "--store", "file://"+dir, queueName, "--", "true")
	cmd.Stderr = os.Stderr
	return cmd
}

func runOneByOne(binary, dir string, n int) (time.Duration, error) {
	start := time.Now()
	for range n {
		if err := padlockRun(binary, dir).Run(); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// drainRuns returns the time from the release of the lock to the end of the last waiting job.
func drainRuns(binary, dir string, n int) (took time.Duration, err error) {
	store, err := filestore.Open(dir)
	if err != nil {
		return 0, err
	}
	l := padlock.New(store)
	defer func() { err = errors.Join(err, l.Close(context.Background())) }()
	lock, err := l.Acquire(context.Background(), queueName)
	if err != nil {
		return 0, err
	}
	var started []*exec.Cmd
	var failed error
	for range n {
		cmd := padlockRun(binary, dir)
		if failed = cmd.Start(); failed != nil {
			break
		}
		started = append(started, cmd)
	}
	if failed == nil {
		failed = poll(func() (bool, error) {
			state, err := store.Inspect(context.Background(), queueName)
			return state.Waiters >= n, err
		})
		time.Sleep(300 * time.Millisecond) // until all are asleep
	}
	start := time.Now()
	failed = errors.Join(failed, lock.Release())
	for _, cmd := range started {
		failed = errors.Join(failed, cmd.Wait())
	}
	return time.Since(start), failed
}
