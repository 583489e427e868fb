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
// fn runs in a goroutine of its own. Its context has the values of the context
// of the caller that caused the run, and the fence of the key's lock
// (padlock.FenceFrom). It ends when all callers that waited have gone because
// their contexts ended, when the lock is lost, when TimeLimit is over, and when
// the Cache is closed.
//
// An error of fn goes to the callers that wait and, for ErrorTTL, to those
// that come later, in other processes as a *RemoteError. A value that cannot
// be encoded is such an error. A panic in fn or in the Codec is an error to all
// of them (*PanicError). A Remember of the same key inside of fn, under fn's
// context, returns an error that answers errors.Is for padlock.ErrAlreadyHeld
// if there is no value to be served.
func Remember[T any](ctx context.Context, c *Cache, key string, ttl time.Duration, fn func(context.Context) (T, error), opts ...Option) (T, error) {
	j := job{
		c: c, key: key, ttl: ttl, s: c.defaults,
		fn:     func(ctx context.Context) (any, error) { return fn(ctx) },
		decode: func(s *settings, data []byte) (any, error) { return decode[T](s.codec, data) },
	}
	for _, o := range opts {
		o(&j.s)
	}
	j.name = j.s.prefix + key
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
	key    string // as the caller calls it
	name   string // with the Prefix: what values, locks and flights are called
	ttl    time.Duration
	s      settings
	fn     func(context.Context) (any, error)
	decode func(*settings, []byte) (any, error)

	old   found         // by the caller, before anything was made
	ahead bool          // renews a value that is fresh still,
	seen  time.Duration // and had this age when that was decided
}

// found is what a look at Values found.
type found struct {
	Entry
	gen uint64 // of local copies, from before the look
}

func (j *job) load(ctx context.Context) (found, error) {
	gen := j.c.generation(j.name)
	e, err := j.c.values.Load(ctx, j.name)
	if err != nil {
		return found{}, err
	}
	return found{e, gen}, nil
}

func (j *job) get(ctx context.Context) (any, error) {
	if v, ok := j.c.fromLocal(j.name); ok {
		return v, nil
	}
	e, err := j.load(ctx)
	if err != nil && (j.s.strict || ctx.Err() != nil) {
		return nil, err
	}
	j.report(err)
	j.old = e
	switch {
	case e.fresh():
		if v, ok := j.read(&e); ok {
			if j.early(&e.Entry) {
				j.ahead, j.seen = true, e.Age
				j.c.refresh(ctx, j)
			}
			return v, nil
		}
	case e.within(j.s.stale), e.within(j.s.staleIfError) && j.c.failing(j.name, e.Age):
		if v, ok := j.read(&e); ok {
			j.c.refresh(ctx, j)
			return v, nil
		}
	}
	return j.fly(ctx)
}

// read decodes what is kept. What cannot be decoded, as after a change of the
// program, counts as absent.
func (j *job) read(e *found) (v any, ok bool) {
	err := func() (err error) {
		defer caught(&err)
		v, err = j.decode(&j.s, e.Value)
		return err
	}()
	if err != nil {
		j.report(err)
		return nil, false
	}
	if e.fresh() {
		j.c.toLocal(j, v, e.Fresh-e.Age, e.gen)
	}
	return v, true
}

// early decides at random whether a fresh value is renewed now.
func (j *job) early(e *Entry) bool {
	if j.s.early <= 0 {
		return false
	}
	ahead := float64(e.Took) * j.s.early * -math.Log(1-rand.Float64())
	return time.Duration(ahead) >= e.Fresh-e.Age
}

// errElsewhere: a refresh found that another caller makes the value.
var errElsewhere = errors.New("stampede: the value is being made elsewhere")

// errLockLost: the function failed and the lock was gone.
type errLockLost struct{ err error }

func (e *errLockLost) Error() string {
	return "stampede: the lock was lost while the function ran: " + e.err.Error()
}
func (e *errLockLost) Unwrap() error { return e.err }

// fill takes the lock, looks again, and makes the value. If the function fails
// and the lock was lost meanwhile, fill begins again, at most three times in
// all: then another caller makes the value, or this one does. Without wait it
// returns errElsewhere if the lock is held.
func (j *job) fill(ctx context.Context, wait bool) (v any, err error) {
	defer caught(&err)
	opts := []padlock.Option{padlock.Wait(0)}
	if wait {
		opts[0] = padlock.Wait(forever)
	}
	opts = j.c.lockOptions(&j.s, opts)
	for try := 1; ; try++ {
		lock, err := j.c.locker.Acquire(ctx, lockName(j.name), opts...)
		switch down := errors.Is(err, padlock.ErrUnavailable) || errors.Is(err, padlock.ErrUncertain); {
		case err == nil:
		case !wait && errors.Is(err, padlock.ErrHeld):
			return nil, errElsewhere
		case j.s.strict || !down || ctx.Err() != nil:
			return nil, err
		default:
			j.report(err)
			return j.unlocked(ctx)
		}
		v, err := j.locked(ctx, lock)
		var lost *errLockLost
		if !errors.As(err, &lost) {
			return v, err
		}
		j.report(err)
		if try == 3 {
			return j.failed(&j.old, failure{err: lost.err})
		}
	}
}

// forever leaves it to the context how long the lock is waited for.
const forever = time.Duration(1<<63 - 1)

// unlocked makes a value while the lock store cannot be reached. The value is
// not kept: without a fence nothing would protect a newer one.
func (j *job) unlocked(ctx context.Context) (any, error) {
	v, err := j.call(ctx)
	switch {
	case err == nil:
		j.c.succeeded(j.name)
		return v, nil
	case ctx.Err() != nil:
		return nil, err
	}
	return j.failed(&j.old, failure{err: err})
}

// locked looks again and makes the value, and releases the lock in any case.
func (j *job) locked(ctx context.Context, lock *padlock.Lock) (any, error) {
	defer func() { j.report(lock.Release()) }()
	e, down := j.load(ctx)
	if down != nil && (j.s.strict || ctx.Err() != nil) {
		return nil, down
	}
	j.report(down)
	if e.fresh() && !(j.ahead && e.Age >= j.seen) {
		if v, ok := j.read(&e); ok {
			return v, nil // another caller was faster
		}
	}
	if down == nil {
		if f := j.told(ctx, e.Version); f != nil {
			return j.failed(&e, *f)
		}
	}
	return j.make(ctx, lock, &e, down == nil)
}

// make calls the function under the lock and keeps the value, if Values can.
func (j *job) make(ctx context.Context, lock *padlock.Lock, e *found, keep bool) (any, error) {
	within, stop := join(lock.Context(), ctx)
	defer stop()
	began := time.Now()
	v, err := j.call(within)
	took := time.Since(began)
	if err == nil {
		var data []byte
		if data, err = j.encode(v); err == nil {
			j.c.succeeded(j.name)
			if keep {
				j.keep(ctx, v, Entry{Value: data, Fence: lock.Fence(), Version: e.Version, Took: took}, e.gen)
			}
			return v, nil
		}
	}
	switch {
	case ctx.Err() != nil: // nobody waits any more: that says nothing of the function
		return nil, err
	case lock.Expired():
		return nil, &errLockLost{err}
	case keep:
		j.tell(ctx, e.Version, err)
	}
	return j.failed(e, failure{err: err})
}

// join returns a context with the values of ctx that ends with ctx or other.
func join(ctx, other context.Context) (context.Context, func()) {
	joined, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return joined, func() { stop(); cancel(nil) }
}

func (j *job) encode(v any) (data []byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("stampede: the value of %q cannot be encoded: %w", j.key, err)
		}
	}()
	defer caught(&err)
	return encode(j.s.codec, v)
}

// storeTimeout bounds how long callers wait for a value that is made already.
const storeTimeout = 5 * time.Second

// keep stores v, even if nobody waits for it any more. If it is not kept,
// OnError is told and the callers get it all the same.
func (j *job) keep(ctx context.Context, v any, e Entry, gen uint64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	e.Fresh = j.ttl + time.Duration((2*rand.Float64()-1)*j.s.jitter*float64(j.ttl))
	e.Keep = e.Fresh + max(j.s.stale, j.s.staleIfError)
	kept, err := j.c.values.Store(ctx, j.name, e)
	switch {
	case err != nil:
		j.report(err)
	case kept:
		j.c.toLocal(j, v, e.Fresh, gen)
	default:
		j.report(ErrNotKept)
	}
}

// failed begins the back-off, and serves a stale value if that is wanted. f
// has no times unless it was told by another process.
func (j *job) failed(e *found, f failure) (any, error) {
	remote := !f.at.IsZero()
	if !remote {
		f.at = time.Now()
		f.until = f.at.Add(j.s.errorTTL)
	}
	if j.s.errorTTL > 0 {
		j.c.backOff(j.name, f)
	}
	if e.within(j.s.staleIfError) {
		if v, ok := j.read(e); ok {
			if !remote {
				j.report(f.err)
			}
			return v, nil
		}
	}
	return nil, f.err
}
