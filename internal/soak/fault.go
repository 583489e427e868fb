package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Fault is something that can be done to servers, connections or workers.
type Fault struct {
	Kind string
	// On is what it can be done to. One is drawn, and no other fault hits it
	// until this one is undone.
	On []string
	// Begin does it to the given one of On and returns what undoes it. An error
	// ends the run: the machine that makes faults is broken.
	Begin func(d *rand.Rand, on int) (undo func() error, err error)
	// Last is how long it lasts: up to this, mostly for an eighth of it at most.
	Last time.Duration
	// Grace is how long after its end the store may still refuse.
	Grace time.Duration
	// Weight is how often it comes, compared to others; 0 counts as 1.
	Weight int
}

// Targets names n things of a kind, for Fault.On.
func Targets(kind string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(kind, " ", i))
	}
	return names
}

// targets are what faults are at work on.
type targets struct {
	mu   sync.Mutex
	hit  map[string]bool
	free sync.Cond
}

// try takes a target unless it is taken.
func (t *targets) try(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hit[name] {
		return false
	}
	if t.hit == nil {
		t.hit = map[string]bool{}
	}
	t.hit[name] = true
	return true
}

// take waits until it can be taken.
func (t *targets) take(name string) {
	for !t.try(name) {
		t.mu.Lock()
		t.free.L = &t.mu
		for t.hit[name] {
			t.free.Wait()
		}
		t.mu.Unlock()
	}
}

func (t *targets) give(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.hit, name)
	t.free.Broadcast()
}

// faults makes faults, in lanes, until the time for them is over.
func (r *Run) faults(ctx context.Context) error {
	end := now() + int64(r.For)
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

// supervise moves workers from stage to stage and tells of progress.
func (r *Run) supervise(ctx context.Context, end int64) error {
	for said := now(); now() < end && ctx.Err() == nil; {
		pause(ctx, min(time.Duration(end-now()), 200*time.Millisecond))
		if err := r.move(end); err != nil {
			return err
		}
		if now()-said > int64(r.SayEvery) {
			said = now()
			grants, faults := r.court.sums()
			r.Say(fmt.Sprintf("%s: %d grants, %d faults, %v to go", r.Name, grants, faults, time.Duration(end-said).Round(time.Second)))
		}
	}
	return nil
}

// lane makes one fault after the other. Seed and lane decide which, when, and
// for how long, as far as two lanes do not want the same target.
func (r *Run) lane(ctx context.Context, n int, end int64) error {
	dice := rand.New(rand.NewPCG(r.Seed, 0xfa017+uint64(n)))
	for {
		pause(ctx, time.Duration(dice.Int64N(int64(2*r.Every))+1))
		if now() >= end || ctx.Err() != nil {
			return nil
		}
		f := r.pick(dice)
		on := dice.IntN(max(1, len(f.On)))
		target := f.Kind
		if len(f.On) > 0 {
			target = f.On[on]
		}
		if !r.busy.try(target) {
			continue
		}
		err := r.fault(ctx, dice, f, on)
		r.busy.give(target)
		if err != nil {
			return err
		}
	}
}

// fault makes one, and ends it whatever happens meanwhile.
func (r *Run) fault(ctx context.Context, dice *rand.Rand, f *Fault, on int) error {
	e := Event{Op: Faulted, Worker: engine, Call: now(), Err: f.Kind, TTL: int64(f.Grace)}
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
	e.At = now()
	r.court.Log(e)
	if took := time.Duration(e.At - e.Call); took > last+5*time.Second {
		r.Say(fmt.Sprintf("%s: the fault %s of %v took %v", r.Name, f.Kind, last.Round(time.Millisecond), took.Round(time.Millisecond)))
	}
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
