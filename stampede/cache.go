package stampede

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
)

var (
	// ErrClosed: the Cache was closed.
	ErrClosed = padlock.ErrClosed
	// ErrNotReady: the value, or the file, was not there within MaxWait.
	ErrNotReady = errors.New("stampede: not ready in time")
	// ErrNotKept is what OnError gets if a value was made and Values did not keep it, because the
	// key was invalidated meanwhile or a worker with a greater fence was faster. The callers that
	// waited got the value.
	ErrNotKept = errors.New("stampede: the value is not kept: it was out of date when it was made")
)

// A Cache returns values of one kind, for example the pages of a site, and makes those that are
// missing or out of date: one caller at a time for each key, over all processes. It is safe for
// concurrent use.
type Cache[T any] struct {
	c  *core
	fn func(ctx context.Context, key string) (T, error)
}

// New returns a Cache whose values are made by fn, and are fresh for ttl. They are kept in values
// and made under locks of locker. The name of a value and of its lock is "stampede:NAME:KEY"; all
// processes that use the same name share the values, so one name stands for one kind of value. name
// has 1 to 100 bytes and no colon.
//
// fn runs in a goroutine of its own. Its context has the values of the context of the caller that
// caused the run, and the fence of the key's lock (padlock.FenceFrom). The context ends when all
// callers that waited have gone because their contexts ended, when the lock is lost, when TimeLimit
// is over, and when the Cache is closed. A value may be returned to several callers, so the data
// that it points to must not be changed.
//
// The Locker is not closed by the Cache; close it after the Cache. The error is about arguments and
// options; no store is asked.
func New[T any](locker *padlock.Locker, values Values, name string, ttl time.Duration, fn func(ctx context.Context, key string) (T, error), opts ...Option) (*Cache[T], error) {
	s := defaults()
	s.ttl = ttl
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("stampede: New: an Option is nil")
		}
		o.applyCache(&s)
	}
	err := s.check()
	switch {
	case locker == nil:
		err = errors.New("the Locker is nil")
	case values == nil:
		err = errors.New("Values is nil")
	case fn == nil:
		err = errors.New("the function is nil")
	case name == "" || len(name) > 100 || strings.Contains(name, ":"):
		err = fmt.Errorf("the name %.100q is empty, longer than 100 bytes, or has a colon", name)
	}
	if err != nil {
		return nil, fmt.Errorf("stampede: New: %w", err)
	}
	return &Cache[T]{newCore(locker, values, "stampede:"+name+":", s), fn}, nil
}

// Get returns the value of key, made by the Cache's function if there is none that is fresh. Of all
// callers, in all processes, one runs the function; the others wait for its value, or get a stale
// one, as the options say.
//
// An error of the function goes to the callers that wait and, for ErrorTTL, to later ones, in other
// processes as a *RemoteError. A value that cannot be encoded is such an error. A panic in the
// function or in the Codec is a *PanicError to all of them. A Get of the same key inside the
// function, under the function's context, returns an error that answers errors.Is for
// padlock.ErrAlreadyHeld if there is no value to be served.
func (c *Cache[T]) Get(ctx context.Context, key string) (T, error) {
	return get(ctx, c.c, c.c.settings, key, func(ctx context.Context) (T, error) { return c.fn(ctx, key) })
}

// Invalidate removes the value of key for all processes. A value that is being made of older data at
// this moment is not kept; its callers get it, later ones do not. In this process no caller that
// comes after Invalidate gets an older value; in other processes the copies that Local allows live
// on.
func (c *Cache[T]) Invalidate(ctx context.Context, key string) error {
	return c.c.invalidate(ctx, key)
}

// Close lets nothing new begin, cancels all functions that run, and waits for them until ctx ends.
// A Get after Close returns ErrClosed unless a value can be served.
func (c *Cache[T]) Close(ctx context.Context) error { return c.c.close(ctx) }

// get is Get with a function and settings of the call.
func get[T any](ctx context.Context, c *core, s settings, key string, fn func(context.Context) (T, error)) (T, error) {
	j := job{
		c: c, key: key, name: c.prefix + key, s: s,
		fn:     func(ctx context.Context) (any, error) { return fn(ctx) },
		decode: func(codec Codec, data []byte) (any, error) { return decode[T](codec, data) },
	}
	v, err := j.get(ctx)
	if err != nil {
		var none T
		return none, err
	}
	t, _ := v.(T) // v is nil if T is an interface and the function returned nil
	return t, nil
}
