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
func PlayWorker(open Opener, encoding Encoding) {
	text := os.Getenv(childVariable)
	if text == "" {
		return
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.play(open, encoding)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak: worker:", err)
		exit(1)
	}
	exit(0)
}

// play works until the run is over or SIGTERM arrives.
func (o *order) play(open Opener, encoding Encoding) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	monitors := make([]monitorAPI, o.Goroutines+1)
	for i := range monitors {
		l, err := dial(o.Socket, encoding)
		if err != nil {
			return err
		}
		monitors[i] = l
	}
	watch, done := context.WithCancel(context.Background())
	defer done()
	watchStalls(watch, monitors[o.Goroutines], o.Worker, o.Life)
	before := Count()
	store, err := openPatiently(ctx, open, o.Config)
	if ctx.Err() != nil && err != nil {
		return nil // SIGTERM arrived before the store was open
	}
	if err != nil {
		return err
	}
	return o.runWorkers(ctx, store, monitors, before)
}

// openPatiently opens a store. It tries again after an error, because there may be a fault.
func openPatiently(ctx context.Context, open Opener, config string) (driver.Store, error) {
	for end := time.Now().Add(20 * time.Second); ; {
		store, err := open(ctx, config)
		if err == nil || time.Now().After(end) || ctx.Err() != nil {
			return store, err
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// runWorkers runs the workers of this process with a store, and then closes the store. After that,
// it logs which resources are still in use.
func (o *order) runWorkers(ctx context.Context, store driver.Store, monitors []monitorAPI, before Inventory) error {
	main := monitors[o.Goroutines]
	locker := o.locker(store)
	note := func(op Op, n Inventory) {
		main.Log(Event{Op: op, Worker: o.Worker, Life: o.Life, At: clockNow(), Fence: uint64(n.Descriptors), Until: int64(n.Goroutines)})
	}
	note(Started, before)
	var all sync.WaitGroup
	for g := range o.Goroutines {
		w := newWorker(o, g, monitors[g], locker)
		all.Go(func() { w.work(ctx) })
	}
	stop := o.candidates(ctx, main, locker)
	all.Wait()
	stop()
	end, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := locker.Close(end); err != nil {
		main.Log(Event{Op: Broken, Worker: o.Worker, At: clockNow(), Err: "I7 Close: " + err.Error()})
	}
	after := before.Settle()
	note(Ended, after)
	if what := after.Beyond(before); what != "" {
		main.Log(Event{Op: Broken, Worker: o.Worker, At: clockNow(), Err: "I7 " + what})
	}
	return nil
}

// batchFor is a limit for PassLocally. While other processes wait, a process may pass a lock from
// goroutine to goroutine for at most this time.
const batchFor = 20 * time.Millisecond

// locker makes a Locker. The workers with odd numbers use PassLocally.
func (o *order) locker(store driver.Store) *padlock.Locker {
	if o.Load.Batch > 1 && o.Worker%2 == 1 {
		return padlock.New(store, padlock.PassLocally(o.Load.Batch, batchFor))
	}
	return padlock.New(store)
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
