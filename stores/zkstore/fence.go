package zkstore

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// padlock computes the fence of an exclusive hold from the number of its node. ZooKeeper gives each
// new node of a lock a greater number, so the fences grow too, and most grants need not write a
// fence. The mapping of a lock says how to compute a fence from a number. It is stored in the data
// of the lock's node. The store changes the mapping only in these cases, and only so that fences
// become greater:
//
//	when                                                   the new fence is
//	a fence is more than maxLag behind the server's clock  the server's time, as in other stores
//	a request has FenceAbove                               greater than FenceAbove
//	RaiseFence is called                                   at least the given fence
//	a hold is promoted, or Break is called                 greater than every fence so far
//
// Readers that hold the lock together have the same fence. The fence of the first reader is
// computed from the number of its node. The other readers copy the first reader's fence.
//
// The data of a reader's node contains the fence. If the first reader has not written its fence
// yet, other readers write it. A node keeps the fence that was written first. Only the reader
// itself replaces the fence in its node, if FenceAbove or RaiseFence asks for a greater fence.

// maxLag is how far a new fence may be behind the server's clock.
const maxLag = 10 * time.Second

// A mapping says which fence belongs to which number of a node. The fence in the field Fence
// belongs to the number in the field Number. If a number is greater by n, its fence is greater by
// n, too.
type mapping struct {
	Fence  uint64 `json:"fence"`
	Number int32  `json:"number"`
	// Floor is the smallest fence that a reader gets if it joins other readers. FenceAbove and
	// RaiseFence raise Floor.
	Floor uint64 `json:"floor,omitempty"`

	version int32 // of the data of the lock's node
	mzxid   int64 // of its last change
}

// fenceAt returns the fence of a node with the given number. Numbers wrap around, but a mapping is
// changed long before that matters.
func (m *mapping) fenceAt(number int32) uint64 {
	return uint64(max(0, int64(m.Fence)+int64(number-m.Number)))
}

func (m mapping) encode() []byte {
	text, _ := json.Marshal(m) // JSON can encode every mapping
	return text
}

// A mappingCache contains the mappings that the store has read.
type mappingCache struct {
	mu    sync.Mutex
	known map[string]mapping // by the node of the lock
}

// maxKnown is how many mappings the store remembers.
const maxKnown = 10_000

func (f *mappingCache) get(dir string, mzxid int64) (mapping, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok := f.known[dir]
	return m, ok && m.mzxid == mzxid
}

func (f *mappingCache) knows(dir string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.known[dir]
	return ok
}

func (f *mappingCache) put(dir string, m mapping) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old, ok := f.known[dir]; ok && old.mzxid > m.mzxid {
		return
	}
	if len(f.known) >= maxKnown {
		clear(f.known)
	}
	f.known[dir] = m
}

// forget drops all mappings.
func (f *mappingCache) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.known)
}

// mapping returns the mapping of a lock. The caller has read the lock's node and passes its
// metadata. The result is the mapping at the time of that reading, or a later one.
func (ss *session) mapping(dir string, at *zk.Stat) (mapping, error) {
	if m, ok := ss.fences.get(dir, at.Mzxid); ok {
		return m, nil
	}
	return ss.readMapping(dir)
}

func (ss *session) readMapping(dir string) (m mapping, err error) {
	err = ss.retryRequest(func() error {
		text, stat, err := ss.conn.Get(dir)
		if err != nil {
			return err
		}
		m = mapping{}
		if len(text) > 0 {
			if err := json.Unmarshal(text, &m); err != nil || !bytes.Contains(text, []byte(`"fence":`)) { // every mapping has one
				return storekit.Invalidf("the node %s has data that padlock did not write", dir)
			}
		}
		m.version, m.mzxid = stat.Version, stat.Mzxid
		return nil
	})
	if err == nil {
		ss.fences.put(dir, m)
	}
	return m, err
}

// lookWithMapping reads the queue like readQueue. If the store does not know the mapping, which the
// caller may need next, lookWithMapping reads it at the same time. If the mapping changes after
// that, the caller reads it again.
func (ss *session) lookWithMapping(dir string) (*queue, error) {
	if ss.cfg.noFences || ss.fences.knows(dir) {
		return ss.readQueue(dir)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = ss.readMapping(dir) // if this fails, the caller reads the mapping again and gets the error
	}()
	q, err := ss.readQueue(dir)
	<-done
	return q, err
}

// raiseMapping changes the mapping of a lock, so that the node ownNode, which belongs to h, has a
// fence of at least minFence. It returns ErrLost if ownNode does not exist. The transaction that
// writes the mapping also carries out extraOps. If ownNode is exclusive, the transaction first
// writes the data of ownNode anew, which tells the next waiter that the fences have changed.
func (ss *session) raiseMapping(h *hold, ownNode node, minFence, floor uint64, extraOps ...any) (mapping, error) {
	dir, number := h.dir, ownNode.number
	var first any = &zk.SetDataRequest{Path: join(dir, ownNode.String()), Data: h.info.encode(), Version: -1}
	if ownNode.kind.shared() { // keep the data: another reader may write a fence into this node
		first = &zk.CheckVersionRequest{Path: join(dir, ownNode.String()), Version: -1}
	}
	for {
		m, err := ss.readMapping(dir)
		if err != nil {
			return m, err
		}
		if m.fenceAt(number) >= minFence && m.Floor >= floor && len(extraOps) == 0 {
			return m, nil
		}
		if minFence = max(minFence, m.fenceAt(number)); minFence >= driver.MaxFence {
			return m, driver.ErrFencesUsedUp
		}
		next := mapping{Fence: minFence, Number: number, Floor: max(floor, m.Floor)}
		ops := append([]any{
			first,
			&zk.SetDataRequest{Path: dir, Data: next.encode(), Version: m.version},
		}, extraOps...)
		switch err := ss.transact(ops); {
		case err == nil:
			next.version = m.version + 1
			return next, nil
		case err == zk.ErrBadVersion: // another process raised the mapping
		case err == zk.ErrNoNode || err == zk.ErrNodeExists:
			return m, driver.ErrLost
		default:
			return m, err
		}
	}
}

// transact carries out several operations or none of them.
func (ss *session) transact(ops []any) error {
	_, err := ss.conn.Multi(ops...)
	return err
}

// fenceOf returns the fence of an exclusive node that has the lock.
func (ss *session) fenceOf(h *hold, n node, q *queue, above uint64) (uint64, error) {
	if ss.cfg.noFences {
		return 0, nil
	}
	m, err := ss.mapping(h.dir, &q.stat)
	if err != nil {
		return 0, err
	}
	m, err = ss.advance(h, n, m, above)
	return m.fenceAt(n.number), err
}

// advance changes the mapping of a lock if the fence of the node n lags behind the server's clock,
// or if the request wants a greater fence. It computes the server's clock from the time at which
// the node was made and the time that has passed since then.
func (ss *session) advance(h *hold, n node, m mapping, above uint64) (mapping, error) {
	f := m.fenceAt(n.number)
	minFence, floor := f, uint64(0)
	if above >= f {
		minFence, floor = above+1, above+1
	}
	if m.Fence == 0 || uint64(time.Now().Add(-maxLag).UnixMicro()) > f {
		made, err := ss.creationTime(join(h.dir, n.String()))
		if err != nil {
			return m, err
		}
		minFence = max(minFence, made+uint64(time.Since(h.joined).Microseconds()))
	}
	if minFence > f || m.Fence == 0 {
		var err error
		if m, err = ss.raiseAgain(h, n, minFence, floor); err != nil {
			return m, err
		}
	}
	if m.fenceAt(n.number) >= driver.MaxFence {
		return m, driver.ErrFencesUsedUp
	}
	return m, nil
}

// raiseAgain calls raiseMapping. If the reply is lost, it calls raiseMapping again.
func (ss *session) raiseAgain(h *hold, n node, minFence, floor uint64) (m mapping, err error) {
	err = ss.retryRequest(func() error {
		m, err = ss.raiseMapping(h, n, minFence, floor)
		return err
	})
	return m, err
}

// creationTime returns when a node was made, by the server's clock, in microseconds since 1970.
func (ss *session) creationTime(path string) (uint64, error) {
	var micros uint64
	err := ss.retryRequest(func() error {
		exists, stat, err := ss.conn.Exists(path)
		if err == nil && !exists {
			return driver.ErrLost
		}
		if err == nil {
			micros = uint64(stat.Ctime) * 1000
		}
		return err
	})
	return micros, err
}

// sharedFence returns the fence of a shared node that has the lock, and writes it into the node.
func (ss *session) sharedFence(h *hold, n node, q *queue, above uint64) (uint64, error) {
	if ss.cfg.noFences {
		return 0, nil
	}
	for dir := h.dir; ; {
		m, err := ss.mapping(dir, &q.stat)
		if err != nil {
			return 0, err
		}
		first := n
		if holders := q.holders(); len(holders) > 0 && holders[0].kind.shared() && holders[0].isBefore(n) {
			first = holders[0]
		}
		if first == n || m.Fence == 0 || above >= m.Floor && above > 0 {
			if m, err = ss.advance(h, n, m, above); err != nil {
				return 0, err
			}
		}
		fence, err := ss.writeFence(dir, first, m.fenceAt(first.number))
		if err == nil && first != n {
			fence, err = ss.writeFence(dir, n, max(fence, m.Floor))
		}
		if err == nil && above >= fence {
			fence = m.fenceAt(n.number)
			err = ss.rewrite(dir, n, h.info, fence)
		}
		if err != zk.ErrNoNode {
			return fence, err
		}
		if q, err = ss.readQueue(dir); err != nil { // a node is gone, usually that of the first reader
			return 0, err
		}
		if _, still := q.find(n.guid); !still {
			return 0, driver.ErrLost
		}
	}
}

// writeFence writes a fence into a shared node that has none yet. It returns the fence that the
// node has afterwards.
func (ss *session) writeFence(dir string, n node, fence uint64) (uint64, error) {
	path := join(dir, n.String())
	err := ss.retryRequest(func() error {
		text, stat, err := ss.conn.Get(path)
		if err != nil {
			return err
		}
		d := decode(text)
		if d.Fence != 0 {
			fence = d.Fence
			return nil
		}
		d.Fence = fence
		if _, err = ss.conn.Set(path, d.encode(), stat.Version); err == zk.ErrBadVersion {
			err = zk.ErrConnectionClosed // another process wrote a fence; the retry reads it
		}
		return err
	})
	return fence, err
}

// rewrite replaces the fence of the caller's own shared node.
func (ss *session) rewrite(dir string, n node, info data, fence uint64) error {
	info.Fence = fence
	return ss.retryRequest(func() error {
		_, err := ss.conn.Set(join(dir, n.String()), info.encode(), -1)
		return err
	})
}
