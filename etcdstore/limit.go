package etcdstore

import (
	"context"
	"sync"
	"time"
)

// patience is how long one method may take if the server is silent. It is less than
// driver.MaxSilence.
const patience = 4 * time.Second

// limits ends the methods that take too long. All methods of a store share a timer, because a timer
// for each of them took 10 to 15 µs of an Acquire and a Release.
type limits struct {
	mu    sync.Mutex
	calls map[*call]bool
	armed bool // the timer runs
}

type call struct {
	end    time.Time
	cancel context.CancelCauseFunc
}

// limit bounds one method. It gives the context no deadline. gRPC would send a deadline to the
// server with each request, and a request would take about a tenth longer.
func (l *limits) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &call{time.Now().Add(patience), cancel}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[c] = true
	if !l.armed {
		l.armed = true
		time.AfterFunc(patience, l.check)
	}
	return ctx, func() {
		l.mu.Lock()
		delete(l.calls, c)
		l.mu.Unlock()
		cancel(nil)
	}
}

// check ends the methods whose time is over. The timer calls it, and runs on while there are
// methods.
func (l *limits) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, next := time.Now(), patience
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
