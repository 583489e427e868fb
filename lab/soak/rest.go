package soak

import (
	"context"
	"fmt"
	"time"

	"github.com/padlock-go/padlock"
)

// rest lets all workers rest after the faults, and then looks at every name. Each worker's process
// still lives, and it waits for a name that the engine holds. The workers hold nothing else, so
// every other name must be free. Nothing excuses a name that is not: not the faults, which are
// over, and not a waiter that has given up. The first result is false if the workers cannot rest,
// because they are other programs or the run is restless, or if the store does not grant the name.
func (r *Run) rest(ctx context.Context) (rested bool, err error) {
	if len(r.Programs) > 0 || r.Restless {
		return false, nil
	}
	locker, err := r.openAtEnd(ctx)
	if err != nil {
		return false, fmt.Errorf("before the workers rest: %w", err)
	}
	defer locker.Close(ctx)
	if err := r.await(ctx, locker); err != nil {
		return false, nil // lastLook logs it
	}
	lock, err := locker.Acquire(ctx, restName(r.Load.Prefix), padlock.Wait(openPatience))
	if err != nil {
		return false, nil // lastLook finds out whether the name stays taken
	}
	defer lock.Release()
	busy, err := locker.AcquireAll(ctx, busyNames(r.Load.Prefix), padlock.Wait(openPatience))
	if err != nil {
		return false, nil // as above
	}
	r.monitor.rests.Store(true)
	err = r.awaitRest(ctx)
	_ = busy.Release() // if it fails, lookAtAll notices
	if err != nil {
		return false, err
	}
	r.lookAtAll(ctx, locker)
	return true, nil
}

// awaitRest waits until all workers rest.
func (r *Run) awaitRest(ctx context.Context) error {
	for end := time.Now().Add(time.Minute); r.monitor.resting() < r.Workers; pause(ctx, 5*time.Millisecond) {
		if time.Now().After(end) || ctx.Err() != nil {
			return fmt.Errorf("%w: only %d of %d workers rest", ErrWorker, r.monitor.resting(), r.Workers)
		}
	}
	return nil
}
