//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/memstore"
)

// memoryOfWaiters measures HeapAlloc + StackInuse for each goroutine that waits for one name.
func memoryOfWaiters(p *plan) *measure.Experiment {
	name := fmt.Sprint(p.waiters, " waiters")
	return &measure.Experiment{
		Name:    "memory, bytes of a waiter",
		Columns: []string{"bytes/waiter", "of it heap", "of it stack"},
		Rows:    []measure.Row{{Name: name, Run: func() (measure.Figures, error) { return weighCrowd(p.waiters) }}},
		Targets: []measure.Target{{Row: name, Column: "bytes/waiter", AtMost: 4095}},
	}
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
