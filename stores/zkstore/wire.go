package zkstore

import (
	"encoding/binary"
	"net"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// headSize is the length of the part of a packet that a wire reads: four bytes with the packet's
// length, and the 16 bytes after them.
const headSize = 4 + 16

// A wire is a connection that records when requests were sent and which of them were answered. It
// also keeps two faults of the client from doing harm.
//
// If the write of a request fails, the client reports the result of that request twice, which
// blocks the client for ever (github.com/go-zookeeper/zk/pull/163). So a wire does not report a
// failed write. It closes the connection instead, and the client's next read fails.
//
// When the client has connected again, it sends a list of the nodes that it watches. The list
// contains the number of the last change. The client has a data race here: one goroutine reads this
// number, and another goroutine writes it when an answer comes. So the wire holds back the answers
// until the client has sent its list.
type wire struct {
	net.Conn
	clock driver.Clock
	known *sessionClock

	mu      sync.Mutex
	opened  driver.Instant
	joined  bool // the request to connect was answered
	waiting map[int32]sentRequest

	watches   bool          // the client may have watches to send
	rewatched chan struct{} // closed when the client has sent its watches

	// Only Read and the functions that it calls use these fields.
	head [headSize]byte
	have int
	skip int
}

// A sentRequest is a request that has no answer yet.
type sentRequest struct {
	at     driver.Instant
	leader bool // the leader answers it
}

func newWire(conn net.Conn, clock driver.Clock, known *sessionClock, watches bool) *wire {
	return &wire{Conn: conn, clock: clock, known: known, opened: clock.Now(), waiting: map[int32]sentRequest{},
		watches: watches, rewatched: make(chan struct{})}
}

// byLeader contains the codes of the requests that go through the leader: create, delete, setData,
// setACL, sync, multi, createContainer and createTTL.
var byLeader = map[uint32]bool{1: true, 2: true, 5: true, 7: true, 9: true, 14: true, 19: true, 21: true}

const setWatches = 101 // the code of the request with which a client sends its watches again

// Write sends one packet. The client calls Write once for each packet.
func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	if len(b) >= 12 && w.joined {
		if xid := int32(binary.BigEndian.Uint32(b[4:])); xid >= 0 {
			w.waiting[xid] = sentRequest{w.clock.Now(), byLeader[binary.BigEndian.Uint32(b[8:])]}
		}
		if w.watches && binary.BigEndian.Uint32(b[8:]) == setWatches {
			w.watches = false
			close(w.rewatched)
		}
	}
	w.mu.Unlock()
	if _, err := w.Conn.Write(b); err != nil {
		w.Conn.Close()
	}
	return len(b), nil
}

// Read passes data from the server to the client, and records the answers that the data contains.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.awaitWatches()
	for data := b[:n]; len(data) > 0; {
		k := min(w.skip, len(data))
		w.skip -= k
		data = w.fill(data[k:])
	}
	return n, err
}

// awaitWatches waits until the client has sent its watches. The wait is short, because the client
// may have no watches. Before the request to connect is answered, awaitWatches returns at once.
func (w *wire) awaitWatches() {
	w.mu.Lock()
	due := w.joined && w.watches
	w.mu.Unlock()
	if !due {
		return
	}
	pause := time.NewTimer(min(200*time.Millisecond, w.known.length()/20))
	defer pause.Stop()
	select {
	case <-w.rewatched:
	case <-pause.C:
		w.mu.Lock()
		w.watches = false
		w.mu.Unlock()
	}
}

// fill copies the head of a packet from data, and calls handleHead when the head is complete. It
// returns the rest of data.
func (w *wire) fill(data []byte) []byte {
	for len(data) > 0 && w.skip == 0 {
		w.head[w.have] = data[0]
		w.have, data = w.have+1, data[1:]
		if w.have < 4 {
			continue
		}
		size := int(binary.BigEndian.Uint32(w.head[:]))
		if w.have == 4+min(size, headSize-4) {
			w.handleHead(w.head[4:w.have])
			w.skip, w.have = 4+size-w.have, 0
		}
	}
	return data
}

// handleHead is called with the first bytes of each packet from the server. It finds out which
// request the packet answers, and records that this request was answered.
func (w *wire) handleHead(packet []byte) {
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
	// Error codes from -101 to -111 are about nodes. Lower codes are about the session, for example
	// that it has expired.
	if ok && s.leader && (code == 0 || code <= -101 && code >= -111) {
		w.known.answered(s.at)
	}
}

// silent returns how long the oldest request without an answer has waited.
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
