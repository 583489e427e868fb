package zkstore

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// A lock is the node ROOT/NAME, which stays when the lock is free. Its children are the queue:
//
//	_c_GUID-KIND-NUMBER
//
// GUID is random. With it, a store finds its node if the reply to the request that made the node
// was lost. ZooKeeper chooses NUMBER. KIND is one of these letters:
//
//	kind  node of                         behaves as
//	x     a try for an exclusive lock     exclusive; it becomes a hold or is deleted at once
//	w     a waiter for an exclusive lock  exclusive
//	s     a try for a shared lock         shared; it becomes a hold or is deleted at once
//	r     a waiter for a shared lock      shared
//	u     a reader that wants promotion   exclusive; later readers wait behind it
//
// An exclusive node holds the lock if it is the first node of the queue. A shared node holds the
// lock if all nodes before it are shared. To promote or demote a hold, the store replaces its node
// by one of another kind with the same number. So the hold keeps its place in the queue.
//
// A child with any other name belongs to another program, for example one that uses Curator's or
// kazoo's locks. Such programs take no notice of padlock's nodes. So padlock grants nothing while
// there is such a child, even if its number is greater. The queue has such a child as a node of the
// kind foreign, whose guid is the whole name.
type kind byte

const (
	tryExclusive  kind = 'x'
	waitExclusive kind = 'w'
	tryShared     kind = 's'
	waitShared    kind = 'r'
	intent        kind = 'u'
	foreign       kind = '?'
)

func (k kind) shared() bool { return k == tryShared || k == waitShared }

func (k kind) waits() bool { return k == waitExclusive || k == waitShared }

func kindOf(shared, waits bool) kind {
	switch {
	case shared && waits:
		return waitShared
	case shared:
		return tryShared
	case waits:
		return waitExclusive
	}
	return tryExclusive
}

// A node is a member of a queue.
type node struct {
	guid   string
	kind   kind
	number int32
}

const (
	guidPrefix = "_c_"
	guidSize   = 32
)

func newGUID() string {
	var b [guidSize / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// stem returns the name of a node without its number.
func stem(guid string, k kind) string { return guidPrefix + guid + "-" + string(k) + "-" }

func (n node) String() string {
	if n.kind == foreign {
		return n.guid
	}
	return stem(n.guid, n.kind) + fmt.Sprintf("%010d", n.number)
}

// foreignNode returns the node for a child that padlock did not make. Most programs let ZooKeeper
// choose a number, as padlock does. ok is false if the name does not end with such a number.
func foreignNode(name string) (n node, ok bool) {
	n = node{guid: name, kind: foreign}
	if len(name) < sequenceDigits {
		return n, false
	}
	number, err := strconv.ParseUint(name[len(name)-sequenceDigits:], 10, 31)
	n.number = int32(number)
	return n, err == nil
}

const sequenceDigits = 10

// parseNode reads the name of a node. It returns false for nodes that padlock did not make.
func parseNode(name string) (node, bool) {
	rest, ok := strings.CutPrefix(name, guidPrefix)
	if !ok || len(rest) < guidSize+4 || rest[guidSize] != '-' || rest[guidSize+2] != '-' {
		return node{}, false
	}
	n, err := strconv.ParseInt(rest[guidSize+3:], 10, 32)
	k := kind(rest[guidSize+1])
	known := k.shared() || k == tryExclusive || k.waits() || k == intent
	return node{rest[:guidSize], k, int32(n)}, err == nil && known
}

// isBefore reports whether n stands before o. Numbers wrap from 2^31 - 1 to -2^31, so the sign of
// their difference decides.
func (n node) isBefore(o node) bool { return n.number-o.number < 0 }

// A queue contains the nodes of a lock, in the order of their numbers.
type queue struct {
	nodes []node
	stat  zk.Stat // of the lock's node
}

func newQueue(children []string, stat *zk.Stat) *queue {
	q := &queue{stat: *stat}
	var first []node // children of others without a number
	for _, name := range children {
		n, ok := parseNode(name)
		if !ok {
			n, ok = foreignNode(name)
		}
		if ok {
			q.nodes = append(q.nodes, n)
		} else {
			first = append(first, n)
		}
	}
	slices.SortFunc(q.nodes, func(a, b node) int { return int(a.number - b.number) })
	for i := range first {
		if len(q.nodes) > 0 {
			first[i].number = q.nodes[0].number - 1
		}
	}
	q.nodes = append(first, q.nodes...)
	return q
}

// blocker returns the last node before n that keeps n from getting the lock. If there is none, it
// returns a foreign node behind n.
func (q *queue) blocker(n node) (b node, blocked bool) {
	for _, o := range q.nodes {
		switch {
		case !o.isBefore(n) && (blocked || o.kind != foreign):
		case !n.kind.shared() || !o.kind.shared():
			b, blocked = o, true
		}
	}
	return b, blocked
}

// foreigners returns the foreign nodes.
func (q *queue) foreigners() (out []node) {
	for _, n := range q.nodes {
		if n.kind == foreign {
			out = append(out, n)
		}
	}
	return out
}

// holders returns the nodes that have the lock.
func (q *queue) holders() (out []node) {
	for _, n := range q.nodes {
		switch {
		case n.kind == intent && len(out) > 0 && out[0].kind.shared():
			return out
		case n.kind == intent:
		case n.kind.shared():
			out = append(out, n)
		case len(out) == 0:
			return []node{n}
		default:
			return out
		}
	}
	return out
}

// inTheWay returns the nodes that have the lock, and all foreign nodes.
func (q *queue) inTheWay() []node {
	out := slices.DeleteFunc(q.holders(), func(n node) bool { return n.kind == foreign })
	return append(out, q.foreigners()...)
}

// waiters returns the number of waiters other than n.
func (q *queue) waiters(n node) (count int) {
	holders := q.holders()
	for _, o := range q.nodes {
		if o.kind.waits() && o.guid != n.guid && !slices.Contains(holders, o) {
			count++
		}
	}
	return count
}

func (q *queue) find(guid string) (node, bool) {
	for _, n := range q.nodes {
		if n.guid == guid {
			return n, true
		}
	}
	return node{}, false
}

// data is the content of a node. It describes the holder.
type data struct {
	driver.Holder
	Fence uint64 `json:"fence,omitempty"` // of a shared hold; see writeFence

	// Announces means that the store follows a rule: in a transaction that changes the fences or
	// the kind of the node, it first writes this data. A waiter that watches the node gets an event
	// for this write; see place. The nodes of older padlocks do not have this field.
	Announces bool `json:"announces,omitempty"`
}

func dataOf(h driver.Holder) data { return data{Holder: h, Announces: true} }

func (d data) encode() []byte {
	text, _ := json.Marshal(d) // JSON can encode every value of it
	return text
}

func decode(text []byte) (d data) {
	_ = json.Unmarshal(text, &d) // a node that cannot be read has an unknown holder
	return d
}

// nodeNames makes the nodes of names. No node is "." or "..", and none contains a slash.
var nodeNames = storekit.Escaping{
	Plain:    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:@+,=~",
	NotFirst: ".",
}

// join returns the path of a child.
func join(dir, child string) string { return path.Join(dir, child) }
