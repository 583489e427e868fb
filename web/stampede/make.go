package stampede

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock"
)

// job is one call of Get.
type job struct {
	c      *core
	key    string // the key that the caller gave
	name   string // "stampede:NAME:KEY", the name of the value and of its lock
	s      settings
	fn     func(context.Context) (any, error)
	decode func(Codec, []byte) (any, error)

	old     found         // what the caller found in Values at first
	isEarly bool          // this job renews a value that is still fresh (see Early)
	seenAge time.Duration // how old the fresh value was when Get found it; 0 unless isEarly
	told    told          // what the function said in its last call
}

// found is an entry that was loaded from Values.
type found struct {
	Entry
	gen uint64 // the count of generations before the load
}

func (j *job) load(ctx context.Context) (found, error) {
	gen := j.c.generation(j.name)
	e, err := j.c.values.Load(ctx, j.name)
	if err != nil {
		return found{}, err
	}
	return found{e, gen}, nil
}

// minLoad is how long Values may take at least. A MaxWait of 0 is no reason to never read what is
// stored.
const minLoad = 100 * time.Millisecond

// loadOrSpare loads the value from Values. If that fails, it returns this process's copy together
// with the error. If the caller waits only for MaxWait, so does loadOrSpare.
func (j *job) loadOrSpare(ctx context.Context) (found, error) {
	if j.c.isSilent() {
		return j.c.fromSpare(j.name), errSilent
	}
	within, cancel := ctx, context.CancelFunc(func() {})
	if j.s.maxWait < forever {
		within, cancel = context.WithTimeout(ctx, max(j.s.maxWait, minLoad))
	}
	defer cancel()
	e, err := j.load(within)
	if err == nil {
		j.c.toSpare(j.name, &e)
		return e, nil
	}
	if within.Err() != nil && ctx.Err() == nil {
		j.c.noteSilence()
	}
	return j.c.fromSpare(j.name), err
}

// read decodes the stored value. A value that cannot be decoded counts as absent. That happens, for
// example, after the program has changed.
func (j *job) read(ctx context.Context, e *found) (v any, ok bool) {
	err := func() (err error) {
		defer caught(&err)
		v, err = j.decode(j.s.codec, e.Value)
		return err
	}()
	if err != nil {
		j.s.report(ctx, j.key, err)
		return nil, false
	}
	if e.fresh() {
		j.c.toLocal(j, v, e.Fresh-e.Age, e.gen)
	}
	return v, true
}

// errElsewhere: a refresh found that another caller is making the value.
var errElsewhere = errors.New("stampede: the value is being made elsewhere")

// errLockLost: the function failed, and by then the lock was lost.
type errLockLost struct{ err error }

func (e *errLockLost) Error() string {
	return "stampede: the lock was lost while the function ran: " + e.err.Error()
}
func (e *errLockLost) Unwrap() error { return e.err }

// fill takes the lock, checks Values again, and makes the value if it is still needed. If mayWait
// is false and another caller holds the lock, fill returns errElsewhere. If the function fails and
// the lock was lost meanwhile, fill begins again, because another worker may have made the value.
// fill tries at most three times.
func (j *job) fill(ctx context.Context, mayWait bool) (v any, err error) {
	defer caught(&err)
	opts := []padlock.Option{padlock.Wait(0)}
	if j.c.locker.Guarantees().Lease {
		opts = append(opts, padlock.TTL(j.s.lease))
	}
	if mayWait {
		opts = append(opts, padlock.Wait(forever))
	}
	for try := 1; ; try++ {
		lock, err := j.c.locker.Acquire(ctx, lockName(j.c.locker, j.name), opts...)
		switch down := errors.Is(err, padlock.ErrUnavailable) || errors.Is(err, padlock.ErrUncertain); {
		case err == nil:
		case !mayWait && errors.Is(err, padlock.ErrHeld):
			return nil, errElsewhere
		case j.s.strict || !down || ctx.Err() != nil:
			return nil, err
		default:
			j.s.report(ctx, j.key, err)
			return j.makeWithoutLock(ctx)
		}
		v, err := j.makeWithLock(ctx, lock)
		var lost *errLockLost
		if !errors.As(err, &lost) {
			return v, err
		}
		j.s.report(ctx, j.key, err)
		if try == 3 {
			return j.handleFailure(ctx, &j.old, failure{err: lost.err})
		}
	}
}

// makeWithoutLock makes a value when the lock store cannot be reached, or grants no locks because
// it has restarted. In this process nobody else makes it at the same time; other processes may. The
// value gets the fence of the value that was there. So it does not replace a value that somebody
// has made under the lock meanwhile, and none that is newer than an Invalidate.
func (j *job) makeWithoutLock(ctx context.Context) (any, error) {
	e, down := j.loadOrSpare(ctx)
	j.s.report(ctx, j.key, down)
	if e.fresh() && !(j.isEarly && e.Age >= j.seenAge) {
		if v, ok := j.read(ctx, &e); ok {
			return v, nil
		}
	}
	began := time.Now()
	v, err := j.call(ctx)
	took := time.Since(began)
	var data []byte
	if err == nil {
		data, v, err = j.encode(v)
	}
	switch {
	case err == nil:
		j.c.succeeded(j.name)
		j.storeValue(ctx, v, Entry{Value: data, Fence: e.Fence, Version: e.Version, Took: took}, e.gen, down == nil)
		return v, nil
	case ctx.Err() != nil:
		return nil, err
	}
	return j.handleFailure(ctx, &e, failure{err: err})
}

// makeWithLock is called when this process has the lock. It checks Values again, makes the value if
// it is still needed, and releases the lock.
func (j *job) makeWithLock(ctx context.Context, lock *padlock.Lock) (any, error) {
	defer func() { j.s.report(ctx, j.key, lock.Release()) }()
	e, down := j.loadOrSpare(ctx)
	if down != nil && (j.s.strict || ctx.Err() != nil) {
		return nil, down
	}
	j.s.report(ctx, j.key, down)
	if e.fresh() && !(j.isEarly && e.Age >= j.seenAge) {
		if v, ok := j.read(ctx, &e); ok {
			return v, nil // another caller was faster
		}
	}
	if down == nil {
		if f := j.readMark(ctx, e.Version); f != nil {
			return j.handleFailure(ctx, &e, *f)
		}
	}
	return j.makeValue(ctx, lock, &e, down == nil)
}

// makeValue calls the function under the lock. It stores the value if mayStore is set.
func (j *job) makeValue(ctx context.Context, lock *padlock.Lock, e *found, mayStore bool) (any, error) {
	within, stop := join(lock.Context(), ctx)
	defer stop()
	began := time.Now()
	v, err := j.call(within)
	took := time.Since(began)
	if err == nil {
		var data []byte
		if data, v, err = j.encode(v); err == nil {
			j.c.succeeded(j.name)
			j.storeValue(ctx, v, Entry{Value: data, Fence: lock.Fence(), Version: e.Version, Took: took}, e.gen, mayStore)
			return v, nil
		}
	}
	switch {
	case ctx.Err() != nil: // no caller waits any more, and err may only mean that the function was stopped
		return nil, err
	case lock.Remaining() == 0:
		return nil, &errLockLost{err}
	case mayStore:
		j.storeMark(ctx, e.Version, err)
	}
	return j.handleFailure(ctx, e, failure{err: err})
}

// join returns a context that has the values of ctx and ends when ctx or otherCtx ends.
func join(ctx, otherCtx context.Context) (context.Context, func()) {
	joined, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(otherCtx, func() { cancel(context.Cause(otherCtx)) })
	return joined, func() { stop(); cancel(nil) }
}

// encode returns v in bytes, and the value that these bytes decode to. All callers get that value,
// and not v, so all of them get the same, in this process and in others.
func (j *job) encode(v any) (data []byte, decoded any, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("stampede: the value of %q cannot be encoded: %w", j.key, err)
		}
	}()
	defer caught(&err)
	if data, err = encode(j.s.codec, v); err == nil {
		decoded, err = j.decode(j.s.codec, data)
	}
	return data, decoded, err
}

// storeTimeout bounds how long callers wait while a finished value is stored.
const storeTimeout = 5 * time.Second

// storeValue stores v, even if no caller waits for it any more. If storing fails, or if reachable
// is false because Values did not answer before, only this process keeps a copy of v. OnError gets
// the error, and the callers still get v.
func (j *job) storeValue(ctx context.Context, v any, e Entry, gen uint64, reachable bool) {
	if j.told.drop {
		return
	}
	e.Fresh, e.Keep = j.s.times(j.freshTime())
	kept := true
	if reachable {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		var err error
		if kept, err = j.c.values.Store(ctx, j.name, e); err != nil {
			j.s.report(ctx, j.key, err)
			kept = true
		} else if kept {
			j.c.toLocal(j, v, e.Fresh, gen)
		} else {
			j.s.report(ctx, j.key, ErrNotKept)
		}
	}
	if kept {
		j.c.toSpare(j.name, &found{e, gen})
	}
}

// set discards the value of the key and stores v, which the caller has made.
func (j *job) set(ctx context.Context, v any, data []byte) error {
	if err := j.c.invalidate(ctx, j.key); err != nil {
		return err
	}
	e, err := j.load(ctx)
	if err != nil {
		return err
	}
	fresh, keep := j.s.times(j.s.ttl)
	set := Entry{Value: data, Version: e.Version, Fresh: fresh, Keep: keep}
	kept, err := j.c.values.Store(ctx, j.name, set)
	if kept && err == nil {
		j.c.toLocal(j, v, fresh, e.gen)
		j.c.toSpare(j.name, &found{set, e.gen})
	}
	return err
}

// times returns how long a new value is fresh, and how long it is kept. The argument is the time
// without Jitter. Neither time overflows: a
// time that would be too long for a time.Duration becomes the longest one.
func (s *settings) times(ttl time.Duration) (fresh, keep time.Duration) {
	fresh = ttl
	if s.jitter > 0 {
		fresh = forever
		if d := float64(ttl) * (1 + (2*rand.Float64()-1)*s.jitter); d < float64(forever) {
			fresh = time.Duration(d)
		}
	}
	return fresh, fresh + min(max(s.stale, s.staleIfError), forever-fresh)
}

// handleFailure is called when the function has failed. It begins the back-off, and returns a stale
// value if StaleIfError allows it. If f.at is set, the failure comes from another process.
func (j *job) handleFailure(ctx context.Context, e *found, f failure) (any, error) {
	remote := !f.at.IsZero()
	if !remote {
		f.at = time.Now()
		f.until = f.at.Add(j.errorTime())
	}
	if f.until.After(f.at) {
		j.c.backOff(j.name, f)
	}
	if e.within(j.s.staleIfError) {
		if v, ok := j.read(ctx, e); ok {
			if !remote {
				j.s.report(ctx, j.key, f.err)
			}
			return v, nil
		}
	}
	return nil, f.err
}
