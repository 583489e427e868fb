package soak

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A fault of the network meets the calls of its worker only. A fault of the process, or a step of
// the clock, meets its locks.
func TestPairs(t *testing.T) {
	acquired := Event{Op: Acquired, Worker: 1, Name: "n", Hold: 1, Call: 10 * ms, At: 20 * ms, Until: 900 * ms, TTL: 400 * ms, With: plain + "," + observed}
	cooled := Event{Op: Released, Worker: 1, Name: "n", Hold: 1, Call: 80 * ms, At: 90 * ms, Until: 900 * ms, Keep: int64(time.Second)}
	fault := func(class string, hit int, from, to int64) Event {
		return Event{Op: Faulted, Worker: engine, Class: class, Hit: hit, Call: from * ms, At: to * ms}
	}
	short := Event{Op: Refused, Worker: 1, Name: "m", Waited: true, Call: 30 * ms, At: 40 * ms, Err: "held", With: sharedLock}
	long := Event{Op: Acquired, Worker: 1, Name: "long", Hold: 2, Waited: true, Call: 5 * ms, At: 95 * ms, Until: 900 * ms}
	for _, c := range []struct {
		name   string
		events []Event
		want   []Pair
	}{
		{"during the acquire", []Event{fault(LostReply, 2, 12, 13)}, []Pair{{plain, LostReply}, {observed, LostReply}}},
		{"on another worker", []Event{fault(LostReply, 1, 12, 13)}, nil},
		{"between the calls", []Event{fault(LostReply, 2, 30, 40)}, nil},
		{"on a server", []Event{fault(Silence, 0, 70, 85)}, []Pair{{plain, Silence}, {observed, Silence}, {coolDown, Silence}}},
		{"the process, between the calls", []Event{fault(Stop, 2, 30, 40)}, []Pair{{plain, Stop}, {observed, Stop}, {coolDown, Stop}}},
		{"a step of the clock, between the calls", []Event{fault(ClockStep, 0, 30, 31)}, []Pair{{plain, ClockStep}, {observed, ClockStep}, {coolDown, ClockStep}}},
		{"a step of the clock, before the lock", []Event{fault(ClockStep, 0, 5, 6)}, nil},
		{"a short wait during a long one", []Event{short, long}, []Pair{{plain, ShortWaits}, {observed, ShortWaits}, {coolDown, ShortWaits}, {sharedLock, ShortWaits}}},
		{"a short wait alone", []Event{short}, nil},
	} {
		met := Pairs(append([]Event{acquired, cooled}, c.events...))
		for _, p := range c.want {
			if met[p] == 0 {
				t.Errorf("%s: %v did not meet", c.name, p)
			}
			delete(met, p)
		}
		if len(met) > 0 {
			t.Errorf("%s: %v met, too", c.name, met)
		}
	}
}

// A lock that its worker had when it was killed was in use until then. A released one was not.
func TestPairsOfTheKilled(t *testing.T) {
	acquired := Event{Op: Acquired, Worker: 1, Name: "n", Hold: 1, Call: 10 * ms, At: 20 * ms, Until: 900 * ms, With: plain}
	released := Event{Op: Released, Worker: 1, Name: "n", Hold: 1, Call: 30 * ms, At: 40 * ms}
	killed := []Event{{Op: Faulted, Worker: engine, Class: Kill, Hit: 2, Call: 90 * ms, At: 99 * ms}, {Op: Killed, Worker: 1, At: 91 * ms}}
	if met := Pairs(append([]Event{acquired}, killed...)); met[Pair{plain, Kill}] != 1 {
		t.Errorf("killed with a lock: %v", met)
	}
	if met := Pairs(append([]Event{acquired, released}, killed...)); len(met) != 0 {
		t.Errorf("killed after the release: %v", met)
	}
}

// An empty cell has the number of its reason, and a pair that did not meet without a reason is
// named.
func TestWritePairs(t *testing.T) {
	met := map[Pair]int{}
	for _, feature := range Features {
		for _, class := range Classes {
			met[Pair{feature, class}] = 7
		}
	}
	delete(met, Pair{CheckTx, ClockStep})
	delete(met, Pair{slots, Kill})
	reasons := []Reason{{CheckTx, []string{ClockStep}, "it has no clock"}}
	var b strings.Builder
	WritePairs(&b, met, reasons)
	if text := b.String(); strings.Count(text, "none (1)") != 1 || strings.Count(text, "none") != 2 || !strings.Contains(text, "(1) it has no clock") {
		t.Errorf("the table is\n%s", text)
	}
	if unmet := Unmet(met, reasons); !slices.Equal(unmet, []Pair{{slots, Kill}}) {
		t.Errorf("not met: %v", unmet)
	}
}
