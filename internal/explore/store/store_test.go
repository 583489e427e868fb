package store_test

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/explore/store"
	"github.com/padlock-go/padlock/internal/server"
)

// Verbs that every space of one kind has.
var (
	exclusive = []store.Verb{store.Acquire, store.Extend, store.Release, store.ReleaseKeep, store.Break}
	readers   = []store.Verb{store.Acquire, store.Share, store.Extend, store.Promote, store.Demote, store.Release}
	replacing = []store.Verb{store.Acquire, store.Share, store.AcquireAbove, store.ShareAbove, store.Replace, store.Raise, store.Release}
	queueing  = []store.Verb{store.Acquire, store.Share, store.Extend, store.Join, store.JoinShared, store.Release, store.ReleaseKeep, store.Break}
	lastOnes  = []store.Verb{store.Acquire, store.Share, store.Promote, store.Replace, store.Release, store.Break}
	all       = []store.Verb{store.Acquire, store.Share, store.ShareAbove, store.Replace, store.Extend, store.Promote, store.Demote, store.Release, store.ReleaseKeep, store.Break, store.Raise}
)

// spaces are searched to their end in tier 1. docs/internals/every-order.md has their numbers.
var spaces = []store.Space{
	{Name: "exclusive", Tokens: 3, Flights: 2, Unit: time.Minute, TTL: 2 * time.Minute, Keep: time.Minute,
		Verbs: exclusive, Late: []store.Verb{store.Acquire, store.Extend, store.Release, store.Break}},
	{Name: "readers", Tokens: 3, Unit: 2 * time.Second, TTL: 4 * time.Second, Keep: 2 * time.Second, Verbs: readers},
	{Name: "late readers", Tokens: 2, Flights: 2, Unit: 2 * time.Second, TTL: 4 * time.Second, Keep: 2 * time.Second,
		Verbs: append(readers[:len(readers):len(readers)], store.ReleaseKeep, store.Break), Late: []store.Verb{store.Acquire, store.Promote, store.Release}},
	{Name: "replaced", Tokens: 3, Flights: 1, Unit: time.Minute, TTL: time.Minute, Behind: true,
		Verbs: replacing, Late: []store.Verb{store.Replace, store.Raise, store.Release}},
	{Name: "queue", Tokens: 3, Flights: 1, Unit: 500 * time.Millisecond, TTL: time.Second, Keep: 500 * time.Millisecond, Queue: true,
		Verbs: queueing, Late: []store.Verb{store.Release}},
	{Name: "last fences", Tokens: 2, Unit: 2 * time.Second, TTL: 2 * time.Second, First: 1<<53 - 4, Behind: true, Verbs: lastOnes},
}

// deep are searched in tier 2. The last one has everything, and ends at a number of states.
var deep = []store.Space{
	{Name: "exclusive, 4 tokens", Tokens: 4, Flights: 1, Unit: time.Minute, TTL: 2 * time.Minute, Keep: time.Minute,
		Verbs: exclusive, Late: []store.Verb{store.Acquire, store.Extend, store.Release, store.Break}},
	{Name: "queue, late", Tokens: 3, Flights: 1, Unit: 500 * time.Millisecond, TTL: time.Second, Keep: 500 * time.Millisecond, Queue: true,
		Verbs: queueing, Late: []store.Verb{store.Acquire, store.Release}},
	{Name: "late readers, 3 tokens", Tokens: 3, Flights: 1, Unit: 2 * time.Second, TTL: 2 * time.Second, Keep: 2 * time.Second,
		Verbs: []store.Verb{store.Share, store.Extend, store.Promote, store.Demote, store.Release}, Late: []store.Verb{store.Promote}},
	{Name: "everything", Tokens: 3, Flights: 2, Unit: 2 * time.Second, TTL: 4 * time.Second, Keep: 2 * time.Second, Verbs: all, Late: all},
}

// TestEveryOrder visits all states of one name.
func TestEveryOrder(t *testing.T) {
	for _, sp := range spaces {
		t.Run(sp.Name, func(t *testing.T) { search(t, &sp, 5_000_000, true) })
	}
}

// TestEveryOrderDeep visits more of them, and of the last space as many as fit.
func TestEveryOrderDeep(t *testing.T) {
	server.Thorough(t)
	for i, sp := range deep {
		last := i == len(deep)-1
		most := 20_000_000
		if last {
			most = 1_000_000
		}
		t.Run(sp.Name, func(t *testing.T) { search(t, &sp, most, !last) })
	}
}

func search(t *testing.T, sp *store.Space, most int, complete bool) {
	defer debug.SetGCPercent(debug.SetGCPercent(300)) // a quarter less time
	began := time.Now()
	r := sp.Search(context.Background(), most)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d states, %d transitions, depth %d, complete %v, %.1f s, %d MB", r.States, r.Transitions, r.Depth, r.Complete, time.Since(began).Seconds(), m.Sys>>20)
	if r.Broken != nil {
		lines, labels, err := sp.Story(r.Trace)
		t.Fatalf("%v\n%s\nfor testdata/stories.txt: %s | %s", err, strings.Join(lines, "\n"), sp.Name, strings.Join(labels, " | "))
	}
	if complete && !r.Complete {
		t.Errorf("the search did not come to its end")
	}
}

// TestStories replays the shortest ways to the bugs that the search has found, planted ones and others.
// On the code without the bug no step breaks a promise.
func TestStories(t *testing.T) {
	b, err := os.ReadFile("testdata/stories.txt")
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]*store.Space{}
	for _, list := range [][]store.Space{spaces, deep} {
		for i := range list {
			of[list[i].Name] = &list[i]
		}
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		labels := strings.Split(strings.TrimSpace(line), " | ")
		sp := of[labels[0]]
		if sp == nil {
			t.Fatalf("no space is called %q", labels[0])
		}
		if lines, err := sp.Replay(labels[1:]); err != nil {
			t.Errorf("%s: %v", strings.Join(lines, "\n"), err)
		}
		n++
	}
	if n == 0 {
		t.Error("there are no stories")
	}
}
