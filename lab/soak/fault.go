package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// faults injects faults in all lanes, until the time for faults is over. Each lane injects one
// fault after another.
func (r *Run) faults(ctx context.Context) error {
	end := clockNow() + int64(r.For)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lanes := 0
	if r.Every > 0 && len(r.Faults) > 0 {
		lanes = max(1, r.Lanes)
	}
	errs := make([]error, lanes+1)
	var all sync.WaitGroup
	for n := range lanes {
		all.Go(func() {
			if errs[n] = r.lane(ctx, n, end); errs[n] != nil {
				stop()
			}
		})
	}
	errs[lanes] = r.supervise(ctx, end)
	stop()
	all.Wait()
	return errors.Join(errs...)
}

// sayEvery is the interval of progress reports.
const sayEvery = 5 * time.Second

// supervise moves workers from stage to stage and reports progress.
func (r *Run) supervise(ctx context.Context, end int64) error {
	for said := clockNow(); clockNow() < end && ctx.Err() == nil; {
		pause(ctx, min(time.Duration(end-clockNow()), 200*time.Millisecond))
		if err := r.move(end); err != nil {
			return err
		}
		if clockNow()-said > int64(sayEvery) {
			said = clockNow()
			grants, faults := r.monitor.sums()
			r.Say(fmt.Sprintf("%s: %d grants, %d faults, %v to go", r.Name, grants, faults, time.Duration(end-said).Round(time.Second)))
		}
	}
	return nil
}

// lane causes one fault after another. The seed and the number of the lane decide which faults,
// when, and for how long. If the target of a chosen fault already has a fault from another lane,
// the chosen fault is skipped.
func (r *Run) lane(ctx context.Context, n int, end int64) error {
	dice := rand.New(rand.NewPCG(r.Seed, 0xfa017+uint64(n)))
	for {
		pause(ctx, time.Duration(dice.Int64N(int64(2*r.Every))+1))
		if clockNow() >= end || ctx.Err() != nil {
			return nil
		}
		f := r.pick(dice)
		on := dice.IntN(max(1, len(f.On)))
		target := f.Kind
		if len(f.On) > 0 {
			target = f.On[on]
		}
		if !r.busy.tryTake(target) {
			continue
		}
		err := r.fault(ctx, dice, f, on)
		r.busy.give(target)
		if err != nil {
			return err
		}
	}
}

// fault causes one fault, and undoes it even if the run ends meanwhile.
func (r *Run) fault(ctx context.Context, dice *rand.Rand, f *Fault, on int) error {
	e := Event{Op: Faulted, Worker: engine, Call: clockNow(), Err: f.Kind, TTL: int64(f.Grace)}
	last := f.Last
	if dice.IntN(3) > 0 {
		last /= 8
	}
	if last > 0 {
		last = time.Duration(dice.Int64N(int64(last)) + 1)
	}
	undo, err := f.Begin(dice, on)
	if err != nil {
		return fmt.Errorf("fault %s: %w", f.Kind, err)
	}
	pause(ctx, last)
	if undo != nil {
		if err := undo(); err != nil {
			return fmt.Errorf("end of fault %s: %w", f.Kind, err)
		}
	}
	e.At = clockNow()
	r.monitor.Log(e)
	if took := time.Duration(e.At - e.Call); took > last+5*time.Second {
		r.Say(fmt.Sprintf("%s: the fault %s of %v took %v", r.Name, f.Kind, last.Round(time.Millisecond), took.Round(time.Millisecond)))
	}
	return nil
}

// pick draws a fault, each as often as its weight says.
func (r *Run) pick(dice *rand.Rand) *Fault {
	var all []*Fault
	for i := range r.Faults {
		all = append(all, slices.Repeat([]*Fault{&r.Faults[i]}, max(1, r.Faults[i].Weight))...)
	}
	return all[dice.IntN(len(all))]
}
