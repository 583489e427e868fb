package etcdstore

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
)

// record is the value of a key, as JSON.
type record struct {
	Fence  uint64        `json:"fence,omitempty"`
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

// entry is a key of a name.
type entry struct {
	record
	kind    kind
	id      string
	key     string
	created int64
	lease   clientv3.LeaseID
	value   string
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
func (p *place) reads() []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(p.dir, clientv3.WithRange(p.end())), clientv3.OpGet(p.fence)}
}

// stateOf makes a state from the results of the two operations of reads.
func stateOf(p place, name string, reply *clientv3.TxnResponse) *state {
	st := &state{place: p, name: name, revision: reply.Header.Revision}
	for len(reply.Responses) == 1 { // the results are those of a transaction inside the transaction
		reply = (*clientv3.TxnResponse)(reply.Responses[0].GetResponseTxn())
	}
	for _, kv := range reply.Responses[0].GetResponseRange().Kvs {
		if e, ok := entryOf(p.dir, kv); ok {
			st.entries = append(st.entries, e)
			st.fence = max(st.fence, e.Fence)
		}
	}
	st.nameHolder()
	for _, kv := range reply.Responses[1].GetResponseRange().Kvs {
		st.fence = max(st.fence, fenceOf(kv.Value))
	}
	return st
}

// nameHolder adds the holder to a hold that was passed on. The process that released the name did
// not know the next holder, but that holder's place in the queue names it.
func (st *state) nameHolder() {
	for i := range st.entries {
		e := &st.entries[i]
		if place := st.find(waiting, e.id); e.kind == exclusive && place != nil && e.Holder == (driver.Holder{}) {
			e.Holder = place.Holder
			e.value = e.text()
		}
	}
}

func entryOf(dir string, kv *mvccpb.KeyValue) (entry, bool) {
	key := string(kv.Key)
	rest := key[len(dir):]
	if len(rest) < 3 || rest[1] != '/' {
		return entry{}, false
	}
	e := entry{kind: kind(rest[0]), id: rest[2:], key: key, created: kv.CreateRevision, lease: clientv3.LeaseID(kv.Lease), value: string(kv.Value)}
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

func (st *state) find(k kind, id string) *entry {
	for i := range st.entries {
		if e := &st.entries[i]; e.kind == k && e.id == id {
			return e
		}
	}
	return nil
}

// hold returns the live hold of id.
func (st *state) hold(id string) *entry {
	if e := st.find(exclusive, id); e != nil {
		return e
	}
	return st.find(shared, id)
}

// guards reports whether e is the at-least time of a live hold.
func (st *state) guards(e *entry) bool {
	return (e.kind == cooling || e.kind == coolingRd) && e.Of != "" && st.hold(e.Of) != nil
}

// excludes reports whether e keeps out a caller that is not in the queue.
func (st *state) excludes(e *entry, id string, reader bool) bool {
	switch e.kind {
	case exclusive:
		return e.id != id
	case cooling:
		return !st.guards(e)
	case intending:
		return reader && e.id != id
	case shared:
		return !reader && e.id != id
	case coolingRd:
		return !reader && !st.guards(e)
	}
	return false
}

// excluded reports whether a hold, a cool-down or an intent keeps a caller out.
func (st *state) excluded(id string, reader bool) bool {
	for i := range st.entries {
		if st.excludes(&st.entries[i], id, reader) {
			return true
		}
	}
	return false
}

// ahead looks at the waiters before a place in the queue. It returns the last of them that the
// caller has to wait for, or nil. The place is given by the revision that created it; 0 stands for
// the end of the queue.
func (st *state) ahead(at int64, reader bool) *entry {
	var last *entry
	for i := range st.entries {
		e := &st.entries[i]
		switch {
		case e.kind != waiting || e.To != "" || at != 0 && e.created >= at || reader && e.Shared:
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
		if e := &st.entries[i]; e.kind == waiting && e.To == "" && st.hold(e.id) == nil {
			n++
		}
	}
	return n
}

// mint returns the next fence. It is the clock in microseconds since 1970, or, if that is not above
// the two given fences, one more than the greater of them.
func mint(last, above uint64) (uint64, error) {
	fence := max(last+1, above+1, uint64(time.Now().UnixMicro()))
	if fence >= driver.MaxFence {
		return 0, driver.ErrFencesUsedUp
	}
	return fence, nil
}
