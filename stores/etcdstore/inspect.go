package etcdstore

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Inspect implements driver.Admin.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name, &guarantees); err != nil {
		return driver.State{}, err
	}
	ctx, done, err := s.calls.Enter(ctx, s.conn.limits.limit)
	if err != nil {
		return driver.State{}, err
	}
	defer done()
	st, err := s.conn.readState(ctx, s.cfg.keysOf(name), name)
	if err != nil {
		return driver.State{}, err
	}
	if err := st.checkOwn(); err != nil {
		return driver.State{}, err
	}
	out := st.report()
	s.fillUntil(ctx, out.Holds)
	return out, nil
}

// report describes the state for callers of the store. In its result, the field Until of each hold
// is not a time yet, but the number of a lease. The method fillUntil replaces this number by the
// time at which the lease ends.
func (st *state) report() driver.State {
	out := driver.State{Name: st.name, Fence: st.fence, Waiters: st.waiters()}
	for i := range st.entries {
		e := &st.entries[i]
		if e.kind != waiting && e.kind != intending {
			out.Holds = append(out.Holds, e.report())
		}
	}
	return out
}

// listPage is how many keys List reads at once.
const listPage = 1000

// List implements driver.Admin.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	if err := s.calls.Begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Work.Done()
	states, err := s.list(ctx, s.cfg.prefix+"l/"+keyNames.Escape(prefix))
	if err != nil {
		return nil, err
	}
	var out []driver.State
	var holds []driver.Hold
	for _, st := range states {
		if len(st.entries) == 0 { // no key of the name was written by padlock
			continue
		}
		o := st.report()
		holds = append(holds, o.Holds...)
		out = append(out, o)
	}
	ctx, cancel := s.conn.limits.limit(ctx)
	defer cancel()
	s.fillUntil(ctx, holds)
	for i := range out {
		n := copy(out[i].Holds, holds)
		holds = holds[n:]
	}
	return out, nil
}

// list reads all keys that begin with the given text.
func (s *Store) list(ctx context.Context, from string) (states []*state, err error) {
	ctx, cancel := s.conn.limits.limit(ctx)
	defer cancel()
	stem, end := s.cfg.prefix+"l/", clientv3.GetPrefixRangeEnd(from)
	var last *state
	for {
		reply, err := s.conn.read(ctx, &pb.RangeRequest{Key: []byte(from), RangeEnd: []byte(end), Limit: listPage})
		if err != nil {
			return nil, err
		}
		for _, kv := range reply.Kvs {
			escaped, _, _ := strings.Cut(string(kv.Key)[len(stem):], "/")
			name, ok := keyNames.Unescape(escaped)
			if !ok {
				continue
			}
			if last == nil || last.name != name {
				last = &state{nameKeys: s.cfg.keysOf(name), name: name}
				states = append(states, last)
			}
			if e, ok := entryOf(last.dir, kv); ok {
				last.entries = append(last.entries, e)
				last.fence = max(last.fence, e.Fence)
			}
			from = string(kv.Key) + "\x00"
		}
		if !reply.More {
			break
		}
	}
	return states, nil
}

// Break implements driver.Admin. Waiters keep their places.
func (s *Store) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	if err := driver.CheckName(name, &guarantees); err != nil {
		return 0, err
	}
	var fence uint64
	err := s.edit(ctx, name, func(st *state, keeper clientv3.LeaseID) (*change, error) {
		if st.fence != seenFence {
			return nil, driver.ErrLost
		}
		err := st.checkOwn()
		if err == nil {
			fence, err = nextFence(st.fence, 0)
		}
		if err != nil {
			return nil, err
		}
		from, to := st.blockingKeys(false)
		todo := &change{}
		todo.ops = append(todo.ops, deleteRange(from, to), putFence(&st.nameKeys, fence, keeper))
		for i := range st.entries {
			if e := &st.entries[i]; e.kind == exclusive {
				if place := st.find(waiting, e.ID); place != nil {
					todo.ops = append(todo.ops, deleteKey(place.key))
				}
			}
		}
		return todo, nil
	})
	return fence, err
}

// RaiseFence implements driver.FenceRaiser.
func (s *Store) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	if err := driver.CheckHold(name, token, &guarantees); err != nil {
		return err
	}
	if err := driver.CheckFence(fence); err != nil {
		return err
	}
	id := idOf(token)
	h := s.holds.find(name, id)
	err := s.edit(ctx, name, func(st *state, keeper clientv3.LeaseID) (*change, error) {
		e := st.liveHold(id)
		if e == nil && h != nil && !h.reader && h.fencing() == st.fence {
			return nil, driver.ErrExpired
		}
		if e == nil {
			return nil, driver.ErrLost
		}
		if e.Fence >= fence {
			return nil, nil
		}
		todo := &change{}
		todo.requireEntry(e)
		rec := e.record
		rec.Fence = fence
		todo.ops = append(todo.ops, putValue(e.key, rec.text()))
		if err := st.checkOwn(); err != nil {
			return nil, err
		}
		if fence > st.fence {
			todo.ops = append(todo.ops, putFence(&st.nameKeys, fence, keeper))
		}
		return todo, nil
	})
	if err == nil && h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.fence = max(h.fence, fence)
	}
	return err
}

// edit is like applyChange, for changes that may write a fence. All stored fences have the same
// lease. edit passes this lease to makeChange, together with the state.
func (s *Store) edit(ctx context.Context, name string, makeChange func(*state, clientv3.LeaseID) (*change, error)) error {
	ctx, done, err := s.calls.Enter(ctx, s.conn.limits.limit)
	if err != nil {
		return err
	}
	defer done()
	for tries := 0; ; tries++ {
		keeper, err := s.leases.forFence(ctx)
		if err != nil {
			return err
		}
		st, err := s.conn.readState(ctx, s.cfg.keysOf(name), name)
		if err != nil {
			return err
		}
		_, err = s.conn.applyChange(ctx, st, func(st *state) (*change, error) { return makeChange(st, keeper) })
		if !isLeaseGone(err) || tries == 3 {
			return err
		}
		s.leases.forget()
	}
}

// StoreID implements driver.Places.
func (s *Store) StoreID(ctx context.Context) (string, error) {
	ctx, done, err := s.calls.Enter(ctx, s.conn.limits.limit)
	if err != nil {
		return "", err
	}
	defer done()
	key, id := s.cfg.prefix+"id", rand.Text()
	// A server without space refuses each transaction that could write, even if the key exists.
	known, err := s.conn.read(ctx, &pb.RangeRequest{Key: []byte(key)})
	if err != nil {
		return "", err
	}
	if len(known.Kvs) > 0 {
		return string(known.Kvs[0].Value), nil
	}
	reply, err := s.conn.commit(ctx, []*pb.Compare{noKeys(key, "")}, []*pb.RequestOp{putKey(key, id, 0)}, []*pb.RequestOp{getKeys(key, "")})
	if err != nil {
		return "", err
	}
	if !reply.Succeeded {
		id = string(reply.Responses[0].GetResponseRange().Kvs[0].Value)
	}
	return id, nil
}

// Holding is what IsHolder needs to know about a lock. *padlock.Lock implements it. The permit of a
// semaphore also has a method Slot; see storekit.StoredName.
type Holding interface {
	Name() string  // of the lock
	Fence() uint64 // of the hold
}

// IsHolder returns comparisons for a transaction of your own. The server then carries out the
// transaction only while the lock is held. The server itself checks that, so it rejects the
// transaction even if this process was frozen and sends it too late:
//
//	reply, err := client.Txn(ctx).If(store.IsHolder(lock)...).Then(clientv3.OpPut("report", text)).Commit()
//
// If reply.Succeeded is false, the lock is lost and nothing was changed. IsHolder sends no request.
// Its comparisons stay true when the lock is renewed. If this store does not know a hold with the
// name and the fence of the lock, the comparisons are never true. After a Promote or a Demote, call
// IsHolder again. If this process has several shared locks on the name, they have the same fence.
// The comparisons are then true as long as it has one of these locks.
//
// Do not send the transaction with a client of clientv3/namespace. Such a client puts its prefix in
// front of the keys of the comparisons, so they are never true.
func (s *Store) IsHolder(lock Holding) []clientv3.Cmp {
	name, fence := storekit.StoredName(lock), lock.Fence()
	all := s.holds.withFence(name, fence)
	if len(all) == 0 {
		return []clientv3.Cmp{clientv3.Compare(clientv3.Version(s.cfg.prefix+"id"), "<", 0)}
	}
	value := identity(fence, all[0].id) // the value of the key begins with this text
	same := []clientv3.Cmp{clientv3.Compare(clientv3.Value(all[0].key), ">", value), clientv3.Compare(clientv3.Value(all[0].key), "<", value+"~")}
	place := s.cfg.keysOf(name)
	readers := place.key(shared, s.id)
	if len(all) == 1 || slices.ContainsFunc(all, func(h *hold) bool { return !strings.HasPrefix(h.key, readers) }) {
		return same
	}
	// Compare the keys of all readers of this store. If there are none, etcd's comparison is false.
	value = `{"fence":` + strconv.FormatUint(fence, 10) + ","
	end := clientv3.GetPrefixRangeEnd(readers)
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.Value(readers), ">", value).WithRange(end),
		clientv3.Compare(clientv3.Value(readers), "<", value+"~").WithRange(end),
	}
}
