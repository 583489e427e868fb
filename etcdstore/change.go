package etcdstore

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A change is one transaction on the keys of a name. Its operations are made only if its
// comparisons are true.
type change struct {
	conds []clientv3.Cmp
	ops   []clientv3.Op
}

func (c *change) still(e *entry) { c.conds = append(c.conds, still(e.key, e.created)) }

func (c *change) do(ops ...clientv3.Op) { c.ops = append(c.ops, ops...) }

// put writes a key with a lease.
func put(key string, value string, id clientv3.LeaseID) clientv3.Op {
	return clientv3.OpPut(key, value, clientv3.WithLease(id))
}

// maxTries bounds how often a change is tried while others change the same name.
const maxTries = 200

// read returns the state of a name.
func (c *connection) read(ctx context.Context, p place, name string) (*state, error) {
	reply, err := c.commit(ctx, nil, p.reads(), nil)
	if err != nil {
		return nil, failure(ctx, err, false)
	}
	return stateOf(p, name, reply), nil
}

// change passes the state of a name to decide, and makes the change that decide returns. If a key
// of the name was added or modified since the state was read, nothing is changed; then decide gets
// the new state. decide returns nil if there is nothing to do. The result is the revision of the
// change. If the server says that a lease is gone, change returns that error unchanged.
func (c *connection) change(ctx context.Context, st *state, decide func(*state) (*change, error)) (int64, error) {
	for range maxTries {
		todo, err := decide(st)
		if err != nil || todo == nil {
			return st.revision, err
		}
		conds := append(st.unchanged(), todo.conds...)
		reply, err := c.commit(ctx, conds, todo.ops, st.reads())
		switch {
		case isLeaseGone(err):
			return 0, err
		case err != nil:
			return 0, failure(ctx, err, true)
		case reply.Succeeded:
			return reply.Header.Revision, nil
		}
		st = stateOf(st.place, st.name, reply)
	}
	return 0, unavailable("too many others change the name at the same time")
}

// unchanged returns comparisons that are true if no key of the name was added or modified since st
// was read.
func (st *state) unchanged() []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(st.dir).WithRange(st.end()), "<", st.revision+1),
		clientv3.Compare(clientv3.ModRevision(st.place.fence), "<", st.revision+1),
	}
}
