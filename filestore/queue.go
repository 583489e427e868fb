package filestore

import (
	"slices"
	"sync"
)

// queue holds the waiters of one file in this store.
//
//	waiter                          looks at the lock             is woken by
//	ordered: has a ticket           at once, then when woken,     the process that gives the lock
//	                                and seldom by itself          back, for its ticket
//	ordered and watching: its       as above, and at the pace     the same, and by every close or
//	ticket was the first            of a pacer                    touch of the file (inotify)
//	neither: no ticket can be had   while it is the first of      a release in this store, and by
//	                                its kind, at the same pace    every close or touch
//	aside: only wants to know when  at the same pace              the same, all of them
//	to try
type queue struct {
	mu    sync.Mutex
	line  []*waiter // in order of arrival
	aside []*waiter
}

type waiter struct {
	wake   chan struct{} // never blocks the waker: has room for one
	aside  bool
	shared bool
	looks  int
	ticket ticket // belongs to the goroutine that waits

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

// leave takes w out and lets the next without a ticket look.
func (q *queue) leave(w *waiter) {
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

// set notes whether w has a ticket, and whether that is the first of all.
func (q *queue) set(w *waiter, ordered, watching bool) {
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

// wake wakes those who look at the lock for themselves.
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

// notified is wake after the kernel said that something happened to the file.
func (q *queue) notified() {
	q.wake()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.line {
		if w.watching {
			w.tell()
		}
	}
}

// turn reports whether w should look.
func (q *queue) turn(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.aside || w.ordered || q.firstUnordered() == w
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.line) + len(q.aside)
}
