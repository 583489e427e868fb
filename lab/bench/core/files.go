//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/filestore"
)

// files measures how long it takes to lock and unlock a file for which nobody else waits. It
// compares padlock with another library. All files are in one directory.
func files(p *plan) *measure.Experiment {
	const peer, ours = "gofrs/flock", "filestore (driver)"
	return &measure.Experiment{
		Name:    "file, uncontended",
		Columns: perOp,
		Rows: []measure.Row{
			{Name: peer, Run: p.inDir(gofrs)},
			{Name: ours, Run: p.inDir(fileStore)},
		},
		Base: peer, Ratio: "ns/op",
		Targets: []measure.Target{{Row: ours, Column: "ns/op", Base: peer, AtMost: 0.8}},
	}
}

// inDir gives each trial its own directory.
func (p *plan) inDir(trial func(dir string, d time.Duration) (measure.Figures, error)) func() (measure.Figures, error) {
	return func() (measure.Figures, error) {
		dir, err := os.MkdirTemp("", "padlock-bench-")
		if err != nil {
			return nil, err
		}
		figures, err := trial(dir, p.trial)
		return figures, errors.Join(err, os.RemoveAll(dir))
	}
}

func gofrs(dir string, d time.Duration) (measure.Figures, error) {
	l := flock.New(filepath.Join(dir, "nightly-report.lock"))
	return loop(d, func() error {
		if ok, err := l.TryLock(); !ok || err != nil {
			return fmt.Errorf("locked: %v, %w", ok, err)
		}
		return l.Unlock()
	})
}

func fileStore(dir string, d time.Duration) (measure.Figures, error) {
	s, err := filestore.Open(dir)
	if err != nil {
		return nil, err
	}
	figures, err := throughDriver(s, d)
	return figures, errors.Join(err, s.Close())
}

// throughDriver takes and releases one lock of a store. The request has all fields that package
// padlock would set.
func throughDriver(s driver.Store, d time.Duration) (measure.Figures, error) {
	ctx := context.Background()
	request := driver.Request{
		Name: "nightly-report", Token: driver.TokenOf("4711"), TTL: 30 * time.Second,
		Holder: driver.Holder{Host: "db1.example.com", PID: os.Getpid(), Label: "report"},
	}
	return loop(d, func() error {
		if _, err := s.Acquire(ctx, request); err != nil {
			return err
		}
		if found, err := s.Release(ctx, request.Name, request.Token.Text(), 0); found != driver.OutcomeReleased {
			return fmt.Errorf("the release found the lock %v, %w", found, err)
		}
		return nil
	})
}
