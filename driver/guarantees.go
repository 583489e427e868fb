package driver

import (
	"fmt"
	"time"
)

// Guarantees is what a store promises, as it is configured. It is written
// down, not measured: the documentation and `padlock stores` print it, and
// drivertest checks each field from both sides.
type Guarantees struct {
	Store string // "memory", "redis", …: what the store is called

	SurvivesRestart  Promise       // holds and fences are kept when the server (the machine, for files) restarts
	SurvivesFailover Promise       // … when a replica takes over; No also where there is none
	SafeClockJump    Promise       // two holders cannot come from the judging clock being set
	SafeEviction     Promise       // the store never drops a live hold to make room
	Bound            Bound         // what a hold ends with, beside its lease
	Fence            Fence         // what fences are worth
	SharedFence      Promise       // readers that hold together have one fence, so a guard that checks fences refuses none of them
	LossDelay        time.Duration // how late a holder may learn that its Bound ended; 0 where the lease tells in time
	MinTTL, MaxTTL   time.Duration // narrower than driver.MinTTL and MaxTTL; 0 where those hold. Both 0 and Lease false: no leases
	MaxName          int           // longest name in bytes, below driver.MaxName; 0 where that holds
	DeadWaiter       time.Duration // how long a waiter whose process died or was stopped may delay those behind it; 0: MaxReservation
	Lease            bool          // holds end by themselves after their TTL
	Shared           bool
	Promotion        Promotion
	FIFO             bool // waiters get their turn in the order in which they came, over all processes
	CoolDown         bool // Release(keep) and AtLeast

	// InProcess: the store lives in this process. Every Grant has From, and
	// what Wait hands over has its full lease and needs no claim.
	InProcess bool

	Notes []string // conditions and exceptions, one sentence each
}

// Promise answers a question of the table of guarantees.
type Promise int

const (
	// No: it may happen; only a checked fence helps.
	No Promise = iota
	// Partly: under the conditions that Notes name.
	Partly
	// Yes: always.
	Yes
)

// Bound is what a hold cannot outlive.
type Bound int

const (
	// ToNothing: the hold is data in the store and ends with its lease or Release.
	ToNothing Bound = iota
	// ToConnection: it ends with a connection or session.
	ToConnection
	// ToProcess: it ends with the process, or the last that has its file open.
	ToProcess
)

// Fence is how far fences go up.
type Fence int

const (
	// NoFence: Grant.Fence is 0.
	NoFence Fence = iota
	// SessionFence: fences grow as long as the server, or this process, lives.
	SessionFence
	// DurableFence: fences grow for ever: over restarts that lost data, unless
	// the clock went back with them, and over a move to another store. They
	// are microseconds since 1970 or the last one plus one.
	DurableFence
)

// Promotion is how a shared hold becomes exclusive.
type Promotion int

const (
	// NoPromotion: errors.ErrUnsupported.
	NoPromotion Promotion = iota
	// Regrant: the shared hold ends and an exclusive one begins; another
	// holder may come between, and the new fence tells.
	Regrant
	// Atomic: nobody comes between.
	Atomic
)

// String is "no", "partly" or "yes".
func (p Promise) String() string { return word("Promise", int(p), "no", "partly", "yes") }

// String is "nothing", "connection" or "process".
func (b Bound) String() string { return word("Bound", int(b), "nothing", "connection", "process") }

// String is "none", "per session" or "durable".
func (f Fence) String() string { return word("Fence", int(f), "none", "per session", "durable") }

// String is "none", "re-grant" or "atomic".
func (p Promotion) String() string { return word("Promotion", int(p), "none", "re-grant", "atomic") }

// String is "gone", "released", "expired", "taken" or "inherited".
func (o Outcome) String() string {
	return word("Outcome", int(o), "gone", "released", "expired", "taken", "inherited")
}

// word is the name of the value i of a type, also of one that a later version has.
func word(kind string, i int, names ...string) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, i)
	}
	return names[i]
}
