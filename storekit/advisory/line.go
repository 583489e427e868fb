package advisory

import "slices"

// A waiter is a call of Wait that waits in the line. A call that wants to reserve its lock waits
// there until a session is free. Any other call waits there until its lock may be free.
type waiter[C Session] struct {
	key     string
	reserve bool
	free    chan *poolEntry[C] // gets an entry that has become free
	woken   chan struct{}      // gets a value when this process releases the lock
}

// A line holds the waiters of a store in the order in which they came. pool.mu guards it.
type line[C Session] struct{ waiters []*waiter[C] }

// join adds a waiter at the end.
func (l *line[C]) join(key string, reserve bool) *waiter[C] {
	w := &waiter[C]{key, reserve, make(chan *poolEntry[C], 1), make(chan struct{}, 1)}
	l.waiters = append(l.waiters, w)
	return w
}

func (l *line[C]) remove(w *waiter[C]) {
	l.waiters = slices.DeleteFunc(l.waiters, func(o *waiter[C]) bool { return o == w })
}

// countAhead returns how many waiters came before w.
func (l *line[C]) countAhead(w *waiter[C]) int { return max(0, slices.Index(l.waiters, w)) }

// give gives a free entry to the first waiter that wants to reserve its lock. It returns false if
// there is no such waiter, because the other waiters need no entry.
func (l *line[C]) give(sl *poolEntry[C]) bool {
	for _, w := range l.waiters {
		if w.reserve {
			l.remove(w)
			w.free <- sl
			return true
		}
	}
	return false
}

// wake wakes waiters for a lock that this process has released. It wakes all waiters that do not
// reserve the lock, and the first of the waiters that do.
func (l *line[C]) wake(key string) {
	first := true
	for _, w := range l.waiters {
		if w.key != key || w.reserve && !first {
			continue
		}
		first = first && !w.reserve
		select {
		case w.woken <- struct{}{}:
		default:
		}
	}
}
