package zkstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
)

// Inspect implements driver.Admin.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name, &s.promises); err != nil {
		return driver.State{}, err
	}
	return runOp(ctx, s, func() (driver.State, error) {
		ss, err := s.session(ctx)
		if err != nil {
			return driver.State{Name: name}, err
		}
		if s.cfg.symfony {
			return s.inspectSymfony(ss, name)
		}
		// readFresh is needed because a follower may not know yet what the caller changed through
		// another server.
		q, err := ss.readFresh(s.cfg.dir(name))
		if err != nil {
			return driver.State{Name: name}, err
		}
		return s.state(ss, name, q)
	})
}

func (s *Store) state(ss *session, name string, q *queue) (st driver.State, err error) {
	dir := s.cfg.dir(name)
	st.Name, st.Waiters = name, q.waiters(node{})
	if st.Holds, err = ss.describe(dir, q.inTheWay()); err != nil {
		return st, err
	}
	st.Fence, err = ss.highestFence(dir, q)
	return st, err
}

// newest returns the number of the newest node that the lock has ever had. Cversion counts nodes
// that were made, and nodes that were deleted.
func (q *queue) newest() int32 { return (q.stat.Cversion+q.stat.NumChildren)/2 - 1 }

// highestFence returns the highest fence that the name has had. For a free name, the result may be
// greater than that: the newest node may be that of a waiter who gave up.
func (ss *session) highestFence(dir string, q *queue) (uint64, error) {
	if ss.cfg.noFences || q.stat.Czxid == 0 {
		return 0, nil
	}
	m, err := ss.mapping(dir, &q.stat)
	if err != nil || m.Fence == 0 {
		return 0, err
	}
	holders := q.holders()
	if len(holders) == 0 || holders[0].kind == foreign {
		return max(m.fenceAt(q.newest()), m.Fence, m.Floor), nil
	}
	if !holders[0].kind.shared() {
		return m.fenceAt(holders[0].number), nil
	}
	fence := uint64(0)
	for _, n := range holders {
		text, _, err := ss.conn.Get(join(dir, n.String()))
		if err == nil {
			fence = max(fence, decode(text).Fence)
		} else if err != zk.ErrNoNode {
			return fence, err
		}
	}
	return fence, nil
}

// List implements driver.Admin. It reads the queue of every name that begins with prefix and was
// ever locked.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	return runOp(ctx, s, func() ([]driver.State, error) {
		if s.cfg.symfony {
			return nil, errSymfonyList
		}
		ss, err := s.session(ctx)
		if err != nil {
			return nil, err
		}
		names, err := ss.lockNames(prefix)
		if err != nil {
			return nil, err
		}
		states := make([]driver.State, len(names))
		err = forEach(len(names), func(i int) error {
			q, err := ss.readQueue(s.cfg.dir(names[i]))
			if err == nil && len(q.nodes) > 0 {
				states[i], err = s.state(ss, names[i], q)
			}
			return err
		})
		var busy []driver.State
		for _, st := range states {
			if len(st.Holds) > 0 || st.Waiters > 0 {
				busy = append(busy, st)
			}
		}
		return busy, err
	})
}

// lockNames returns the names that begin with prefix and were ever locked.
func (ss *session) lockNames(prefix string) (names []string, err error) {
	err = ss.retryRequest(func() error {
		if _, err := ss.conn.Sync(ss.cfg.root); err != nil {
			return err
		}
		children, _, err := ss.conn.Children(ss.cfg.root)
		if err == zk.ErrNoNode {
			return nil
		}
		names = nil
		for _, c := range children {
			if name, ok := nodeNames.Unescape(c); ok && strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
		return err
	})
	return names, err
}

// Break implements driver.Admin. It deletes the nodes of the holders and raises the fences in one
// transaction. It deletes no node of another program, and returns driver.ErrUnavailable instead.
func (s *Store) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	if err := driver.CheckName(name, &s.promises); err != nil {
		return 0, err
	}
	return runOp(ctx, s, func() (uint64, error) {
		ss, err := s.session(ctx)
		if err != nil {
			return 0, err
		}
		if s.cfg.symfony {
			return 0, s.breakSymfony(ss, name, seenFence)
		}
		for {
			fence, err := s.evict(ss, s.cfg.dir(name), seenFence)
			if err != errMoved {
				return fence, err
			}
		}
	})
}

// errMoved means that the queue or the mapping changed while Break was using it. Break then tries
// again.
var errMoved = fmt.Errorf("%w: the queue changed", driver.ErrUnavailable)

func (s *Store) evict(ss *session, dir string, seen uint64) (uint64, error) {
	q, err := ss.readFresh(dir)
	if err != nil {
		return 0, err
	}
	if now, err := ss.highestFence(dir, q); err != nil || now != seen {
		if err == nil {
			err = driver.ErrLost
		}
		return 0, err
	}
	if others := q.foreigners(); len(others) > 0 {
		return 0, notOurs(join(dir, others[0].String()))
	}
	var ops []any
	holders := q.holders()
	for _, n := range q.inTheWay() {
		path := join(dir, n.String())
		ops = append(ops, &zk.SetDataRequest{Path: path, Version: -1}, // tells the next waiter; see place
			&zk.DeleteRequest{Path: path, Version: -1})
	}
	fence := uint64(0)
	if !s.cfg.noFences && q.stat.Czxid != 0 {
		m, err := ss.mapping(dir, &q.stat)
		if err != nil {
			return 0, err
		}
		last := q.newest()
		fence = max(m.fenceAt(last), seen) + 1
		if fence >= driver.MaxFence {
			return 0, driver.ErrFencesUsedUp
		}
		if n := len(holders); n > 0 {
			last = holders[n-1].number // the waiters behind it get greater fences
		}
		set := mapping{Fence: fence, Number: last, Floor: max(fence, m.Floor)}
		ops = append(ops, &zk.SetDataRequest{Path: dir, Data: set.encode(), Version: m.version})
	}
	if len(ops) == 0 {
		return 0, nil
	}
	switch err := ss.transact(ops); err {
	case zk.ErrNoNode, zk.ErrBadVersion:
		return 0, errMoved
	default:
		return fence, err
	}
}
