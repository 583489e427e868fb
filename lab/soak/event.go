package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/newest"
)

// Op is the kind of an Event.
type Op string

const (
	// Acquired is a grant.
	Acquired Op = "acquired"
	// Adopted is the grant of a hold that replaces another hold; see Event.Other.
	Adopted Op = "adopted"
	// Refused is an acquire that failed. Err is the class of its error.
	Refused Op = "refused"
	// Verified is a call of Check or Extend.
	Verified Op = "verified"
	// Promoted is a conversion. Err is empty if it succeeded.
	Promoted Op = "promoted"
	// Demoted is the other conversion.
	Demoted Op = "demoted"
	// Exported: the holder stopped working and offered its key.
	Exported Op = "exported"
	// Released: Release was called.
	Released Op = "released"
	// Evicted: Break was called on the hold.
	Evicted Op = "evicted"
	// Asked is logged just before a call of Acquire, TryAcquire or Adopt. After the call, a second
	// event with the same time Call is logged: Acquired, Adopted or Refused. If the worker is
	// killed during the call, there is no second event.
	Asked Op = "asked"
	// Begun is logged just before a call of Release, Demote or Break. After the call, a second
	// event is logged: Released, Demoted or Evicted. Err contains the Op of the second event. If
	// the worker is killed during the call, there is no second event.
	Begun Op = "begun"
	// Lost: the hold's context ended although nobody released the hold.
	Lost Op = "lost"
	// Stalled: the process did not run between Call and At.
	Stalled Op = "stalled"
	// Killed: the engine killed the worker.
	Killed Op = "killed"
	// Faulted is a fault that lasted from Call to At. The field Err contains the kind of the fault.
	Faulted Op = "fault"
	// Started is the beginning of a worker's process. The field Fence contains the number of open
	// descriptors, and Until contains the number of goroutines.
	Started Op = "started"
	// Led says that a candidate of an election was the leader, at least by its own clock. The field
	// Call is the beginning of that time, and At is the end. The events of one leadership have the
	// same Hold. If Err is "confirmed", the store has confirmed that the candidate was the leader.
	Led Op = "led"
	// Other is logged when a worker starts with a different program, for example an older version
	// of padlock. Usually, workers and the engine run the same program.
	Other Op = "other program"
	// Promised is logged at the beginning, with Event.Promises.
	Promised Op = "promised"
	// Resting is logged when a worker only waits for one name; see Run.rest.
	Resting Op = "resting"
	// Questioning is logged just before a call of Locker.Ask. Other is the number of the question.
	Questioning Op = "questioning"
	// Questioned is the end of that call. Other and Fence are those of the question that the store
	// has now, which may be an earlier one.
	Questioned Op = "questioned"
	// Looks: the holder looks for questions from now on.
	Looks Op = "looks"
	// Told: the holder has learned of the question with the number Other and the fence Fence.
	Told Op = "told"
	// Arrived: a caller of package newest has the number Fence. Other is the caller, also in Asked,
	// Acquired and Refused.
	Arrived Op = "arrived"
	// Entered: a caller of package newest has got the lock, perhaps only to give it up.
	Entered Op = "entered"
	// Broken: the worker or the monitor noticed a violation. The text in Err begins with the number
	// of the invariant, for example "I8".
	Broken Op = "broken"
)

// Event is one line of a history. Times are nanoseconds since the machine started, by a clock that
// all processes share.
type Event struct {
	Op     Op     `json:"op"`
	Worker int    `json:"w"`
	Life   int    `json:"life,omitempty"` // how many times the worker's process was restarted before this event
	Call   int64  `json:"call,omitempty"` // when the call began
	At     int64  `json:"at"`             // when the result was known
	Name   string `json:"name,omitempty"`
	Hold   int64  `json:"hold,omitempty"`
	Other  int64  `json:"other,omitempty"`
	Shared bool   `json:"shared,omitempty"`
	Fence  uint64 `json:"fence,omitempty"`
	TTL    int64  `json:"ttl,omitempty"`
	Until  int64  `json:"until,omitempty"` // until when the holder believes that it may rely on the lock
	Fixed  bool   `json:"fixed,omitempty"` // nothing renews the hold, so Until is exact
	Keep   int64  `json:"keep,omitempty"`  // for Acquired: HoldAtLeast; for Released: the cool-down
	Waited bool   `json:"waited,omitempty"`
	Slots  int    `json:"slots,omitempty"`  // how many permits the name has; 0 for a lock without slots
	Weight int    `json:"weight,omitempty"` // how many of them the call takes with Weight; 0 for a call without it
	Tried  bool   `json:"tried,omitempty"`  // a call for a path or for permits of weights did not wait
	Err    string `json:"err,omitempty"`

	Promises *Promises `json:"promises,omitempty"` // for Promised
}

// Promises are the properties of a store on which the checks depend.
type Promises struct {
	Voting   bool // a majority of several servers decides
	Several  bool // the store is made of other stores
	Regrants bool // another holder may get the lock during a conversion
	Ordered  bool // waiters get a name in order of arrival
	// LearnsLate is the longest time from the end of a hold until its holder knows of it, for example
	// because the hold ended with a connection. It is 0 if holders know the end in advance.
	LearnsLate int64
	// NoticesLate is how long a client that died may keep a name, if that is longer than the grace
	// of a fault: the store notices the death late, or has long leases.
	NoticesLate int64
	// Observes is the longest lease, if each process counts a lease from when it first saw the hold.
	// The hold of a killed process then ends at another time for each of the others.
	Observes int64
	// Coarse is by how much a lease may last longer than requested, if the store rounds leases to
	// whole seconds.
	Coarse int64
	// Back is how soon after a fault the store grants again, if that is later than usual.
	Back int64
}

// PromisesOf returns the promises with which a history begins.
func PromisesOf(events []Event) Promises {
	for _, e := range events {
		if e.Promises != nil {
			return *e.Promises
		}
	}
	return Promises{}
}

// forever is the value of Until for a hold without a lease.
const forever = math.MaxInt64

var clock = driver.SystemClock()

// clockNow returns the time of the machine's clock.
func clockNow() int64 { return int64(clock.Now()) }

// claim returns the time at which the holder of l must stop relying on the lock. If that time has
// passed, it returns 0.
func claim(l interface{ Remaining() time.Duration }) int64 {
	at, rest := clockNow(), l.Remaining()
	switch {
	case rest <= 0:
		return 0
	case rest > time.Duration(forever-at):
		return forever
	}
	return at + int64(rest)
}

// classes are the classes of errors. An error belongs to the first one that matches.
var classes = []struct {
	err  error
	name string
}{
	{newest.ErrSuperseded, superseded},
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

// superseded is the class of newest.ErrSuperseded.
const superseded = "superseded"

// class returns the class of an error, or "" for nil.
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

// ReadHistory reads the events of a run from JSON lines.
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
