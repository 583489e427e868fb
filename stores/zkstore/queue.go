package zkstore

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
)

// readQueue reads the queue of a lock. The queue is empty if the lock was never taken.
func (ss *session) readQueue(dir string) (q *queue, err error) {
	err = ss.retryRequest(func() error {
		children, stat, err := ss.conn.Children(dir)
		if err == nil {
			q = newQueue(children, stat)
		}
		return err
	})
	if err == zk.ErrNoNode {
		return &queue{}, nil
	}
	return q, err
}

// readFresh is like readQueue, but sees everything that happened before it was called. It sends a
// sync first, because the session may have moved to a server that has an older state.
func (ss *session) readFresh(dir string) (*queue, error) {
	if err := ss.retryRequest(func() error { _, err := ss.conn.Sync(dir); return err }); err != nil {
		return nil, err
	}
	return ss.readQueue(dir)
}

// A lostNode is an error of join. It means that the new node may exist or not.
type lostNode struct {
	guid string
	err  error
}

func (e *lostNode) Error() string { return e.err.Error() }
func (e *lostNode) Unwrap() error { return e.err }

// join adds a node to the queue. If the reply is lost, it looks for the node by its GUID.
func (ss *session) join(dir string, k kind, d data) (node, error) {
	guid := newGUID()
	for {
		name, err := ss.conn.Create(join(dir, stem(guid, k)), d.encode(), zk.FlagEphemeralSequential, ss.cfg.acl())
		switch {
		case err == nil:
			n, _ := parseNode(path.Base(name))
			return n, nil
		case err == zk.ErrNoNode:
			if err := ss.makeNode(dir); err != nil {
				return node{}, err
			}
			continue
		case !cutOff(err):
			return node{}, err
		}
		n, found, err := ss.search(dir, guid)
		if err != nil {
			ss.spawn(func() { ss.remove(dir, guid) })
			return node{}, &lostNode{guid, fmt.Errorf("%w: %w", driver.ErrUncertain, err)}
		}
		if found {
			return n, nil
		}
		late := guid // the request may still be on its way and make the node later
		ss.spawn(func() { ss.remove(dir, late) })
		guid = newGUID()
	}
}

// joinAndLook adds a node to the queue with join, and reads the queue with look. It does not wait
// for the first reply before it sends the second request, so both take one round trip. The queue is
// nil if it was read too early, without the new node, or could not be read.
func (ss *session) joinAndLook(dir string, k kind, d data, look func(dir string) (*queue, error)) (node, *queue, error) {
	early := make(chan *queue, 1)
	go func() {
		q, _ := look(dir) // if this fails, the caller reads the queue again and gets the error
		early <- q
	}()
	n, err := ss.join(dir, k, d)
	if err != nil {
		return n, nil, err
	}
	q := <-early
	if q != nil {
		if _, there := q.find(n.guid); !there {
			q = nil
		}
	}
	return n, q, nil
}

// search looks for the node with a GUID. It is needed after a request that makes a node, if the
// reply was lost.
func (ss *session) search(dir, guid string) (n node, found bool, err error) {
	if err := ss.waitConnected(context.Background()); err != nil {
		return n, false, err
	}
	q, err := ss.readFresh(dir)
	if err != nil {
		return n, false, err
	}
	n, found = q.find(guid)
	return n, found, nil
}

// remove deletes the node with a GUID. The node may exist, or a request that is still on its way
// may create it. remove gives up when the session has ended, because the servers then delete the
// node.
func (ss *session) remove(dir, guid string) {
	for round := 0; round < 3 && ss.alive(); {
		if n, found, err := ss.search(dir, guid); err != nil {
			continue // search has waited already
		} else if found && ss.delete(join(dir, n.String())) == nil {
			return
		}
		round++
		pause := time.NewTimer(ss.known.length() / 4)
		select {
		case <-pause.C:
		case <-ss.bound.Done():
		}
		pause.Stop()
	}
}

// delete deletes a node. If the reply to an earlier try was lost, a missing node is no error.
func (ss *session) delete(path string) error {
	tries := 0
	return ss.retryRequest(func() error {
		tries++
		err := ss.conn.Delete(path, -1)
		if err == zk.ErrNoNode && tries > 1 {
			return nil
		}
		return err
	})
}

// deleteLater deletes a node in the background.
func (ss *session) deleteLater(dir string, n node) {
	ss.spawn(func() {
		for ss.alive() {
			if err := ss.delete(join(dir, n.String())); !errors.Is(err, driver.ErrUncertain) {
				return
			}
		}
	})
}

// makeNode creates the node of a lock, and the nodes above it if they are missing. These nodes are
// never deleted, because the node of a lock stores the lock's fence. Without the stored fence, a
// clock that is set back would let fences fall.
func (ss *session) makeNode(dir string) error {
	return ss.retryRequest(func() error {
		_, err := ss.conn.Create(dir, nil, zk.FlagPersistent, ss.cfg.acl())
		if err == zk.ErrNoNode {
			if err := ss.makeNode(path.Dir(dir)); err != nil {
				return err
			}
			_, err = ss.conn.Create(dir, nil, zk.FlagPersistent, ss.cfg.acl())
		}
		if err == zk.ErrNodeExists {
			return nil
		}
		return err
	})
}
