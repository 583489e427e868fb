//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// callers is how many goroutines take the holds and give them back.
const callers = 64

// heldTrial is one process that takes many holds on one server.
type heldTrial struct {
	*bench
	engine  engine
	holds   int
	rig     *rig
	locker  *padlock.Locker
	locks   []*padlock.Lock
	empty   usage // before the first hold
	figures measure.Figures
}

// holdMany takes the holds of an engine, watches their renewals, restarts the server, and gives the
// holds back. It returns the figures of all these steps.
func (b *bench) holdMany(e engine) (f measure.Figures, err error) {
	h := &server.Host{}
	defer h.End()
	t := &heldTrial{bench: b, engine: e, holds: max(1, b.plan.holds/e.part)}
	t.figures = measure.Figures{"holds": float64(t.holds)}
	if t.rig, err = e.start(h, t.holds); err != nil {
		return nil, err
	}
	defer t.rig.close()
	store, err := t.rig.open()
	if err != nil {
		return nil, err
	}
	t.locker = padlock.New(store, padlock.TTL(b.plan.ttl))
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), b.plan.patience)
		defer cancel()
		closed := t.locker.Close(ctx)
		if err == nil {
			err = closed
		}
	}()
	steps := []func() error{t.take, t.watch, t.giveBack, t.take, t.restart}
	if e.keeps {
		steps = []func() error{t.take, t.watch, t.restart, t.giveBack}
	}
	if err := t.openFirst(); err != nil {
		return nil, err
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return t.figures, err
		}
	}
	return t.figures, nil
}

// usage has the bytes that the client and the server use.
type usage struct{ heap, client, data, server float64 }

func (t *heldTrial) usage() (u usage, err error) {
	u.heap, _ = measure.Memory()
	u.client = residentMemory([]int{os.Getpid()})
	u.server = residentMemory(t.rig.pids())
	u.data, err = t.rig.data()
	return u, err
}

// openFirst takes and releases one lock, so that the process is connected. Then it measures the
// memory.
func (t *heldTrial) openFirst() (err error) {
	t.locks = make([]*padlock.Lock, t.holds)
	if err := t.locker.Do(context.Background(), "first", func(context.Context) error { return nil }); err != nil {
		return err
	}
	debug.FreeOSMemory() // memory that earlier rows have used
	t.empty, err = t.usage()
	return err
}

// noteMemory adds the memory per hold to the figures. The memory per hold is the difference between
// the memory that is used now and before the first hold, divided by the number of holds.
func (t *heldTrial) noteMemory(state string) error {
	u, err := t.usage()
	per := 1 / float64(t.holds)
	t.figures[state+": client heap"] = (u.heap - t.empty.heap) * per
	t.figures[state+": client RSS"] = (u.client - t.empty.client) * per
	t.figures[state+": server data"] = (u.data - t.empty.data) * per
	t.figures[state+": server RSS"] = (u.server - t.empty.server) * per
	return err
}

const (
	held = "hold"
	free = "free"
)

// forAll calls perHold with the index of every hold, in several goroutines. It returns how many
// seconds that took.
func (t *heldTrial) forAll(perHold func(ctx context.Context, i int) error) (seconds float64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), t.plan.patience)
	defer cancel()
	var next atomic.Int64
	start := time.Now()
	err = trial.Together(callers, func(int) (err error) {
		for i := int(next.Add(1)) - 1; i < t.holds && err == nil; i = int(next.Add(1)) - 1 {
			err = perHold(ctx, i)
		}
		return err
	})
	return time.Since(start).Seconds(), err
}

// take takes all holds.
func (t *heldTrial) take() error {
	t.report(t.engine.name, "%d holds are taken", t.holds)
	seconds, err := t.forAll(func(ctx context.Context, i int) (err error) {
		t.locks[i], err = t.locker.Acquire(ctx, fmt.Sprintf("bench:scale:hold:%08d", i))
		return err
	})
	t.figures["take s"], t.figures["takes/s"] = seconds, float64(t.holds)/seconds
	return err
}

// watch waits until every lease has been renewed once. Then it measures the memory and the cost of
// further renewals.
func (t *heldTrial) watch() error {
	time.Sleep(t.plan.ttl * 2 / 5)
	if err := t.noteMemory(held); err != nil {
		return err
	}
	t.report(t.engine.name, "the renewals are watched")
	requests, err := t.rig.requests()
	if err != nil {
		return err
	}
	client, server, from, start := measure.Used(), t.rig.processorTime(), t.locker.Stats(), time.Now()
	time.Sleep(t.plan.ttl * 2 / 3) // two renewals of every lease
	seconds := time.Since(start).Seconds()
	to := t.locker.Stats()
	after, err := t.rig.requests()
	renewed := float64(to.Renewals - from.Renewals)
	t.figures["TTL s"] = t.plan.ttl.Seconds()
	t.figures["renewals/s"] = renewed / seconds
	t.figures["requests/s"] = (after - requests) / seconds
	t.figures["lost"] = float64(to.Lost)
	if renewed > 0 {
		ours, theirs := measure.Micros(measure.Used().CPU-client.CPU)/renewed, measure.Micros(t.rig.processorTime()-server)/renewed
		t.figures["client us"], t.figures["server us"] = ours, theirs
		// The next figures say how many locks one processor could keep renewing if each lease had
		// the default length. A lease is renewed when a third of its length has passed.
		third := measure.Micros(defaultTTL / 3)
		t.figures["client carries"], t.figures["server carries"] = third/ours, third/theirs
	}
	return err
}

// giveBack gives all holds back.
func (t *heldTrial) giveBack() error {
	t.report(t.engine.name, "%d holds are given back", t.holds)
	seconds, err := t.forAll(func(_ context.Context, i int) error {
		err := t.locks[i].Release()
		t.locks[i] = nil
		if errors.Is(err, padlock.ErrLost) {
			return nil // the figures say how many were lost
		}
		return err
	})
	t.figures["give back s"] = seconds
	if err != nil {
		return err
	}
	return t.noteMemory(free)
}
