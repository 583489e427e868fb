package etcdstore

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A change is one transaction on the keys of a name. The server carries out the operations only if
// all comparisons are true.
type change struct {
	conds []*pb.Compare
	ops   []*pb.RequestOp
}

func (c *change) requireEntry(e *entry) { c.conds = append(c.conds, createdAt(e.key, e.created)) }

// maxTries is how often a change is tried while others change the same name.
const maxTries = 200

// readState returns the state of a name.
func (c *connection) readState(ctx context.Context, p nameKeys, name string) (*state, error) {
	reply, err := c.commit(ctx, nil, p.reads(), nil)
	if err != nil {
		return nil, err
	}
	return stateOf(p, name, reply), nil
}

// applyChange changes the keys of a name in one transaction. It calls makeChange with the state of
// the name. makeChange returns the transaction, or nil if there is nothing to do. If somebody has
// added or modified a key of the name since the state was read, the transaction changes nothing.
// applyChange then reads the new state and calls makeChange again.
//
// The result is the revision of the transaction, or that of the state if there was nothing to do.
func (c *connection) applyChange(ctx context.Context, st *state, makeChange func(*state) (*change, error)) (int64, error) {
	for range maxTries {
		todo, err := makeChange(st)
		if err != nil || todo == nil {
			return st.revision, err
		}
		conds := append(st.unchanged(), todo.conds...)
		reply, err := c.commit(ctx, conds, todo.ops, st.reads())
		if err != nil {
			return 0, err
		}
		if reply.Succeeded {
			return reply.Header.Revision, nil
		}
		st = stateOf(st.nameKeys, st.name, reply)
	}
	return 0, unavailable("too many others change the name at the same time")
}

// unchanged returns comparisons that are true if no key of the name was added or modified since st
// was read.
func (st *state) unchanged() []*pb.Compare {
	return []*pb.Compare{
		notWrittenAfter(st.dir, st.end, st.revision),
		notWrittenAfter(st.nameKeys.fence, "", st.revision),
	}
}

// deleteOthers adds operations that delete the token's place in the queue and its intent to be
// promoted.
func (st *state) deleteOthers(todo *change, id string) {
	for i := range st.entries {
		e := &st.entries[i]
		if (e.kind == waiting || e.kind == intending) && e.ID == id {
			todo.ops = append(todo.ops, deleteKey(e.key))
		}
	}
}

func (st *state) deleteIntent(todo *change, id string) {
	if e := st.find(intending, id); e != nil {
		todo.ops = append(todo.ops, deleteKey(e.key))
	}
}
