package redisstore

import (
	"slices"
	"testing"
	"time"
)

// TestPauseGrows: while the server is out of reach, a waiter looks less and less often, and then
// several times a second.
func TestPauseGrows(t *testing.T) {
	a, pauses := wait{}, []time.Duration{}
	for range 6 {
		pauses = append(pauses, a.pause()/time.Millisecond)
	}
	if want := []time.Duration{50, 100, 200, 400, 400, 400}; !slices.Equal(pauses, want) {
		t.Errorf("the pauses are %d ms, want %d", pauses, want)
	}
}
