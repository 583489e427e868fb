package filestore

import (
	"errors"
	"math"
	"runtime/debug"
	"sync/atomic"
	"unsafe"
)

// A ticket is a waiter's place in the queue of a lock file. Tickets are numbered in the order of
// arrival. The queue is a part of the lock file, which all waiting processes map into memory:
//
//	offset  contents
//	1984    nextTicket: the number of the next new ticket
//	1992    headTicket: all tickets with lower numbers are gone
//	2000    the time when the lock became free
//	2008    the format of the queue, see isNewerFormat
//	24576   the ticketWords
//
// A ticket goes through these states:
//
//	state    event                                             next state
//	absent   a new waiter writes its ticketWord (see put)      waiting
//	waiting  the waiter gets the lock or gives up              gone
//	waiting  a process finds that the waiter is dead           gone
//	waiting  the waiter is the first, but leaves the lock      gone
//	         free for headPatience
//	gone     headTicket moves past the ticket                  absent
//
// Each step is one atomic operation. Any process may do the next step for a process that was killed
// or stopped. So nothing stays locked, and the queue has no gap.
//
// If a living waiter's ticket is gone, the waiter takes a new ticket at the end of the queue.
// Another program may cut off or overwrite the queue. Tickets that no longer match the file count
// as gone.
const (
	queueOffset  = 1984
	queueSize    = 32
	ticketHead   = queueOffset + queueSize // how many bytes are read before a lock is granted
	ticketOffset = 24576                   // behind the records of readers
	ticketRoom   = 4096
	ticketEnd    = ticketOffset + 8*ticketRoom
)

// ticketQueue is the mapped queue of one lock file. Any goroutine that has a reference may call its
// methods.
type ticketQueue struct {
	dev, ino  uint64
	mem       []byte
	refs      atomic.Int32
	allocated atomic.Uint32 // one bit per page: disk space is allocated for the page
}

// ticket is a place in a queue. The zero ticket means that there is no place.
type ticket struct {
	queue  *ticketQueue
	number uint64
	word   ticketWord
}

var (
	errQueueFull  = errors.New("too many waiters for the name")
	errQueueGone  = errors.New("the lock file was cut short")
	errNewerQueue = errors.New("the queue is of a newer padlock")
)

func (q *ticketQueue) at(offset int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&q.mem[offset]))
}

func (q *ticketQueue) nextTicket() *atomic.Uint64 { return q.at(queueOffset) }
func (q *ticketQueue) headTicket() *atomic.Uint64 { return q.at(queueOffset + 8) }

// free is the time when the lock became free, in ns of the boot clock. It is 0 if the time is
// unknown.
func (q *ticketQueue) free() *atomic.Uint64 { return q.at(queueOffset + 16) }

func (q *ticketQueue) format() *atomic.Uint64 { return q.at(queueOffset + 24) }

func (q *ticketQueue) word(number uint64) *atomic.Uint64 {
	return q.at(ticketOffset + 8*int(number%ticketRoom))
}

// guard calls access, which may use the mapped queue. It returns errQueueGone if the file was cut
// short or the disk has no room for the page.
func (q *ticketQueue) guard(access func()) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			if _, fault := r.(interface{ Addr() uintptr }); !fault {
				panic(r)
			}
			q.allocated.Store(0)
			err = errQueueGone
		}
	}()
	var probe [1]byte
	copy(probe[:], q.mem[queueOffset:])
	access()
	return nil
}

// join puts a ticket at the end of the queue. The descriptor c has the file of the queue open.
func (q *ticketQueue) join(c *conn, state ticketState, pipe uint64) (t ticket, err error) {
	for range 2 {
		if err := q.roomForHeader(c); err != nil {
			return ticket{}, err
		}
		e := q.guard(func() { t, err = q.put(c, state, pipe) })
		if e == nil {
			return t, err
		}
		// The header says that there are tickets after the end of the file, so make the file
		// longer.
		if err = lengthen(c.fd, ticketEnd); err != nil {
			return ticket{}, err
		}
	}
	return ticket{}, errQueueGone
}

func (q *ticketQueue) put(c *conn, state ticketState, pipe uint64) (ticket, error) {
	if isNewerFormat(q.format().Load()) {
		return ticket{}, errNewerQueue
	}
	for {
		q.firstTicket(math.MaxUint64) // moves headTicket to the first waiting ticket
		head, n := q.bounds()
		if n-head >= ticketRoom {
			return ticket{}, errQueueFull
		}
		if err := q.roomFor(c, n); err != nil {
			return ticket{}, err
		}
		position, word := q.word(n), newTicketWord(state, n, pipe)
		old := position.Load()
		if q.nextTicket().Load() != n {
			continue // other waiters have joined meanwhile
		}
		if ticketWord(old).isFor(n) { // another process has written this word but has not changed nextTicket yet
			q.nextTicket().CompareAndSwap(n, n+1)
			continue
		}
		if position.CompareAndSwap(old, uint64(word)) {
			q.nextTicket().CompareAndSwap(n, n+1)
			return ticket{q, n, word}, nil
		}
	}
}

// bounds returns headTicket and nextTicket, the two ends of the queue. The queue has room for
// ticketRoom tickets. If the two numbers are further apart than that, they are wrong, and bounds
// corrects headTicket. bounds reads headTicket first. So even if other processes change both
// numbers in between, the first result is not greater than the second.
func (q *ticketQueue) bounds() (head, next uint64) {
	head = q.headTicket().Load()
	next = q.nextTicket().Load()
	if next-head > ticketRoom {
		mended := next - min(next, ticketRoom)
		q.headTicket().CompareAndSwap(head, mended)
		head = mended
	}
	return head, next
}

// firstTicket returns the first waiting ticket whose number is below limit. It also moves
// headTicket up to that ticket, past the tickets that are gone.
func (q *ticketQueue) firstTicket(limit uint64) (number uint64, word ticketWord, ok bool) {
	head, next := q.bounds()
	for n := head; n < min(next, limit); n++ {
		if word := ticketWord(q.word(n).Load()); word.waits(n) {
			return n, word, true
		}
		q.headTicket().CompareAndSwap(n, n+1)
	}
	return 0, 0, false
}

// count returns how many waiting tickets have numbers below limit.
func (q *ticketQueue) count(limit uint64) (count int) {
	head, next := q.bounds()
	for n := head; n < min(next, limit); n++ {
		if ticketWord(q.word(n).Load()).waits(n) {
			count++
		}
	}
	return count
}

// remove marks a ticket as gone, unless another process has changed it.
func (q *ticketQueue) remove(number uint64, word ticketWord) {
	q.word(number).CompareAndSwap(uint64(word), uint64(newTicketWord(ticketGone, number, word.pipe())))
}

// removeAll marks every ticket of one wake pipe as gone.
func (q *ticketQueue) removeAll(pipe uint64) {
	head, next := q.bounds()
	for n := head; n < next; n++ {
		if word := ticketWord(q.word(n).Load()); word.waits(n) && word.pipe() == pipe {
			q.remove(n, word)
		}
	}
}

// valid reports whether t is still in its queue.
func (t ticket) valid() (ok bool) {
	return t.queue != nil && t.queue.guard(func() {
		ok = ticketWord(t.queue.word(t.number).Load()) == t.word && t.queue.nextTicket().Load() > t.number
	}) == nil && ok
}
