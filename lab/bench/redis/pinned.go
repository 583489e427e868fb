//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

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

// pin gives the server the first processor and this process the second one. The returned function
// lets both use all processors again.
func (r *rig) pin() (undo func() error, err error) {
	info, err := r.info("server")
	if err != nil {
		return func() error { return nil }, err
	}
	served, err := strconv.Atoi(info["process_id"])
	if err != nil {
		return func() error { return nil }, err
	}
	threads := runtime.GOMAXPROCS(1)
	undo = func() error {
		runtime.GOMAXPROCS(threads)
		return errors.Join(bind(served, ^uintptr(0)), bind(os.Getpid(), ^uintptr(0)))
	}
	return undo, errors.Join(bind(served, 1<<0), bind(os.Getpid(), 1<<1))
}

// bind lets all threads of a process run on the processors in mask only.
func bind(pid int, mask uintptr) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, uintptr(id), unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
		if errno != 0 && errno != syscall.ESRCH { // a thread may have ended meanwhile
			return fmt.Errorf("sched_setaffinity: %w", errno)
		}
	}
	return nil
}
