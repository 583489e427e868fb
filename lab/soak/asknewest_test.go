package soak

import (
	"slices"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// questionStory is a holder that looks, is asked and leaves.
func questionStory() []Event {
	return []Event{
		{Op: Acquired, Worker: 1, Name: "n", Hold: 1, Call: 1 * ms, At: 2 * ms, Fence: 10, TTL: 9000 * ms, Until: 9000 * ms},
		{Op: Looks, Worker: 1, Name: "n", Hold: 1, At: 2 * ms},
		{Op: Questioning, Worker: 2, Name: "n", Other: 7, Call: 100 * ms, At: 100 * ms},
		{Op: Questioned, Worker: 2, Name: "n", Other: 7, Call: 100 * ms, At: 101 * ms, Fence: 10},
		{Op: Told, Worker: 1, Name: "n", Hold: 1, Other: 7, Fence: 10, At: 1002 * ms},
		{Op: Released, Worker: 1, Name: "n", Hold: 1, Call: 5000 * ms, At: 5001 * ms, Until: 9000 * ms},
	}
}

// TestQuestions: each variant of the story, with what it breaks.
func TestQuestions(t *testing.T) {
	for _, c := range []struct {
		name   string
		want   []string
		change func(s []Event) []Event
	}{
		{"all well", nil, func(s []Event) []Event { return s }},
		{"a question that nobody asked", []string{"I14"}, func(s []Event) []Event { s[4].Other = 8; return s }},
		{"a question about another name", []string{"I14"}, func(s []Event) []Event { s[2].Name, s[3].Name = "m", "m"; return s }},
		{"told before it was asked", []string{"I14"}, func(s []Event) []Event { s[4].At = 50 * ms; return s }},
		{"a question to the holder before", []string{"I14"}, func(s []Event) []Event { s[3].Fence, s[4].Fence = 9, 9; return s }},
		{"a question to a later holder, inside the window", []string{"I14"}, func(s []Event) []Event { s[4].Fence = 11; return s }},
		{"the question of package newest has no number", nil, func(s []Event) []Event { s[4].Other = 0; return s }},
		{"never told", []string{"I14"}, func(s []Event) []Event { return slices.Delete(s, 4, 5) }},
		{"told late", []string{"I14"}, func(s []Event) []Event { s[4].At = 2500 * ms; return s }},
		{"never told, and never looked", nil, func(s []Event) []Event { return slices.Delete(slices.Delete(s, 4, 5), 1, 2) }},
		{"never told, and over soon", nil, func(s []Event) []Event { s[5].Call, s[5].At = 900*ms, 901*ms; return slices.Delete(s, 4, 5) }},
		{"never told, and Ask returned an error", nil, func(s []Event) []Event { s[3].Err = "uncertain"; return slices.Delete(s, 4, 5) }},
		{"never told, during a fault", nil, func(s []Event) []Event {
			return append(slices.Delete(s, 4, 5), Event{Op: Faulted, Worker: engine, Call: 200 * ms, At: 300 * ms})
		}},
		{"told late by a process that stood still", nil, func(s []Event) []Event {
			s[4].At = 2500 * ms
			return append(s, Event{Op: Stalled, Worker: 1, Call: 500 * ms, At: 1500 * ms})
		}},
		{"the lock was lost after it", []string{"I14"}, func(s []Event) []Event {
			s[5] = Event{Op: Lost, Worker: 1, Name: "n", Hold: 1, At: 3500 * ms, Err: "lost"}
			return s
		}},
	} {
		if got := found(c.change(questionStory())...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// newestStory has three callers of package newest. The first one runs, the second one is dropped when the
// third one runs.
func newestStory() []Event {
	turn := func(w int, number uint64, fence uint64, call, at, end int64) []Event {
		id := int64(w)
		return []Event{
			{Op: Arrived, Worker: w, Name: "n", Other: id, Fence: number, At: call * ms},
			{Op: Entered, Worker: w, Name: "n", Other: id, Fence: fence, At: (at - 1) * ms},
			{Op: Acquired, Worker: w, Name: "n", Other: id, Hold: id, Fence: fence, Call: call * ms, At: at * ms, TTL: 60_000 * ms, Until: 60_000 * ms},
			{Op: Released, Worker: w, Name: "n", Hold: id, Call: end * ms, At: end*ms + 1, Until: 60_000 * ms},
		}
	}
	return slices.Concat(turn(1, 5, 10, 1, 3, 5000), []Event{
		{Op: Arrived, Worker: 2, Name: "n", Other: 2, Fence: 6, At: 100 * ms},
		{Op: Refused, Worker: 2, Name: "n", Other: 2, Call: 99 * ms, At: 5900 * ms, Err: superseded},
	}, turn(3, 7, 11, 200, 5100, 6000))
}

// TestNewest: each variant of the story, with what it breaks.
func TestNewest(t *testing.T) {
	const dropped, entered, ran, over = 5, 7, 8, 9 // events of the second caller and of the third
	for _, c := range []struct {
		name   string
		want   []string
		change func(s []Event) []Event
	}{
		{"all well", nil, func(s []Event) []Event { return s }},
		{"an older one runs after a newer one", []string{"I15"}, func(s []Event) []Event { s[0].Fence = 8; return s }},
		{"dropped before the newer one has the lock", []string{"I15"}, func(s []Event) []Event { s[dropped].At = 3000 * ms; return s }},
		{"dropped, and the newer one has given up while it waited", []string{"I15"}, func(s []Event) []Event {
			s[ran] = Event{Op: Refused, Worker: 3, Name: "n", Other: 3, Call: 200 * ms, At: 4000 * ms, Err: "timeout"}
			return slices.Delete(s, entered, entered+1)[:ran]
		}},
		{"dropped, and the newer one gave up just before its turn", nil, func(s []Event) []Event {
			s[ran] = Event{Op: Refused, Worker: 3, Name: "n", Other: 3, Call: 200 * ms, At: 5500 * ms, Err: "timeout"}
			return s[:over]
		}},
		{"dropped, and the newer one was killed", nil, func(s []Event) []Event {
			return append(s[:ran], Event{Op: Killed, Worker: 3, At: 5500 * ms})
		}},
		{"dropped, and nobody newer has come", []string{"I15"}, func(s []Event) []Event { return s[:dropped+1] }},
		{"the newest waits for a free name", []string{"I15"}, func(s []Event) []Event {
			s[entered].At, s[ran].At, s[over].Call, s[over].At, s[dropped].At = 10_500*ms, 10_501*ms, 11_000*ms, 11_001*ms, 10_700*ms
			return s
		}},
		{"the newest waits, and gives up in the end", []string{"I15"}, func(s []Event) []Event {
			s[dropped].At, s[dropped].Err = 12_000*ms, "held"
			return s[:dropped+1]
		}},
		{"an older one waits for the newer one", nil, func(s []Event) []Event {
			s[ran] = Event{Op: Refused, Worker: 3, Name: "n", Other: 3, Call: 200 * ms, At: 12_000 * ms, Err: "timeout"}
			s[dropped].At, s[dropped].Err = 13_000*ms, "timeout"
			return slices.Delete(s, entered, entered+1)[:ran]
		}},
		{"the newest waits during a fault", nil, func(s []Event) []Event {
			s[entered].At, s[ran].At, s[over].Call, s[over].At, s[dropped].At = 10_500*ms, 10_501*ms, 11_000*ms, 11_001*ms, 10_700*ms
			return append(s, Event{Op: Faulted, Worker: engine, Call: 6000 * ms, At: 8000 * ms})
		}},
	} {
		got := found(c.change(newestStory())...)
		if slices.Sort(got); !slices.Equal(slices.Compact(got), c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestStaying: questions and the records of newest may stay, if they end in time. Nothing else may.
func TestStaying(t *testing.T) {
	r := &Run{}
	in := func(d time.Duration) []driver.Hold { return []driver.Hold{{Until: time.Now().Add(d)}} }
	ask, last := fast.AskName("n"), fast.NewestName("n", "last 1")
	for _, c := range []struct {
		state padlock.State
		stays bool
	}{
		{padlock.State{Name: ask, Holds: in(50 * time.Second)}, true},
		{padlock.State{Name: last, Holds: in(50 * time.Second)}, true},
		{padlock.State{Name: ask, Holds: in(2 * time.Minute)}, false},
		{padlock.State{Name: ask, Holds: []driver.Hold{{}}}, false},
		{padlock.State{Name: ask, Waiters: 1}, false},
		{padlock.State{Name: "n", Holds: in(time.Second)}, false},
		{padlock.State{Name: fast.NewestName("n", "waiting"), Holds: in(time.Second)}, false},
		{padlock.State{Name: fast.NewestName("n", "number"), Holds: in(time.Second)}, false},
	} {
		left := []padlock.State{c.state}
		if stay := r.takeStaying(&left); len(stay) == 1 != c.stays || len(left) == 1 == c.stays {
			t.Errorf("%+v stays: %v", c.state, !c.stays)
		}
	}
}
