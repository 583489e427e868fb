package padlockapi

import (
	"context"
	"crypto/sha256"
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
//	ended     It was given up, or the Handler is closed: its context is cancelled. No request joins
//	          it, and an acquire that comes now starts a new wait, which begins after this one.
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
	ended bool
	stop  context.CancelCauseFunc

	done chan struct{} // closed when the fields below are set
	held held
	err  error
}

// uncertain reports whether the wait, which is done, may have left a request to the store whose
// outcome is not known. There may be no wait.
func (one *wait) uncertain() bool { return one != nil && errors.Is(one.err, padlock.ErrUncertain) }

// waitID names a wait. A repeated request has the same one. It has a digest in place of the token,
// because printers show the keys of maps.
type waitID struct {
	tenant, name string
	token        [sha256.Size]byte
}

func newWaitID(tenant, name, token string) waitID {
	return waitID{tenant, name, sha256.Sum256([]byte(token))}
}

// mode is what must be the same in a repeated request.
type mode struct {
	shared bool
	slots  int64
}

// waits is the table of the waits that are not done. Of several waits for one token, it has the
// newest one, which is done after the others.
type waits struct {
	most, each int

	mu      sync.Mutex
	table   map[waitID]*wait
	all     int            // waits that are not done
	by      map[string]int // the same for each owner
	closed  bool
	running sync.WaitGroup // waits, and requests that use the store
}

// enter counts a request until it calls running.Done. It returns false if Close has begun.
func (w *waits) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.running.Add(1)
	return true
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

// join looks at the wait for id, and starts one that calls acquire if there is none. found reports
// whether there was one. The caller must call leave.
func (w *waits) join(id waitID, owner string, m mode, acquire func(context.Context) (held, error)) (one *wait, found bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one = w.table[id]
	found = one != nil && !one.ended
	switch {
	case w.closed:
		return nil, false, errClosing
	case found && one.mode != m:
		return nil, false, errOtherMode
	case found && one.users >= maxLooking, !found && (w.all >= w.most || w.by[owner] >= w.each):
		return nil, false, errTooMany
	case !found:
		one = w.start(id, owner, m, acquire)
	}
	if one.grace != nil {
		one.grace.Stop()
		one.grace = nil
	}
	one.users++
	return one, found, nil
}

// start starts a wait. If an earlier wait for id has ended and is not done, the new one begins
// after it. The caller holds w.mu.
func (w *waits) start(id waitID, owner string, m mode, acquire func(context.Context) (held, error)) *wait {
	before := w.table[id]
	ctx, stop := context.WithCancelCause(context.Background())
	one := &wait{owner: owner, mode: m, stop: stop, done: make(chan struct{})}
	w.table[id] = one
	w.all++
	w.by[owner]++
	w.running.Go(func() {
		if before != nil {
			<-before.done
		}
		h, err := acquire(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		one.held, one.err = h, err
		if cause := context.Cause(ctx); err != nil && cause != nil {
			// Acquire reports a wait that ended as held. But the client was not refused. Whether
			// the token may have the lock, it did report.
			one.err = cause
			if errors.Is(err, padlock.ErrUncertain) {
				one.err = err
			}
		}
		stop(nil)
		if w.table[id] == one {
			delete(w.table, id)
		}
		w.all--
		if w.by[owner]--; w.by[owner] == 0 {
			delete(w.by, owner)
		}
		close(one.done)
	})
	return one
}

// giveUp ends the wait. It stays in the table until it is done, so that a release finds it. The
// caller holds w.mu.
func (one *wait) giveUp(why error) {
	one.ended = true
	one.stop(why)
}

// leave ends the look of one request. If it was the last one, Grace begins.
func (w *waits) leave(id waitID, one *wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one.users--; one.users > 0 || w.table[id] != one || one.ended {
		return
	}
	one.grace = time.AfterFunc(Grace, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if one.users == 0 && w.table[id] == one && !one.ended {
			one.giveUp(errGraceOver)
		}
	})
}

// end ends the wait for id, if there is one, and waits until it is done. It returns the wait, or
// nil, and whether the wait is done before ctx ends.
func (w *waits) end(ctx context.Context, id waitID) (one *wait, done bool) {
	w.mu.Lock()
	one = w.table[id]
	if one != nil {
		one.giveUp(errGivenUp)
	}
	w.mu.Unlock()
	if one == nil {
		return nil, true
	}
	select {
	case <-one.done:
		return one, true
	case <-ctx.Done():
		return one, false
	}
}

// close ends all waits and lets none begin. It waits for them, and for the requests that enter has
// counted.
func (w *waits) close() {
	w.mu.Lock()
	w.closed = true
	for _, one := range w.table {
		one.giveUp(errClosing)
	}
	w.mu.Unlock()
	w.running.Wait()
}
