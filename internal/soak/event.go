package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// Op is what an Event tells of.
type Op string

const (
	// Acquired: a grant. Adopted: the same, in place of the hold Other.
	Acquired Op = "acquired"
	Adopted  Op = "adopted"
	// Refused: an acquire in vain; Err says of which kind.
	Refused Op = "refused"
	// Verified: Check or Extend was asked.
	Verified Op = "verified"
	// Promoted and Demoted: a conversion, if Err is empty.
	Promoted Op = "promoted"
	Demoted  Op = "demoted"
	// Exported: the holder stopped and gave its key away.
	Exported Op = "exported"
	// Released: Release was called.
	Released Op = "released"
	// Evicted: Break was called on the hold.
	Evicted Op = "evicted"
	// Begun: Release, Demote or Break is about to be called, as Err says (by the
	// name of their events). A worker that is killed then logs no more of it.
	Begun Op = "begun"
	// Lost: the hold's context ended although nobody released it.
	Lost Op = "lost"
	// Stalled: the process did not run from Call to At.
	Stalled Op = "stalled"
	// Killed: the engine killed the worker.
	Killed Op = "killed"
	// Faulted: a fault from Call to At; Err is its kind.
	Faulted Op = "fault"
	// Started and Ended: a worker's process, with its count of descriptors and
	// goroutines before and after in Fence and Until.
	Started Op = "started"
	Ended   Op = "ended"
	// Other: in this life another program plays the worker.
	Other Op = "other program"
	// Voting: the first event where a majority of several servers decides.
	Voting Op = "voting"
	// Regrants: among the first events where a conversion lets others in between.
	Regrants Op = "regrants"
	// Ordered: among the first events where waiters get a name in order of arrival.
	Ordered Op = "ordered"
	// Several: among the first events where a store is made of stores.
	Several Op = "several"
	// Broken: the worker or the court saw something itself; Err begins with
	// the invariant.
	Broken Op = "broken"
)

// Event is a line of a history. Times are nanoseconds of the clock that counts
// from the start of the machine, which all its processes share.
type Event struct {
	Op     Op     `json:"op"`
	Worker int    `json:"w"`
	Life   int    `json:"life,omitempty"` // how often the worker's process was started before
	Call   int64  `json:"call,omitempty"` // when it was begun
	At     int64  `json:"at"`             // when it was known
	Name   string `json:"name,omitempty"`
	Hold   int64  `json:"hold,omitempty"`
	Other  int64  `json:"other,omitempty"`
	Shared bool   `json:"shared,omitempty"`
	Fence  uint64 `json:"fence,omitempty"`
	TTL    int64  `json:"ttl,omitempty"`
	Until  int64  `json:"until,omitempty"` // the end of the window that the holder claims
	Fixed  bool   `json:"fixed,omitempty"` // nothing moves it, so Until is exact
	Keep   int64  `json:"keep,omitempty"`  // Acquired: HoldAtLeast; Released: the cool-down
	Waited bool   `json:"waited,omitempty"`
	Err    string `json:"err,omitempty"`
}

// forever is Until of a hold without a lease.
const forever = math.MaxInt64

var clock = driver.SystemClock()

// now is the machine's clock.
func now() int64 { return int64(clock.Now()) }

// claim is the end of the window that the holder of l may claim at present: 0
// if it is over.
func claim(l *padlock.Lock) int64 {
	at, rest := now(), l.Remaining()
	switch {
	case rest <= 0:
		return 0
	case rest > time.Duration(forever-at):
		return forever
	}
	return at + int64(rest)
}

// classes are in the order in which they are asked for.
var classes = []struct {
	err  error
	name string
}{
	{padlock.ErrUncertain, "uncertain"},
	{padlock.ErrHeld, "held"},
	{padlock.ErrLost, "lost"},
	{padlock.ErrExpired, "expired"},
	{padlock.ErrReleased, "released"},
	{padlock.ErrMaxHold, "max hold"},
	{padlock.ErrPromotionConflict, "conflict"},
	{padlock.ErrUnavailable, "unavailable"},
	{padlock.ErrClosed, "closed"},
	{errors.ErrUnsupported, "unsupported"},
	{context.Canceled, "cancelled"},
	{context.DeadlineExceeded, "timeout"},
}

// class is the kind of an error, "" for none.
func class(err error) string {
	if err == nil {
		return ""
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "other: " + err.Error()
}

// ReadHistory reads events from JSON lines, as a run leaves them behind.
func ReadHistory(r io.Reader) ([]Event, error) {
	var events []Event
	d := json.NewDecoder(bufio.NewReader(r))
	for {
		var e Event
		switch err := d.Decode(&e); {
		case errors.Is(err, io.EOF):
			return events, nil
		case err != nil:
			return events, err
		}
		events = append(events, e)
	}
}

// WriteHistory writes events as JSON lines.
func WriteHistory(w io.Writer, events []Event) error {
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	for i := range events {
		if err := enc.Encode(&events[i]); err != nil {
			return err
		}
	}
	return b.Flush()
}

// Only leaves the events of some names, the deaths of workers, and what the
// store is like.
func Only(events []Event, names []string) (out []Event) {
	for _, e := range events {
		if e.Op == Killed || e.Op == Regrants || e.Op == Ordered || e.Op == Several || e.Op == Voting || slices.Contains(names, e.Name) {
			out = append(out, e)
		}
	}
	return out
}
