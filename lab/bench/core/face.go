//go:build linux

package main

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/memstore"
)

// faceOverMemory compares package padlock over memstore with a channel that serves as a semaphore.
// A channel is the cheapest lock in Go that lets a waiter give up when a context ends.
func faceOverMemory(p *plan) *measure.Experiment {
	const peer, ours = "channel semaphore", "padlock over memstore"
	return &measure.Experiment{
		Name:    "memory, uncontended",
		Columns: perOp,
		Rows: []measure.Row{
			{Name: peer, Run: func() (measure.Figures, error) { return semaphore(p.trial) }},
			{Name: ours, Run: func() (measure.Figures, error) { return faceTrial(p.trial) }},
		},
		Base: peer, Ratio: "ns/op",
		Targets: []measure.Target{{Row: ours, Column: "ns/op", Base: peer, AtMost: 15}},
	}
}

func semaphore(d time.Duration) (measure.Figures, error) {
	c := make(chan struct{}, 1)
	return loop(d, func() error {
		c <- struct{}{}
		<-c
		return nil
	})
}

func faceTrial(d time.Duration, opts ...padlock.LockerOption) (measure.Figures, error) {
	ctx := context.Background()
	l := padlock.New(memstore.New(), opts...)
	figures, err := loop(d, func() error {
		h, err := l.Acquire(ctx, "nightly-report")
		if err != nil {
			return err
		}
		return h.Release()
	})
	return figures, errors.Join(err, l.Close(ctx))
}
