package soak

import (
	"fmt"
	"time"
)

// A Violation is a broken promise.
type Violation struct {
	Invariant string // "I1" to "I17"
	At        int64  // by the clock of the events
	Name      string
	What      string
}

func (v Violation) String() string { return v.Invariant + " " + v.Name + ": " + v.What }

// Invariants says what each invariant demands.
var Invariants = []struct{ ID, Meaning string }{
	{"I1", "no two holders, one of them exclusive, inside their own windows at the same time"},
	{"I2", "fences grow with every exclusive grant of a name, and no two holds share one"},
	{"I3", "a register that checks fences loses no update, and rejects no holder inside its window"},
	{"I4", "nothing succeeds for a holder that knows of its loss"},
	{"I5", "the holder learns of a loss, and its last write arrives, at most 50 ms after the holder's own deadline (processes that stood still excepted)"},
	{"I6", "a name that nobody holds is granted to a waiter, in order of arrival where the store promises it"},
	{"I7", "nothing is left behind: holds, waiters, descriptors, goroutines"},
	{"I8", "a name that was released, or whose lock was broken, is free at once (where a majority of servers decides, when all of them answer)"},
	{"I9", "a name that cools down, or is held at least for some time, is granted to nobody else before"},
	{"I10", "of a name with n slots, never more than n permits are inside their windows at the same time"},
	{"I11", "several names are taken together or not at all: after a refusal and after a release, none of them is left behind, and each lock has the fence of its own name"},
	{"I12", "never two leaders inside their windows, and the fence grows with every new leader"},
	{"I13", "each worker gets a lock again at most 10 s after a fault is over (later where the guard against restarts acts)"},
	{"I14", "a holder is told only of questions to itself that somebody asked, within a second and a request, and no question ends its lock"},
	{"I15", "of the callers of package newest none runs after a newer one, none is dropped unless a newer one has got the lock, and the newest that lives runs"},
	{"I16", "overlapping paths are never held at the same time, their fences rise, and no call is refused at once although nobody had or wanted an overlapping path"},
	{"I17", "each call that waits without a limit for permits with a weight is served"},
}

// checker examines one history.
type checker struct {
	Promises
	events []Event
	holds  []*Hold
	names  map[string][]*Hold
	waits  map[string][]Event // all acquires, granted or not
	stalls map[int]spells     // for each worker, and for the engine: when its process stood still
	still  spells             // when any process stood still
	slow   spells             // when the store was slow to reply
	faults spells
	found  []Violation
	late   time.Duration // the longest delay of a loss signal
	queued int           // calls for a path that were refused behind those that wait for a folder
}

func (c *checker) say(invariant string, at int64, name, format string, args ...any) {
	c.found = append(c.found, Violation{invariant, at, name, fmt.Sprintf(format, args...)})
}

// stoodStill returns for how long the worker or the engine stood still in the given time. A stall
// that ended shortly before that time counts too, because a process has much to do right after a
// stall.
func (c *checker) stoodStill(worker int, from, to int64) int64 {
	list, known := c.stalls[worker]
	if !known {
		list = c.stalls[engine]
	}
	return list.timeBetween(from-int64(catchUp), to)
}

// catchUp is how long a process may be late after a stall.
const catchUp = 200 * time.Millisecond

// disturbed reports whether there was a fault, a stall of any process or a slow reply in the given
// time or shortly before.
func (c *checker) disturbed(from, to int64) bool {
	from -= int64(time.Second)
	return c.faults.timeBetween(from, to)+c.still.timeBetween(from, to)+c.slow.timeBetween(from, to) > 0
}
