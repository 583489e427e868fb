package driver

import (
	"fmt"
	"time"
)

// Guarantees are the promises of a store.
type Guarantees struct {
	Store string // "memory", "redis", …

	SurvivesRestart  Promise // holds and fences outlive a restart of the server or machine
	SurvivesFailover Promise // they are kept when a replica takes over; PromiseNo without replicas
	SafeClockJump    Promise // setting the store's clock never gives a name two holders
	SafeEviction     Promise // the store never drops a live hold to make room

	Bound    Bound
	Detached bool // Request.Detached is possible with Bound

	Fence       Fence
	SharedFence Promise // see Grant.Fence

	// LossDelay is how long, at most, a holder does not know that its hold has ended with what it
	// was bound to. 0 means until the end of its lease.
	LossDelay time.Duration

	// These narrow the limits, if not 0. MaxTTL does not limit cool-downs. Without leases, there is
	// neither MinTTL nor MaxTTL.
	MinTTL, MaxTTL    time.Duration
	MaxName, MaxLabel int

	Hashed bool // two names may share one lock; Places.Location tells which do

	// DeadWaiter is how long a waiter whose process died or was stopped may delay those behind it.
	// 0 means MaxReservation.
	DeadWaiter time.Duration

	Lease bool // a hold ends when its TTL is over

	// Observed says that there is no common clock: for another process, a lease ends when it has
	// seen no change for its length, so at most its TTL after that process first looked.
	Observed bool

	RefusedIsSpent bool // see Tokens

	SlotsAtOnce int // the greatest n of fast.SlotTaker, or 0
	Shared      bool
	Promotion   Promotion
	FIFO        bool     // all waiters get their turn in the order of arrival
	CoolDown    bool     // Release can begin a cool-down
	InProcess   bool     // the store lives in this process; it sets From in every Grant
	Lacks       Ability  // see Writing a store
	Notes       []string // conditions, one sentence each
}

// Promise says how far a store keeps a promise.
type Promise int

const (
	PromiseNo     Promise = iota // never
	PromisePartly                // under the conditions in Notes
	PromiseYes                   // always
)

// Bound says what ends a hold.
type Bound int

const (
	BoundToNothing    Bound = iota // only its lease or Release
	BoundToConnection              // also the end of a connection or session
	BoundToProcess                 // also the end of the process, or of the last one that shares its file
)

// Fence says how long fences keep growing.
type Fence int

const (
	FenceNone    Fence = iota // Grant.Fence is 0
	FenceSession              // they grow while the server, or this process, lives

	// FenceDurable means that each fence is the time in microseconds since 1970, or the last fence
	// plus one if that is greater. So fences grow even if a restart has lost the data, unless the
	// clock was set back too.
	FenceDurable
)

// Promotion says how a shared hold becomes exclusive.
type Promotion int

const (
	PromotionNone    Promotion = iota // Convert to exclusive returns errors.ErrUnsupported
	PromotionRegrant                  // the shared hold ends first; another holder may get the name
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
