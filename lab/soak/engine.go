package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Run is one soak of one store. Fill it in and call Do.
type Run struct {
	Name       string // the store and its configuration
	Seed       uint64
	For        time.Duration // duration of the part with faults
	Tail       time.Duration // duration of the part after the last fault
	Workers    int
	Goroutines int
	Load       Load
	Guarantees driver.Guarantees // set by Do

	// A run may have several stages. Stages lists the configurations of the store: for each stage,
	// one configuration for each worker. When the run moves to the next stage, the workers change
	// their configuration one after the other.
	Stages [][]string
	// Programs lists the programs that run the workers: for each stage, one program for each
	// worker. The text "" stands for this program. If Programs is empty, this program runs all
	// workers. Another program must call [PlayWorker] and use the same wire format as this program;
	// see wire.go.
	Programs [][]string
	// Open opens a store in this process, for the check at the end. If Stages is empty, all workers
	// run in this process, as groups of goroutines, and Open also opens their stores.
	Open Opener

	// Restless says that the store keeps the place of a waiter that gave up for a while, and may grant
	// it the lock. So the workers do not rest at the end; see Run.rest.
	Restless bool

	Faults []Fault
	Every  time.Duration   // mean time from the end of a fault to the next one; 0 means no faults
	Lanes  int             // how many faults may happen at once, on different targets; 0 counts as 1
	Back   time.Duration   // how soon after a fault the store must grant again; at least 10 s
	Early  context.Context // ends the work early; may be nil
	Say    func(string)    // reports progress; may be nil

	monitor  *Monitor
	base     int64
	listener net.Listener
	mu       sync.Mutex // guards workers
	workers  []*process
	serving  sync.WaitGroup
	stage    []int
	busy     targets
}

// Outcome is the result of a run.
type Outcome struct {
	Events []Event
	harm
	From, To int64 // begin and end of the work
	Quiet    int64 // after this time there were no faults
}

// GrantsBy counts the grants by the kind of the worker, which depends on its number and on whether
// another program runs it; see Run.Programs.
func (o *Outcome) GrantsBy(kind func(worker int, other bool) string) map[string]int {
	grants, others := map[string]int{}, map[[2]int]bool{}
	for _, e := range o.Events {
		life := [2]int{e.Worker, e.Life}
		switch e.Op {
		case Other:
			others[life] = true
		case Acquired, Adopted:
			grants[kind(e.Worker, others[life])]++
		}
	}
	return grants
}

// Left logs a violation if this process now has more descriptors or goroutines than before the run.
func (o *Outcome) Left(before Inventory) {
	if what := before.Settle().Beyond(before); what != "" {
		o.Events = append(o.Events, Event{Op: Broken, Worker: engine, At: clockNow(), Err: "I7 " + what})
	}
}

// Do runs the soak and returns its events. An error means that the machine failed. Failures of the
// store are in the events.
func (r *Run) Do(ctx context.Context) (*Outcome, error) {
	if r.Say == nil {
		r.Say = func(string) {}
	}
	if err := r.firstLook(ctx); err != nil {
		return nil, fmt.Errorf("the first look: %w", err)
	}
	r.monitor, r.base = NewMonitor(), clockNow()
	r.monitor.Log(Event{Op: Promised, Worker: engine, At: r.base, Promises: r.promises()})
	watch, stopWatch := context.WithCancel(ctx)
	defer stopWatch()
	watchStalls(watch, r.monitor, engine, 0)
	busy, stop := context.WithCancel(ctx)
	defer stop()
	operator, err := r.operate(ctx)
	if err != nil {
		return nil, err
	}
	if r.Early != nil {
		defer context.AfterFunc(r.Early, stop)()
	}
	out := &Outcome{From: r.base}
	work := r.runProcesses
	if len(r.Stages) == 0 {
		work = r.runGoroutines
	}
	rested, err := work(ctx, busy, out)
	operator()
	out.To = clockNow()
	if err == nil {
		err = r.lastLook(ctx, rested)
	}
	if out.harm = r.monitor.harm(); out.LostFenced != 0 { // this is logged as an event too, so that the history contains it
		r.monitor.Log(Event{Op: Broken, Worker: engine, At: clockNow(), Err: fmt.Sprintf("I3 the registers that check fences lost %d updates", out.LostFenced)})
	}
	out.Events = r.monitor.history()
	return out, err
}

// promises returns what the checks have to know about the store. A majority is not checked for I8 (a
// released name is free at once) during faults: Release returns when a majority has released the
// lock, and the name may still be held on a server that does not answer.
func (r *Run) promises() *Promises {
	g := &r.Guarantees
	p := &Promises{
		Voting: g.Store == "quorum", Several: g.Store == "quorum" || g.Store == "all",
		Regrants: g.Promotion == driver.PromotionRegrant, Ordered: g.FIFO,
		NoticesLate: int64(r.keptByDead()), Coarse: int64(r.coarse()), Back: int64(r.Back),
	}
	if g.Bound == driver.BoundToConnection {
		p.LearnsLate = int64(g.LossDelay)
	}
	if g.Observed {
		p.Observes = int64(r.Load.MaxTTL + r.coarse())
	}
	return p
}

// engine is the worker number of the engine's own process.
const engine = -1

// runGoroutines runs each worker as a group of goroutines in this process. The workers work until
// all faults are over, and then for the time r.Tail. They stop earlier if the second context ends.
func (r *Run) runGoroutines(ctx, busy context.Context, out *Outcome) (rested bool, err error) {
	var all sync.WaitGroup
	for id := range r.Workers {
		store, err := r.Open(ctx, "")
		if err != nil {
			return false, err
		}
		o := r.order(id, 0, "")
		monitors := make([]monitorAPI, r.Goroutines+1)
		for i := range monitors {
			monitors[i] = r.monitor
		}
		all.Go(func() { o.runShared(ctx, store, monitors) })
	}
	rested, err = r.causeFaults(ctx, busy, out)
	all.Wait()
	return rested, err
}

// causeFaults causes the faults and ends the work of the workers a while later.
func (r *Run) causeFaults(ctx, busy context.Context, out *Outcome) (rested bool, err error) {
	defer r.monitor.ended.Store(true)
	err = r.faults(busy)
	out.Quiet = clockNow()
	pause(busy, r.Tail)
	if err != nil {
		return false, err
	}
	r.awaitBack(busy, out.Quiet)
	return r.rest(ctx)
}

// runProcesses runs each worker in a process of its own.
func (r *Run) runProcesses(ctx, busy context.Context, out *Outcome) (rested bool, err error) {
	dir, err := os.MkdirTemp("", "padlock-soak-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	if r.listener, err = net.Listen("unix", filepath.Join(dir, "monitor")); err != nil {
		return false, err
	}
	defer r.serving.Wait()
	defer r.listener.Close()
	r.serving.Go(r.accept)
	defer r.killAll()
	r.workers, r.stage = make([]*process, r.Workers), make([]int, r.Workers)
	for id := range r.Workers {
		if err := r.start(id, 0); err != nil {
			return false, err
		}
	}
	// No fault may come before all workers have opened their stores: some promises are only for
	// clients that were connected to the server before it restarted.
	for id, p := range r.workers {
		if err := r.awaitWork(id, p); err != nil {
			return false, err
		}
	}
	rested, err = r.causeFaults(ctx, busy, out)
	return rested, errors.Join(err, r.join())
}

func (r *Run) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.serving.Go(func() { r.monitor.serve(conn) })
	}
}
