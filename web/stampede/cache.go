package stampede

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/web/internal/jsoncodec"
)

var (
	// ErrClosed: the Cache is closed.
	ErrClosed = padlock.ErrClosed
	// ErrNotReady: the value was not ready within MaxWait.
	ErrNotReady = errors.New("stampede: not ready in time")
	// ErrNotKept: a new value was not stored, because it was out of date when it was finished.
	// Either the key was invalidated meanwhile, or a worker with a greater fence was faster. Only
	// OnError gets this error; the callers that waited got the value.
	ErrNotKept = errors.New("stampede: the value is not kept: it was out of date when it was made")
)

// A Cache returns values of one kind, for example the pages of a site. If a value is missing or out
// of date, the Cache makes it. For each key, only one caller at a time makes the value, over all
// processes. A Cache is safe for concurrent use.
type Cache[T any] struct {
	c  *core
	fn func(ctx context.Context, key string) (T, error)
}

// New returns a Cache. The function fn makes a value, which is fresh for the time that the option
// Fresh sets; New needs that option. The Cache calls fn under a lock of the Locker, and stores the
// value in the given Values.
//
// All processes that use the same name share the values, so use one name for one kind of value. The
// name has 1 to 100 bytes and no colon. A value and its lock are called "stampede:NAME:KEY".
//
// fn runs in a goroutine of its own. Its context has the same values as the context of one of the
// callers, and also the fence of the key's lock (padlock.FenceFrom). The context ends when the
// contexts of all waiting callers have ended, when the lock is lost, when TimeLimit is over, or
// when the Cache is closed. All callers get what the bytes of the value decode to. Several may get
// the same value, so the data that it points to must not be changed. With its context, fn can call
// FreshFor or DoNotKeep.
//
// The Cache does not close the Locker; close it after the Cache. New returns an error if the
// arguments or options are invalid. It calls no store.
func New[T any](locker *padlock.Locker, values Values, name string, fn func(ctx context.Context, key string) (T, error), opts ...Option) (*Cache[T], error) {
	s := defaults()
	s.ttl = missing
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("stampede: New: an Option is nil")
		}
		o(&s)
	}
	var err error
	if s.ttl != missing {
		err = s.check()
	}
	switch {
	case locker == nil:
		err = errors.New("the Locker is nil")
	case values == nil:
		err = errors.New("Values is nil")
	case fn == nil:
		err = errors.New("the function is nil")
	case name == "" || len(name) > 100 || strings.Contains(name, ":"):
		err = fmt.Errorf("the name %.100q is empty, longer than 100 bytes, or has a colon", name)
	case s.codec == Codec(jsoncodec.Codec{}) && jsoncodec.Check(reflect.TypeFor[T]()) != nil:
		err = jsoncodec.Check(reflect.TypeFor[T]())
	case s.ttl == missing:
		err = errors.New("the option Fresh is missing; it says how long a value is fresh")
	}
	if err != nil {
		return nil, fmt.Errorf("stampede: New: %w", err)
	}
	return &Cache[T]{newCore(locker, values, "stampede:"+name+":", s), fn}, nil
}

// Get returns the value of key. If there is no fresh one, the Cache's function makes it. Of all
// callers, in all processes, one runs the function. The others wait for its value or get a stale
// one, depending on the options.
//
// An error of the function goes to the callers that wait. Callers that come later also get it,
// until ErrorTTL is over. Callers in other processes get the error as a *RemoteError. If a value
// cannot be encoded, that counts as an error of the function. If the function or the Codec panics,
// all callers get a *PanicError.
//
// The function may call Get for the same key with its own context. This inner Get does not wait: it
// returns a value that is already there, or an error for which errors.Is finds
// padlock.ErrAlreadyHeld.
func (c *Cache[T]) Get(ctx context.Context, key string) (T, error) {
	return getTyped(ctx, c.c, c.c.settings, key, func(ctx context.Context) (T, error) { return c.fn(ctx, key) })
}

// GetMany is Get for several keys at once. It returns the values that it got, and the errors of the
// other keys in one. It is as if that many callers called Get, but at most 32 at a time.
func (c *Cache[T]) GetMany(ctx context.Context, keys []string) (map[string]T, error) {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	values, errs := make([]T, len(keys)), make([]error, len(keys))
	var wg sync.WaitGroup
	places := make(chan bool, 32)
	for i, key := range keys {
		places <- true
		wg.Go(func() {
			defer func() { <-places }()
			values[i], errs[i] = c.Get(ctx, key)
		})
	}
	wg.Wait()
	got := make(map[string]T)
	for i, key := range keys {
		if errs[i] == nil {
			got[key] = values[i]
		} else {
			errs[i] = fmt.Errorf("stampede: the value of %q: %w", key, errs[i])
		}
	}
	return got, errors.Join(errs...)
}

// Set makes v the value of key for all processes, as if the Cache's function had returned it now.
// Call it after the data that v is made of were saved. A value that is being made at this moment is
// not kept, as with Invalidate. If another Set or an Invalidate of the key comes at the same time,
// either may win. After an error, the old value may have been removed, and no other value takes its
// place.
func (c *Cache[T]) Set(ctx context.Context, key string, v T) error {
	j := newJob[T](c.c, c.c.settings, key)
	data, decoded, err := j.encode(v)
	if err == nil {
		err = j.set(ctx, decoded, data)
	}
	return err
}

// Stats counts the calls of Get of this Cache, in this process.
func (c *Cache[T]) Stats() Stats { return c.c.tally.stats() }

// Figures returns the fields of Stats. The packages metrics and padlockotel ask for them, because they
// do not import this package.
func (c *Cache[T]) Figures() (hits, stale, misses, runs, errors uint64) {
	s := c.Stats()
	return s.Hits, s.Stale, s.Misses, s.Runs, s.Errors
}

// Invalidate removes the value of key for all processes. A value that is being made at this moment
// comes from older data: the callers that wait get that value, but it is not kept. In this process,
// a Get that begins after Invalidate returns no older value. Other processes may still have a local
// copy of the old value (see Local), and serve it until the time of the copy is over.
func (c *Cache[T]) Invalidate(ctx context.Context, key string) error {
	return c.c.invalidate(ctx, key)
}

// Close stops new work, cancels all functions that run, and waits for them until ctx ends. After
// Close, Get returns ErrClosed unless a value can be served.
func (c *Cache[T]) Close(ctx context.Context) error { return c.c.close(ctx) }

// getTyped does the work of Get. fn makes the value, and s has the settings of this call.
func getTyped[T any](ctx context.Context, c *core, s settings, key string, fn func(context.Context) (T, error)) (T, error) {
	j := newJob[T](c, s, key)
	j.fn = func(ctx context.Context) (any, error) { return fn(ctx) }
	v, err := j.getValue(ctx)
	if err != nil {
		var none T
		return none, err
	}
	t, _ := v.(T) // v is nil if T is an interface and the function returned nil
	return t, nil
}

func newJob[T any](c *core, s settings, key string) job {
	return job{
		c: c, key: key, name: c.prefix + key, s: s,
		decode: func(codec Codec, data []byte) (any, error) { return decode[T](codec, data) },
	}
}
