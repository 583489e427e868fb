package filestore

import (
	"errors"
	"math"
	"runtime/debug"
	"sync/atomic"
	"unsafe"
)

// A ticket is a waiter's place in the queue of a lock file. The queue lies in
// the file itself, behind the record and the slots, and every process that
// waits maps it into memory:
//
//	1984   next, the number of the next ticket
//	1992   head: every ticket with a lower number is gone
//	2000   since when the lock lies free, in ns of the boot clock; 0 if unknown
//	2008   format of the queue, see isNewerFormat
//	24576  one word for each of ticketRoom tickets, the ticket n at n mod ticketRoom
//
// A word holds the ticket's state (4 bits), its number modulo 2^20 (20 bits)
// and the number of the wake pipe of its process (40 bits, see wakePipe). All
// changes are made with one atomic operation each, and any process may finish
// what another began, so a process that is killed or stopped at any point
// leaves nothing locked and no gap:
//
//	state       from            by                                        to
//	(absent)    -               join: the word is put where next points,  waiting
//	                            then next is raised (by anybody)
//	waiting     its waiter      got the lock, was cancelled, was closed   gone
//	            anybody         found nobody at the other end of its pipe gone
//	            anybody         found that the lock lay free for          gone
//	                            headPatience and it was first
//	gone        anybody         raises head, if it is the first           (absent)
//
// A waiter whose ticket is gone takes a new one, at the end. A queue that
// somebody cut off or overwrote has other words where the tickets were, which
// is the same as gone.
const (
	queueOffset  = 1984
	queueSize    = 32
	ticketHead   = queueOffset + queueSize // all that is read before a lock is granted
	ticketOffset = 24576                   // behind the slots
	ticketRoom   = 4096
	ticketEnd    = ticketOffset + 8*ticketRoom
)

// ticketQueue is the queue of one lock file, mapped. Its methods may be called
// by any goroutine that has a reference.
type ticketQueue struct {
	dev, ino  uint64
	mem       []byte
	refs      atomic.Int32
	allocated atomic.Uint32 // by page: the disk has room for it
}

// ticket is a place in a queue. The zero ticket is none.
type ticket struct {
	queue  *ticketQueue
	number uint64
	word   ticketWord
}

var (
	errQueueFull  = errors.New("too many wait for the name")
	errQueueGone  = errors.New("the lock file was cut short")
	errNewerQueue = errors.New("the queue is of a newer padlock")
)

func (q *ticketQueue) at(offset int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&q.mem[offset]))
}

func (q *ticketQueue) next() *atomic.Uint64 { return q.at(queueOffset) }
func (q *ticketQueue) head() *atomic.Uint64 { return q.at(queueOffset + 8) }
func (q *ticketQueue) free() *atomic.Uint64 { return q.at(queueOffset + 16) }

func (q *ticketQueue) format() *atomic.Uint64 { return q.at(queueOffset + 24) }

func (q *ticketQueue) word(number uint64) *atomic.Uint64 {
	return q.at(ticketOffset + 8*int(number%ticketRoom))
}

// guard calls do, which may touch the mapping. It returns errQueueGone if
// somebody has cut the file short, or the disk has no room for it.
func (q *ticketQueue) guard(do func()) (err error) {
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
	do()
	return nil
}

// join puts a ticket at the end. c has the file open.
func (q *ticketQueue) join(c *conn, state ticketState, pipe uint64) (t ticket, err error) {
	for range 2 {
		if err := q.roomForHeader(c); err != nil {
			return ticket{}, err
		}
		e := q.guard(func() { t, err = q.put(c, state, pipe) })
		if e == nil {
			return t, err
		}
		// A header that tells of tickets behind the end of the file.
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
		q.first(math.MaxUint64) // which raises head
		head, n := q.bounds()
		if n-head >= ticketRoom {
			return ticket{}, errQueueFull
		}
		if err := q.roomFor(c, n); err != nil {
			return ticket{}, err
		}
		slot, word := q.word(n), newTicketWord(state, n, pipe)
		old := slot.Load()
		if ticketWord(old).is(n) { // another process has put its word here, and not raised next yet
			q.next().CompareAndSwap(n, n+1)
			continue
		}
		if slot.CompareAndSwap(old, uint64(word)) {
			q.next().CompareAndSwap(n, n+1)
			return ticket{q, n, word}, nil
		}
	}
}

// bounds returns head and next. A head that cannot be is mended. Head is read
// first, so that it is never above next by a race.
func (q *ticketQueue) bounds() (head, next uint64) {
	head = q.head().Load()
	next = q.next().Load()
	if next-head > ticketRoom {
		mended := next - min(next, ticketRoom)
		q.head().CompareAndSwap(head, mended)
		head = mended
	}
	return head, next
}

// first returns the first ticket that waits, of those with a number below
// limit, and raises head to where it is.
func (q *ticketQueue) first(limit uint64) (number uint64, word ticketWord, ok bool) {
	head, next := q.bounds()
	for n := head; n < min(next, limit); n++ {
		if word := ticketWord(q.word(n).Load()); word.waits(n) {
			return n, word, true
		}
		q.head().CompareAndSwap(n, n+1)
	}
	return 0, 0, false
}

// count counts the tickets below limit that wait.
func (q *ticketQueue) count(limit uint64) (count int) {
	head, next := q.bounds()
	for n := head; n < min(next, limit); n++ {
		if ticketWord(q.word(n).Load()).waits(n) {
			count++
		}
	}
	return count
}

// remove makes a ticket gone, if it still is what it was.
func (q *ticketQueue) remove(number uint64, word ticketWord) {
	q.word(number).CompareAndSwap(uint64(word), uint64(newTicketWord(ticketGone, number, word.pipe())))
}

// removeAll makes every ticket of one wake pipe gone.
func (q *ticketQueue) removeAll(pipe uint64) {
	head, next := q.bounds()
	for n := head; n < next; n++ {
		if word := ticketWord(q.word(n).Load()); word.waits(n) && word.pipe() == pipe {
			q.remove(n, word)
		}
	}
}

// valid reports whether t still is in its queue.
func (t ticket) valid() (ok bool) {
	return t.queue != nil && t.queue.guard(func() {
		ok = ticketWord(t.queue.word(t.number).Load()) == t.word && t.queue.next().Load() > t.number
	}) == nil && ok
}
