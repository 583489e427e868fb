package quorum

import (
	"context"
	"testing"
)

// A call whose turn comes at the instant in which its context ends has the mutex, or lets the next
// call in. Go chooses which of the two it sees first, so the test sees both.
func TestTurnAndEndAtOnce(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	var entered, refused int
	for range 200 {
		var g orderedMutex
		first, second := g.enqueue(), g.enqueue()
		if first != nil || second == nil {
			t.Fatal("the first call must wait, or the second need not")
		}
		g.leave()
		if g.await(ended, second) == nil {
			entered++
			g.leave()
		} else {
			refused++
		}
		if g.isTaken() {
			t.Fatalf("after %d turns and %d refusals nobody has the mutex, and it is taken", entered, refused)
		}
	}
	if entered == 0 || refused == 0 {
		t.Errorf("%d turns and %d refusals, want some of both", entered, refused)
	}
}

// Calls come in in the order of their places, and a call that gave up is left out.
func TestOrderOfPlaces(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	var g orderedMutex
	g.enqueue()
	one, two, three := g.enqueue(), g.enqueue(), g.enqueue()
	if err := g.await(ended, two); err == nil {
		t.Fatal("the second waiter came in before the first")
	}
	for i, p := range []place{one, three} {
		g.leave()
		select {
		case <-p:
		default:
			t.Fatalf("waiter %d was not let in", i)
		}
	}
	if g.leave(); g.isTaken() {
		t.Error("nobody has the mutex, and it is taken")
	}
}
