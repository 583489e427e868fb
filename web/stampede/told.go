package stampede

import (
	"context"
	"time"
)

// told is what a function says about the result of its call.
type told struct {
	fresh time.Duration
	set   bool // FreshFor was called
	drop  bool // DoNotKeep was called
}

// FreshFor sets how long the result of this call of a Cache's function counts. The function calls
// it with its own context. If it returns a value, the value is fresh for d instead of the time of
// the option Fresh. If it returns an error, the error counts for d instead of the time of ErrorTTL:
// so an answer "there is no such page" can be kept for longer than the answer of a server that is
// down. Elsewhere FreshFor does nothing.
func FreshFor(ctx context.Context, d time.Duration) {
	if in := insideOf(ctx); in != nil {
		in.told.Store(&told{fresh: max(d, 0), set: true})
	}
}

// DoNotKeep says that nobody but the callers that wait gets the result of this call of a Cache's
// function, be it a value or an error. The function calls it with its own context. Callers in other
// processes do not wait for this call, but each process makes a value of its own, one after the
// other. Elsewhere DoNotKeep does nothing.
func DoNotKeep(ctx context.Context) {
	if in := insideOf(ctx); in != nil {
		in.told.Store(&told{drop: true})
	}
}

// freshTime returns how long the value of the last call is fresh, without Jitter.
func (j *job) freshTime() time.Duration {
	if j.told.set {
		return j.told.fresh
	}
	return j.s.ttl
}

// errorTime returns how long the error of the last call counts.
func (j *job) errorTime() time.Duration {
	switch {
	case j.told.drop:
		return 0
	case j.told.set:
		return j.told.fresh
	}
	return j.s.errorTTL
}
