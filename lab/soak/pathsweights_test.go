package soak

import (
	"slices"
	"testing"

	"github.com/padlock-go/padlock/driver/fast"
)

// pathStory has a holder of a folder, then one of a path in it, and one that was refused meanwhile.
func pathStory() []Event {
	const folder, file, other = "tree:a", "tree:a/b", "tree:b"
	return []Event{
		{Op: Asked, Worker: 1, Name: folder, Other: 101, Call: 1 * ms, At: 1 * ms, TTL: 400 * ms},
		{Op: Acquired, Worker: 1, Name: folder, Other: 101, Hold: 1, Call: 1 * ms, At: 2 * ms, Fence: 10, TTL: 400 * ms, Until: 390 * ms},
		{Op: Asked, Worker: 3, Name: file, Other: 103, Call: 10 * ms, At: 10 * ms, TTL: 400 * ms, Tried: true},
		{Op: Refused, Worker: 3, Name: file, Other: 103, Call: 10 * ms, At: 12 * ms, TTL: 400 * ms, Tried: true, Err: "held"},
		{Op: Released, Worker: 1, Name: folder, Hold: 1, Call: 20 * ms, At: 21 * ms, Until: 390 * ms},
		{Op: Acquired, Worker: 2, Name: file, Other: 102, Hold: 2, Call: 22 * ms, At: 23 * ms, Fence: 11, TTL: 400 * ms, Until: 410 * ms},
		{Op: Released, Worker: 2, Name: file, Hold: 2, Call: 30 * ms, At: 31 * ms, Until: 410 * ms},
		{Op: Acquired, Worker: 4, Name: other, Other: 104, Hold: 4, Call: 9 * ms, At: 11 * ms, Fence: 5, TTL: 400 * ms, Until: 410 * ms},
		{Op: Released, Worker: 4, Name: other, Hold: 4, Call: 30 * ms, At: 31 * ms, Until: 410 * ms},
	}
}

// TestPathsOfTheSoak: each variant of the story, with what it breaks.
func TestPathsOfTheSoak(t *testing.T) {
	const refused, released, second = 3, 4, 5
	for _, c := range []struct {
		name   string
		want   []string
		change func(s []Event) []Event
	}{
		{"all well", nil, func(s []Event) []Event { return s }},
		{"a path while the folder is held", []string{"I16"}, func(s []Event) []Event { s[second].Call, s[second].At = 13*ms, 14*ms; return s }},
		{"a folder that shares the beginning of its name only", nil, func(s []Event) []Event {
			s[second].Name, s[second+1].Name, s[second].Call, s[second].At = "tree:ab", "tree:ab", 13*ms, 14*ms
			return s
		}},
		{"a path with the fence of the folder", []string{"I16"}, func(s []Event) []Event { s[second].Fence = 10; return s }},
		{"refused after the release", []string{"I16"}, func(s []Event) []Event { s[refused].Call, s[refused].At = 40*ms, 41*ms; return s }},
		{"refused just before somebody asks", []string{"I16"}, func(s []Event) []Event {
			s[refused].Call, s[refused].At = 40*ms, 41*ms
			return append(s, Event{Op: Asked, Worker: 1, Name: "tree:a", Other: 105, Call: 42 * ms, At: 42 * ms})
		}},
		{"refused while somebody asks", nil, func(s []Event) []Event {
			s[refused].Call, s[refused].At = 40*ms, 43*ms
			return append(s, Event{Op: Asked, Worker: 1, Name: "tree:a", Other: 105, Call: 42 * ms, At: 42 * ms})
		}},
		{"refused while somebody asks for another path", []string{"I16"}, func(s []Event) []Event {
			s[refused].Call, s[refused].At = 40*ms, 43*ms
			return append(s, Event{Op: Asked, Worker: 1, Name: "tree:a/c", Other: 105, Call: 42 * ms, At: 42 * ms})
		}},
		{"refused behind one that waits for the folder", nil, func(s []Event) []Event {
			s[refused].Call, s[refused].At = 40*ms, 43*ms
			return append(s, Event{Op: Asked, Worker: 1, Name: "tree:a/c", Other: 105, Call: 19 * ms, At: 19 * ms})
		}},
		{"refused within the lease of a holder that was killed", nil, func(s []Event) []Event {
			s[released] = Event{Op: Killed, Worker: 1, At: 20 * ms}
			s[refused].Call, s[refused].At = 340*ms, 341*ms
			return s[:released+1]
		}},
		{"refused after the lease of a holder that was killed", []string{"I16"}, func(s []Event) []Event {
			s[released] = Event{Op: Killed, Worker: 1, At: 20 * ms}
			s[refused].Call, s[refused].At = 1440*ms, 1441*ms
			return s[:released+1]
		}},
		{"a call that waited was refused", nil, func(s []Event) []Event {
			s[refused].Call, s[refused].At, s[refused].Tried = 40*ms, 41*ms, false
			return s
		}},
	} {
		if got := found(c.change(pathStory())...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// weighing returns the events of a request, which has one permit. A request that is not served has the
// outcome err.
func weighing(worker, weight int, tried bool, call, at int64, err string) []Event {
	id := int64(1000*worker) + call
	e := Event{Op: Asked, Worker: worker, Name: weightsMark, Slots: unitCount, Weight: weight, Tried: tried, Other: id, Call: call * ms, At: call * ms, TTL: 400 * ms}
	end := e
	end.At = at * ms
	if end.Op, end.Err = Refused, err; err == "" {
		end.Op, end.Name, end.Hold, end.Until = Acquired, fast.SlotName(weightsMark, worker), id, (at+1)*ms
	}
	return []Event{e, end}
}

// Each call that waits without a limit must be served.
func TestWeightsAreServed(t *testing.T) {
	served := weighing(1, 4, false, 10, 20, "")
	for _, c := range []struct {
		name   string
		want   []string
		events []Event
	}{
		{"served", nil, served},
		{"still waiting at the end", []string{"I17"}, served[:1]},
		{"refused", []string{"I17"}, weighing(1, 4, false, 10, 20, "held")},
		{"refused at once", nil, weighing(1, 4, true, 10, 20, "held")},
		{"the store failed", nil, weighing(1, 4, false, 10, 20, "unavailable")},
		{"killed", nil, append(served[:1:1], Event{Op: Killed, Worker: 1, At: 15 * ms})},
	} {
		if got := found(c.events...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// inLife makes the events those of a later process of their worker.
func inLife(life int, events []Event) []Event {
	for i := range events {
		events[i].Life = life
	}
	return events
}

// TestWaits counts the requests before a large one of worker 1.
func TestWaits(t *testing.T) {
	large := weighing(1, 8, false, 10, 100, "")
	before := slices.Concat(
		weighing(2, 1, false, 5, 20, ""),  // was under way when it came
		weighing(3, 0, false, 15, 30, ""), // came later, from another process
		weighing(4, 2, true, 40, 41, ""),  // overtook
	)
	if w := waitsOf(slices.Concat(large, before)); w != (Waits{Large: 1, Longest: 90 * 1e6, Before: 2, Later: 1, Bound: 4, Overtook: 1}) {
		t.Errorf("%+v", w)
	}
	late := slices.Concat(before, weighing(2, 0, false, 50, 60, ""), weighing(3, 3, false, 50, 61, ""), weighing(3, 1, false, 70, 80, ""))
	if w := waitsOf(slices.Concat(large, late)); w.Beyond != 1 || w.Unexplained != 1 || w.Before != 5 || w.Bound != 4 {
		t.Errorf("more than may be were served before: %+v", w)
	}
	for length, unexplained := range map[int64]int{400: 1, 600: 0} {
		slow := slices.Concat(weighing(1, 8, false, 10, 1000, ""), late, []Event{{Op: Faulted, Call: 90 * ms, At: (90 + length) * ms}})
		if w := waitsOf(slow); w.Beyond != 1 || w.Unexplained != unexplained {
			t.Errorf("the store stopped for %d ms meanwhile: %+v", length, w)
		}
	}
	first := weighing(1, 2, false, 8, 30, "") // is before it in the line of its process
	if w := waitsOf(slices.Concat(first, large, late)); w.Beyond != 0 || w.Before != 6 || w.Bound != 8 {
		t.Errorf("behind another one of its process: %+v", w)
	}
	killed := slices.Concat(before, inLife(2, weighing(2, 0, false, 50, 60, "")), inLife(3, weighing(2, 3, false, 65, 70, "")), weighing(3, 1, false, 70, 80, ""))
	if w := waitsOf(slices.Concat(large, killed)); w.Beyond != 0 || w.Before != 5 || w.Bound != 6 {
		t.Errorf("worker 2 was killed twice, and began anew: %+v", w)
	}
	if w := waitsOf(slices.Concat(weighing(1, 5, false, 10, 100, ""), before)); w.Large != 0 {
		t.Errorf("a small request: %+v", w)
	}
}
