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
	// On lists the targets. One is drawn, and no other fault hits it until this one is undone.
	On []string
	// Begin makes the fault at target On[on] and returns a function that undoes it. An error ends
	// the run, because the fault could not be made.
	Begin func(d *rand.Rand, on int) (undo func() error, err error)
	// Last is the longest time that the fault lasts; mostly it lasts an eighth of that at most.
	Last time.Duration
	// Grace is how long after the fault the store may still refuse.
	Grace time.Duration
	// Weight is how often the fault occurs compared with others; 0 counts as 1.
	Weight int
}

// Targets names n things of a kind, for Fault.On.
func Targets(kind string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(kind, " ", i))
	}
	return names
}

// targets knows which targets have a fault at the moment.
type targets struct {
	mu   sync.Mutex
	hit  map[string]bool
	free sync.Cond
}

// try takes a target unless another fault has it.
func (t *targets) try(name string) bool {
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

// take waits until it can take the target.
func (t *targets) take(name string) {
	for !t.try(name) {
		t.mu.Lock()
		t.free.L = &t.mu
		for t.hit[name] {
			t.free.Wait()
		}
		t.mu.Unlock()
	}
}

func (t *targets) give(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.hit, name)
	t.free.Broadcast()
}
