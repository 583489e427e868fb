package filestore

import (
	"slices"
	"sync"
)

// queue holds the waiters of one file in this store. There are four kinds of waiters:
//
//   - An ordered waiter has a ticket. The release wakes the waiter with the first ticket. The
//     others look at the lock about every 0.25 to 1 s, to find dead processes ahead of them.
//   - A watching waiter is an ordered waiter that found its ticket to be the first. It also looks
//     at the lock when a process closes or touches the file (inotify), and after the pauses of a
//     pacer.
//   - An unordered waiter could not get a ticket. Only the first unordered waiter looks at the
//     lock: after each release in this store, when a process closes or touches the file, and after
//     the pauses of a pacer.
//   - An onlooker only wants to know when a try may succeed. Each onlooker looks at the lock as the
//     first unordered waiter does.
type queue struct {
	mu    sync.Mutex
	line  []*waiter // in order of arrival
	aside []*waiter // the onlookers
}

type waiter struct {
	wake   chan struct{} // buffered, so that tell never blocks
	aside  bool          // the waiter is an onlooker
	shared bool
	looks  int
	ticket ticket // used only by the goroutine that waits

	// Guarded by queue.mu.
	ordered, watching bool
}

func newWaiter(aside bool) *waiter {
	return &waiter{wake: make(chan struct{}, 1), aside: aside}
}

func (w *waiter) tell() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (q *queue) join(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.aside {
		q.aside = append(q.aside, w)
	} else {
		q.line = append(q.line, w)
	}
}

// leaveQueue removes w from the queue. If w was the first waiter without a ticket, leaveQueue wakes
// the next waiter without a ticket.
func (q *queue) leaveQueue(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.aside {
		q.aside = slices.DeleteFunc(q.aside, func(o *waiter) bool { return o == w })
		return
	}
	wasFirst := q.firstUnordered() == w
	i := slices.Index(q.line, w)
	q.line = slices.Delete(q.line, i, i+1)
	if next := q.firstUnordered(); wasFirst && next != nil {
		next.tell()
	}
}

// setTicket records whether w has a ticket (ordered) and whether w watches the file. Only the first
// waiter without a ticket looks at the lock. If w was that waiter and has a ticket now, setTicket
// wakes the next waiter without a ticket.
func (q *queue) setTicket(w *waiter, ordered, watching bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wasFirst := q.firstUnordered() == w
	w.ordered, w.watching = ordered, watching
	if next := q.firstUnordered(); wasFirst && ordered && next != nil {
		next.tell()
	}
}

func (q *queue) firstUnordered() *waiter {
	for _, w := range q.line {
		if !w.ordered {
			return w
		}
	}
	return nil
}

// wake makes waiters without a ticket look at the lock now: the first waiter of q.line that has no
// ticket, and all waiters of q.aside.
func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.firstUnordered(); w != nil {
		w.tell()
	}
	for _, w := range q.aside {
		w.tell()
	}
}

// onNotice wakes waiters after the kernel has reported that something happened to the file.
func (q *queue) onNotice() {
	q.wake()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.line {
		if w.watching {
			w.tell()
		}
	}
}

// mayLook reports whether w may look at the lock when it is woken or its timer fires.
func (q *queue) mayLook(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.aside || w.ordered || q.firstUnordered() == w
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.line) + len(q.aside)
}
