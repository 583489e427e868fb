//go:build linux

package main

import (
	"context"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// time measures how long a step takes. It repeats the step for the length of a trial.
func (b *bench) time(once func(context.Context) error) (measure.Figures, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 50 {
		if err := once(ctx); err != nil {
			return nil, err
		}
	}
	var times measure.Times
	before, start := measure.Used(), time.Now()
	for last := start; time.Since(start) < b.plan.trial; {
		if err := once(ctx); err != nil {
			return nil, err
		}
		now := time.Now()
		times = append(times, int64(now.Sub(last)))
		last = now
	}
	took, n := time.Since(start), float64(len(times))
	return measure.Figures{
		"us": float64(took.Microseconds()) / n, "p50 us": times.Micros(0.5),
		"client us": float64((measure.Used().CPU - before.CPU).Microseconds()) / n,
	}, nil
}
