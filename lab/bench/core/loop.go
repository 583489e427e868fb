//go:build linux

package main

import (
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

var perOp = []string{"ns/op", "allocs/op"}

// loop calls op for about d, in one goroutine. It rarely reads the clock.
func loop(d time.Duration, op func() error) (measure.Figures, error) {
	for range 100 { // warm-up
		if err := op(); err != nil {
			return nil, err
		}
	}
	before, start := measure.Allocations(), time.Now()
	n := 0
	for time.Since(start) < d {
		for range 100 {
			if err := op(); err != nil {
				return nil, err
			}
		}
		n += 100
	}
	took := time.Since(start)
	return measure.Figures{
		"ns/op":     float64(took.Nanoseconds()) / float64(n),
		"allocs/op": (measure.Allocations() - before) / float64(n),
	}, nil
}
