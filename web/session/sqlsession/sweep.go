package sqlsession

import (
	"context"
	"time"
)

const (
	// sweepEvery is how often a process deletes expired rows.
	sweepEvery = 10 * time.Minute
	// sweepFor limits how long one deletion of expired rows takes. When this time is over, the
	// deletion stops, and the rows that it has deleted stay deleted.
	sweepFor = time.Minute
	// sweepBatch is the number of rows that one statement deletes. It is small, so that the
	// statement ends soon and no other statement waits long for its locks.
	sweepBatch = 1000
)

// Sweep deletes the rows that have expired and returns how many. It runs one statement for each
// batch, so after an error earlier batches stay deleted.
func (s *Store) Sweep(ctx context.Context) (int64, error) { return s.rows.sweep(ctx) }

// sweep uses the index on expires, so it neither reads nor locks rows that have not expired.
func (r *rows) sweep(ctx context.Context) (all int64, err error) {
	for {
		start := time.Now()
		n, err := r.count(ctx, r.d.sweep)
		all += n
		if err != nil || n < sweepBatch {
			return all, err
		}
		pause := time.NewTimer(time.Since(start)) // leaves half of the time to other statements
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return all, ctx.Err()
		}
	}
}

// sweepNowAndThen sweeps in the background, if the last sweep was long ago.
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
		_, _ = r.sweep(ctx) // after an error, the next run continues
	}()
}
