package driver

import (
	"fmt"
	"time"
)

// Guarantees is what a store promises, as it is configured. The author of the store writes it down;
// the documentation and `padlock stores` print it, and drivertest checks each field from both
// sides. The zero value promises nothing.
type Guarantees struct {
	// Store is what the store is called: "memory", "redis", …
	Store string

	// SurvivesRestart says whether holds and fences are kept when the server (for files: the
	// machine) restarts.
	SurvivesRestart Promise

	// SurvivesFailover says the same for a replica that takes over. It is No if there is none.
	SurvivesFailover Promise

	// SafeClockJump says that setting the clock by which the store measures leases never leads to
	// two holders.
	SafeClockJump Promise

	// SafeEviction says that the store never drops a live hold to make room.
	SafeEviction Promise

	// Bound says what a hold ends with, besides its lease.
	Bound Bound

	// Fence says what fences are worth.
	Fence Fence

	// SharedFence says that readers that hold together have one fence, so that a guard that checks
	// fences refuses none of them.
	SharedFence Promise

	// LossDelay is how late a holder may learn that its Bound ended; 0 if the lease tells in time.
	LossDelay time.Duration

	// MinTTL and MaxTTL are the shortest and the longest lease, where they are narrower than
	// driver.MinTTL and driver.MaxTTL; 0 if those apply. Both are 0 if there are no leases.
	MinTTL, MaxTTL time.Duration

	// MaxName is the length of the longest name in bytes, if it is shorter than driver.MaxName; 0
	// if that applies.
	MaxName int

	// DeadWaiter is how long a waiter whose process died or was stopped may delay those behind it
	// in the queue; 0 means MaxReservation.
	DeadWaiter time.Duration

	// Lease says that holds end by themselves after their TTL.
	Lease bool

	// Shared says that there are shared holds.
	Shared bool

	// Promotion says how a shared hold becomes exclusive.
	Promotion Promotion

	// FIFO says that waiters get their turn in the order in which they came, across all processes.
	FIFO bool

	// CoolDown says that the store keeps a name free after Release(keep), and that it has
	// Request.AtLeast.
	CoolDown bool

	// InProcess says that the store lives in this process. Every Grant has From, and the holds that
	// Wait hands over have their full lease and need no claim.
	InProcess bool

	// Notes are conditions and exceptions, one sentence each.
	Notes []string
}

// Promise is how far a promise of Guarantees holds.
type Promise int

const (
	// No means that it may happen; only a checked fence helps.
	No Promise = iota
	// Partly means that the promise holds under the conditions in Notes.
	Partly
	// Yes means always.
	Yes
)

// Bound is what a hold cannot outlive.
type Bound int

const (
	// ToNothing means that the hold is data in the store and ends with its lease or Release.
	ToNothing Bound = iota
	// ToConnection means that the hold ends with a connection or session.
	ToConnection
	// ToProcess means that the hold ends with the process, or with the last process that has its
	// file open.
	ToProcess
)

// Fence is how far fences grow.
type Fence int

const (
	// NoFence means that Grant.Fence is 0.
	NoFence Fence = iota
	// SessionFence means that fences grow as long as the server, or this process, lives.
	SessionFence
	// DurableFence means that fences grow for ever: across restarts that lost data, unless the
	// clock was set back too, and across a move to another store. They are microseconds since 1970,
	// or one more than the last fence.
	DurableFence
)

// Promotion is how a shared hold becomes exclusive.
type Promotion int

const (
	// NoPromotion means that Convert to exclusive returns errors.ErrUnsupported.
	NoPromotion Promotion = iota
	// Regrant means that the shared hold ends and an exclusive one begins. Another holder may come
	// between, and the new fence shows it.
	Regrant
	// Atomic means that nobody comes between.
	Atomic
)

// String returns "no", "partly" or "yes".
func (p Promise) String() string { return word("Promise", int(p), "no", "partly", "yes") }

// String returns "nothing", "connection" or "process".
func (b Bound) String() string { return word("Bound", int(b), "nothing", "connection", "process") }

// String returns "none", "per session" or "durable".
func (f Fence) String() string { return word("Fence", int(f), "none", "per session", "durable") }

// String returns "none", "re-grant" or "atomic".
func (p Promotion) String() string { return word("Promotion", int(p), "none", "re-grant", "atomic") }

// String returns "gone", "released", "expired", "taken" or "inherited".
func (o Outcome) String() string {
	return word("Outcome", int(o), "gone", "released", "expired", "taken", "inherited")
}

// word returns the name of the value i of a type. A value that only a later version knows has a
// name too.
func word(kind string, i int, names ...string) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, i)
	}
	return names[i]
}
