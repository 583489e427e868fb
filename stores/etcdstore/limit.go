package etcdstore

import (
	"context"
	"sync"
	"time"
)

// maxCallTime is how long one method call may take if the server is silent. It is less than
// driver.MaxSilence.
const maxCallTime = 4 * time.Second

// limits cancels method calls that take too long. All calls of a store share one timer. With a
// timer for each call, a pair of Acquire and Release took 10 to 15 µs longer.
type limits struct {
	mu    sync.Mutex
	calls map[*call]bool
	armed bool // the timer runs
}

type call struct {
	end    time.Time
	cancel context.CancelCauseFunc
}

// limit returns a context that is cancelled if the method call takes longer than maxCallTime. The
// context has no deadline, because gRPC would send the deadline to the server with each request,
// and a request would take about a tenth longer.
func (l *limits) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &call{time.Now().Add(maxCallTime), cancel}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[c] = true
	if !l.armed {
		l.armed = true
		time.AfterFunc(maxCallTime, l.check)
	}
	return ctx, func() {
		l.mu.Lock()
		delete(l.calls, c)
		l.mu.Unlock()
		cancel(nil)
	}
}

// check cancels the calls that have taken too long. The timer calls check, and check starts the
// timer again as long as calls are running.
func (l *limits) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, next := time.Now(), maxCallTime
	for c := range l.calls {
		if left := c.end.Sub(now); left > 0 {
			next = min(next, left)
		} else {
			c.cancel(errSilent)
			delete(l.calls, c)
		}
	}
	if l.armed = len(l.calls) > 0; l.armed {
		time.AfterFunc(next, l.check)
	}
}
