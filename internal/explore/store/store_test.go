package store

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"
)

var spaces = []Space{
	{Name: "exclusive", Tokens: 2, Flights: 1, Unit: time.Minute, TTL: 2 * time.Minute, Keep: time.Minute,
		Verbs: []Verb{Acquire, Extend, Release, ReleaseKeep, Break}, Late: []Verb{Acquire, Release, Break}},
}

func TestStates(t *testing.T) {
	for _, sp := range spaces {
		began := time.Now()
		r := sp.Search(context.Background(), 3_000_000)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		t.Logf("%s: %d states, %d transitions, depth %d, complete %v, %v, %d MB", sp.Name, r.States, r.Transitions, r.Depth, r.Complete, time.Since(began).Round(time.Millisecond), m.Sys>>20)
		if r.Broken != nil {
			lines, err := sp.Story(r.Trace)
			t.Errorf("%s\n%v (%v)\n%q", strings.Join(lines, "\n"), r.Broken, err, r.Trace)
		}
	}
}
