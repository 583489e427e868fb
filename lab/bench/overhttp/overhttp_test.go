//go:build linux

package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/benchtest"
)

// TestFigures: every experiment runs and has its figures, which mean nothing in so short a time.
func TestFigures(t *testing.T) {
	server.Needs(t, "redis")
	server.Needs(t, "postgres")
	benchtest.Figures(t, &bench, plan{50 * time.Millisecond, []int{5}}, "", ours, 3)
}

// The clients of a crowd note their times in any order.
func TestDrain(t *testing.T) {
	begun := time.Now()
	at := []time.Time{begun.Add(9 * time.Second), begun.Add(2 * time.Second), begun.Add(5 * time.Second)}
	if took, longest := drain(begun, at); took != 9*time.Second || longest != 4*time.Second {
		t.Errorf("it took %v, at most %v without a grant, want 9s and 4s", took, longest)
	}
}

// A crowd has come when all its clients have sent their requests.
func TestAwaitRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, came := &waiting{ctx: t.Context()}, false
		go func() {
			if err := c.awaitRequests(2); err != nil {
				t.Error(err)
			}
			came = true
		}()
		for sent := range int64(3) {
			c.sent.Store(sent)
			<-time.After(time.Minute)
			synctest.Wait()
			if came != (sent == 2) {
				t.Errorf("after %d of 2 requests: it ended: %v", sent, came)
			}
		}
	})
}
