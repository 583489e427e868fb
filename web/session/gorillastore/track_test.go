package gorillastore

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// TestTrackEnds: the store forgets sessions that no request uses any more.
func TestTrackEnds(t *testing.T) {
	s := New(sessionstore.NewMemory())
	for range 100 {
		if _, err := s.New(httptest.NewRequest(http.MethodGet, "/", nil), "shop"); err != nil {
			t.Fatal(err)
		}
	}
	left := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.loaded)
	}
	for end := time.Now().Add(time.Minute); left() > 0; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of 100 are left", left())
		}
		runtime.GC()
	}
}
