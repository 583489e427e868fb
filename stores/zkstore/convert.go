package zkstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
)

// Convert implements driver.Converter.
func (s *Store) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	if s.cfg.symfony {
		return driver.Grant{}, fmt.Errorf("%w: Symfony's layout has no shared locks", errors.ErrUnsupported)
	}
	return runOp(ctx, s, func() (driver.Grant, error) {
		h, err := s.holds.enterHeld(ctx, r.Name, r.Token.Text())
		if err != nil {
			return driver.Grant{}, err
		}
		defer s.holds.leave(h)
		ss := h.ss
		switch shared := h.node.kind.shared(); {
		case shared && !r.Shared:
			err = s.promote(h, &r)
		case !shared && r.Shared:
			err = s.demote(h)
		default:
			s.withdraw(h)
			g := h.grant()
			return g, s.verify(h)
		}
		switch {
		case !ss.alive() || errors.Is(err, driver.ErrLost):
			return driver.Grant{}, driver.ErrLost
		case err != nil:
			return driver.Grant{}, err
		}
		return h.grant(), nil
	})
}

// promote tries once to make the shared hold h exclusive. It first adds an intent, which is a node
// that keeps new readers out. If other readers hold the lock, promote returns a *driver.HeldError.
// Otherwise it replaces the hold's node by an exclusive node with the same number, and deletes the
// intent, in one transaction.
func (s *Store) promote(h *hold, r *driver.Request) error {
	ss := h.ss
	if err := s.intend(h); err != nil {
		return err
	}
	q, err := ss.readQueue(h.dir)
	if err != nil {
		return err
	}
	if _, there := q.find(h.node.guid); !there {
		return driver.ErrLost
	}
	others, err := otherReaders(q, h)
	if err != nil {
		s.withdraw(h)
		return err
	}
	if len(others) > 0 {
		held := &driver.HeldError{Waiters: q.waiters(h.node)}
		held.Holds, _ = ss.describe(h.dir, others)
		return held
	}
	fence, err := s.promotedFence(h, q, r)
	if err != nil {
		s.withdraw(h)
		return err
	}
	newNode := node{h.node.guid, tryExclusive, h.node.number}
	fence, err = ss.swap(h, newNode, fence, zk.DeleteRequest{Path: join(h.dir, h.intent.String()), Version: -1})
	if err == nil {
		h.timer.Stop()
		s.holds.change(h, newNode, fence)
	}
	return err
}

// otherReaders returns the other readers that hold the lock, and the foreign nodes. It returns
// ErrPromotionConflict if another reader asked for its promotion first.
func otherReaders(q *queue, h *hold) (others []node, err error) {
	others = q.foreigners()
	for _, n := range q.nodes {
		switch {
		case n.kind == foreign:
		case n.guid == h.intent.guid || !n.isBefore(*h.intent):
			return others, nil
		case n.kind == intent:
			return nil, driver.ErrPromotionConflict
		case !n.kind.shared():
			return others, nil
		case n.guid != h.node.guid:
			others = append(others, n)
		}
	}
	return others, nil
}

// promotedFence returns a fence for the promoted hold h. The fence is above all fences that the
// lock has had. The writers that wait now will get greater fences, because their nodes have greater
// numbers.
func (s *Store) promotedFence(h *hold, q *queue, r *driver.Request) (uint64, error) {
	if s.cfg.noFences {
		return 0, nil
	}
	m, err := h.ss.mapping(h.dir, &q.stat)
	if err != nil {
		return 0, err
	}
	fence := max(m.fenceAt(h.intent.number), h.fence, m.Floor, r.FenceAbove) + 1
	if fence >= driver.MaxFence {
		return 0, driver.ErrFencesUsedUp
	}
	return fence, nil
}

// swap replaces the node of h by another node with the same number, and returns the fence of the
// new node. The transaction that does this also carries out extraOps. If the new node is exclusive
// and the store has fences, the transaction also raises the lock's mapping, so that the new node
// has at least the given fence.
func (ss *session) swap(h *hold, newNode node, fence uint64, extraOps ...zk.DeleteRequest) (uint64, error) {
	info := h.info
	if info.Fence = 0; newNode.kind.shared() {
		info.Fence = h.fence
	}
	path := join(h.dir, newNode.String())
	ops := []any{
		&zk.SetDataRequest{Path: h.path(), Version: -1}, // tells the next waiter; see place
		&zk.DeleteRequest{Path: h.path(), Version: -1},
		&zk.CreateRequest{Path: path, Data: info.encode(), Acl: ss.cfg.acl(), Flags: zk.FlagEphemeral},
	}
	for _, d := range extraOps {
		ops = append(ops, &d)
	}
	tries := 0
	err := ss.retryRequest(func() error {
		tries++
		if tries > 1 { // an earlier try may have been carried out
			exists, _, err := ss.conn.Exists(path)
			if err != nil || exists {
				return err
			}
		}
		if newNode.kind.shared() || ss.cfg.noFences {
			return ss.transact(ops)
		}
		m, err := ss.raiseMapping(h, h.node, fence, 0, ops...)
		if err == nil {
			fence = m.Fence
		}
		return err
	})
	if err == zk.ErrNoNode {
		err = driver.ErrLost
	}
	return fence, err
}

// intend adds a node that keeps new readers out: the intent of the hold h. The store deletes the
// node after a little less than driver.MaxIntent, unless intend is called again for h before that.
func (s *Store) intend(h *hold) error {
	lapse := driver.MaxIntent * 9 / 10
	if h.intent != nil {
		h.timer.Reset(lapse)
		return nil
	}
	n, err := h.ss.join(h.dir, intent, data{})
	if err != nil {
		return err
	}
	h.intent = &n
	name, token := h.name, h.token.Text()
	h.timer = time.AfterFunc(lapse, func() {
		s.later(name, token, func(h *hold) {
			if h.state == held && h.ss.alive() {
				s.withdraw(h)
			}
		})
	})
	return nil
}

// withdraw deletes the intent of h, if there is one.
func (s *Store) withdraw(h *hold) {
	if h.intent == nil {
		return
	}
	h.timer.Stop()
	n := *h.intent
	h.intent = nil
	if err := h.ss.delete(join(h.dir, n.String())); err != nil && err != zk.ErrNoNode {
		h.ss.deleteLater(h.dir, n)
	}
}

// demote replaces the exclusive node of h by a shared node with the same number. The hold keeps its
// fence.
func (s *Store) demote(h *hold) error {
	newNode := node{h.node.guid, tryShared, h.node.number}
	if _, err := h.ss.swap(h, newNode, h.fence); err != nil {
		return err
	}
	s.holds.change(h, newNode, h.fence)
	return nil
}
