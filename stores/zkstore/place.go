package zkstore

import (
	"context"
	"math/rand/v2"
	"time"
)

// A place is the node of a waiter in the queue of a lock. The waiter watches the last node that
// blocks it. When that node is gone or has changed, the waiter reads the queue again. So a release
// wakes one waiter.
type place struct {
	ss     *session
	dir    string
	node   node
	joined time.Time // when the node was made, or a little later
}

// untilFirst waits until the node of p has the lock, and returns the queue. If somebody deleted the
// node, the queue is nil, and the caller tries again. The queue in the parameter was read after the
// node was made, or is nil.
func (p *place) untilFirst(ctx context.Context, q *queue) (*queue, error) {
	ss := p.ss
	for ; ctx.Err() == nil; q = nil {
		if q == nil {
			var err error
			if q, err = ss.readQueue(p.dir); err != nil {
				return nil, err
			}
		}
		if _, there := q.find(p.node.guid); !there {
			return nil, nil
		}
		before, blocked := q.blocker(p.node)
		if !blocked {
			return q, nil
		}
		w, there, err := ss.watchDeletion(join(p.dir, before.String()))
		switch {
		case cutOff(err):
			if err := ss.waitConnected(ctx); err != nil && !ss.alive() {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		case !there:
			continue
		}
		if err := p.awaitEvent(ctx, w); err != nil {
			return nil, err
		}
	}
	return nil, ctx.Err()
}

// awaitEvent waits until the watch has ended. It also returns from time to time, in case a watch
// was lost.
func (p *place) awaitEvent(ctx context.Context, w *nodeWatch) error {
	pause := time.NewTimer(p.ss.cfg.timeout + rand.N(p.ss.cfg.timeout))
	defer pause.Stop()
	select {
	case <-w.done:
	case <-pause.C:
	case <-ctx.Done():
	case <-p.ss.bound.Done():
		return context.Cause(p.ss.bound)
	}
	return nil
}
