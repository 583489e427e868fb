package filestore

import (
	"slices"
	"sync"
)

// queue holds the waiters of one file in this store. Those in line came for the
// hold itself, and only the first of them looks at the lock, so that a wake-up
// costs one try however many wait. Those aside only want to know when to try,
// and all of them are told.
type queue struct {
	mu    sync.Mutex
	line  []*waiter
	aside []*waiter
}

type waiter struct {
	wake  chan struct{} // never blocks the waker: has room for one
	aside bool
	looks int
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

// leave takes w out and lets the next in line look.
func (q *queue) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.aside {
		q.aside = slices.DeleteFunc(q.aside, func(o *waiter) bool { return o == w })
		return
	}
	i := slices.Index(q.line, w)
	q.line = slices.Delete(q.line, i, i+1)
	if i == 0 && len(q.line) > 0 {
		q.line[0].tell()
	}
}

// wake tells whoever should look.
func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.line) > 0 {
		q.line[0].tell()
	}
	for _, w := range q.aside {
		w.tell()
	}
}

// turn reports whether w should look.
func (q *queue) turn(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.aside || q.line[0] == w
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.line) + len(q.aside)
}
