package filestore

import "sync"

// queue holds the waiters of one file in this store, in the order in which they
// came. Only the first looks at the lock, so that a wake-up costs one try
// however many wait. Readers who wait to be promoted do not look; each of them
// is told of every wake-up.
type queue struct {
	mu      sync.Mutex
	waiters []*waiter
}

type waiter struct {
	wake    chan struct{} // never blocks the waker: has room for one
	promote bool          // has a shared hold and is not in line
	gently  bool          // the one before went to try for itself: do not look at once; guarded by queue.mu
}

func newWaiter(promote bool) *waiter {
	return &waiter{wake: make(chan struct{}, 1), promote: promote}
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
	q.waiters = append(q.waiters, w)
}

// leave takes w out and lets the next one look, gently if w may be about to
// take the name.
func (q *queue) leave(w *waiter, gently bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := q.first() == w
	for i := range q.waiters {
		if q.waiters[i] == w {
			q.waiters = append(q.waiters[:i], q.waiters[i+1:]...)
			break
		}
	}
	if next := q.first(); first && next != nil {
		next.gently = gently
		next.tell()
	}
}

// wake tells whoever should look.
func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.first(); w != nil {
		w.gently = false
		w.tell()
	}
	for _, w := range q.waiters {
		if w.promote {
			w.tell()
		}
	}
}

// first returns the waiter in line, or nil. q.mu is held.
func (q *queue) first() *waiter {
	for _, w := range q.waiters {
		if !w.promote {
			return w
		}
	}
	return nil
}

// turn reports whether w is the first, and whether it should look gently.
func (q *queue) turn(w *waiter) (first, gently bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first, gently = q.first() == w, w.gently
	w.gently = false
	return first, gently
}

func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiters) == 0
}
