package soak

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Fault is a fault of servers, connections or workers.
type Fault struct {
	Kind string
	// On contains the names of the targets that the fault can hit. One of them is drawn. Until the
	// fault is undone, no other fault hits that target.
	On []string
	// Begin causes the fault at the target with the given index in On, and returns a function that
	// undoes the fault. If Begin cannot cause the fault, it returns an error, which ends the run.
	Begin func(d *rand.Rand, index int) (undo func() error, err error)
	// Last is the longest time that the fault can last. The actual time is drawn at random. Most
	// faults are much shorter: they last for at most an eighth of Last.
	Last time.Duration
	// Grace is the time after the end of the fault in which the store may still refuse requests.
	Grace time.Duration
	// Weight is the frequency of the fault relative to others; 0 counts as 1.
	Weight int
}

// Targets returns the names of n targets, such as "server 0" and "server 1" if kind is "server".
// Fault.On has such names.
func Targets(kind string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(kind, " ", i))
	}
	return names
}

// targets records which targets have a fault at present.
type targets struct {
	mu  sync.Mutex
	hit map[string]bool
}

// tryTake takes a target. It returns false if the target has a fault already.
func (t *targets) tryTake(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hit[name] {
		return false
	}
	if t.hit == nil {
		t.hit = map[string]bool{}
	}
	t.hit[name] = true
	return true
}

func (t *targets) give(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.hit, name)
}
