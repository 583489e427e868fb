package driver

import (
	"fmt"
	"time"
)

// Guarantees are the promises of a store with its configuration. The author of the store states
// them, and the documentation and `padlock stores` print them. Package drivertest tests most of
// them. The zero value promises nothing.
type Guarantees struct {
	// Store is the name of the kind of store: "memory", "redis", …
	Store string

	// SurvivesRestart says whether holds and fences are kept when the server (for files: the
	// machine) restarts.
	SurvivesRestart Promise

	// SurvivesFailover says whether holds and fences are kept when a replica takes over from a
	// server that has failed. It is No for a server without replicas.
	SurvivesFailover Promise

	// SafeClockJump says that a name never gets two holders when somebody sets the store's clock.
	// That is the clock by which the store measures leases.
	SafeClockJump Promise

	// SafeEviction says that the store never drops a live hold to make room.
	SafeEviction Promise

	// Bound says whether the end of a connection or process also ends its holds, before their
	// leases end.
	Bound Bound

	// Detached matters only for a store that binds its holds to a connection or a process. It says
	// that such a store supports Request.Detached.
	Detached bool

	// Fence says how long fences keep growing.
	Fence Fence

	// SharedFence says that readers that hold the name together have one fence. So a guard that
	// checks fences refuses none of them.
	SharedFence Promise

	// LossDelay is for holds that end with a connection or a process. It is the longest time until
	// the holder learns that such a hold has ended. If LossDelay is 0, the holder learns this by
	// the end of its lease.
	LossDelay time.Duration

	// MinTTL and MaxTTL are the shortest and the longest lease, if this range is narrower than
	// driver.MinTTL to driver.MaxTTL. 0 means that driver's limit applies. Both are 0 if there are
	// no leases. MaxTTL does not limit cool-downs and Request.AtLeast.
	MinTTL, MaxTTL time.Duration

	// MaxName is the length of the longest name in bytes, if it is shorter than driver.MaxName. 0
	// means that driver.MaxName applies.
	MaxName int

	// Hashed says that two names may share one lock, for example because the store keeps only a
	// hash of 32 bits of a name. Places.Location tells which names do.
	Hashed bool

	// DeadWaiter is how long a waiter whose process died or was stopped may delay the waiters
	// behind it in the queue. 0 means MaxReservation.
	DeadWaiter time.Duration

	// Lease says that a hold ends by itself when its TTL is over.
	Lease bool

	// Observed says that there is no common clock: a process calls the lease of another process
	// ended when it has seen no change for the length of that lease. So a hold that nobody extends
	// may last for its TTL after another process has looked at the name for the first time.
	Observed bool

	// SlotsAtOnce is the greatest n that SlotTaker.AcquireSlot takes. 0 means MaxSlots.
	SlotsAtOnce int

	// Shared says that there are shared holds.
	Shared bool

	// Promotion says how a shared hold becomes exclusive.
	Promotion Promotion

	// FIFO says that waiters get their turn in the order in which they came, across all processes.
	FIFO bool

	// CoolDown says that the store has cool-downs: after a Release with keep > 0, the name stays
	// taken for that long. Such a store also supports Request.AtLeast.
	CoolDown bool

	// InProcess says that the store lives in this process. Such a store sets the field From in
	// every Grant. The holds that Wait hands over have their full lease and need no claim.
	InProcess bool

	// Lacks are the optional interfaces, and parts of them, that the store implements but cannot
	// serve with its configuration, its server or its members. Interfaces that the store does not
	// implement need not be in the set.
	Lacks Ability

	// Notes are conditions and exceptions, one sentence each.
	Notes []string
}

// Promise says how far a store keeps a promise.
type Promise int

const (
	// No means that the promise is not kept. Then a resource is safe only if it checks fences.
	No Promise = iota
	// Partly means that the promise holds under the conditions in Notes.
	Partly
	// Yes means that the promise always holds.
	Yes
)

// Bound says whether a hold ends when a connection or a process ends.
type Bound int

const (
	// ToNothing means that the hold is data in the store and ends with its lease or Release.
	ToNothing Bound = iota
	// ToConnection means that the hold ends with a connection or session.
	ToConnection
	// ToProcess means that the hold ends with the process. If several processes share the open file
	// of a hold, the hold ends with the last of these processes.
	ToProcess
)

// Fence says how long the fences of a store keep growing.
type Fence int

const (
	// NoFence means that Grant.Fence is 0.
	NoFence Fence = iota
	// SessionFence means that fences grow while the server, or this process, lives.
	SessionFence
	// DurableFence means that fences grow for ever. Each fence is the present time in microseconds
	// since 1970, or the last fence plus one if that is greater. So fences grow even if the locks
	// move to another store or a restart has lost the data, unless the clock was set back too.
	DurableFence
)

// Promotion says how a shared hold becomes exclusive.
type Promotion int

const (
	// NoPromotion means that a shared hold cannot become exclusive. Convert to exclusive returns
	// errors.ErrUnsupported.
	NoPromotion Promotion = iota
	// Regrant means that the shared hold ends and an exclusive one begins. Another holder may have
	// the name between the two. The new fence shows this.
	Regrant
	// Atomic means that the hold becomes exclusive in one step, so nobody else can have the name
	// during the promotion.
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

// word is for the String methods of integer types. It returns the name of the constant with the
// value i: the entry i of names. If there is no such entry, it returns the type and the number,
// such as "Promise(7)". A later version of a store may have more constants.
func word(kind string, i int, names ...string) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, i)
	}
	return names[i]
}
