package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/soak"
	"github.com/padlock-go/padlock/lab/soak/linear"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
)

// verification is one run of padlock-verify.
type verification struct {
	url    string // of the store
	span   time.Duration
	seed   uint64
	keep   string
	file   string // for the certificate, or ""
	wires  wires
	base   string // begins all names
	runs   int    // how many were prepared
	run    *soak.Run
	status int // the exit status
}

// schemes are the kinds of stores that can be verified.
var schemes = open.Schemes(all.Schemes()...)

// openStore opens the store. Tests replace it. The store remembers nothing about the server between
// processes, because padlock-verify leaves no files behind.
var openStore = func(ctx context.Context, url string) (padlock.Store, error) {
	return open.Store(ctx, url, schemes, open.BetweenProcesses(), open.ForgetSoon())
}

// openInWorker opens the store in the process of a worker. A terminal sends its signals to every
// process, but padlock-verify itself ends the workers.
func openInWorker(ctx context.Context, url string) (padlock.Store, error) {
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	return openStore(ctx, url)
}

const (
	processes  = 4
	goroutines = 8
)

// do runs the test, judges it and prints the table.
func (v *verification) do(ctx context.Context) error {
	defer v.wires.host.End()
	if err := v.prepare(ctx); err != nil {
		return err
	}
	early, stop := endable(ctx)
	defer stop()
	report, err := v.soak(ctx, early)
	if err != nil {
		return err
	}
	v.sweep(ctx)
	return v.printTable(report)
}

// soak runs the run that prepare has set up, and judges it. It ends early if the second context
// does.
func (v *verification) soak(ctx, early context.Context) (*soak.Report, error) {
	v.run.Early = early
	out, err := v.run.Do(ctx)
	if err != nil {
		return nil, err
	}
	if err := v.reachable(ctx); err != nil {
		return nil, err
	}
	if v.keep == "" {
		v.keep = filepath.Join(os.TempDir(), "padlock-verify-"+rand.Text())
	}
	return linear.Judge(v.run, out, v.keep, time.Minute)
}

// prepare sets up the run.
func (v *verification) prepare(ctx context.Context) error {
	// Check the server directly: the proxies would accept connections even if the server is down.
	store, err := openStore(ctx, v.url)
	if err != nil {
		return err
	}
	noticed := store.Guarantees().DeadWaiter
	if err := store.Close(); err != nil {
		return err
	}
	load := soak.DefaultLoad()
	if v.base == "" {
		v.base = "padlock-verify-" + rand.Text()[:12]
	}
	v.runs++
	load.Prefix = fmt.Sprintf("%s-%d:", v.base, v.runs) // a run looks for what is left of its own names
	var config []string
	for range processes {
		url, err := v.wires.addProxies(v.url)
		if err != nil {
			return err
		}
		config = append(config, url)
	}
	tail := min(v.span/5, 10*time.Second)
	if noticed > 0 { // until then, processes that were killed keep others from their names
		tail = max(tail, min(v.span*2/5, noticed+5*time.Second))
	}
	v.run = &soak.Run{
		Name: v.place(), Seed: v.seed, For: v.span - tail, Tail: tail,
		Workers: processes, Goroutines: goroutines, Load: load,
		Stages: [][]string{config},
		Open:   func(ctx context.Context, _ string) (padlock.Store, error) { return openStore(ctx, v.url) },
		Every:  150 * time.Millisecond, Lanes: 2,
		Say: say,
	}
	workers := append(v.run.StopWorker(), v.run.KillWorker())
	for i := range workers {
		workers[i].Weight = 3
	}
	v.run.Faults = append(workers, soak.NetworkFaults(v.wires.all)...)
	return nil
}

// reachable returns an error if the store cannot be reached. It runs before the checkers. Without
// it, a store that has gone down would look like a store that has broken its guarantees.
func (v *verification) reachable(ctx context.Context) error {
	store, err := openStore(ctx, v.url)
	if err != nil {
		return err
	}
	l := padlock.New(store)
	defer closeLocker(l)
	lock, err := l.Acquire(ctx, v.run.Load.Prefix+"gate", padlock.Wait(5*time.Second))
	if errors.Is(err, padlock.ErrUnavailable) {
		return err
	}
	if err == nil {
		_ = lock.Release() // Acquire has reached the store, so an error of Release does not matter
	}
	return nil
}

// sweep removes the lock files that padlock-verify has made for its own names. A file that cannot
// be removed is only reported, because it does no harm.
func (v *verification) sweep(ctx context.Context) {
	if err := v.removeFiles(ctx); err != nil {
		say("some lock files of " + v.base + "… could not be removed: " + err.Error())
	}
}

func (v *verification) removeFiles(ctx context.Context) error {
	store, err := openStore(ctx, v.url)
	if err != nil {
		return err
	}
	l := padlock.New(store)
	defer closeLocker(l)
	name := v.base + "gate"
	state, err := l.Inspect(ctx, name)
	if state.Path == "" {
		return nil // the store keeps no files, or it does not report its path
	}
	_ = err // the path is known even if there was an error
	_, stem, _ := strings.Cut(filepath.Base(state.Path), ".")
	stem, _, _ = strings.Cut(stem, "gate")
	dir := filepath.Dir(state.Path)
	files, err := os.ReadDir(dir) // Glob would treat a [ in the directory's name as a pattern
	for _, file := range files {
		// A dash before a name says that some of its bytes are escaped.
		if own, _ := strings.CutPrefix(file.Name(), "sf."); strings.HasPrefix(strings.TrimPrefix(own, "-"), stem) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, file.Name())))
		}
	}
	runs := filepath.Join(dir, "history")
	histories, _ := os.ReadDir(runs) // no history is no error
	for _, h := range histories {
		if strings.HasPrefix(h.Name(), "runs."+stem) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(runs, h.Name())))
		}
	}
	_ = os.Remove(runs) // fails if others have a history there
	return err
}

// closeLocker closes a Locker. A store that does not answer delays it by five seconds at most; its
// locks end with their leases.
func closeLocker(l *padlock.Locker) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = l.Close(ctx) // nothing depends on it any more
}
