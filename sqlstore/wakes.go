package sqlstore

import (
	"slices"
	"sync"
)

// waits are the waiters of this process by name. A change by this process wakes them without the
// database.
type waits struct {
	mu     sync.Mutex
	byName map[string][]chan struct{}
}

// add returns the function that removes the waiter.
func (w *waits) add(name string, woken chan struct{}) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byName == nil {
		w.byName = map[string][]chan struct{}{}
	}
	w.byName[name] = append(w.byName[name], woken)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		left := slices.DeleteFunc(w.byName[name], func(c chan struct{}) bool { return c == woken })
		if w.byName[name] = left; len(left) == 0 {
			delete(w.byName, name)
		}
	}
}

// wake makes the waiters of this process for a name look.
func (w *waits) wake(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.byName[name] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
