package sqlsession

import (
	"context"
	"time"
)

const (
	// sweepEvery is how often a process deletes expired rows.
	sweepEvery = 10 * time.Minute
	// sweepFor bounds one such run. What it has deleted stays deleted.
	sweepFor = time.Minute
	// sweepBatch is how many rows one statement deletes: few enough that it
	// ends soon, and that no other statement waits long for its locks.
	sweepBatch = 1000
)

// Sweep deletes the rows that have expired and returns how many, in batches of
// one statement each. After an error, the batches before it stay deleted.
func (s *Store) Sweep(ctx context.Context) (int64, error) { return s.rows.sweep(ctx) }

// sweep uses the index of the end, so rows that live are neither read nor locked.
func (r *rows) sweep(ctx context.Context) (all int64, err error) {
	for {
		start := time.Now()
		n, err := r.count(ctx, r.d.sweep)
		all += n
		if err != nil || n < sweepBatch {
			return all, err
		}
		pause := time.NewTimer(time.Since(start)) // half of the time is for others
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return all, ctx.Err()
		}
	}
}

// sweepNowAndThen sweeps in the background, if the last time was long ago.
func (r *rows) sweepNowAndThen() {
	last, now := r.lastSweep.Load(), time.Now().UnixNano()
	if now-last <= int64(sweepEvery) || !r.sweeping.CompareAndSwap(false, true) {
		return
	}
	if !r.lastSweep.CompareAndSwap(last, now) {
		r.sweeping.Store(false)
		return
	}
	go func() {
		defer r.sweeping.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), sweepFor)
		defer cancel()
		_, _ = r.sweep(ctx) // the next run goes on from here
	}()
}
