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

// limits cancels method calls that take too long.
type limits struct {
	slow func() // called when a call is slow

	mu    sync.Mutex
	calls map[*call]bool
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
	slow := time.AfterFunc(slowAfter, l.slow)
	late := time.AfterFunc(maxCallTime, func() { cancel(errSilent) })
	return ctx, func() {
		slow.Stop()
		late.Stop()
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
		}
	}
}
