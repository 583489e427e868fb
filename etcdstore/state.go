package etcdstore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
)

// record is the value of a key, as JSON.
type record struct {
	Fence  uint64        `json:"fence,omitempty"` // Fence and ID come first; see identity
	ID     string        `json:"id,omitempty"`    // a hash of the token; a cool-down has none
	Since  int64         `json:"since,omitempty"` // µs since 1970
	Shared bool          `json:"shared,omitempty"`
	Holder driver.Holder `json:"holder"`
	// Of is the ID of the hold that a cool-down belongs to. While that hold is live, the record is
	// the at-least time of the hold, and keeps out only callers that the hold keeps out too.
	Of string `json:"of,omitempty"`
	// Alone says that a waiter wants more than the Release of another process can give it, so the
	// waiter takes the name itself.
	Alone bool `json:"alone,omitempty"`
	// To is the ID of the waiter to which the name was passed on. It stands in the place of the
	// released hold, where that waiter reads it. Such a place does not count as a waiter. Next
	// lists the waiters behind that waiter.
	To   string `json:"to,omitempty"`
	Next string `json:"next,omitempty"`
}

func (r *record) text() string {
	b, err := json.Marshal(r)
	if err != nil {
		return "{}" // JSON can write every record
	}
	return string(b)
}

// identity returns the beginning of the value of a hold. It stays the same for as long as the hold
// lasts, and no other hold has it.
func identity(fence uint64, id string) string {
	return `{"fence":` + strconv.FormatUint(fence, 10) + `,"id":"` + id + `"`
}

// A lastHolder remembers the JSON of a holder, since most holds of a store have the same one.
type lastHolder struct{ last atomic.Pointer[holderText] }

type holderText struct {
	holder driver.Holder
	text   string
}

// holdText returns the value of a key of a hold. The record has no other fields than those of a
// hold.
func (l *lastHolder) holdText(r *record) string {
	t := l.last.Load()
	if t == nil || t.holder != r.Holder {
		text, err := json.Marshal(r.Holder)
		if err != nil {
			return r.text()
		}
		t = &holderText{r.Holder, string(text)}
		l.last.Store(t)
	}
	return identity(r.Fence, r.ID) + `,"since":` + strconv.FormatInt(r.Since, 10) + `,"holder":` + t.text + "}"
}

// entry is a key of a name.
type entry struct {
	record
	kind     kind
	key      string
	slot     string // the last part of the key
	created  int64
	modified int64 // the revision of the last write
	lease    clientv3.LeaseID
	value    string
}

// state is what the server has for a name at a revision.
type state struct {
	place
	name     string
	revision int64
	entries  []entry
	fence    uint64
}

// reads returns the operations that read the keys of a name. stateOf takes their results.
func (p *place) reads() []*pb.RequestOp {
	return []*pb.RequestOp{getRange(p.dir, p.end()), getKey(p.fence)}
}

// stateOf makes a state from the results of the operations of reads. Without the result of the
// second one, the state has no fence.
func stateOf(p place, name string, reply *pb.TxnResponse) *state {
	st := &state{place: p, name: name, revision: reply.Header.Revision}
	if inner := reply.Responses[0].GetResponseTxn(); inner != nil {
		reply = inner
	}
	for _, kv := range reply.Responses[0].GetResponseRange().Kvs {
		if e, ok := entryOf(p.dir, kv); ok {
			st.entries = append(st.entries, e)
			st.fence = max(st.fence, e.Fence)
		}
	}
	st.nameHolder()
	for _, r := range reply.Responses[1:] {
		for _, kv := range r.GetResponseRange().Kvs {
			st.fence = max(st.fence, fenceOf(kv.Value))
		}
	}
	return st
}

// nameHolder adds the holder to a hold that was passed on. The process that released the name did
// not know the next holder, but that holder's place in the queue names it.
func (st *state) nameHolder() {
	for i := range st.entries {
		e := &st.entries[i]
		if place := st.find(waiting, e.ID); e.kind == exclusive && place != nil && e.Holder == (driver.Holder{}) {
			e.Holder = place.Holder
			e.value = e.text()
		}
	}
}

func entryOf(dir string, kv *mvccpb.KeyValue) (entry, bool) {
	key := string(kv.Key)
	rest := key[len(dir):]
	if len(rest) < 2 || rest[1] != '/' {
		return entry{}, false
	}
	e := entry{kind: kind(rest[0]), key: key, slot: rest[2:], created: kv.CreateRevision, modified: kv.ModRevision,
		lease: clientv3.LeaseID(kv.Lease), value: string(kv.Value)}
	if json.Unmarshal(kv.Value, &e.record) != nil {
		e.record = record{} // somebody else wrote it; it still keeps others out
	}
	return e, true
}

// fenceText has a fixed width, so that the server can compare fences as texts.
func fenceText(fence uint64) string { return fmt.Sprintf("%016d", fence) }

func fenceOf(text []byte) uint64 {
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// freeKey returns the first key of this kind in the slots of a store that does not exist.
func (st *state) freeKey(k kind, store string) string {
	for n := 0; ; n++ {
		key := st.key(k, slot(store, n))
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

// liveHold returns the live hold of id.
func (st *state) liveHold(id string) *entry {
	if e := st.find(exclusive, id); e != nil {
		return e
	}
	return st.find(shared, id)
}

// guards reports whether e is the at-least time of a live hold.
func (st *state) guards(e *entry) bool {
	return (e.kind == cooling || e.kind == coolingRd) && e.Of != "" && st.liveHold(e.Of) != nil
}

// excludes reports whether e keeps out a caller that is not in the queue.
func (st *state) excludes(e *entry, id string, reader bool) bool {
	switch e.kind {
	case exclusive:
		return e.ID != id
	case cooling:
		return !st.guards(e)
	case intending:
		return reader && e.ID != id
	case shared:
		return !reader && e.ID != id
	case coolingRd:
		return !reader && !st.guards(e)
	}
	return false
}

// excluding returns a hold, a cool-down or an intent that keeps a caller out, or nil.
func (st *state) excluding(id string, reader bool) *entry {
	for i := range st.entries {
		if e := &st.entries[i]; st.excludes(e, id, reader) {
			return e
		}
	}
	return nil
}

func (st *state) excluded(id string, reader bool) bool { return st.excluding(id, reader) != nil }

// keepsOut returns the last waiter that a caller has to wait for, or, if there is none, another key
// that keeps the caller out, or nil.
func (st *state) keepsOut(id string, reader bool) *entry {
	if e := st.waiterAhead(0, reader); e != nil {
		return e
	}
	return st.excluding(id, reader)
}

// waiterAhead returns the last waiter for which a place in the queue has to wait, or nil. created
// is the revision that created the place; 0 stands for the end of the queue.
func (st *state) waiterAhead(created int64, reader bool) *entry {
	var last *entry
	for i := range st.entries {
		e := &st.entries[i]
		switch {
		case e.kind != waiting || e.To != "" || created != 0 && e.created >= created || reader && e.Shared:
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
		if e := &st.entries[i]; e.kind == waiting && e.To == "" && st.liveHold(e.ID) == nil {
			n++
		}
	}
	return n
}

// nextFence returns the next fence. It is the clock in microseconds since 1970, or, if that is not
// above the two arguments, one more than the greater of them.
func nextFence(last, floor uint64) (uint64, error) {
	fence := max(last+1, floor+1, uint64(time.Now().UnixMicro()))
	if fence >= driver.MaxFence {
		return 0, driver.ErrFencesUsedUp
	}
	return fence, nil
}
