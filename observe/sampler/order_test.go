package sampler

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
)

// Stuck names come first, the slowest before the others, then names with waiters, then the longest
// holds.
func TestOrder(t *testing.T) {
	held := func(d time.Duration) []Hold { return []Hold{{Held: d}} }
	want := []Name{
		{Name: "slowest", Stuck: []Reason{Long}, Slowness: 9, Holds: held(time.Second)},
		{Name: "slow", Stuck: []Reason{Long}, Slowness: 5, Holds: held(time.Hour), Waiting: time.Hour},
		{Name: "dead", Stuck: []Reason{NotRenewed}, Holds: held(time.Second)},
		{Name: "hot", Waiters: 2, Waiting: time.Hour, Slowness: 2},
		{Name: "warm", Waiters: 2, Waiting: time.Minute, Holds: held(time.Hour)},
		{Name: "old", Slowness: 1, Holds: held(time.Hour)},
		{Name: "cools", Holds: []Hold{{Held: 2 * time.Hour, Hold: padlock.Hold{Cooling: true}}}},
		{Name: "free"},
	}
	want[6].Holds = append(want[6].Holds, Hold{Held: time.Minute})
	for range 20 {
		got := slices.Clone(want)
		rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		order(got)
		for i := range want {
			if got[i].Name != want[i].Name {
				t.Fatalf("place %d has %q, want %q", i, got[i].Name, want[i].Name)
			}
		}
	}
}
