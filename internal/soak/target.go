package soak

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Fault is something that can be done to servers, connections or workers.
type Fault struct {
	Kind string
	// On is what it can be done to. One is drawn, and no other fault hits it
	// until this one is undone.
	On []string
	// Begin does it to the given one of On and returns what undoes it. An error
	// ends the run: the machine that makes faults is broken.
	Begin func(d *rand.Rand, on int) (undo func() error, err error)
	// Last is how long it lasts: up to this, mostly for an eighth of it at most.
	Last time.Duration
	// Grace is how long after its end the store may still refuse.
	Grace time.Duration
	// Weight is how often it comes, compared to others; 0 counts as 1.
	Weight int
}

// Targets names n things of a kind, for Fault.On.
func Targets(kind string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(kind, " ", i))
	}
	return names
}

// targets are what faults are at work on.
type targets struct {
	mu   sync.Mutex
	hit  map[string]bool
	free sync.Cond
}

// try takes a target unless it is taken.
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

// take waits until it can be taken.
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
