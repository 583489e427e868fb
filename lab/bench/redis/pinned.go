//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// pinned repeats the experiment with an uncontended lock, with one goroutine. The server has one
// processor for itself, and the client has another one. So the figures depend neither on the
// kernel's choice of a processor nor on that processor's clock speed.
func (b *bench) pinned() *measure.Experiment {
	e := b.uncontended(1)
	e.Name = "one caller, on processors of their own"
	e.Base = pinnedBase
	e.Targets = []measure.Target{
		{Row: oursString, Column: "ops/s", Base: pinnedBase, AtLeast: 0.8},
		{Row: ours, Column: "ops/s", Base: pinnedBase, AtLeast: 0.6},
	}
	e.Rows = b.rows(alone, func(p *trial.Peer) (f measure.Figures, err error) {
		undo, err := b.rig.pin()
		defer func() { err = errors.Join(err, undo()) }()
		if err != nil {
			return nil, err
		}
		return p.Pairs(1, b.plan.trial, b.rig.meter)
	})
	return e
}

// pinnedBase is the row that the other rows are compared with. Its library, redislock, waits for a
// reply in the goroutine that sent the request, on a connection from a pool.
const pinnedBase = "redislock-lin10"

// everywhere is the mask of all processors.
const everywhere = "ffffffffffffffff"

// pin gives the server the first processor and this process the second one. The returned function
// lets both use all processors again.
func (r *rig) pin() (undo func() error, err error) {
	threads := runtime.GOMAXPROCS(1)
	undo = func() error {
		runtime.GOMAXPROCS(threads)
		return errors.Join(bind(r.pid, everywhere), bind(os.Getpid(), everywhere))
	}
	return undo, errors.Join(bind(r.pid, "1"), bind(os.Getpid(), "2"))
}

// bind lets all threads of a process run on the processors in mask only.
func bind(pid int, mask string) error {
	if text, err := exec.Command("taskset", "-ap", mask, strconv.Itoa(pid)).CombinedOutput(); err != nil {
		return fmt.Errorf("taskset: %w: %s", err, text)
	}
	return nil
}
