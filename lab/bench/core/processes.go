//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/filestore"
)

const ofFlock, ofFiles = "blocking flock(2)", "padlock over filestore"

// filePeers are locks on files in a directory.
func filePeers(dir string) ([]trial.Peer, error) {
	return []trial.Peer{
		{
			Name: ofFlock, Waiting: func(name string) (int, error) { return blocked(filepath.Join(dir, name)) },
			Open: func(*trial.Counter) (*trial.Client, error) { return openFlock(dir), nil },
		},
		{
			Name: ofFiles,
			Open: trial.Opens(trial.Face, func() (*filestore.Store, error) { return filestore.Open(dir) }),
			Waiting: func(name string) (int, error) {
				store, err := filestore.Open(dir)
				if err != nil {
					return 0, err
				}
				state, err := store.Inspect(context.Background(), name)
				return state.Waiters, errors.Join(err, store.Close())
			},
		},
	}, nil
}

// blocked counts the processes that the kernel lets wait for a file.
func blocked(file string) (waiting int, err error) {
	var st syscall.Stat_t
	if err := syscall.Stat(file, &st); err != nil {
		return 0, err
	}
	inode := []byte(":" + strconv.FormatUint(st.Ino, 10) + " ")
	text, err := os.ReadFile("/proc/locks")
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte("->")) && bytes.Contains(line, inode) {
			waiting++
		}
	}
	return waiting, err
}

// openFlock waits for a lock in the kernel.
func openFlock(dir string) *trial.Client {
	return trial.NewClient(func() error { return nil }, func(_ context.Context, name string) (func() error, error) {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f.Close, nil
	})
}

// processes starts many processes that wait for one lock in a file. It measures the time from the
// first release to the last.
func processes(p *plan) *measure.Experiment {
	name := func(kind string, n int) string { return fmt.Sprintf("%s, %d", kind, n) }
	few, many := p.processes[0], p.processes[len(p.processes)-1]
	e := &measure.Experiment{
		Name: "file, waiting processes", Columns: []string{"µs/hand-over"}, Base: name(ofFlock, many), Ratio: "µs/hand-over",
		Targets: []measure.Target{
			{Row: name(ofFiles, many), Column: "µs/hand-over", Base: name(ofFlock, many), AtMost: 3},
			{Row: name(ofFiles, many), Column: "µs/hand-over", Base: name(ofFiles, few), AtMost: 1.5},
		},
	}
	for _, n := range p.processes {
		for i, kind := range []string{ofFlock, ofFiles} {
			e.Rows = append(e.Rows, measure.Row{Name: name(kind, n), Run: p.inDir(func(dir string, _ time.Duration) (measure.Figures, error) {
				peers, err := filePeers(dir)
				if err != nil {
					return nil, err
				}
				return peers[i].Queue(dir, n)
			})})
		}
	}
	return e
}
