package server

import (
	"testing"
	"time"
)

// Eventually repeats f until it returns nil, for a minute at most.
func Eventually(t testing.TB, f func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
	}
}
