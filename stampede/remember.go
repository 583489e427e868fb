package stampede

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock"
)

// Remember returns the value of key, made by fn if there is none that is at
// most ttl old. Of all callers, in all processes, one runs fn; the others wait
// for its value, or are served a stale one, as the options say. The same value
// is returned to several callers: what it points to must not be changed.
//
// fn runs under a context with the values of the first caller's, which ends
// when nobody waits any more, or when the lock is lost; not with the caller's
// own. An error of fn goes to those who wait and, for ErrorTTL, to those who
// come. A panic in fn is an error to all of them (*PanicError).
func Remember[T any](ctx context.Context, c *Cache, key string, ttl time.Duration, fn func(context.Context) (T, error), opts ...Option) (T, error) {
	j := job{
		c: c, key: key, ttl: ttl, s: c.defaults,
		fn:     func(ctx context.Context) (any, error) { return fn(ctx) },
		decode: func(s *settings, data []byte) (any, error) { return decode[T](s.codec, data) },
	}
	for _, o := range opts {
		o(&j.s)
	}
	v, err := j.get(ctx)
	if err != nil {
		var none T
		return none, err
	}
	t, ok := v.(T)
	if !ok && v != nil {
		return t, fmt.Errorf("stampede: key %q is in use for a %T, not a %T", key, v, t)
	}
	return t, nil
}

// job is one call of Remember.
type job struct {
	c      *Cache
	key    string
	ttl    time.Duration
	s      settings
	fn     func(context.Context) (any, error)
	decode func(*settings, []byte) (any, error)

	ahead bool          // renews a value that is fresh still,
	seen  time.Duration // and had this age when that was decided
}

// PanicError is the error of a function that panicked.
type PanicError struct {
	Value any // what it panicked with
	Stack []byte
}

// Error tells what the function panicked with.
func (e *PanicError) Error() string {
	return fmt.Sprintf("stampede: the function panicked: %v", e.Value)
}

func (j *job) get(ctx context.Context) (any, error) {
	if v, ok := j.c.fromLocal(j.key); ok {
		return v, nil
	}
	e, err := j.c.values.Load(ctx, j.key)
	switch {
	case err != nil && (j.s.strict || ctx.Err() != nil):
		return nil, err
	case err != nil:
		j.report(err)
		return j.fly(ctx, Entry{})
	case e.fresh():
		if v, ok := j.read(&e); ok {
			if j.early(&e) {
				j.ahead, j.seen = true, e.Age
				j.c.refresh(j)
			}
			return v, nil
		}
	case e.within(j.s.stale):
		if v, ok := j.read(&e); ok {
			j.c.refresh(j)
			return v, nil
		}
	}
	return j.fly(ctx, e)
}

// read decodes what is kept. What cannot be decoded, as after a change of the
// program, counts as absent.
func (j *job) read(e *Entry) (any, bool) {
	v, err := j.decode(&j.s, e.Value)
	if err != nil {
		j.report(err)
		return nil, false
	}
	if e.fresh() {
		j.c.toLocal(j, v, e.Fresh-e.Age)
	}
	return v, true
}

// early decides by lot whether a fresh value is renewed now.
func (j *job) early(e *Entry) bool {
	if j.s.early <= 0 {
		return false
	}
	ahead := float64(e.Took) * j.s.early * -math.Log(1-rand.Float64())
	return time.Duration(ahead) >= e.Fresh-e.Age
}

func (j *job) report(err error) {
	if j.s.onError != nil && err != nil {
		j.s.onError(j.key, err)
	}
}

// fill takes the lock, looks again, and makes the value. If the lock is lost
// while it is being made, somebody else makes it, or this caller once more.
func (j *job) fill(ctx context.Context, wait padlock.Option) (any, error) {
	for try := 0; ; try++ {
		lock, err := j.c.locker.Acquire(ctx, j.s.prefix+j.key, j.c.lockOptions(&j.s, []padlock.Option{wait})...)
		if err != nil {
			return j.unlocked(ctx, err)
		}
		v, err := j.fillLocked(ctx, lock)
		lost := lock.Expired()
		if released := lock.Release(); released != nil {
			j.report(released)
		}
		if err == nil || !lost || ctx.Err() != nil || try == 2 {
			return v, err
		}
		j.report(err)
	}
}

// unlocked is for when there is no lock to be had because its store is out of
// reach.
func (j *job) unlocked(ctx context.Context, err error) (any, error) {
	down := errors.Is(err, padlock.ErrUnavailable) || errors.Is(err, padlock.ErrUncertain)
	if j.s.strict || !down || ctx.Err() != nil {
		return nil, err
	}
	j.report(err)
	return j.call(ctx)
}

func (j *job) fillLocked(ctx context.Context, lock *padlock.Lock) (any, error) {
	e, err := j.c.values.Load(ctx, j.key)
	switch {
	case err != nil && j.s.strict:
		return nil, err
	case err != nil:
		j.report(err)
		return j.call(lock.Context())
	case e.fresh() && !(j.ahead && e.Age >= j.seen):
		if v, ok := j.read(&e); ok {
			return v, nil // somebody was faster
		}
	}
	within, stop := join(ctx, lock.Context())
	defer stop()
	began := time.Now()
	v, err := j.call(within)
	if err != nil {
		return j.failed(ctx, &e, err)
	}
	j.keep(ctx, v, Entry{Fence: lock.Fence(), Version: e.Version, Took: time.Since(began)})
	return v, nil
}

// join returns a context with the values of ctx that ends with ctx or other.
func join(ctx, other context.Context) (context.Context, func()) {
	joined, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return joined, func() { stop(); cancel(nil) }
}

// keep stores v. That it is not kept, because it is out of date already, is no
// error for those who wait for it.
func (j *job) keep(ctx context.Context, v any, e Entry) {
	data, err := encode(j.s.codec, v)
	if err != nil {
		j.report(fmt.Errorf("stampede: encode %q: %w", j.key, err))
		return
	}
	e.Value = data
	e.Fresh = j.ttl + time.Duration((2*rand.Float64()-1)*j.s.jitter*float64(j.ttl))
	e.Keep = e.Fresh + max(j.s.stale, j.s.staleIfError)
	kept, err := j.c.values.Store(ctx, j.key, e)
	j.report(err)
	if kept {
		j.c.toLocal(j, v, e.Fresh)
	}
}

// failed serves a stale value if that is wanted, else begins the back-off.
func (j *job) failed(ctx context.Context, e *Entry, err error) (any, error) {
	if ctx.Err() != nil {
		return nil, err
	}
	if e.within(j.s.staleIfError) {
		if v, ok := j.read(e); ok {
			j.report(err)
			return v, nil
		}
	}
	j.c.backOff(j.key, err, j.s.errorTTL)
	return nil, err
}
