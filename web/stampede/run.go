package stampede

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// PanicError is the error of a function, or of a Codec, that panicked.
type PanicError struct {
	Value any // the value that it panicked with
	Stack []byte
}

// Error names the value that the function panicked with.
func (e *PanicError) Error() string {
	return fmt.Sprintf("stampede: the function panicked: %v", e.Value)
}

// Unwrap returns the value that the function panicked with, if that value is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ErrTimeLimit: the function did not return within TimeLimit.
var ErrTimeLimit = errors.New("stampede: the function took longer than TimeLimit")

var errGoexit = errors.New("stampede: the function called runtime.Goexit")

// caught turns a panic into an error. It must be deferred.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = &PanicError{p, debug.Stack()}
	}
}

// inside marks the context of a function: it says for which key the function makes a value. If the
// function calls Get for the same key, this Get must not wait for the function, because both would
// wait for ever.
type inside struct {
	c     *core
	name  string
	over  atomic.Bool // the function has returned
	told  atomic.Pointer[told]
	outer *inside
}

type insideKey struct{}

func insideOf(ctx context.Context) *inside {
	in, _ := ctx.Value(insideKey{}).(*inside)
	return in
}

func (in *inside) makes(c *core, name string) bool {
	for ; in != nil; in = in.outer {
		if in.c == c && in.name == name && !in.over.Load() {
			return true
		}
	}
	return false
}

// outcome is the result of a function.
type outcome struct {
	v   any
	err error
}

// call runs the function in a goroutine of its own. So a Goexit ends only that goroutine. When
// TimeLimit is over, the function's context ends. If the function does not return after that, call
// waits for the length of one more lease. Then call returns an error, although the function is
// still running.
func (j *job) call(ctx context.Context) (any, error) {
	var late <-chan time.Time
	if limit := j.s.timeLimit; limit > 0 && limit < forever-j.s.lease {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, ErrTimeLimit)
		defer cancel()
		t := time.NewTimer(limit + j.s.lease)
		defer t.Stop()
		late = t.C
	}
	j.told = told{}
	j.c.tally.runs.Add(1)
	in := &inside{c: j.c, name: j.name, outer: insideOf(ctx)}
	returned := make(chan outcome, 1)
	j.c.running.Add(1)
	go func() {
		o := outcome{err: errGoexit}
		defer j.c.running.Done()
		defer func() { in.over.Store(true); returned <- o }()
		o = j.guarded(context.WithValue(ctx, insideKey{}, in))
	}()
	select {
	case o := <-returned:
		if t := in.told.Load(); t != nil {
			j.told = *t
		}
		if o.err != nil {
			j.c.tally.errors.Add(1)
		}
		if o.err != nil && errors.Is(context.Cause(ctx), ErrTimeLimit) {
			o.err = fmt.Errorf("%w (%v) for the value of %q: %w", ErrTimeLimit, j.s.timeLimit, j.key, o.err)
		}
		return o.v, o.err
	case <-late:
		j.c.tally.errors.Add(1)
		return nil, fmt.Errorf("%w (%v) for the value of %q, and ignores the end of its context", ErrTimeLimit, j.s.timeLimit, j.key)
	}
}

// guarded calls the function and turns a panic into an error. If the function returns a nil []byte,
// guarded returns an empty one. Callers that load the value from Values get an empty one, too.
func (j *job) guarded(ctx context.Context) (o outcome) {
	defer caught(&o.err)
	o.v, o.err = j.fn(ctx)
	if b, ok := o.v.([]byte); ok && b == nil {
		o.v = []byte{}
	}
	return o
}
