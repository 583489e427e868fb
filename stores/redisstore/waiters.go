package redisstore

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

// waiter is a caller of Wait. A message to a waiter has the waiter's number, not its token: other
// users of the server can read messages, and the token is secret.
type waiter struct {
	id     uint64
	r      *driver.Request
	lined  bool
	on     *subscription // the subscription that the last look used
	called chan message  // if it is full, messages are dropped: the waiter will look at the name anyway
	giveUp func()        // if the waiter has given up: removes its place from the queue
}

// The kinds of messages to a waiter. Scripts use the same letters.
const (
	msgHandedOver = 'h' // the name is reserved for the waiter; the message has the fence
	msgGranted    = 'g' // a lock of this process was released and this waiter has it now; the message has the fence
	msgLookBy     = 'f' // the waiter must look at the name soon: within the number of ms in the message
	msgTry        = 'b' // the waiter has no place in the queue, and may try
	msgLook       = 'l' // the waiter must look now
	msgTrial      = 'p' // the subscription has sent this message to itself, as a check; the message has a number
)

type message struct {
	kind  byte
	value int64
	from  driver.Instant // msgGranted: the lease began at this time or later
}

// longestReservation is the longest time that a waiter asks for.
const longestReservation = 8 * driver.MaxReservation

// idText returns the id of the waiter as scripts get it. The message of a hand-over and the claim
// together take a round trip. If twice a round trip is longer than a reservation, the waiter asks
// for a longer one, with zeros at the beginning of its id; see reservation in publish.lua.
func (w *waiter) idText(trip time.Duration) string {
	more := (min(2*trip, longestReservation) - 1) / driver.MaxReservation
	return strings.Repeat("0", int(more)) + itoa(int64(w.id))
}

func (sub *subscriber) add(r *driver.Request, lined bool) *waiter {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.lastID++
	w := &waiter{id: sub.lastID, r: r, lined: lined, called: make(chan message, 4)}
	sub.waiters[w.id] = w
	if lined {
		sub.lines[r.Name] = append(sub.lines[r.Name], w)
	}
	return w
}

// firstWaiter returns the waiter of this process that has waited longest for name, or nil.
func (sub *subscriber) firstWaiter(name string) *waiter {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if line := sub.lines[name]; len(line) > 0 {
		return line[0]
	}
	return nil
}

func (sub *subscriber) remove(w *waiter) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	delete(sub.waiters, w.id)
	if !w.lined {
		return
	}
	line := sub.lines[w.r.Name]
	if i := slices.Index(line, w); i == 0 {
		line[0] = nil
		line = line[1:]
	} else {
		line = slices.Delete(line, i, i+1)
	}
	if sub.lines[w.r.Name] = line; len(line) == 0 {
		delete(sub.lines, w.r.Name)
	}
}

// mostLeaving is the greatest number of waiters in subscriber.leaving.
const mostLeaving = 4096

// leaves notes that a waiter has given up, and may still be in the queue.
func (sub *subscriber) leaves(w *waiter) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if len(sub.leaving) >= mostLeaving {
		clear(sub.leaving)
	}
	sub.leaving[w.id] = w
}

// hasLeft notes that a waiter that has given up is not in the queue any more.
func (sub *subscriber) hasLeft(w *waiter) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	delete(sub.leaving, w.id)
}

// lookAll tells each waiter of the subscription n to ask the server about its name. The caller
// holds mu.
func (sub *subscriber) lookAll(n *subscription) {
	for _, w := range sub.waiters {
		if w.on == n {
			w.call(message{kind: msgLook})
		}
	}
}

// receive passes a message on to its waiter.
func (sub *subscriber) receive(m rueidis.PubSubMessage) {
	kind, rest, _ := strings.Cut(m.Message, " ")
	number, value, _ := strings.Cut(rest, " ")
	id, err := strconv.ParseUint(number, 10, 64)
	if err != nil || len(kind) != 1 {
		return
	}
	switch kind[0] {
	case msgHandedOver, msgLookBy, msgTry:
	case msgLook: // for all waiters of the process; older padlocks ignore it
		sub.mu.Lock()
		defer sub.mu.Unlock()
		for _, w := range sub.waiters {
			w.call(message{kind: msgLook})
		}
		return
	default:
		return // no script sends it
	}
	sub.mu.Lock()
	w, gone := sub.waiters[id], sub.leaving[id]
	if w == nil {
		sub.mu.Unlock()
		if gone != nil && kind[0] == msgHandedOver {
			sub.s.calls.Go(gone.giveUp)
		}
		return
	}
	defer sub.mu.Unlock()
	value, _, _ = strings.Cut(value, " ") // an older padlock sends more
	w.call(message{kind: kind[0], value: atoi(value)})
}

func (w *waiter) call(m message) {
	select {
	case w.called <- m:
	default:
	}
}

// grant tells the waiter w that w has the name now. This message must not be dropped, because no
// other message will tell w.
func (w *waiter) grant(fence int64, from driver.Instant) {
	m := message{kind: msgGranted, value: fence, from: from}
	for {
		select {
		case w.called <- m:
			return
		default:
		}
		select {
		case <-w.called: // drops an older message, which matters less
		default:
		}
	}
}

// forget drops the messages of one kind that are still unread. The other messages stay, in their
// order.
func (w *waiter) forget(kind byte) {
	for range len(w.called) {
		if m := <-w.called; m.kind != kind {
			w.call(m)
		}
	}
}
