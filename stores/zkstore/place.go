package zkstore

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// A place is the node of a waiter in the queue of a lock.
//
// A waiter for a shared lock watches the last node that blocks it. When that node is gone, the
// waiter reads the queue again.
//
// A waiter for an exclusive lock watches the two nodes in front of its own node. The nearer node
// comes directly in front; the farther node comes in front of the nearer node. Usually the waiter
// then need not read the queue to know that it has the lock:
//
//	event                     what the waiter does
//	the farther node is gone  reads the queue; usually the nearer node has the lock now
//	the nearer node is gone   has the lock, if the queue showed that the nearer node had the lock
//	any other event           reads the queue
//	the connection was lost   reads the queue
//
// The holder's node may also be replaced by a node of another kind with the same number (promotion,
// demotion), and the fences may be raised. In these cases, and for Break, the store first changes
// the data of the holder's node, in the same transaction. The waiter gets the event of this change
// instead of the deletion, and reads the queue.
type place struct {
	ss     *session
	dir    string
	node   node
	joined time.Time // when the node was made, or a little later

	own     *nodeWatch // watches the waiter's own node
	nearer  *nodeWatch // watches the last node that blocks the waiter
	farther *nodeWatch // watches the node in front of the last blocking node, or is nil
}

// untilFirst waits until the node of p has the lock, and returns the queue. If somebody deleted the
// node, the queue is nil, and the caller tries again. The queue in the parameter was read after the
// node was made, or is nil.
func (p *place) untilFirst(ctx context.Context, q *queue) (*queue, error) {
	ss := p.ss
	for ; ctx.Err() == nil; q = nil {
		var older *nodeWatch // equal to p.nearer if that watch is older than the queue q
		if ss.announced(p.nearer) {
			older = p.nearer
		}
		if q == nil {
			var err error
			if q, err = ss.readQueue(p.dir); err != nil {
				return nil, err
			}
		}
		if _, there := q.find(p.node.guid); !there {
			return nil, nil
		}
		if _, blocked := q.blocker(p.node); !blocked {
			return q, nil
		}
		complete, err := p.watchBlockers(q)
		switch {
		case cutOff(err):
			if err := ss.waitConnected(ctx); err != nil && !ss.alive() {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		case !complete:
			continue
		}
		next := q.followsHolder(p.node)
		if next && p.nearer != older && !ss.hadFirstData(p.nearer) && ss.announced(p.nearer) {
			continue // the holder may have changed something after q was read
		}
		if next && !ss.cfg.noFences {
			_, _ = ss.mapping(p.dir, &q.stat) // for the fence; if this fails, the mapping is read later
		}
		if err := p.awaitEvent(ctx); err != nil {
			return nil, err
		}
		if next && !p.own.isOver() && ss.onlyDeleted(p.nearer) {
			q.nodes = q.nodes[1:]
			return q, nil
		}
	}
	return nil, ctx.Err()
}

// followsHolder reports whether n waits for an exclusive lock and comes directly behind an
// exclusive holder, and there is no foreign node.
func (q *queue) followsHolder(n node) bool {
	return len(q.nodes) > 1 && q.nodes[1] == n && n.kind == waitExclusive && len(q.foreigners()) == 0 &&
		(q.nodes[0].kind == tryExclusive || q.nodes[0].kind == waitExclusive)
}

// nodesBefore returns the last node that blocks n. If n waits for an exclusive lock, nodesBefore
// also returns the next node towards the front of the queue.
func (q *queue) nodesBefore(n node) []node {
	b, _ := q.blocker(n)
	if n.kind.shared() || !b.isBefore(n) {
		return []node{b}
	}
	for i, o := range q.nodes {
		if o == b && i > 0 {
			return []node{b, q.nodes[i-1]}
		}
	}
	return []node{b}
}

// watchBlockers watches the nodes before p. A waiter for an exclusive lock also watches its own
// node. If one of the nodes is gone, watchBlockers returns false.
func (p *place) watchBlockers(q *queue) (complete bool, err error) {
	blockers := q.nodesBefore(p.node)
	farther := p.farther
	p.farther = nil
	watches := []**nodeWatch{&p.nearer}
	paths := []string{join(p.dir, blockers[0].String())}
	if len(blockers) > 1 {
		p.farther = farther
		watches, paths = append(watches, &p.farther), append(paths, join(p.dir, blockers[1].String()))
	}
	if !p.node.kind.shared() {
		watches, paths = append(watches, &p.own), append(paths, join(p.dir, p.node.String()))
	}
	var missing []int
	for i, path := range paths {
		if w := *watches[i]; w == nil || w.path != path || w.isOver() && !p.ss.onlyDeleted(w) {
			missing = append(missing, i)
		}
	}
	var gone atomic.Bool
	err = forEach(len(missing), func(i int) error {
		w, there, err := p.ss.watchDeletion(paths[missing[i]])
		*watches[missing[i]] = w
		if !there {
			gone.Store(true)
		}
		return err
	})
	return !gone.Load(), err
}

// awaitEvent waits until one of the watches of p has ended. It also returns from time to time, in
// case a watch was lost.
func (p *place) awaitEvent(ctx context.Context) error {
	pause := time.NewTimer(p.ss.cfg.timeout + rand.N(p.ss.cfg.timeout))
	defer pause.Stop()
	select {
	case <-p.nearer.done:
	case <-p.farther.ended():
	case <-p.own.ended():
	case <-pause.C:
	case <-ctx.Done():
	case <-p.ss.bound.Done():
		return context.Cause(p.ss.bound)
	}
	return nil
}
