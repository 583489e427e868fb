package zkstore

import (
	"encoding/binary"
	"net"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// headSize is how many bytes of a packet a wire reads: the length of the packet and the 16 bytes
// after it.
const headSize = 4 + 16

// A wire is a connection that notes when requests were sent and which of them were answered.
//
// After a failed write, the client would answer the request twice, which stops it for ever
// (github.com/go-zookeeper/zk/pull/163). So a wire hides a failed write from the client and closes
// the connection. Then the next read of the client fails.
type wire struct {
	net.Conn
	clock driver.Clock
	known *sessionClock

	mu      sync.Mutex
	opened  driver.Instant
	joined  bool // the request to connect was answered
	waiting map[int32]sent

	// Only the goroutine that reads uses these fields.
	head [headSize]byte
	have int
	skip int
}

// sent is a request that has no answer yet.
type sent struct {
	at     driver.Instant
	leader bool // the leader answers it
}

func newWire(conn net.Conn, clock driver.Clock, known *sessionClock) *wire {
	return &wire{Conn: conn, clock: clock, known: known, opened: clock.Now(), waiting: map[int32]sent{}}
}

// byLeader has the codes of the requests that go through the leader: create, delete, setData,
// setACL, sync, multi, createContainer and createTTL.
var byLeader = map[uint32]bool{1: true, 2: true, 5: true, 7: true, 9: true, 14: true, 19: true, 21: true}

// Write sends one packet; the client sends each packet with one call.
func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	if len(b) >= 12 && w.joined {
		if xid := int32(binary.BigEndian.Uint32(b[4:])); xid >= 0 {
			w.waiting[xid] = sent{w.clock.Now(), byLeader[binary.BigEndian.Uint32(b[8:])]}
		}
	}
	w.mu.Unlock()
	if _, err := w.Conn.Write(b); err != nil {
		w.Conn.Close()
	}
	return len(b), nil
}

// Read finds the server's answers in the data that it returns.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	for data := b[:n]; len(data) > 0; {
		k := min(w.skip, len(data))
		w.skip -= k
		data = w.fill(data[k:])
	}
	return n, err
}

// fill adds data to the head of the packet, and returns the rest of the data.
func (w *wire) fill(data []byte) []byte {
	for len(data) > 0 && w.skip == 0 {
		w.head[w.have] = data[0]
		w.have, data = w.have+1, data[1:]
		if w.have < 4 {
			continue
		}
		size := int(binary.BigEndian.Uint32(w.head[:]))
		if w.have == 4+min(size, headSize-4) {
			w.answer(w.head[4:w.have])
			w.skip, w.have = 4+size-w.have, 0
		}
	}
	return data
}

// answer reads the beginning of a packet from the server.
func (w *wire) answer(packet []byte) {
	if len(packet) < headSize-4 {
		return
	}
	w.mu.Lock()
	if !w.joined { // the packet is the protocol's version, the timeout and the session
		w.joined = true
		w.mu.Unlock()
		timeout := time.Duration(binary.BigEndian.Uint32(packet[4:])) * time.Millisecond
		if binary.BigEndian.Uint64(packet[8:]) != 0 {
			w.known.resumed(w.opened, timeout)
		}
		return
	}
	xid, code := int32(binary.BigEndian.Uint32(packet)), int32(binary.BigEndian.Uint32(packet[12:]))
	s, ok := w.waiting[xid]
	delete(w.waiting, xid)
	w.mu.Unlock()
	// Codes down to -111 are about nodes. Lower ones are about the session, such as "expired".
	if ok && s.leader && (code == 0 || code <= -101 && code >= -111) {
		w.known.answered(s.at)
	}
}

// silent returns how long the oldest open request has waited for its answer.
func (w *wire) silent() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	if !w.joined {
		return now.Sub(w.opened)
	}
	longest := time.Duration(0)
	for _, s := range w.waiting {
		longest = max(longest, now.Sub(s.at))
	}
	return longest
}
