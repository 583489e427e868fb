package driver

import (
	"fmt"
	"time"
)

// Guarantees are the promises of a store with its configuration.
type Guarantees struct {
	Store string // the kind of store: "memory", "redis", …

	SurvivesRestart  Promise // holds and fences outlive a restart of the server, or for files of the machine
	SurvivesFailover Promise // holds and fences are kept when a replica takes over; PromiseNo without replicas
	SafeClockJump    Promise // a name never gets two holders when somebody sets the store's clock
	SafeEviction     Promise // the store never drops a live hold to make room

	Bound    Bound
	Detached bool // a store with Bound supports Request.Detached

	Fence       Fence
	SharedFence Promise // readers that hold the name together have one fence

	// LossDelay is how long, at most, a holder does not know that its hold has ended with the
	// connection or process. 0 means until the end of its lease.
	LossDelay time.Duration

	// MinTTL and MaxTTL narrow the limits for leases, if not 0. Without leases, both are 0. MaxTTL
	// does not limit cool-downs.
	MinTTL, MaxTTL time.Duration

	MaxName, MaxLabel int // narrow the limits, if not 0

	Hashed bool // two names may share one lock; Places.Location tells which do

	// DeadWaiter is how long a waiter whose process died or was stopped may delay the waiters
	// behind it in the queue. 0 means MaxReservation.
	DeadWaiter time.Duration

	Lease bool // a hold ends by itself when its TTL is over

	// Observed says that there is no common clock: for another process, a lease ends when it has
	// seen no change for the length of that lease. So a hold that nobody extends may last for its
	// TTL after that process has first looked at the name.
	Observed bool

	RefusedIsSpent bool // see Tokens

	SlotsAtOnce int  // the greatest n of fast.SlotTaker; 0 means MaxSlots
	Shared      bool // there are shared holds
	Promotion   Promotion
	FIFO        bool     // the waiters of all processes get their turn in the order of arrival
	CoolDown    bool     // Release can begin a cool-down
	InProcess   bool     // the store lives in this process; it sets From in every Grant
	Lacks       Ability  // the abilities that the store cannot serve
	Notes       []string // conditions and exceptions, one sentence each
}

// Promise says how far a store keeps a promise.
type Promise int

const (
	PromiseNo     Promise = iota // not kept
	PromisePartly                // kept under the conditions in Notes
	PromiseYes                   // always kept
)

// Bound says what ends a hold.
type Bound int

const (
	BoundToNothing    Bound = iota // the hold ends with its lease or Release
	BoundToConnection              // it also ends with a connection or session
	BoundToProcess                 // it also ends with the process, or with the last of those that share its file
)

// Fence says how long the fences of a store keep growing.
type Fence int

const (
	FenceNone    Fence = iota // Grant.Fence is 0
	FenceSession              // fences grow while the server, or this process, lives

	// FenceDurable means that fences grow for ever, even if a restart has lost the data, unless
	// the clock was set back too. Each is the time in microseconds since 1970, or the last fence
	// plus one if that is greater.
	FenceDurable
)

// Promotion says how a shared hold becomes exclusive.
type Promotion int

const (
	PromotionNone    Promotion = iota // Convert to exclusive returns errors.ErrUnsupported
	PromotionRegrant                  // the shared hold ends first; another holder may get the name then
	PromotionAtomic                   // nobody else can get the name meanwhile
)

func (p Promise) String() string { return word("Promise", int(p), "no", "partly", "yes") }

func (b Bound) String() string { return word("Bound", int(b), "nothing", "connection", "process") }

func (f Fence) String() string { return word("Fence", int(f), "none", "per session", "durable") }

func (p Promotion) String() string { return word("Promotion", int(p), "none", "re-grant", "atomic") }

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
