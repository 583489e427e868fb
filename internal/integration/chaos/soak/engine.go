package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Fault is something that can be done to servers, connections or workers.
type Fault struct {
	Kind string
	// Begin does it and returns what undoes it. An error ends the run: the
	// machine that makes faults is broken.
	Begin func(*rand.Rand) (undo func() error, err error)
	// Last is how long it lasts: up to this.
	Last time.Duration
	// Grace is how long after its end the store may still refuse.
	Grace time.Duration
	// Weight is how often it comes, compared to others; 0 counts as 1.
	Weight int
}

// Run is one soak of one store. Fill it in and call Do.
type Run struct {
	Name       string // of the store and its configuration
	Seed       uint64
	For        time.Duration // with faults
	Tail       time.Duration // after the last of them
	Workers    int
	Goroutines int
	Load       Load
	Guarantees driver.Guarantees // filled in by Do

	// Stages are the configurations of the workers' stores: in each stage one
	// for each worker. Workers go from stage to stage one after the other.
	Stages [][]string
	// Open opens one in this process, for the last look; and all of them if
	// there are no Stages, so that goroutines stand for processes.
	Open Opener

	Faults []Fault
	Every  time.Duration // from one fault to the next, on average; 0: none
	Say    func(string)  // progress; nil: silence

	court    *Court
	base     int64
	listener net.Listener
	mu       sync.Mutex // guards workers
	workers  []*process
	serving  sync.WaitGroup
	stage    []int
}

// Outcome is what a run has left behind.
type Outcome struct {
	Events []Event
	harm
	From, To int64 // the time of work
	Quiet    int64 // since when there were no faults
}

// Do runs the soak and returns what happened. The error is about the machine,
// not about the store.
func (r *Run) Do(ctx context.Context) (*Outcome, error) {
	if r.Say == nil {
		r.Say = func(string) {}
	}
	if err := r.firstLook(ctx); err != nil {
		return nil, fmt.Errorf("the first look: %w", err)
	}
	r.court, r.base = NewCourt(), now()
	watch, stopWatch := context.WithCancel(ctx)
	defer stopWatch()
	go watchStalls(watch, r.court, engine, 0)
	out := &Outcome{From: r.base}
	work := r.processes
	if len(r.Stages) == 0 {
		work = r.goroutines
	}
	err := work(ctx, out)
	out.To = now()
	if err == nil {
		err = r.lastLook(ctx)
	}
	out.Events, out.harm = r.court.history(), r.court.harm()
	return out, err
}

// engine is the number of the engine's own process among the workers.
const engine = -1

// goroutines stands for processes with goroutines of this one.
func (r *Run) goroutines(ctx context.Context, out *Outcome) error {
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
	r.faults(ctx)
	out.Quiet = now()
	pause(ctx, r.Tail)
	r.court.end()
	all.Wait()
	return errors.Join(errs...)
}

func (r *Run) order(id, life int, config string) *order {
	o := &order{Worker: id, Life: life, Goroutines: r.Goroutines, Seed: r.Seed, Base: r.base, Config: config, Load: r.Load}
	if r.listener != nil {
		o.Socket = r.listener.Addr().String()
	}
	return o
}

// processes runs each worker in a process of its own.
func (r *Run) processes(ctx context.Context, out *Outcome) error {
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
	err = r.faults(ctx)
	out.Quiet = now()
	pause(ctx, r.Tail)
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

// faults makes faults until the time for them is over.
func (r *Run) faults(ctx context.Context) error {
	dice := rand.New(rand.NewPCG(r.Seed, 0xfa017))
	end := now() + int64(r.For)
	said := now()
	for now() < end && ctx.Err() == nil {
		wait := min(time.Duration(end-now()), time.Second)
		if r.Every > 0 && len(r.Faults) > 0 {
			wait = min(wait, time.Duration(dice.Int64N(int64(2*r.Every))+1))
		}
		pause(ctx, wait)
		if err := r.move(end); err != nil {
			return err
		}
		if r.Every > 0 && len(r.Faults) > 0 && now() < end {
			if err := r.fault(ctx, dice); err != nil {
				return err
			}
		}
		if now()-said > int64(10*time.Second) {
			said = now()
			r.Say(fmt.Sprintf("%s: %v to go", r.Name, time.Duration(end-said).Round(time.Second)))
		}
	}
	return nil
}

// fault makes one. Seed and number decide which and for how long.
func (r *Run) fault(ctx context.Context, dice *rand.Rand) error {
	f := r.pick(dice)
	e := Event{Op: Faulted, Worker: engine, Call: now(), Err: f.Kind, TTL: int64(f.Grace)}
	last := time.Duration(0)
	if f.Last > 0 {
		last = time.Duration(dice.Int64N(int64(f.Last)) + 1)
	}
	undo, err := f.Begin(dice)
	if err != nil {
		return fmt.Errorf("fault %s: %w", f.Kind, err)
	}
	pause(ctx, last)
	if undo != nil {
		if err := undo(); err != nil {
			return fmt.Errorf("end of fault %s: %w", f.Kind, err)
		}
	}
	e.At = now()
	r.court.Log(e)
	return nil
}

func (r *Run) pick(dice *rand.Rand) *Fault {
	sum := 0
	for i := range r.Faults {
		sum += max(1, r.Faults[i].Weight)
	}
	n := dice.IntN(sum)
	for i := range r.Faults {
		if n -= max(1, r.Faults[i].Weight); n < 0 {
			return &r.Faults[i]
		}
	}
	return nil
}
