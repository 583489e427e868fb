package sampler

import (
	"time"

	"github.com/padlock-go/padlock"
)

// A Snapshot is what a Sampler knows at one moment. It is never changed after it was made, so any
// number of goroutines may read it. Callers must not change it either.
type Snapshot struct {
	Number uint64    // grows with each sample; 0 before the first one
	Store  string    // the kind of store: "redis", "file", …
	Place  string    // where the store is, without secrets; empty unless the option Place gives it
	Prefix string    // all names begin with it
	Begun  time.Time // when the first sample succeeded; zero before that
	Tried  time.Time // when the last sample ended
	Taken  time.Time // when the last successful sample ended; zero if none succeeded

	// Err is why the last sample failed, or nil. After a failure, the rows are those of the last
	// successful sample.
	Err error

	// Incomplete is nil if Names has all locks. Otherwise it is the reason why locks may be
	// missing. It is errors.ErrUnsupported if the store cannot list its names: then only the
	// watched names have rows.
	Incomplete error

	// Names has each name that is held, is in a cool-down, has waiters, or is watched. The names
	// that need attention come first. A name without a row is known to be free only if Err and
	// Incomplete are nil, and the name begins with Prefix.
	Names  []Name
	Groups []Group // sorted by name
	Ended  []Ended // the holds that ended last, the latest first

	Cost Cost
}

// Age returns how old the rows are, or -1 if there was no sample yet.
func (s *Snapshot) Age(now time.Time) time.Duration {
	if s.Taken.IsZero() {
		return -1
	}
	return max(0, now.Sub(s.Taken))
}

// State is whether a name is held.
type State string

// The states of a name.
const (
	Held    State = "held"
	Cooling State = "cooling" // nobody holds the name, but it stays taken for a while
	Free    State = "free"
	Unknown State = "unknown" // the store cannot tell; Holds are those that were seen last
)

// Name is a name with its slots.
type Name struct {
	Name  string // empty if the store does not know it; then Path identifies the lock
	Path  string // the lock file, for stores on a file system; for slots see Hold.Path
	Group string
	State State
	Why   string    // why State is Unknown
	Seen  time.Time // when the store reported the state

	Holds []Hold
	Fence uint64 // the highest fence of the lock itself, not of its slots; 0 if unknown

	// Slots is the number of slots that Look was asked for, and 0 in other rows. Unlisted is why
	// there may be more slots than those in Holds; only LookAll sets it.
	Slots    int
	Unlisted error

	Waiters     int // how many wait for the lock or for a slot; -1 if unknown
	SlotWaiters int // of these, how many wait for a slot

	WaitSince time.Time     // when the queue was first seen; zero if nobody waits
	Waiting   time.Duration // the sum of all waiting times since WaitSince; -1 if unknown
	WaitTime  time.Duration // the sum of all waiting times since Snapshot.Begun

	Asked *padlock.Question // what the holder is asked; nil if nobody asks it to finish early

	Stuck []Reason // why the name needs attention; empty if it does not

	// Slowness compares the slowest hold with the usual or the planned time of a hold. For example,
	// 2 means that it has lasted twice as long. Slowness is 0 if unknown.
	Slowness float64

	Figures         // of this name
	Usual   Times   // how long holds of this name lasted
	Ended   []Ended // the last few holds of this name that ended, the latest first
}

// Reason tells why a name needs attention.
type Reason string

// The reasons.
const (
	NotRenewed Reason = "not renewed" // the holder did not renew its lease in time
	PastEnd    Reason = "past end"    // held past its planned end
	Long       Reason = "long"        // held for more than 3 times the 95th percentile of its hold times
)

// Hold is one hold, or a cool-down.
type Hold struct {
	Name  string // the name for Locker.Inspect and Locker.Break; for a slot, the name of the slot
	Slot  int    // -1 if it is no slot
	Fence uint64 // the fence to give to Locker.Break; 0 if unknown
	Path  string // the lock file, for stores on a file system

	padlock.Hold // Since is the earliest that any sample showed

	FirstSeen time.Time
	Held      time.Duration // how long the hold had lasted at the time of the sample
	AtLeast   bool          // Held is a lower bound, counted from FirstSeen

	Renewals int // renewals that were seen
	Missed   int // how many renewals are late
}

// Figures are counts since Snapshot.Begun. All are lower bounds, because nothing is seen between
// two samples.
type Figures struct {
	Grants  uint64 // holds that began
	Missed  uint64 // renewals that did not come in time
	Expired uint64 // holds whose lease ran out: the holder left without a release
}

// Group has the figures of a group of names.
type Group struct {
	Group    string
	Names    int           // names with a row
	Holds    int           // holds, without cool-downs
	Waiters  int           // the sum of those that are known
	Stuck    int           // names that need attention
	WaitTime time.Duration // waiters × time since Snapshot.Begun
	Figures
	Usual Times
}

// Times describes how long holds lasted. The percentiles are upper bounds: each is too high by a
// fifth at most.
type Times struct {
	Count         uint64
	P50, P95, P99 time.Duration // 0 if Count is 0
	Max           time.Duration
}

// How tells how a hold ended.
type How string

// The ways in which a hold can end.
const (
	Released How = "released" // it ended before its lease did: it was released, or broken
	Expired  How = "expired"  // its lease ran out
	Vanished How = "unknown"  // it has no lease, or the samples were too far apart to tell
)

// Ended is a hold that is over.
type Ended struct {
	Name  string // without slot
	Slot  int    // -1 if it was no slot
	Host  string
	PID   int
	Label string
	Fence uint64

	Shared, Foreign bool

	Since time.Time     // zero if unknown
	End   time.Time     // wrong by half the time between two samples at most
	Held  time.Duration // -1 if unknown, as if nobody looked for longer than a fifth of it
	How   How
}

// Cost is what a Sampler costs the store.
type Cost struct {
	Interval time.Duration // from the beginning of one sample to that of the next
	Took     time.Duration // how long the last sample took
	Names    int           // names that the last sample read
	Calls    int           // calls of List and Inspect in the last sample

	// Requests estimates how many requests the sampler sends in a second. It counts one request for
	// each call of List or Inspect, and one for each name. A store in a database needs fewer. Redis
	// needs one more for each thousand keys that it has, those of other programs too. If a store reads
	// name by name, names that are free count too.
	Requests float64
}
