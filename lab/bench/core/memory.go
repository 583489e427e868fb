//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/memstore"
)

// memoryOfWaiters measures HeapAlloc + StackInuse for each goroutine that waits for one name.
func memoryOfWaiters(p *plan) *measure.Experiment {
	e := &measure.Experiment{
		Name: "memory, bytes of a waiter",
		Columns: []string{
			"bytes/waiter", "of it heap", "of it stack",
		},
	}
	for _, n := range p.crowds {
		name := strconv.Itoa(n) + " waiters"
		e.Rows = append(e.Rows, measure.Row{Name: name, Run: func() (measure.Figures, error) { return weighCrowd(n) }})
		e.Targets = append(e.Targets, measure.Target{Row: name, Column: "bytes/waiter", AtMost: 4095})
	}
	return e
}

func weighCrowd(n int) (measure.Figures, error) {
	heap, stacks := measure.Memory()
	l := padlock.New(memstore.New(), padlock.MaxWaiters(n))
	c, err := startCrowd(l, n)
	if err != nil {
		return nil, err
	}
	heapNow, stacksNow := measure.Memory()
	heap, stacks = (heapNow-heap)/float64(n), (stacksNow-stacks)/float64(n)
	err = c.drain()
	return measure.Figures{
		"bytes/waiter": heap + stacks, "of it heap": heap, "of it stack": stacks,
	}, errors.Join(err, l.Close(context.Background()))
}

// manyHolds takes very many locks and measures their cost while they are held. A hold must need no
// goroutine and little memory.
func manyHolds(p *plan) *measure.Experiment {
	name := strconv.Itoa(p.manyHolds) + " holds"
	return &measure.Experiment{
		Name: "memory, many holds", Most: 1,
		Columns: []string{
			"goroutines", "bytes/hold", "acquire ns",
		},
		Rows:    []measure.Row{{Name: name, Run: func() (measure.Figures, error) { return weighHolds(p.manyHolds) }}},
		Targets: []measure.Target{{Row: name, Column: "goroutines", AtMost: p.maxRoutines}},
	}
}

func weighHolds(n int) (measure.Figures, error) {
	routines := runtime.NumGoroutine()
	before, _ := measure.Memory()
	l := padlock.New(memstore.New())
	start := time.Now()
	held, err := takeMany(l, n)
	took := time.Since(start)
	after, _ := measure.Memory()
	figures := measure.Figures{
		"acquire ns": float64(took.Nanoseconds()) / float64(n),
		"bytes/hold": (after - before) / float64(n), // including the name, in the store and in this program
		"goroutines": float64(runtime.NumGoroutine() - routines),
	}
	runtime.KeepAlive(held)
	return figures, errors.Join(err, l.Close(context.Background()))
}

// takeMany takes n locks with different names.
func takeMany(l *padlock.Locker, n int, opts ...padlock.Option) ([]*padlock.Lock, error) {
	ctx := context.Background()
	held := make([]*padlock.Lock, 0, n)
	for i := range n {
		h, err := l.Acquire(ctx, fmt.Sprint("invoice:", i), opts...)
		if err != nil {
			return held, err
		}
		held = append(held, h)
	}
	return held, nil
}
