package etcdstore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
)

// A record is the value of a key. It is stored as JSON.
type record struct {
	Fence  uint64        `json:"fence,omitempty"` // Fence and ID must come first; see identity
	ID     string        `json:"id,omitempty"`    // a hash of the token; a cool-down has none
	Since  int64         `json:"since,omitempty"` // µs since 1970
	Shared bool          `json:"shared,omitempty"`
	Holder driver.Holder `json:"holder"`
	// Alone is set for each waiter. Older builds of padlock do not pass a name on to such a waiter,
	// which would not notice it.
	Alone bool `json:"alone,omitempty"`
}

func (r *record) text() string {
	b, err := json.Marshal(r)
	if err != nil {
		return "{}" // this cannot happen: JSON can encode every record
	}
	return string(b)
}

// identity returns the text with which the value of a hold's key begins. No other hold has the same
// text. Renewing a hold does not change the text.
func identity(fence uint64, id string) string {
	return `{"fence":` + strconv.FormatUint(fence, 10) + `,"id":"` + id + `"`
}

// An entry is one key of a name and its decoded value.
type entry struct {
	record
	kind     kind
	key      string
	part     string // the last part of the key
	created  int64  // the revision that created the key
	modified int64  // the revision of the last write
	lease    clientv3.LeaseID
	value    string
}

// A state is what the server stored for one name at one revision.
type state struct {
	nameKeys
	name     string
	revision int64
	entries  []entry
	fence    uint64
	foreign  string // a key among those of the name that padlock did not write, or ""
}

// checkOwn returns an error if another program has written a key among those of the name. Then
// padlock neither grants nor breaks the name.
func (st *state) checkOwn() error {
	if st.foreign == "" {
		return nil
	}
	return &foreignKey{unavailable("the key %q was not written by padlock, which leaves it alone; delete the key, rename the lock, or choose another prefix", st.foreign)}
}

// A foreignKey is the error of checkOwn. A waiter does not wait until the key is gone.
type foreignKey struct{ error }

func (f *foreignKey) Unwrap() error { return f.error }

// reads returns the operations that read all keys of a name. stateOf decodes their results.
func (p *nameKeys) reads() []*pb.RequestOp {
	return []*pb.RequestOp{getKeys(p.dir, p.end), getKeys(p.fence, "")}
}

// stateOf decodes the reply to a request with the operations of nameKeys.reads. Such a reply has
// two results. If the second one is missing, the last fence is unknown, and the state has the
// highest fence of the holds instead.
func stateOf(p nameKeys, name string, reply *pb.TxnResponse) *state {
	st := &state{nameKeys: p, name: name, revision: reply.Header.Revision}
	if inner := reply.Responses[0].GetResponseTxn(); inner != nil {
		reply = inner
	}
	for _, kv := range reply.Responses[0].GetResponseRange().Kvs {
		if e, ok := entryOf(p.dir, kv); ok {
			st.entries = append(st.entries, e)
			st.fence = max(st.fence, e.Fence)
		} else {
			st.foreign = string(kv.Key)
		}
	}
	for _, r := range reply.Responses[1:] {
		for _, kv := range r.GetResponseRange().Kvs {
			fence, ok := fenceOf(kv.Value)
			if st.fence = max(st.fence, fence); !ok {
				st.foreign = string(kv.Key)
			}
		}
	}
	return st
}

// entryOf decodes a key. ok is false if padlock did not write the key.
func entryOf(dir string, kv *mvccpb.KeyValue) (entry, bool) {
	key := string(kv.Key)
	rest := key[len(dir):]
	if len(rest) < 2 || rest[1] != '/' || !strings.ContainsRune(kinds, rune(rest[0])) {
		return entry{}, false
	}
	e := entry{kind: kind(rest[0]), key: key, part: rest[2:], created: kv.CreateRevision, modified: kv.ModRevision,
		lease: clientv3.LeaseID(kv.Lease), value: string(kv.Value)}
	ok := json.Unmarshal(kv.Value, &e.record) == nil && strings.Contains(e.value, `"holder":`) // every record has one
	return e, ok
}

// fenceText returns a fence as a text of fixed width, so that the server can compare fences as
// texts.
func fenceText(fence uint64) string { return fmt.Sprintf("%016d", fence) }

// fenceOf reads a text of fenceText. ok is false for any other text.
func fenceOf(text []byte) (fence uint64, ok bool) {
	n, err := strconv.ParseUint(string(text), 10, 64)
	return n, err == nil && fenceText(n) == string(text)
}

// freeKey returns a key of the given kind that does not exist yet. It tries the parts of this store
// in order.
func (st *state) freeKey(k kind, store string) string {
	for n := 0; ; n++ {
		key := st.key(k, ownPart(store, n))
		if !slices.ContainsFunc(st.entries, func(e entry) bool { return e.key == key }) {
			return key
		}
	}
}

func (st *state) find(k kind, id string) *entry {
	for i := range st.entries {
		if e := &st.entries[i]; e.kind == k && e.ID == id {
			return e
		}
	}
	return nil
}

// liveHold returns the hold of the token with the given ID, or nil if there is none.
func (st *state) liveHold(id string) *entry {
	if e := st.find(exclusive, id); e != nil {
		return e
	}
	return st.find(shared, id)
}

// excludes reports whether the entry e keeps a caller from getting the name. It returns false for
// places in the queue, which waiterAhead checks.
func (st *state) excludes(e *entry, id string, reader bool) bool {
	switch e.kind {
	case exclusive:
		return e.ID != id
	case cooling:
		return true
	case intending:
		return reader && e.ID != id
	case shared:
		return !reader && e.ID != id
	case coolingRd:
		return !reader
	}
	return false
}

// excluding returns the first hold, cool-down or intent that keeps a caller out, or nil.
func (st *state) excluding(id string, reader bool) *entry {
	for i := range st.entries {
		if e := &st.entries[i]; st.excludes(e, id, reader) {
			return e
		}
	}
	return nil
}

func (st *state) excluded(id string, reader bool) bool { return st.excluding(id, reader) != nil }

// keepsOut returns a key that keeps a caller from getting the name, or nil if there is none. The
// caller has no place in the queue yet. If it has to wait behind other waiters, the result is the
// place of the last of them. Otherwise the result is a hold, a cool-down or an intent.
func (st *state) keepsOut(id string, reader bool) *entry {
	if e := st.waiterAhead(0, reader); e != nil {
		return e
	}
	return st.excluding(id, reader)
}

// waiterAhead returns the last waiter that must get the name before the caller, or nil. ownRevision
// is the revision at which the caller joined the queue, or 0 if the caller has not joined. For a
// reader, other waiting readers do not count.
func (st *state) waiterAhead(ownRevision int64, reader bool) *entry {
	var last *entry
	for i := range st.entries {
		e := &st.entries[i]
		switch {
		case e.kind != waiting || ownRevision != 0 && e.created >= ownRevision || reader && e.Shared:
		case last == nil || e.created > last.created:
			last = e
		}
	}
	return last
}

func (st *state) reading() bool {
	for i := range st.entries {
		if st.entries[i].kind == shared {
			return true
		}
	}
	return false
}

func (st *state) waiters() (n int) {
	for i := range st.entries {
		if e := &st.entries[i]; e.kind == waiting && st.liveHold(e.ID) == nil {
			n++
		}
	}
	return n
}

// nextFence returns a fence that is greater than both arguments: the time in microseconds since
// 1970, or, if that is not great enough, the greater argument plus one.
func nextFence(last, floor uint64) (uint64, error) {
	fence := max(last+1, floor+1, uint64(time.Now().UnixMicro()))
	if fence >= driver.MaxFence {
		return 0, driver.ErrFencesUsedUp
	}
	return fence, nil
}
