package zkstore

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
)

func FuzzNames(f *testing.F) {
	for _, name := range []string{"a", "a/b", ".", "..", "...", "%", "%41", "A", "\x00", "é", "\xff", "zookeeper", "a b", strings.Repeat("/", 1024)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" {
			return
		}
		node := nodeNames.Escape(name)
		if strings.Contains(node, "/") || node == "." || node == ".." {
			t.Fatalf("%q is the node %q", name, node)
		}
		if back, ok := nodeNames.Unescape(node); !ok || back != name {
			t.Fatalf("%q is the node %q, which is the name %q, %v", name, node, back, ok)
		}
	})
}

// Unescape rejects a text that Escape does not make, so two nodes never stand for the same name.
func TestNodesOfOthers(t *testing.T) {
	for _, node := range []string{"", "%", "%4", "%4g", "%41", "%2e", "a b", ".a", "a%"} {
		if name, ok := nodeNames.Unescape(node); ok {
			t.Errorf("the node %q is taken for the lock %q", node, name)
		}
	}
	for _, name := range []string{"", "lock-0000000001", "_c_00-x-1", "_c_" + strings.Repeat("0", 32) + "-x-", "_c_" + strings.Repeat("0", 32) + "-lock-0000000001", "_c_" + strings.Repeat("0", 32) + "-q-0000000001"} {
		if n, ok := parseNode(name); ok {
			t.Errorf("%q is taken for the node %+v", name, n)
		}
	}
}

func nodeOf(k kind, number int32) node { return node{newGUID(), k, number} }

// The numbers of ZooKeeper wrap from 2^31 - 1 to -2^31. The order and the fences stay right.
func TestNumbersWrap(t *testing.T) {
	first, second := nodeOf(tryExclusive, math.MaxInt32), nodeOf(waitExclusive, math.MinInt32)
	q := newQueue([]string{second.String(), first.String()}, &zk.Stat{})
	if len(q.nodes) != 2 || q.nodes[0] != first {
		t.Fatalf("the queue is %+v", q.nodes)
	}
	if b, blocked := q.blocker(second); !blocked || b != first {
		t.Errorf("the second waits for %+v, %v", b, blocked)
	}
	if _, blocked := q.blocker(first); blocked {
		t.Error("the first waits")
	}
	m := mapping{Fence: 1000, Number: math.MaxInt32 - 1}
	if a, b := m.fenceAt(first.number), m.fenceAt(second.number); a != 1001 || b != 1002 {
		t.Errorf("the fences are %d and %d", a, b)
	}
}

// A child that padlock did not make keeps everybody from getting the lock, wherever it stands.
func TestForeignNodes(t *testing.T) {
	guid := newGUID()
	for _, child := range []string{"_c_" + guid + "-lock-%s", "_c_" + guid + "-__READ__%s", guid + "__lock__%s", "lock-%s", "leases", "x", ""} {
		for _, numbers := range [][2]int32{{3, 5}, {5, 3}} {
			foreigner, mine := strings.ReplaceAll(child, "%s", fmt.Sprintf("%010d", numbers[0])), nodeOf(waitExclusive, numbers[1])
			numbered := strings.Contains(child, "%s")
			q := newQueue([]string{mine.String(), foreigner}, &zk.Stat{})
			for _, k := range []kind{waitExclusive, waitShared} {
				mine.kind = k
				if b, blocked := q.blocker(mine); !blocked || b.String() != foreigner {
					t.Errorf("%q: a waiter of kind %c waits for %v, %v", foreigner, k, b, blocked)
				}
			}
			mine.kind = waitExclusive
			waiters := 1
			if numbered && mine.number < numbers[0] {
				waiters = 0 // it had the lock before the other program came
			}
			if all := q.inTheWay(); len(all) != 2-waiters || all[len(all)-1].String() != foreigner || q.waiters(node{}) != waiters || q.followsHolder(mine) {
				t.Errorf("%q behind %v: %v in the way, %d waiters", foreigner, mine, all, q.waiters(node{}))
			}
		}
	}
}

func TestHolders(t *testing.T) {
	queueOf := func(kinds string) *queue {
		q := &queue{}
		for i, k := range kinds {
			q.nodes = append(q.nodes, nodeOf(kind(k), int32(i)))
		}
		return q
	}
	for kinds, want := range map[string]struct{ holders, waiters int }{
		"": {0, 0}, "x": {1, 0}, "w": {1, 0}, "xw": {1, 1}, "xx": {1, 0}, "sr": {2, 0}, "srw": {2, 1}, "ssus": {2, 0},
		"swr": {1, 2}, "xrr": {1, 2}, "us": {1, 0}, "ux": {1, 0}, "suw": {1, 1},
	} {
		q := queueOf(kinds)
		if h, w := len(q.holders()), q.waiters(node{}); h != want.holders || w != want.waiters {
			t.Errorf("%q has %d holders and %d waiters, want %+v", kinds, h, w, want)
		}
	}
}

// The clock of a session starts again from the time of a request only if the leader knew of that
// request.
func TestSessionClock(t *testing.T) {
	at := func(ms int64) driver.Instant { return driver.Instant(ms * int64(time.Millisecond)) }
	var c sessionClock
	c.resumed(at(1000), 3*time.Second)
	if end := c.endTime(); end != at(1000+3000-30-2) {
		t.Fatalf("after the connect the session ends at %v", end)
	}
	for ms := int64(1100); ms <= 2000; ms += 100 {
		c.answered(at(ms))
	}
	if end := c.endTime(); end != at(1000+3000-30-2) {
		t.Errorf("answers within a third of the timeout prove nothing new; the end is %v", end)
	}
	c.answered(at(2150))
	if end := c.endTime(); end != at(1100+3000-30-2) {
		t.Errorf("an answer proves what was sent a third earlier; the end is %v", end)
	}
	c.answered(at(9000))
	if end := c.endTime(); end != at(2150+3000-30-2) && end != at(2000+3000-30-2) {
		t.Errorf("the end is %v", end)
	}
	c.resumed(at(500), 3*time.Second)
	if end := c.endTime(); end < at(2000) {
		t.Errorf("an older answer moved the end back to %v", end)
	}
}

// packet returns a packet of ZooKeeper's protocol.
func packet(body ...uint32) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(4*len(body)))
	for _, word := range body {
		out = binary.BigEndian.AppendUint32(out, word)
	}
	return out
}

type fixedClock struct {
	driver.Clock
	now driver.Instant
}

func (c *fixedClock) Now() driver.Instant { return c.now }

// A wireTest is a wire whose server sends its answers in pieces.
type wireTest struct {
	t      *testing.T
	w      *wire
	server net.Conn
	size   int // of the pieces
	clock  *fixedClock
	known  *sessionClock
}

func newWireTest(t *testing.T, size int) *wireTest {
	ours, server := net.Pipe()
	x := &wireTest{t: t, server: server, size: size, clock: &fixedClock{now: 1}, known: &sessionClock{}}
	x.w = newWire(ours, x.clock, x.known, false)
	t.Cleanup(func() { ours.Close(); server.Close() })
	go func() {
		buf := make([]byte, 1024)
		for {
			if _, err := server.Read(buf); err != nil {
				return
			}
		}
	}()
	return x
}

func (x *wireTest) send(body ...uint32) { x.w.Write(packet(body...)) }

func (x *wireTest) answer(body ...uint32) {
	data := packet(body...)
	go func() {
		for rest := data; len(rest) > 0; {
			n := min(x.size, len(rest))
			x.server.Write(rest[:n])
			rest = rest[n:]
		}
	}()
	buf := make([]byte, 1024)
	for left := len(data); left > 0; {
		n, err := x.w.Read(buf[:min(left, x.size+2)])
		if err != nil {
			x.t.Fatal(err)
		}
		left -= n
	}
}

func (x *wireTest) noted(want int) {
	x.t.Helper()
	if n := len(x.known.marks); n != want {
		x.t.Fatalf("pieces of %d: %d answers are noted, want %d", x.size, n, want)
	}
}

// A wire counts only the answers of the leader. It finds them wherever the data are cut into
// pieces.
func TestWire(t *testing.T) {
	const session, ok, expired = 7, 0, uint32(1<<32 - 112)
	for size := 1; size < 40; size += 3 {
		x := newWireTest(t, size)
		x.send(0, 0, 0, 3000, 0, 0)
		x.answer(0, 3000, 0, session, 0)
		if x.known.length() != 3*time.Second {
			t.Fatalf("the timeout is %v", x.known.length())
		}
		x.clock.now = driver.Instant(time.Second)
		x.send(1<<32-2, 11)
		x.answer(1<<32-2, 0, 0, ok) // a ping
		x.send(1, 4)
		x.answer(1, 0, 0, ok, 1, 2, 3) // a read
		x.send(2, 1)
		x.answer(2, 0, 0, expired)
		x.noted(0)
		x.send(3, 9)
		x.answer(3, 0, 0, ok, 5)
		x.noted(1)
		x.clock.now = driver.Instant(2 * time.Second)
		x.send(4, 2)
		if x.w.silent() != 0 {
			t.Errorf("silent for %v", x.w.silent())
		}
		x.clock.now = driver.Instant(3 * time.Second)
		if x.w.silent() != time.Second {
			t.Errorf("silent for %v", x.w.silent())
		}
	}
}

// A failed write looks like a success to the client, whose next read then fails.
func TestWireHidesFailedWrites(t *testing.T) {
	ours, server := net.Pipe()
	w := newWire(ours, driver.SystemClock(), &sessionClock{}, false)
	server.Close()
	if n, err := w.Write(packet(1, 2)); n != 12 || err != nil {
		t.Errorf("Write returns %d, %v", n, err)
	}
	if _, err := w.Read(make([]byte, 1)); err == nil {
		t.Error("Read returns no error")
	}
}
