package padlock

import (
	"math/rand/v2"
	"testing"

	"github.com/padlock-go/padlock/driver"
)

// Holds come, go and change their times in any order. The first one is always the earliest, and
// each hold knows its index.
func TestSchedule(t *testing.T) {
	var s schedule
	times := make(map[*hold]driver.Instant)
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		at := driver.Instant(random.IntN(1000))
		switch n := random.IntN(4); {
		case n < 2 && len(s) < 200:
			h := &hold{renewals: renewals{index: -1}}
			s.put(scheduled{at, h})
			times[h] = at
		case len(s) == 0:
		case n == 2:
			h := s[random.IntN(len(s))].h
			s.remove(h)
			if delete(times, h); h.index != -1 {
				t.Fatalf("a hold that was removed has index %d", h.index)
			}
		default:
			h := s[random.IntN(len(s))].h
			s.put(scheduled{at, h})
			times[h] = at
		}
		if len(s) != len(times) {
			t.Fatalf("the heap has %d holds, want %d", len(s), len(times))
		}
		for i, e := range s {
			parent := s[max(0, i-1)/2].at
			if e.h.index != int32(i) || times[e.h] != e.at || e.at < parent {
				t.Fatalf("entry %d has the time %v and index %d; the hold has %v, the parent %v", i, e.at, e.h.index, times[e.h], parent)
			}
		}
	}
}
