package store

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

var spaces = []Space{
	{Name: "exclusive", Tokens: 3, Flights: 2, Unit: time.Minute, TTL: 2 * time.Minute, Keep: time.Minute,
		Verbs: []Verb{Acquire, Extend, Release, ReleaseKeep, Break}, Late: []Verb{Acquire, Extend, Release, Break}},
	{Name: "readers", Tokens: 3, Flights: 1, Unit: 2 * time.Second, TTL: 4 * time.Second, Keep: 2 * time.Second,
		Verbs: []Verb{Acquire, Share, Extend, Promote, Demote, Release}, Late: []Verb{Share, Promote, Release}},
	{Name: "replace", Tokens: 3, Flights: 1, Unit: time.Minute, TTL: 1 * time.Minute, Keep: time.Minute, Behind: true,
		Verbs: []Verb{Acquire, Share, AcquireAbove, ShareAbove, Replace, Raise, Release}, Late: []Verb{Replace, Raise, Release}},
	{Name: "queue", Tokens: 3, Flights: 1, Unit: 500 * time.Millisecond, TTL: 1 * time.Second, Keep: 500 * time.Millisecond, Queue: true,
		Verbs: []Verb{Acquire, Share, Extend, Join, JoinShared, Release, ReleaseKeep, Break}, Late: []Verb{Acquire, Release}},
	{Name: "used up", Tokens: 3, Flights: 0, Unit: 2 * time.Second, TTL: 4 * time.Second, Keep: 2 * time.Second, First: 1<<53 - 4, Behind: true,
		Verbs: []Verb{Acquire, Share, Promote, Replace, Release, Break}},
}

func TestStates(t *testing.T) {
	for _, sp := range spaces {
		if only := os.Getenv("ONLY"); only != "" && only != sp.Name {
			continue
		}
		began := time.Now()
		ctx, end := context.WithTimeout(t.Context(), 180*time.Second)
		r := sp.Search(ctx, 20_000_000)
		end()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		t.Logf("%s: %d states, %d transitions, depth %d, complete %v, %v, %d MB", sp.Name, r.States, r.Transitions, r.Depth, r.Complete, time.Since(began).Round(time.Millisecond), m.Sys>>20)
		if r.Broken != nil {
			lines, err := sp.Story(r.Trace)
			t.Errorf("%s\n%v (%v)\n%q", strings.Join(lines, "\n"), r.Broken, err, r.Trace)
		}
	}
}
