package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// Opener opens the store of a configuration in the worker's process.
type Opener func(ctx context.Context, config string) (driver.Store, error)

// childVariable is the environment variable that tells a process that it is a worker. Its value is
// the worker's task, an order in JSON.
const childVariable = "PADLOCK_SOAK_WORKER"

// order describes the task of a worker's process.
type order struct {
	Worker, Life, Goroutines int
	Seed                     uint64
	Base                     int64
	Socket, Config           string
	Load                     Load
}

var exit = os.Exit

// PlayWorker must be the first call of a program that runs a soak. Such a program starts itself
// again for each worker. In a worker's process PlayWorker does the work and never returns.
func PlayWorker(open Opener) {
	text := os.Getenv(childVariable)
	if text == "" {
		return
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.play(open)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak: worker:", err)
		exit(1)
	}
	exit(0)
}

// play works until the run is over or SIGTERM arrives.
func (o *order) play(open Opener) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	monitors := make([]monitorAPI, o.Goroutines+1)
	for i := range monitors {
		l, err := dial(o.Socket)
		if err != nil {
			return err
		}
		monitors[i] = l
	}
	watch, done := context.WithCancel(context.Background())
	defer done()
	watchStalls(watch, monitors[o.Goroutines], o.Worker, o.Life)
	before := Count()
	store, err := openPatiently(ctx, open, o.Config, monitors[o.Goroutines].Over)
	if ctx.Err() != nil && err != nil {
		return nil // SIGTERM arrived before the store was open
	}
	if err != nil {
		return err
	}
	return o.runWorkers(ctx, store, monitors, before)
}

// openPatiently opens a store. It tries again after an error: while faults happen, the store need
// not open. After that, which the function over reports, it must open within openPatience.
func openPatiently(ctx context.Context, open Opener, config string, over func() bool) (driver.Store, error) {
	for quiet := int64(0); ; pause(ctx, 50*time.Millisecond) {
		if quiet == 0 && over() {
			quiet = clockNow()
		}
		store, err := open(ctx, config)
		if err == nil || ctx.Err() != nil || quiet != 0 && clockNow()-quiet > int64(openPatience) {
			return store, err
		}
	}
}

// openPatience is how long the opening of a store may fail without a fault. The machine may be
// busy.
const openPatience = 20 * time.Second

// always is for calls of openPatiently while there are no faults.
func always() bool { return true }

// runWorkers runs the workers of this process with a store, and then closes the store. After that,
// it logs which resources are still in use.
func (o *order) runWorkers(ctx context.Context, store driver.Store, monitors []monitorAPI, before Inventory) error {
	main := monitors[o.Goroutines]
	main.Log(Event{Op: Started, Worker: o.Worker, Life: o.Life, At: clockNow(), Fence: uint64(before.Descriptors), Until: int64(before.Goroutines)})
	o.runShared(ctx, store, monitors)
	if what := before.Settle().Beyond(before); what != "" {
		main.Log(Event{Op: Broken, Worker: o.Worker, At: clockNow(), Err: "I7 " + what})
	}
	return nil
}

// runShared runs workers that may share a process with others. It does not look for leaks, because
// it cannot tell which worker caused them.
func (o *order) runShared(ctx context.Context, store driver.Store, monitors []monitorAPI) {
	locker, seen := o.locker(store)
	main := monitors[o.Goroutines]
	var all sync.WaitGroup
	for g := range o.Goroutines {
		w := newWorker(o, g, monitors[g], locker)
		all.Go(func() { w.work(ctx) })
	}
	newer := o.newestLocker(store)
	stop := o.candidates(ctx, main, locker, newer)
	all.Wait()
	stop()
	o.closeLocker(main, newer, nil)
	o.rest(ctx, main, locker)
	o.closeLocker(main, locker, seen)
}

// locker makes a Locker. The observer is nil if the worker has none.
func (o *order) locker(store driver.Store) (*padlock.Locker, *observer) {
	var opts []padlock.LockerOption
	var seen *observer
	if o.Load.observed(o.Worker) {
		seen = &observer{}
		opts = append(opts, padlock.Observe(seen))
	}
	return padlock.New(store, opts...), seen
}

// closeLocker closes the Locker and logs what is wrong then.
func (o *order) closeLocker(monitor monitorAPI, l *padlock.Locker, seen *observer) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	broken := func(what string) {
		monitor.Log(Event{Op: Broken, Worker: o.Worker, Life: o.Life, At: clockNow(), Err: "I7 " + what})
	}
	if err := l.Close(ctx); err != nil {
		broken("Close: " + err.Error())
		return
	}
	if what := seen.left(); what != "" {
		broken(what)
	}
}

const (
	stallLook = 5 * time.Millisecond
	stallLeft = 15 * time.Millisecond // a longer time between two ticks is a stall
)

// watchStalls logs the times in which this process, or a part of it, did not run. Two goroutines
// watch. One of them shares threads with the other goroutines of the process, so it notices if
// goroutines do not get to run. The other has its own thread, so it notices if a thread does not
// get to run.
func watchStalls(ctx context.Context, monitor monitorAPI, id, life int) {
	look := func() {
		for last := clockNow(); ctx.Err() == nil; {
			pause(ctx, stallLook)
			at := clockNow()
			if at-last > int64(stallLeft) {
				monitor.Log(Event{Op: Stalled, Worker: id, Life: life, Call: last, At: at})
			}
			last = at
		}
	}
	go look()
	go func() {
		runtime.LockOSThread()
		look()
	}()
}
