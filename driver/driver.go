// Package driver is the contract between a store and package padlock, "the caller". It is for
// authors of stores. Other programs do not need it.
//
// For each name, a store keeps the holders and the ends of their leases. Each call makes one try
// and returns at once. The caller waits, renews, retries, logs, and cleans up.
//
// # Writing a store
//
// Implement the five methods of [Store] and test them with package drivertest. Its example is a
// whole store. Then add optional interfaces, which the caller finds with [As]:
//
//   - [Waiter]: the store wakes waiters. Without it the caller polls.
//   - [Admin]: people see who holds a name, and can end a hold.
//   - [Converter]: a shared hold becomes exclusive, or an exclusive hold shared.
//   - [FenceRaiser]: quorums with fences.
//   - [Places]: keys of another store, two names of one lock, and a member that a quorum has twice
//     are refused.
//   - [Reporter]: people see what is wrong with the server.
//
// Package fast has more of them, which no lock needs, and which may change.
//
// Guarantees.Lacks names the abilities that the store implements but cannot serve with its
// configuration, server or members. Their methods change nothing and return errors.ErrUnsupported.
//
// # Names
//
// A name is 1 to [MaxName] bytes of any kind, including zero bytes, spaces and slashes. It is never
// normalised or cut. Two names never share a lock, unless Guarantees.Hashed is set.
//
// # Tokens
//
// A token is an opaque string of 1 to [MaxToken] bytes that stands for one hold. It is a secret and
// never appears in an error, a log or a String method. It is spent when
//
//   - Wait returned the zero Grant or an error for it,
//   - Release was called with it, or
//   - Acquire returned a *HeldError for it, and Guarantees.RefusedIsSpent is true.
//
// The caller never sends a spent token to Acquire, Wait or Convert. A composite store is the caller
// of its members. If an Acquire arrives after a Release of its token that found nothing, the store
// may refuse it with ErrLost.
//
// If the outcome of an Acquire is unknown, the caller may repeat it with the same token, unless the
// error was [ErrSpent].
//
// # Errors
//
// In each error, which may be wrapped, [errors.Is] finds an error of this package,
// [errors.ErrUnsupported], or the client's error.
//
//   - A value is out of range: [ErrInvalid], which names the parameter. Every method begins with
//     [Request.Validate] or the Check functions, and sends nothing before.
//   - The reply was lost: [ErrUncertain], and never a [*HeldError].
//   - The store was not reached and nothing was changed, or there is no memory or disk space for a
//     new hold: [ErrUnavailable]. A full store still extends, verifies, demotes and releases, unless
//     its page says otherwise; then nothing changes.
//   - ctx ended before the reply: the error of ctx, joined with ErrUncertain if the request may
//     have been sent.
//
// # Concurrency and time
//
// A store is safe for concurrent use. Two stores of the same place see the same locks. If the
// server is silent, every method except Wait returns within [MaxSilence], even if ctx never ends.
//
// A store measures leases by the clock of its server, or if there is none, by a [Clock] that an
// option can set. It never compares times of two clocks.
package driver

import (
	"context"
	"time"
)

// Store is a place where locks are kept.
type Store interface {
	// Acquire makes one try to take r.Name for r.Token. It never queues.
	//
	// While the token has a live hold, Acquire is a repeat: the grant has the same fence, and a
	// full lease that counts from the repeat. It never shortens the lease. The hold keeps its mode.
	// If the token has a shared hold, a request that is not Shared gets a Grant that is, or
	// ErrInvalid. After the lease, and after a refusal, it is a new try, with a new fence. If holds
	// are bound to a connection, only the same process can repeat, and the error is ErrUncertain
	// while an earlier connection may hold the name for this token.
	//
	// The error is a *HeldError if others hold the name, if it cools down, or if others wait in the
	// store's queue ahead of this caller. The token then has nothing. A waiter's token claims its
	// reservation; see [Waiter].
	//
	// A shared request is granted only together with shared holds, and is errors.ErrUnsupported
	// without shared mode. A composite store may abandon a try with the error [ErrSpent], and
	// release it at its members in the background.
	Acquire(ctx context.Context, r Request) (Grant, error)

	// Extend makes the lease of a live hold last at least ttl from now. It never shortens a lease,
	// revives one that has run out, or fails because of another hold. If ttl is 0, it only verifies
	// the hold. If the lease has run out, the error is ErrExpired or ErrLost. Grant.Fence may be 0.
	//
	// A store that extends several holds with one request may send nothing, and return the result
	// of the last request. Then the lease counts from Grant.From, at most ttl/10 ago.
	//
	// A hold that nobody extends ends after its TTL, at most two fifths of it later, or as
	// Guarantees.Observed says.
	Extend(ctx context.Context, name, token string, ttl time.Duration) (Grant, error)

	// Release ends the hold, the reservation or the place in the queue of token, and changes
	// nothing for other tokens. If keep > 0, the name cools down: it stays taken for that long. In a
	// cool-down after a shared hold, the store may grant shared requests.
	//
	// If the store has no room for the cool-down, it changes nothing and returns ErrUnavailable. Or
	// it ends the hold all the same, and returns OutcomeReleased together with ErrUnavailable.
	//
	// Release may be repeated. A wrong token or a lease that has run out is no error.
	Release(ctx context.Context, name, token string, keep time.Duration) (Outcome, error)

	// Guarantees is constant for the life of the store, and sends nothing.
	Guarantees() Guarantees

	// Close closes connections and files, makes calls of Wait return, and waits for the clean-ups
	// that the store began. Holds that are not bound to the process stay. Afterwards every method
	// returns ErrClosed. A second Close does nothing.
	Close() error
}

// Request is the argument of Acquire, Wait and Convert.
type Request struct {
	Name   string
	Token  Token
	Shared bool          // the hold may exist together with other shared holds
	TTL    time.Duration // length of the lease; a store without leases only checks it

	// Replaces, if not empty, is the token of a hold that this request replaces. If Token has a
	// live hold, the request is a repeat. Otherwise the old hold ends, and Token gets a hold in the
	// same mode, with a new fence. If neither hold is live, the error is ErrLost, even if the name
	// is free. Only a store that binds its holds may return errors.ErrUnsupported, unless the
	// request is Detached.
	Replaces Token

	// Detached asks a store that binds its holds for a hold that is bound to nothing. It has a
	// lease and outlives the process. Every program that knows the token can extend, verify,
	// replace and release it; nobody can convert it. If the request is shared, or
	// Guarantees.Detached is false, the error is errors.ErrUnsupported. Other stores ignore
	// Detached.
	Detached bool

	// FenceAbove makes the fence of a new grant, and so every later one, greater than FenceAbove. A
	// repeat keeps the fence. A store of several members, which lacks AbilityStoreID, may raise it if
	// another process repeats.
	FenceAbove uint64

	// Spent lists tokens of the caller's earlier tries for this name, in order. They may still have
	// holds at members of a composite store, which does not report the name as held because of
	// them. Other stores ignore Spent.
	Spent []Token

	Holder Holder // the caller, as others see it
}

// Grant is a hold. The zero Grant is none.
type Grant struct {
	// Fence orders the grants of one name. An exclusive grant has a greater fence than every
	// earlier grant, and a shared grant a greater fence than every earlier exclusive grant. If
	// Guarantees.SharedFence is PromiseYes, a reader that joins readers gets their fence, unless
	// its request has FenceAbove or Replaces. A demoted hold counts as a reader.
	//
	// Requests for one name do not change the fences of others. If a name has no fence left below
	// MaxFence, grants, promotions, hand-overs and Break fail with ErrFencesUsedUp.
	Fence uint64

	// From is the instant from which TTL counts, on the store's Clock. Zero means just before the
	// caller sent the request.
	From Instant

	// TTL is the time left at From. If it is 0, the hold has no lease: it lasts until Release, or
	// until Bound is cancelled.
	TTL time.Duration

	// Shared means that the hold was shared. False means exclusive, or that the store does not
	// know. Only Extend, and an Acquire that repeats or replaces, set it.
	Shared bool

	// Bound, if not nil, is common to all holds of one connection or session. When that ends, the
	// holds end, and the store cancels Bound with a cause, within Guarantees.LossDelay even if the
	// server is silent. From then on every method but Release returns ErrLost for the token.
	Bound context.Context
}

// Outcome is what Release found.
type Outcome int

const (
	// OutcomeGone means that the token holds nothing, and that the store cannot tell why, for
	// example because other programs use the same names. Other methods then return ErrLost. A
	// second Release returns OutcomeGone, even if the outcome of the first one was uncertain.
	OutcomeGone Outcome = iota

	OutcomeReleased  // Release ended a live hold, reservation or place in the queue
	OutcomeExpired   // the lease has run out, and nobody has taken the name since
	OutcomeTaken     // the lease ran out or was broken, and somebody has taken the name since
	OutcomeInherited // a child process still holds the name; see fast.FileSharer
)

// Holder describes a caller to others. It is not verified.
type Holder struct {
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid,omitempty"`
	Label string `json:"label,omitempty"`

	Plan  time.Duration `json:"plan,omitempty"`  // how long it plans to keep the name after the grant, or 0
	Trace string        `json:"trace,omitempty"` // a traceparent of W3C Trace Context, or ""; a store may leave it out
}

// Hold is one hold as others see it.
type Hold struct {
	Holder
	Shared  bool
	Foreign bool // not taken by padlock; Holder is not known
	Cooling bool // a cool-down: nobody holds the name; Holder is the last one, if known

	// These are times on this process's clock, or zero if unknown. Until is the present end of the
	// lease. PlannedEnd is the end of Plan.
	Since, Until, PlannedEnd time.Time
}

// State is the state of a name as [Admin] saw it. It may be outdated.
type State struct {
	Name    string
	Holds   []Hold // the live holds, and a cool-down
	Fence   uint64 // the highest fence minted, even if the name is free now; 0 if unknown
	Waiters int    // in the store's queue; -1 without a queue, or if unknown
	Path    string // of the lock file, if there is one
}
