package etcdstore

import (
	"context"
	"sync"
	"time"
)

// maxCallTime is how long one method call may take if the server is silent. It is less than
// driver.MaxSilence.
const maxCallTime = 4 * time.Second

// slowAfter is how long a call may last before limits reports that it is slow.
const slowAfter = time.Second

// limits cancels method calls that take too long. All calls of a store share one timer. With a
// timer for each call, a pair of Acquire and Release took 10 to 15 µs longer.
type limits struct {
	slow func() // called from time to time while a call is slow

	mu    sync.Mutex
	calls map[*call]bool
	armed bool // the timer runs
}

type call struct {
	begun  time.Time
	cancel context.CancelCauseFunc
}

// limit returns a context that is cancelled if the method call takes longer than maxCallTime. The
// context has no deadline, because gRPC would send the deadline to the server with each request,
// and a request would take about a tenth longer.
func (l *limits) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &call{time.Now(), cancel}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[c] = true
	if !l.armed {
		l.armed = true
		time.AfterFunc(slowAfter, l.check)
	}
	return ctx, func() {
		l.mu.Lock()
		delete(l.calls, c)
		l.mu.Unlock()
		cancel(nil)
	}
}

// cancelSlow cancels the calls that have lasted for slowAfter. The client of etcd would repeat
// their requests for a while after its connection was closed.
func (l *limits) cancelSlow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.calls {
		if time.Since(c.begun) >= slowAfter {
			c.cancel(errSilent)
			delete(l.calls, c)
		}
	}
}

// check cancels the calls that have taken too long. The timer calls check, and check starts the
// timer again as long as calls are running.
func (l *limits) check() {
	if l.cancelLate() {
		l.slow()
	}
}

// cancelLate reports whether a call is slow.
func (l *limits) cancelLate() (anySlow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := slowAfter
	for c := range l.calls {
		switch age := time.Since(c.begun); {
		case age >= maxCallTime:
			c.cancel(errSilent)
			delete(l.calls, c)
			anySlow = true
		case age >= slowAfter:
			anySlow = true
			next = min(next, maxCallTime-age)
		default:
			next = min(next, slowAfter-age)
		}
	}
	if l.armed = len(l.calls) > 0; l.armed {
		time.AfterFunc(next, l.check)
	}
	return anySlow
}
