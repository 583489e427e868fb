//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// permits makes two measurements: how long it takes to take and release one permit of a lock with
// four permits, and how long it takes to take and release three names at once. It compares both
// with one plain lock. All permits and names are free. There is only one caller, so the figures
// show how long requests take.
func (b *bench) permits() *measure.Experiment {
	const one, slot, three = "one name", "one permit of 4", "three names"
	e := &measure.Experiment{
		Name:    "permits and several names",
		Columns: []measure.Column{{Name: "us/op", Format: "%.0f"}, {Name: "cmds", Format: "%.2f"}, {Name: "server us", Format: "%.1f"}},
		Base:    one, Ratio: "us/op",
		Targets: []measure.Target{
			{Row: slot, Column: "us/op", Base: one, AtMost: 1.3},
			{Row: three, Column: "us/op", Base: one, AtMost: 3.2},
		},
	}
	row := func(name string, once func(l *padlock.Locker, name string) error) {
		e.Rows = append(e.Rows, measure.Row{Name: name, Run: func() (measure.Figures, error) {
			return b.repeated(func(l *padlock.Locker) error { return once(l, "bench:permits") })
		}})
	}
	single := func(opts ...padlock.Option) func(l *padlock.Locker, name string) error {
		return func(l *padlock.Locker, name string) error {
			lock, err := l.Acquire(context.Background(), name, opts...)
			if err != nil {
				return err
			}
			return lock.Release()
		}
	}
	row(one, single())
	row(slot, single(padlock.Slots(4)))
	row(three, func(l *padlock.Locker, name string) error {
		all, err := l.AcquireAll(context.Background(), []string{name + ":a", name + ":b", name + ":c"})
		if err != nil {
			return err
		}
		return all.Release()
	})
	return e
}

// repeated calls its argument many times in a row, for the length of a trial, and measures the
// calls.
func (b *bench) repeated(once func(l *padlock.Locker) error) (f measure.Figures, err error) {
	l, p, err := b.openLocker()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close(context.Background())) }()
	f, err = trial.Repeat(b.plan.trial, b.rig.meter(p), func() error { return once(l) })
	if err == nil {
		f["us/op"] = f["us"]
	}
	return f, err
}

// openLocker removes all data from the server and opens a Locker. It also returns the page in which
// the commands of this Locker are counted.
func (b *bench) openLocker(opts ...redisstore.Option) (*padlock.Locker, *trial.Page, error) {
	if err := b.rig.clear(); err != nil {
		return nil, nil, err
	}
	p := new(trial.Page)
	l, err := site{b.rig.addr, &p.Sent[0]}.locker(opts...)
	return l, p, err
}

// slotQueue lets callers take one of four permits, each for 5 ms. With 64 callers, the shortest
// possible time is 80 ms.
func (b *bench) slotQueue(callers int) *measure.Experiment {
	const one, each, first = "one client for all", "a client for each", "a client for each, its first wait"
	e := &measure.Experiment{
		Name:    fmt.Sprintf("%d waiters for 4 permits", callers),
		Columns: []measure.Column{{Name: "total_ms", Format: "%.1f"}, {Name: "cmds", Format: "%.2f"}},
	}
	for name, clients := range map[string]int{one: 1, each: callers, first: callers} {
		e.Rows = append(e.Rows, measure.Row{Name: name, Run: func() (measure.Figures, error) { return b.queueForSlots(callers, clients, name != first) }})
		if name != first { // no target for the first wait, because it includes the time to connect
			e.Targets = append(e.Targets, measure.Target{Row: name, Column: "total_ms", AtMost: 1.3 * 5 * float64(callers) / 4})
		}
	}
	return e
}

// queueForSlots measures one round. If waitBefore is true, each client waits for another lock
// before the measurement begins. In its first wait, a client makes the connection for its
// notifications.
func (b *bench) queueForSlots(callers, clients int, waitBefore bool) (f measure.Figures, err error) {
	var lockers []*padlock.Locker
	defer func() {
		for _, l := range lockers {
			err = errors.Join(err, l.Close(context.Background()))
		}
	}()
	var pages []*trial.Page
	for range clients {
		l, p, err := b.openLocker()
		if err != nil {
			return nil, err
		}
		if err := l.Do(context.Background(), "bench:warm", func(context.Context) error { return nil }); err != nil {
			return nil, err
		}
		lockers, pages = append(lockers, l), append(pages, p)
	}
	if waitBefore {
		if err := waitOnce(lockers); err != nil {
			return nil, err
		}
	}
	before := sentBy(pages)
	start := time.Now()
	err = trial.Together(callers, func(i int) error {
		ctx, cancel := context.WithTimeout(context.Background(), trial.Patience)
		defer cancel()
		return lockers[i%clients].Do(ctx, "bench:gpu", func(context.Context) error {
			time.Sleep(5 * time.Millisecond)
			return nil
		}, padlock.Slots(4))
	})
	took := time.Since(start)
	return measure.Figures{
		"total_ms": measure.Millis(took), "cmds": float64(sentBy(pages)-before) / float64(callers),
	}, err
}

// sentBy returns the number of commands that the clients have sent.
func sentBy(pages []*trial.Page) (n int64) {
	for _, p := range pages {
		n += p.Sent[0].Load()
	}
	return n
}

// waitOnce makes each Locker wait for a lock, until all of them have had it.
func waitOnce(lockers []*padlock.Locker) error {
	ctx, cancel := context.WithTimeout(context.Background(), trial.Patience)
	defer cancel()
	lock, err := lockers[0].TryAcquire(ctx, "bench:first")
	if err != nil {
		return err
	}
	time.AfterFunc(100*time.Millisecond, func() { lock.Release() }) // all of them wait by then, usually
	return trial.Together(len(lockers), func(i int) error {
		return lockers[i].Do(ctx, "bench:first", func(context.Context) error { return nil })
	})
}
