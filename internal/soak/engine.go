package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Run is one soak of one store. Fill it in and call Do.
type Run struct {
	Name       string // the store and its configuration
	Seed       uint64
	For        time.Duration // with faults
	Tail       time.Duration // after the last fault
	Workers    int
	Goroutines int
	Load       Load
	Guarantees driver.Guarantees // filled in by Do

	// Stages are the configurations of the stores: in each stage one for each worker. Workers go
	// from stage to stage one after the other.
	Stages [][]string
	// Programs are the programs that play the workers: in each stage one for each worker. "" stands
	// for this program, and if Programs is empty it plays them all. Another build of a program that
	// calls [PlayWorker] can play a worker as long as both agree on the wire; see wire.go.
	Programs [][]string
	// Args are the arguments of this program when it plays a worker; see [PlayWorker].
	Args []string
	// Open opens a store in this process for the last look. Without Stages it opens all stores, and
	// groups of goroutines stand for processes.
	Open Opener

	// Voting means that a majority of several servers decides. Release then returns when a majority
	// has released the lock, so the name may still be held while another server does not answer. I8
	// is then checked only for times without faults.
	Voting bool

	Faults []Fault
	Every  time.Duration   // from the end of one fault to the next, on average; 0 means no faults
	Lanes  int             // how many faults may be at work at once, each on another target; 0 counts as 1
	Early  context.Context // ends the work before its time; may be nil
	Say    func(string)    // progress; nil: silence

	SayEvery time.Duration // 0 counts as 10 s

	court    *Court
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
	From, To int64 // the time of work
	Quiet    int64 // the time from which on there were no faults
}

// GrantsOfBoth counts the grants to workers that this program plays, and those to workers that
// another program plays; see Run.Programs.
func (o *Outcome) GrantsOfBoth() (this, other int) {
	type life struct{ worker, life int }
	others := map[life]bool{}
	for _, e := range o.Events {
		switch {
		case e.Op == Other:
			others[life{e.Worker, e.Life}] = true
		case e.Op != Acquired && e.Op != Adopted:
		case others[life{e.Worker, e.Life}]:
			other++
		default:
			this++
		}
	}
	return this, other
}

// Left logs a violation if this process has more descriptors or goroutines than before the run.
func (o *Outcome) Left(before Inventory) {
	if what := before.Settle().Beyond(before); what != "" {
		o.Events = append(o.Events, Event{Op: Broken, Worker: engine, At: now(), Err: "I7 " + what})
	}
}

// Do runs the soak and returns its events. An error means that the machine failed, not the store.
func (r *Run) Do(ctx context.Context) (*Outcome, error) {
	if r.Say == nil {
		r.Say = func(string) {}
	}
	if r.SayEvery == 0 {
		r.SayEvery = 10 * time.Second
	}
	if err := r.firstLook(ctx); err != nil {
		return nil, fmt.Errorf("the first look: %w", err)
	}
	r.court, r.base = NewCourt(), now()
	if r.Voting {
		r.court.Log(Event{Op: Voting, Worker: engine, At: now()})
	}
	if r.Guarantees.Promotion == driver.Regrant {
		r.court.Log(Event{Op: Regrants, Worker: engine, At: now()})
	}
	if s := r.Guarantees.Store; strings.HasPrefix(s, "quorum") || strings.HasPrefix(s, "all") {
		r.court.Log(Event{Op: Several, Worker: engine, At: now()})
	}
	if r.Guarantees.FIFO {
		r.court.Log(Event{Op: Ordered, Worker: engine, At: now()})
	}
	watch, stopWatch := context.WithCancel(ctx)
	defer stopWatch()
	watchStalls(watch, r.court, engine, 0)
	busy, stop := context.WithCancel(ctx)
	defer stop()
	if r.Early != nil {
		defer context.AfterFunc(r.Early, stop)()
	}
	out := &Outcome{From: r.base}
	work := r.processes
	if len(r.Stages) == 0 {
		work = r.goroutines
	}
	err := work(ctx, busy, out)
	out.To = now()
	if err == nil {
		err = r.lastLook(ctx)
	}
	if out.harm = r.court.harm(); out.LostFenced != 0 { // logged as an event, so that the history keeps it
		r.court.Log(Event{Op: Broken, Worker: engine, At: now(), Err: fmt.Sprintf("I3 the registers that check fences lost %d updates", out.LostFenced)})
	}
	out.Events = r.court.history()
	return out, err
}

// engine is the number that stands for the engine's own process among the workers.
const engine = -1

// goroutines runs each worker as a group of goroutines in this process. When busy ends, the time
// for faults and the tail is over.
func (r *Run) goroutines(ctx, busy context.Context, out *Outcome) error {
	var all sync.WaitGroup
	errs := make([]error, r.Workers)
	for id := range r.Workers {
		store, err := r.Open(ctx, "")
		if err != nil {
			return err
		}
		o := r.order(id, 0, "")
		refs := make([]referee, r.Goroutines+1)
		for i := range refs {
			refs[i] = r.court
		}
		all.Go(func() { errs[id] = o.runShared(ctx, store, refs) })
	}
	err := r.faults(busy)
	out.Quiet = now()
	pause(busy, r.Tail)
	r.court.end()
	all.Wait()
	return errors.Join(append(errs, err)...)
}

// processes runs each worker in a process of its own.
func (r *Run) processes(_, busy context.Context, out *Outcome) error {
	dir, err := os.MkdirTemp("", "padlock-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if r.listener, err = net.Listen("unix", filepath.Join(dir, "court")); err != nil {
		return err
	}
	defer r.serving.Wait()
	defer r.listener.Close()
	r.serving.Go(r.accept)
	defer r.killAll()
	r.workers, r.stage = make([]*process, r.Workers), make([]int, r.Workers)
	for id := range r.Workers {
		if err := r.start(id, 0); err != nil {
			return err
		}
	}
	err = r.faults(busy)
	out.Quiet = now()
	pause(busy, r.Tail)
	r.court.end()
	return errors.Join(err, r.join())
}

func (r *Run) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.serving.Go(func() { r.court.serve(conn) })
	}
}
