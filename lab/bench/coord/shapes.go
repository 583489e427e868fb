//go:build linux

package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// Every engine uses the experiments in this file.

// pairs measures how long it takes to acquire and release a lock that nobody else wants.
func pairs(n int, once func(context.Context) error) (measure.Figures, error) {
	ctx := context.Background()
	for range n / 10 { // warm-up: makes the connections and gets the leases
		if err := once(ctx); err != nil {
			return nil, err
		}
	}
	took := make([]float64, 0, n)
	start := time.Now()
	for range n {
		before := time.Now()
		if err := once(ctx); err != nil {
			return nil, err
		}
		took = append(took, micros(time.Since(before)))
	}
	slices.Sort(took)
	return measure.Figures{"us": micros(time.Since(start)) / float64(n), "p50 us": took[n/2]}, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// A waiter waits for a name and then gives it to the next waiter.
type waiter struct {
	wait func(context.Context) error
	pass func(context.Context) error
}

// drain measures how fast a queue empties. While the waiters join the queue, another client holds
// the name. Then drain calls release, which releases that hold.
func drain(release func(context.Context) error, waiters []waiter, settle time.Duration) (measure.Figures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(waiters))
	for i, w := range waiters {
		wg.Go(func() {
			if errs[i] = w.wait(ctx); errs[i] == nil {
				errs[i] = w.pass(ctx)
			}
		})
	}
	time.Sleep(settle)
	start := time.Now()
	if err := release(ctx); err != nil {
		return nil, err
	}
	wg.Wait()
	total := time.Since(start)
	return measure.Figures{"total ms": float64(total) / float64(time.Millisecond), "hop us": micros(total) / float64(len(waiters))}, errors.Join(errs...)
}

// crowd measures how long it takes until every goroutine of one process has had the same lock once.
// All goroutines begin at the same time.
func crowd(n int, once func(ctx context.Context, goroutine int) error) (measure.Figures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, n)
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			errs[i] = once(ctx, i)
		})
	}
	start := time.Now()
	close(begin)
	wg.Wait()
	return measure.Figures{"total ms": float64(time.Since(start)) / float64(time.Millisecond)}, errors.Join(errs...)
}

// medianOf runs a trial several times and returns the median of its times.
func medianOf(times int, trial func() (measure.Figures, error)) (measure.Figures, error) {
	var all []float64
	for range times {
		f, err := trial()
		if err != nil {
			return nil, err
		}
		all = append(all, f["total ms"])
	}
	return measure.Figures{"total ms": measure.Median(all)}, nil
}
