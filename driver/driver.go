// Package driver is the contract between padlock and a store. Programs that take locks use package
// padlock; this page is for authors of stores.
//
// A store keeps, for each name, who holds it and until when. It makes one try at a time and returns
// at once. It does not wait for a turn, renew leases, watch deadlines, retry, log, or clean up
// after a caller that went away. Package padlock, which this page calls the caller, does all of
// that once for every store.
//
// # Writing a store
//
// Implement the five methods of [Store]. Each begins with a check of its arguments:
// [Request.Validate] in Acquire; [CheckHold] and then [CheckTTL] or [CheckKeep] in Extend and
// Release. Write down in [Guarantees] what the store promises.
//
// Test the store with package drivertest. It checks each sentence of this page, as far as it
// applies to the Guarantees, and prints the sentence that a store breaks. The example of that
// package is a whole store in 150 lines, with its test: begin with a copy.
//
// Then add optional interfaces as the store can support them. The caller finds them with [As]:
//
//   - [Waiter]: a waiter is woken. Without it the caller polls.
//   - [Inspector], [Lister], [Breaker]: people can see who holds a name, and end a hold.
//   - [Converter]: a shared hold becomes exclusive, and back.
//   - [FenceRaiser]: the store can be a member of a quorum with fences, and locks can be passed on
//     inside a process without a request.
//   - [Passer]: a lock is passed on inside a process with one request instead of several.
//   - [Enqueuer]: for a store in the memory of the process.
//   - [Identifier], [SamePlacer]: a key at the wrong store, and a store that is named twice in a
//     quorum, are recognised.
//   - [Reporter]: people can see what the server is and what is wrong with its settings.
//   - [FileSharer]: a child process can share a hold.
//
// # Names
//
// A name is 1 to [MaxName] bytes of any kind, including zero bytes, spaces and slashes. A store
// that takes only shorter names says so in Guarantees.MaxName. A name is never normalised or cut,
// and two names never share a lock.
//
// # Tokens
//
// A token is an opaque string of 1 to [MaxToken] bytes that stands for one hold. It is a secret and
// never appears in an error, a log or a String method. Every method checks it with [CheckToken] and
// returns ErrInvalid for a token that no hold can have.
//
// A token is good for one hold, and then it is spent. It is spent when Acquire returned a
// *HeldError for it, when Wait returned the zero Grant or an error for it, when Release was called
// with it, and when [Passer.Pass] did what one of these does. The caller never sends a spent token
// to Acquire, Wait or Convert again. It repeats only an Acquire whose outcome is unknown with the
// same token, unless the error was [ErrSpent].
//
// A store made of stores may send a token again to a member where it has not released it. So a
// store may remember for a while a token for which Release found nothing, and return ErrLost to an
// Acquire with that token which was delayed and arrives later.
//
// # Errors
//
// A store returns errors as they are, or wraps them where that helps. [errors.Is] finds in each an
// error of this package, [errors.ErrUnsupported], or the client's error.
//
//   - A request whose reply was lost is [ErrUncertain] and never a [*HeldError]: "cannot know" does
//     not become "no".
//   - A store that could not be reached is [ErrUnavailable], which also says that nothing was
//     changed.
//   - If ctx ends first, errors.Is finds its error, joined with ErrUncertain if the request may
//     have been sent.
//   - A value outside the range in the Guarantees is [ErrInvalid], which names the parameter. Then
//     nothing was sent.
//
// A store that has no memory or disk space for new holds refuses them with ErrUnavailable. It still
// extends, verifies, demotes and releases the holds that it has: a full server must not end
// everybody's locks.
//
// # Concurrency and time
//
// A store is safe for concurrent use. Two stores that are opened on the same place see the same
// locks: they stand for two processes.
//
// Every method except Wait returns within [MaxSilence] if the server is silent, even if ctx never
// ends, so the caller needs no timer for each call. A store measures leases by its server's clock
// if there is one, else by the [Clock] that an option gives it; never by two clocks at once.
package driver

import (
	"context"
	"time"
)

// Store is a place where locks are kept.
type Store interface {
	// Acquire makes one try to take r.Name for r.Token. It never queues.
	//
	// Acquire is idempotent for each token: while the token's hold is live, the same request again
	// returns the same fence and a full lease from the second request, in the mode that was asked
	// for the first time. So a caller whose reply was lost may simply ask again. (A store whose
	// holds are bound to a connection repeats within its process only. While a connection that this
	// token's own try left behind may still hold the name, it returns ErrUncertain.) If the hold
	// has ended by time, the same request is a new try, and its grant has a new fence.
	//
	// If others hold the name, or wait for it ahead of this caller in a store that queues, or the
	// name cools down, Acquire returns a *HeldError. It says who is in the way, since when and
	// until when, as far as the store knows. A reservation that [Waiter.Wait] handed over is
	// claimed with the token that waited.
	//
	// A shared request is granted only together with other shared holds. A store without shared
	// mode returns errors.ErrUnsupported, and never silently grants an exclusive hold.
	//
	// A store made of stores decides for itself. A try that it gives up is no grant, whatever
	// single members did. It releases what they granted, on a context of its own that Close waits
	// for. Then the error is ErrSpent, together with ErrUncertain, or with ErrUnavailable if
	// another try is worth it.
	Acquire(ctx context.Context, r Request) (Grant, error)

	// Extend makes the lease of a live hold last at least ttl from now. It never shortens a lease
	// and never revives one that has run out. For a lease that has run out it returns ErrExpired if
	// it can tell that nobody took the name since, else ErrLost. With ttl 0 Extend changes nothing
	// and only verifies the hold. The Grant's fence is that of the hold, or 0 if the store did not
	// look.
	Extend(ctx context.Context, name, token string, ttl time.Duration) (Grant, error)

	// Release ends the hold, the reservation or the place in the queue of token, and never anybody
	// else's. With keep > 0 the name stays taken for that long (a cool-down), as it does for the
	// rest of Request.AtLeast. The cool-down that a shared hold leaves keeps exclusive requests
	// out; it may let shared ones in.
	//
	// Release is idempotent and reports what it found, see [Outcome]. A token that is wrong or
	// whose lease ran out is an Outcome, not an error.
	Release(ctx context.Context, name, token string, keep time.Duration) (Outcome, error)

	// Guarantees returns what this store promises as it is configured. It is constant for the life
	// of the store and sends nothing.
	Guarantees() Guarantees

	// Close gives back connections and files, makes waits return, and waits for clean-ups that the
	// store itself began. Holds that are not bound to the process stay until their leases end.
	// After Close every method returns ErrClosed. A second Close does nothing.
	Close() error
}

// Request is what the caller asks of Acquire, Wait and Convert.
type Request struct {
	Name   string
	Token  string        // of the hold that is asked for; never empty
	Shared bool          // together with other shared holds
	TTL    time.Duration // length of the lease; a store without leases checks and ignores it

	// AtLeast, if longer than TTL, is the length of the first lease. Extend never ends the hold
	// before it, and a Release before it leaves a cool-down for the rest. So the name stays taken
	// even if the holder dies. A repeat of Acquire sets AtLeast from the second request on, even if
	// the first request did not have it, and never shortens it.
	AtLeast time.Duration

	// Replaces asks for a hand-over. If Token is live, the request is a repeat. Else, if Replaces
	// is a live hold, Token takes it over in the same mode with a new fence, and Replaces is lost.
	// Else the error is ErrLost; it is never a fresh grant. The rest of AtLeast goes over too. A
	// store whose holds are bound to a process or connection returns errors.ErrUnsupported; every
	// other store can do it.
	Replaces string

	// FenceAbove, if not 0, makes the fence of a new grant, and of every later one, greater than
	// it. A repeat keeps its fence. MaxFenceAbove is the greatest value.
	FenceAbove uint64

	// Spent lists tokens that the same caller spent for the same name, at most MaxSpent, the latest
	// last. Only a store made of stores looks at it: what such a token left at a member is in the
	// way for a short time only, and no reason to report that somebody holds the name.
	Spent []string

	Holder Holder // the caller, as others see it who find the name held
}

// Grant is a hold, or the zero Grant of [Waiter.Wait], which is none.
type Grant struct {
	// Fence orders the grants of one name: see [Guarantees.Fence]. An exclusive grant has a greater
	// fence than every grant before it. A shared grant has a greater fence than every exclusive one
	// before it, even one whose lease ran out: a writer that has not noticed the end of its lease
	// must not have the fence of the readers that follow.
	//
	// Readers that hold together have one fence if Guarantees.SharedFence says so: a reader that
	// joins others gets their fence, and a demoted hold counts as a reader. Only FenceAbove and
	// Replaces ask for a greater fence.
	//
	// A fence is below 2^53, so that JSON, Lua and floating point keep it exactly. It is 0 if the
	// store has none. After the last fence below MaxFence, everything that needs a new fence (a
	// grant, a promotion, a hand-over, Break) fails with ErrFencesUsedUp. A request for one name
	// raises the fences of no other name.
	Fence uint64

	// From is the instant from which TTL counts, on the clock given to the store. If it is zero,
	// TTL counts from before the request was sent, which the caller knows best.
	From Instant

	// TTL is the time left at From. It is 0 if the hold has no lease and lasts until Release or
	// until Bound ends; the caller does not renew such a hold.
	TTL time.Duration

	// Shared reports, in the result of Extend, and of Acquire with Replaces, that the hold is
	// shared as it stands. A store that cannot tell leaves it false, so false says nothing.
	Shared bool

	// Bound, if not nil, ends with the hold. All holds of one connection or session share it, and
	// the store cancels it, with a cause, when the connection ends. The store watches for that
	// itself, and cancels Bound within Guarantees.LossDelay even if its peer is silent. From then
	// on every method but Release returns ErrLost for the token.
	Bound context.Context
}

// Outcome is what Release found.
type Outcome int

const (
	// Gone means that the token holds nothing and the store cannot tell why. A second Release of a
	// hold returns Gone too, even if it repeats a Release whose outcome was uncertain. A store that
	// shares its names with other programs returns Gone, and ErrLost, where it cannot know that
	// nobody else came.
	Gone Outcome = iota
	// Released means that a live hold, reservation or place in the queue was ended.
	Released
	// Expired means that the lease had run out and nobody took the name since.
	Expired
	// Taken means that the lease had run out, or was broken, and somebody else took the name.
	Taken
	// Inherited means that this process holds the name no longer, but a child process that was
	// given the hold's file still does: see [FileSharer].
	Inherited
)

// Holder describes a caller to others who find the name held. It proves nothing.
type Holder struct {
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid,omitempty"`
	Label string `json:"label,omitempty"` // at most MaxLabel bytes, free text

	// Plan is how long the holder means to keep the name, counted from the grant. 0 means that it
	// has no plan and renews until it is done.
	Plan time.Duration `json:"plan,omitempty"`
}

// Hold is one hold as others see it.
type Hold struct {
	Holder
	Shared  bool
	Foreign bool // not taken by padlock: host, label and plan are not known
	Cooling bool // a cool-down: nobody holds the name, it is kept free until Until; Holder had it before, if known

	// Since, Until and PlannedEnd are on this process's clock; zero if unknown. Until is the end of
	// the lease as it stands, which a renewal moves. PlannedEnd is zero if the holder has no plan.
	Since, Until, PlannedEnd time.Time
}

// State is a name as [Inspector] and [Lister] saw it. It may be old when it arrives: it is
// information, not a lock.
type State struct {
	Name    string
	Holds   []Hold // live ones; a cool-down is a Hold with Cooling set
	Fence   uint64 // the highest minted, even if the name is free now; 0 if unknown
	Waiters int    // in the store's queue; -1 if the store has none or cannot know
	Path    string // of the file, for stores on a file system
}
