package padlockapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// extend makes the lease last for at least ttl_ms from now. Without ttl_ms, it verifies the lock
// and changes nothing. With fence_at_least, it first raises the fence of the lock.
func extend(q *query) reply {
	name, err := q.storedName()
	if err == nil {
		err = q.checkExtend(name)
	}
	if err != nil {
		return failure(err)
	}
	ctx, cancel := q.patient()
	defer cancel()
	if q.has("fence_at_least") {
		if err := q.raise(ctx, name); err != nil {
			return failure(err)
		}
	}
	g, elapsed, err := q.extendAt(ctx, name)
	if err != nil {
		return failure(err)
	}
	slot := -1
	if q.has("slot") {
		slot = int(q.slot)
	}
	left := usable(g.TTL)
	q.note(q.at.Add(elapsed+left), slot)
	return reply{http.StatusOK, extended{ValidMS: max(0, (elapsed + left).Milliseconds()), Shared: g.Shared}}
}

// checkExtend refuses what the store would refuse.
func (q *query) checkExtend(name string) error {
	g := q.where.store.Guarantees()
	if err := driver.CheckHold(name, q.token, &g); err != nil {
		return err
	}
	if !g.Lease && !g.Detached {
		return errors.ErrUnsupported
	}
	// As for fence_above, no client can use up the fences of a name, except one that may break its locks.
	if q.fenceAtLeast > driver.MaxFenceAbove && !(q.who.Break && q.api.allowBreak) {
		return fmt.Errorf("%w: fence_at_least is %d, at most 2^53 - 2^50 is allowed, so that greater fences are left", padlock.ErrInvalid, q.fenceAtLeast)
	}
	if q.ttlMS == 0 {
		return nil
	}
	return driver.CheckTTL("ttl_ms", duration(q.ttlMS), &g)
}

// extendAt extends or verifies the hold in the store. If a reply is lost, extendAt repeats the
// request. It returns how long this server had the client's request when the lease began to count:
// just before the last of its own requests was sent, or at Grant.From. The latter may lie before
// the client's request; then elapsed is negative.
func (q *query) extendAt(ctx context.Context, name string) (g driver.Grant, elapsed time.Duration, err error) {
	for i := 0; ; i++ {
		elapsed = q.elapsed()
		g, err = q.where.store.Extend(ctx, name, q.token, duration(q.ttlMS))
		if err == nil && g.From != 0 {
			elapsed = g.From.Sub(q.at)
		}
		if err == nil && g.TTL <= 0 {
			err = padlock.ErrUncertain // a hold without an end cannot be reported
		}
		if err == nil || answered(err) || i == len(again) || sleep(ctx, again[i]) != nil {
			return g, elapsed, err
		}
	}
}

// raise raises the fence of the hold. If a reply is lost, raise repeats the request.
func (q *query) raise(ctx context.Context, name string) error {
	raiser, ok := fenceRaiser(q.where.store)
	if !ok {
		return errors.ErrUnsupported
	}
	for i := 0; ; i++ {
		err := raiser.RaiseFence(ctx, name, q.token, uint64(q.fenceAtLeast))
		if err == nil || answered(err) || i == len(again) || sleep(ctx, again[i]) != nil {
			return err
		}
	}
}

func fenceRaiser(s driver.Store) (driver.FenceRaiser, bool) {
	raiser, ok := driver.As[driver.FenceRaiser](s)
	return raiser, ok && s.Guarantees().Lacks&driver.AbilityFenceRaiser == 0
}

// answered reports whether the error of a request says what became of it.
func answered(err error) bool {
	for _, known := range []error{padlock.ErrLost, padlock.ErrExpired, padlock.ErrInvalid, padlock.ErrClosed, padlock.ErrUnavailable, errors.ErrUnsupported} {
		if errors.Is(err, known) {
			return !errors.Is(err, padlock.ErrUncertain)
		}
	}
	return false
}

// usable returns how long a holder may work with a lease of length ttl: as in package padlock, the
// lease less the drift of two clocks, and the time to stop in.
func usable(ttl time.Duration) time.Duration {
	drift := ttl/100 + min(2*time.Millisecond, ttl/20)
	return ttl - drift - min(50*time.Millisecond, ttl/10)
}

// release releases the lock, and ends a wait with the token. The outcome is that of the store,
// because the client must tell a lock that another client has taken from one that its own first
// release ended.
func release(q *query) reply {
	name, err := q.storedName()
	if err == nil {
		err = q.checkRelease(name)
	}
	if err != nil {
		return failure(err)
	}
	ctx, cancel := q.patient()
	defer cancel()
	one, done := q.api.waits.end(ctx, q.waitID())
	if !done {
		return failure(padlock.ErrUncertain)
	}
	out, err := q.releaseAt(ctx, name)
	if slot := q.api.ledger.slot(q.client, q.waitID()); err == nil && !ended(out) && !q.has("slot") && slot >= 0 {
		// The client gave up before it got the answer with its permit.
		out, err = q.releaseAt(ctx, fast.SlotName(q.name, slot))
	}
	if err == nil && !ended(out) && one.uncertain() {
		err = padlock.ErrUncertain // a request of the wait may still reach the store
	}
	if err != nil {
		return failure(err)
	}
	q.api.ledger.forget(q.client, q.waitID())
	return reply{http.StatusOK, released{Outcome: outcomes[out]}}
}

// ended reports whether a release has ended a lock.
func ended(out driver.Outcome) bool {
	return out == driver.OutcomeReleased || out == driver.OutcomeInherited
}

// checkRelease refuses what the store would refuse, before anything is released.
func (q *query) checkRelease(name string) error {
	g := q.where.store.Guarantees()
	if err := driver.CheckHold(name, q.token, &g); err != nil {
		return err
	}
	if !g.Lease && !g.Detached {
		return errors.ErrUnsupported // acquire grants nothing there
	}
	return driver.CheckKeep("keep_ms", q.coolDown(), &g)
}

// coolDown returns the cool-down after a release. A client that sends the rest of its keep_ms does
// not know the shortest one of the store.
func (q *query) coolDown() time.Duration {
	if q.keepMS == 0 {
		return 0
	}
	return max(duration(q.keepMS), driver.MinTTL, q.where.store.Guarantees().MinTTL)
}

var outcomes = map[driver.Outcome]string{
	driver.OutcomeReleased: "released", driver.OutcomeInherited: "released", driver.OutcomeExpired: "expired", driver.OutcomeTaken: "taken", driver.OutcomeGone: "gone",
}

// again is how long to wait before each repetition of a request without an answer.
var again = []time.Duration{50 * time.Millisecond, 250 * time.Millisecond}

// releaseAt releases the lock in the store. If a reply is lost, releaseAt repeats the request.
// "Gone" after that means that the first request has released the lock, or that it was gone before;
// both are outcomes that the client expects of a repeat.
func (q *query) releaseAt(ctx context.Context, name string) (driver.Outcome, error) {
	unsure, keep := false, q.coolDown()
	for i := 0; ; i++ {
		out, err := q.where.store.Release(ctx, name, q.token, keep)
		if err == nil || out == driver.OutcomeReleased && errors.Is(err, padlock.ErrUnavailable) {
			return out, nil // perhaps without its cool-down, for which the store had no room
		}
		final := errors.Is(err, padlock.ErrInvalid) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, padlock.ErrClosed)
		unsure = unsure || !final && !errors.Is(err, padlock.ErrUnavailable)
		if final || i == len(again) || sleep(ctx, again[i]) != nil {
			if unsure {
				err = errors.Join(padlock.ErrUncertain, err)
			}
			return out, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
