package padlockapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
)

const (
	// MaxPoll is how long one request waits at most. Many proxies end a request after 30 seconds.
	MaxPoll = 25 * time.Second

	// Grace is how long a client that has gone keeps its place among the waiting callers.
	Grace = 5 * time.Second
)

// A wait is a call of Locker.Acquire that outlives the requests that look at it. Its token gets the
// lock, so its result need not be kept: a request that comes later finds the hold by the token. A
// wait has one of these states:
//
//	watched   At least one request looks at it.
//	left      No request looks at it, and grace runs.
//	ended     It was given up, or the Handler is closed: its context is cancelled.
//	done      Acquire has returned. The wait is no longer in the table.
//
// The transitions are:
//
//	watched   The last request leaves.          left
//	left      A request comes.                  watched
//	left      Grace is over.                    ended
//	watched, left   Release, or an acquire that does not wait, has come for the token.   ended
//	any       Acquire returns.                  done
//
// A wait that was given up may get the lock in the same instant. After a release the client sends
// nothing more with the token, and the release has waited for the end of Acquire. In the other
// cases the lock stays until its lease ends, because the client may repeat the request elsewhere.
type wait struct {
	owner string // whose limit counts the wait
	mode  mode
	users int
	grace *time.Timer
	stop  context.CancelCauseFunc

	done chan struct{} // closed when the fields below are set
	lock *padlock.Lock
	err  error
}

// waitID names a wait. A repeated request has the same one.
type waitID struct{ tenant, name, token string }

// mode is what must be the same in a repeated request.
type mode struct {
	shared bool
	slots  int64
}

// waits is the table of the waits that are not done and not ended.
type waits struct {
	most, each int

	mu      sync.Mutex
	table   map[waitID]*wait
	all     int            // waits that are not done
	by      map[string]int // the same for each owner
	closed  bool
	running sync.WaitGroup
}

// maxLooking is how many requests can look at one wait. A client whose connection broke may leave
// several that the server still takes for alive.
const maxLooking = 8

var (
	errClosing   = errors.New("the server is closing")
	errGivenUp   = errors.New("the wait was given up")
	errGraceOver = errors.New("the client has not come back")
	errTooMany   = errors.New("too many requests wait")
	errOtherMode = errors.New("the token waits for this name with another value of shared or slots; make a new token")
)

// find reports whether a wait for id is in the table.
func (w *waits) find(id waitID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.table[id] != nil
}

// join looks at the wait for id, and starts one that calls acquire if there is none. The caller
// must call leave.
func (w *waits) join(id waitID, owner string, m mode, acquire func(context.Context) (*padlock.Lock, error)) (*wait, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.table[id]
	switch {
	case w.closed:
		return nil, errClosing
	case one != nil && one.mode != m:
		return nil, errOtherMode
	case one != nil && one.users >= maxLooking, one == nil && (w.all >= w.most || w.by[owner] >= w.each):
		return nil, errTooMany
	case one == nil:
		one = w.start(id, owner, m, acquire)
	}
	if one.grace != nil {
		one.grace.Stop()
		one.grace = nil
	}
	one.users++
	return one, nil
}

// start starts a wait. The caller holds w.mu.
func (w *waits) start(id waitID, owner string, m mode, acquire func(context.Context) (*padlock.Lock, error)) *wait {
	ctx, stop := context.WithCancelCause(context.Background())
	one := &wait{owner: owner, mode: m, stop: stop, done: make(chan struct{})}
	w.table[id] = one
	w.all++
	w.by[owner]++
	w.running.Go(func() {
		lock, err := acquire(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		one.lock, one.err = lock, err
		if cause := context.Cause(ctx); err != nil && cause != nil {
			// Acquire reports a wait that ended as held. But the client was not refused. Whether
			// the token may have the lock, it did report.
			one.err = cause
			if errors.Is(err, padlock.ErrUncertain) {
				one.err = err
			}
		}
		stop(nil)
		w.drop(id, one)
		w.all--
		if w.by[owner]--; w.by[owner] == 0 {
			delete(w.by, owner)
		}
		close(one.done)
	})
	return one
}

// drop takes a wait out of the table. The caller holds w.mu.
func (w *waits) drop(id waitID, one *wait) {
	if w.table[id] == one {
		delete(w.table, id)
	}
}

// leave ends the look of one request. If it was the last one, Grace begins.
func (w *waits) leave(id waitID, one *wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one.users--; one.users > 0 || w.table[id] != one {
		return
	}
	one.grace = time.AfterFunc(Grace, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if one.users == 0 && w.table[id] == one {
			w.drop(id, one)
			one.stop(errGraceOver)
		}
	})
}

// end ends the wait for id, if there is one, and waits until it is done. It reports whether the
// wait is done before ctx ends.
func (w *waits) end(ctx context.Context, id waitID) bool {
	w.mu.Lock()
	one := w.table[id]
	if one != nil {
		w.drop(id, one)
		one.stop(errGivenUp)
	}
	w.mu.Unlock()
	if one == nil {
		return true
	}
	select {
	case <-one.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// close ends all waits and lets none begin.
func (w *waits) close() {
	w.mu.Lock()
	w.closed = true
	for id, one := range w.table {
		w.drop(id, one)
		one.stop(errClosing)
	}
	w.mu.Unlock()
	w.running.Wait()
}
