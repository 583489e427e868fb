package memstore

import (
	"fmt"
	"testing"
	"time"
)

// The times of one List agree with each other: they show in which order the names were taken, even
// if that was within microseconds.
func TestListAgreesAboutTheOrder(t *testing.T) {
	s := New()
	const names = 1000
	for i := range names {
		if _, err := s.Acquire(t.Context(), request(fmt.Sprintf("%04d", i), "a")); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.List(t.Context(), "")
	if err != nil || len(list) != names {
		t.Fatalf("%d names, %v", len(list), err)
	}
	since := map[string]time.Time{}
	for _, state := range list {
		since[state.Name] = state.Holds[0].Since
	}
	for i := 1; i < names; i++ {
		earlier, later := fmt.Sprintf("%04d", i-1), fmt.Sprintf("%04d", i)
		if since[later].Before(since[earlier]) {
			t.Fatalf("%s seems to have been taken %v before %s", later, since[earlier].Sub(since[later]), earlier)
		}
	}
}
