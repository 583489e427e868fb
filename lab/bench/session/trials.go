//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/session/sessiontest/load"
)

// bench is one run of the benchmark.
type bench struct {
	plan   plan
	stacks []*stack
}

// A stack is a session library on a server, or on two servers that share the sessions.
type stack struct {
	name    string
	servers []string // requests go to these in turn
	bare    string   // a server without sessions, for comparison
	modes   mode
}

// mode says what a stack guarantees. The targets depend on it.
type mode int

const (
	peer mode = iota
	delta
	exclusive
	withPHP // half of the requests go to PHP, which waits patiently for locks
	none    // no session at all
)

// client returns a browser with a new session.
func (s *stack) client(ctx context.Context, n int) (*load.Client, error) {
	c := load.NewClient(s.servers[0], 2*n)
	c.Base = func(i int) string { return s.servers[i%len(s.servers)] }
	if s.modes == none {
		return c, nil
	}
	return c, c.Start(ctx)
}

// experiments returns the two tables.
func (b *bench) experiments() []*measure.Experiment {
	set := &measure.Experiment{
		Name: fmt.Sprintf("%d requests of one visitor, each sets a key of its own", b.plan.requests),
		Columns: []string{
			"kept", "ms", "more ms", "x work",
			"no work: kept", "no work: ms",
			"spread: kept", "spread: ms",
		},
	}
	other := &measure.Experiment{
		Name: "counters, logouts, readers",
		Columns: []string{
			"Put(Get+1) kept", "refused", "Incr kept",
			"logouts kept", "slow reader: kept",
			"readers ms", "x none",
		},
	}
	for _, s := range b.stacks {
		set.Rows = append(set.Rows, measure.Row{Name: s.name, Run: func() (measure.Figures, error) { return b.setTrial(s) }})
		set.Targets = append(set.Targets, b.firstTargets(s)...)
		if s.modes != none {
			other.Rows = append(other.Rows, measure.Row{Name: s.name, Run: func() (measure.Figures, error) { return b.otherTrial(s) }})
			other.Targets = append(other.Targets, b.secondTargets(s)...)
		}
	}
	return []*measure.Experiment{set, other}
}

// firstTargets returns a stack's targets in the first table. The documentation states the same
// targets.
func (b *bench) firstTargets(s *stack) (all []measure.Target) {
	least := func(column string) {
		all = append(all, measure.Target{Row: s.name, Column: column, AtLeast: float64(b.plan.requests)})
	}
	if s.modes == delta || s.modes == exclusive || s.modes == withPHP {
		least("kept")
		least("no work: kept")
		least("spread: kept")
	}
	switch s.modes {
	case delta:
		all = append(all, measure.Target{Row: s.name, Column: "more ms", AtMost: 100})
	case exclusive:
		all = append(all, measure.Target{Row: s.name, Column: "x work", AtMost: 1.05})
	}
	return all
}

func (b *bench) secondTargets(s *stack) (all []measure.Target) {
	if s.modes != delta && s.modes != exclusive {
		return nil
	}
	if s.modes == exclusive {
		all = append(all, measure.Target{Row: s.name, Column: "Put(Get+1) kept", AtLeast: float64(b.plan.requests)})
	}
	return append(all,
		measure.Target{Row: s.name, Column: "Incr kept", AtLeast: float64(b.plan.requests)},
		measure.Target{Row: s.name, Column: "logouts kept", AtLeast: float64(b.plan.logouts)},
		measure.Target{Row: s.name, Column: "slow reader: kept", AtLeast: float64(b.plan.readers)},
		measure.Target{Row: s.name, Column: "x none", AtMost: 1.2})
}

// setTrial makes a trial for one of the tables. In this trial, each request sets a key of its own.
func (b *bench) setTrial(s *stack) (measure.Figures, error) {
	f := measure.Figures{}
	n := b.plan.requests
	without, err := b.bareTime(load.Set(n, b.plan.work, 0), s)
	if err != nil {
		return nil, err
	}
	for name, p := range map[string]load.Plan{
		"": load.Set(n, b.plan.work, 0), "no work: ": load.Set(n, 0, 0), "spread: ": load.Set(n, b.plan.work, b.plan.spread),
	} {
		r, kept, err := b.set(s, p)
		if err != nil {
			return nil, err
		}
		if s.modes != none {
			f[name+"kept"] = float64(kept)
		}
		f[name+"ms"] = measure.Millis(r.Wall)
		if name == "" && s.modes != none {
			f["more ms"] = measure.Millis(r.Wall - without)
			if r.Worked > 0 && len(s.servers) == 1 { // PHP does not report how long it worked
				f["x work"] = r.Wall.Seconds() / r.Worked.Seconds()
			}
		}
	}
	return f, nil
}

// patience is the time limit for all requests of a plan together.
const patience = 2 * time.Minute

func (b *bench) set(s *stack, p load.Plan) (load.Report, int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := s.client(ctx, p.Requests)
	if err != nil {
		return load.Report{}, 0, err
	}
	defer c.Close()
	r := c.Run(ctx, p)
	if err := errors.Join(r.Errors...); err != nil || s.modes == none {
		return r, 0, err
	}
	if r.Statuses[http.StatusOK] != p.Requests { // a library that loses a write still answers 200
		return r, 0, fmt.Errorf("answers %v", r.Statuses)
	}
	kept, err := c.Kept(ctx, p.Requests)
	return r, kept, err
}

// bareTime measures how long a plan takes on a server without sessions.
func (b *bench) bareTime(p load.Plan, s *stack) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := load.NewClient(s.bare, 2*p.Requests)
	defer c.Close()
	r := c.Run(ctx, p)
	return r.Wall, errors.Join(r.Errors...)
}

// otherTrial makes a trial of the table "counters, logouts, readers".
func (b *bench) otherTrial(s *stack) (measure.Figures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	f := measure.Figures{}
	return f, errors.Join(b.counters(ctx, s, f), b.logouts(ctx, s, f), b.slowReader(ctx, s, f), b.readers(ctx, s, f))
}

func (b *bench) counters(ctx context.Context, s *stack, f measure.Figures) error {
	n := b.plan.requests
	for column, p := range map[string]load.Plan{"Put(Get+1) kept": load.Add(n, b.plan.work/5), "Incr kept": load.Incr(n)} {
		c, err := s.client(ctx, n)
		if err != nil {
			return err
		}
		defer c.Close()
		r := c.Run(ctx, p)
		if r.Statuses[http.StatusNotFound] > 0 {
			continue // the library does not have this feature
		}
		got, err := c.Value(ctx, "n")
		if err := errors.Join(append(r.Errors, err)...); err != nil {
			return err
		}
		f[column] = float64(got)
		if column != "Incr kept" {
			f["refused"] = float64(n - r.Statuses[http.StatusOK])
		}
	}
	return nil
}

// logouts ends sessions while requests use them, and counts the sessions that stay ended.
func (b *bench) logouts(ctx context.Context, s *stack, f measure.Figures) error {
	for range b.plan.logouts {
		c, err := s.client(ctx, 10)
		if err != nil {
			return err
		}
		defer c.Close()
		cookie := *c.Cookie
		done := make(chan load.Report, 1)
		go func() { done <- c.Run(ctx, load.Set(3, 4*b.plan.work, 0)) }()
		time.Sleep(b.plan.work) // until the requests are working
		if a, err := c.Get(ctx, 0, "/logout"); err != nil || a.Status != http.StatusOK {
			return fmt.Errorf("logout: %d %w", a.Status, err)
		}
		<-done
		c.Cookie = &cookie
		a, err := c.Get(ctx, 0, "/keys")
		if err != nil || a.Status != http.StatusOK {
			return fmt.Errorf("keys: %d %w", a.Status, err)
		}
		if len(a.Body) <= 1 {
			f["logouts kept"]++
		}
	}
	if _, ok := f["logouts kept"]; !ok {
		f["logouts kept"] = 0
	}
	return nil
}

// slowReader sets a key while a request that only reads is under way.
func (b *bench) slowReader(ctx context.Context, s *stack, f measure.Figures) error {
	f["slow reader: kept"] = 0
	for range b.plan.readers {
		c, err := s.client(ctx, 10)
		if err != nil {
			return err
		}
		defer c.Close()
		done := make(chan load.Report, 1)
		go func() { done <- c.Run(ctx, load.Read(1, 4*b.plan.work)) }()
		time.Sleep(b.plan.work)
		r := c.Run(ctx, load.Set(1, 0, 0))
		slow := <-done
		kept, err := c.Kept(ctx, 1)
		if err := errors.Join(append(append(r.Errors, slow.Errors...), err)...); err != nil {
			return err
		}
		f["slow reader: kept"] += float64(kept)
	}
	return nil
}

// readers compares requests that read the session with requests that have no session. It opens the
// connections first. Fast plans are run five times, because their times depend on the state of the
// machine.
func (b *bench) readers(ctx context.Context, s *stack, f measure.Figures) error {
	c, err := s.client(ctx, b.plan.requests)
	if err != nil {
		return err
	}
	defer c.Close()
	bare := load.NewClient(s.bare, 2*b.plan.requests)
	defer bare.Close()
	p := load.Read(b.plan.requests, b.plan.work)
	failed := errors.Join(append(c.Run(ctx, p).Errors, bare.Run(ctx, p).Errors...)...) // only opens the connections
	var took, ratio []float64
	for start := time.Now(); failed == nil && len(took) < 5 && (took == nil || time.Since(start) < time.Second); {
		without, with := bare.Run(ctx, p), c.Run(ctx, p)
		failed = errors.Join(append(without.Errors, with.Errors...)...)
		took = append(took, measure.Millis(with.Wall))
		ratio = append(ratio, with.Wall.Seconds()/without.Wall.Seconds())
	}
	f["readers ms"], f["x none"] = measure.Median(took), measure.Median(ratio)
	return failed
}
