// Package driver is the contract between a store and package padlock, "the caller". It is for
// authors of stores. Other programs do not need it.
//
// For each name, a store keeps the holders and the ends of their leases. Each call makes one try.
// The caller waits, renews, retries, logs, and cleans up.
//
// # Writing a store
//
// Implement the five methods of [Store] and test them with package drivertest, whose example is a
// whole store. Then add optional interfaces, which the caller finds with [As]:
//
//   - [Waiter]: the store wakes waiters. Without it the caller polls.
//   - [Admin]: people see who holds a name, and end holds.
//   - [Converter]: a hold becomes exclusive or shared.
//   - [FenceRaiser]: quorums with fences.
//   - [Places]: the caller refuses keys of another store, two names of one lock, and a member that
//     a quorum has twice.
//   - [Reporter]: people see what is wrong with the server.
//
// Package driver/fast has more, which no lock needs.
//
// If the store implements an ability but cannot serve it, Guarantees.Lacks has it. Its methods
// change nothing and return errors.ErrUnsupported.
//
// # Names
//
// A name is 1 to [MaxName] bytes of any kind, and never normalised or cut. Two names never share a
// lock, unless Guarantees.Hashed is set.
//
// # Tokens
//
// A token, 1 to [MaxToken] opaque bytes, stands for one hold. It is a secret and never appears in
// an error, a log or a String method. It is spent when
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
// Each error is or wraps one of this package, [errors.ErrUnsupported], or the client's error.
//
//   - A value is out of range: [ErrInvalid], which names the parameter. Every method begins with
//     [Request.Validate] or a Check function, and sends nothing before.
//   - The reply was lost: [ErrUncertain], and never a [*HeldError].
//   - The store was not reached, or has no room for a new hold, and nothing was changed:
//     [ErrUnavailable]. A full store still extends, verifies, demotes and releases, unless its page
//     says otherwise; then nothing changes.
//   - ctx ended before the reply: the error of ctx, joined with ErrUncertain if the request may
//     have been sent.
//
// # Concurrency and time
//
// A store is safe for concurrent use. Two stores of the same place see the same locks. If the
// server is silent, every method except Wait returns within [MaxSilence].
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
	// While the token has a live hold, Acquire is a repeat: the hold keeps its fence and mode, and
	// gets a full lease from now, never a shorter one. If that hold is shared, a request that is
	// not gets a shared Grant or ErrInvalid. After the lease, and after a refusal, Acquire is a new
	// try, with a new fence. If holds are bound to a connection, only the same process can repeat;
	// the error is ErrUncertain while an earlier connection may have the hold.
	//
	// The error is a *HeldError if others hold the name, if it cools down, or if others wait ahead
	// of this caller in the store's queue. The token then has nothing.
	//
	// A shared request is granted only together with shared holds; without shared mode, the error
	// is errors.ErrUnsupported. A composite store may abandon a try; see [ErrSpent].
	Acquire(ctx context.Context, r Request) (Grant, error)

	// Extend makes the lease of a live hold last at least ttl from now, and never shortens it. If
	// ttl is 0, it only verifies the hold. Another hold is no reason to fail. If the lease has run
	// out, the error is ErrExpired or ErrLost. Grant.Fence may be 0.
	//
	// A store that extends several holds with one request may send nothing and return the result of
	// the last request. Then Grant.From is at most ttl/10 ago.
	//
	// A hold that nobody extends ends after its TTL, at most two fifths of it later, or as
	// Guarantees.Observed says.
	Extend(ctx context.Context, name, token string, ttl time.Duration) (Grant, error)

	// Release ends the hold, the reservation or the place in the queue of token, and changes
	// nothing for other tokens. If keep > 0, the name cools down: it stays taken for that long.
	// After a shared hold, the store may still grant shared requests. If there is no room for the
	// cool-down, the error is ErrUnavailable, with OutcomeReleased if the hold ended all the same.
	//
	// Release may be repeated. A wrong token or a lease that has run out is no error.
	Release(ctx context.Context, name, token string, keep time.Duration) (Outcome, error)

	// Guarantees is constant, and sends nothing.
	Guarantees() Guarantees

	// Close makes calls of Wait return, and waits for clean-ups of the store. Holds that are not
	// bound to the process stay. Afterwards every method returns ErrClosed; a second Close does
	// nothing.
	Close() error
}

// Request is the argument of Acquire, Wait and Convert.
type Request struct {
	Name   string
	Token  Token
	Shared bool          // the name may have other shared holds
	TTL    time.Duration // of the lease; a store without leases only checks it

	// Replaces, if not zero, is the token of a hold, which ends, and Token gets one in the same
	// mode, with a new fence. If Token has a live hold, the request is a repeat. If neither is
	// live, the error is ErrLost, even if the name is free. Only a store that binds its holds may
	// return errors.ErrUnsupported, unless the request is Detached.
	Replaces Token

	// Detached asks a store that binds its holds for one that is bound to nothing, and has a lease.
	// Every program that knows the token can extend, verify, replace and release it; nobody can
	// convert it. If Guarantees.Detached is false, the error is errors.ErrUnsupported, and it may be
	// if the request is shared. Other stores ignore Detached.
	Detached bool

	// FenceAbove is below the fence of a new grant, and so below every later one. A repeat keeps
	// the fence; if the store lacks AbilityStoreID, a repeat by another process may raise it.
	FenceAbove uint64

	// Spent lists tokens of the caller's earlier tries for this name, in order. Only a composite
	// store reads it, and does not report the name as held because of them.
	Spent []Token

	Holder Holder // the caller, as others see it
}

// Grant is a hold. The zero Grant is none.
type Grant struct {
	// Fence orders the grants of one name. An exclusive grant has a greater fence than every
	// earlier grant, a shared one than every earlier exclusive grant. If Guarantees.SharedFence is
	// PromiseYes, a reader that joins readers, or a demoted hold, gets their fence, unless its
	// request has FenceAbove or Replaces. Requests for one name do not change the fences of others.
	Fence uint64

	// From is when TTL begins, on the store's Clock. Zero means just before the caller sent the
	// request.
	From Instant

	// TTL is the time left at From. 0 means that the hold has no lease.
	TTL time.Duration

	// Shared means that the hold was shared. False means exclusive, or not known. Only Extend, and
	// an Acquire that repeats or replaces, set it.
	Shared bool

	// Bound, if not nil, is common to all holds of one connection or session. When that ends, the
	// holds end, and the store cancels Bound with a cause, within Guarantees.LossDelay even if the
	// server is silent. Then every method but Release returns ErrLost for the token.
	Bound context.Context
}

// Outcome is what Release found.
type Outcome int

const (
	// OutcomeGone means that the token holds nothing, and the store cannot tell why. Other methods
	// then return ErrLost. A second Release returns OutcomeGone, even if the first was uncertain.
	OutcomeGone Outcome = iota

	OutcomeReleased  // what the token had has ended
	OutcomeExpired   // see ErrExpired
	OutcomeTaken     // the lease ran out or was broken, and somebody has taken the name
	OutcomeInherited // a child process still holds the name; see fast.FileSharer
)

// Holder describes a caller to others. It is not verified.
type Holder struct {
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid,omitempty"`
	Label string `json:"label,omitempty"`

	Plan  time.Duration `json:"plan,omitempty"`  // how long after the grant it plans to keep the name
	Trace string        `json:"trace,omitempty"` // a W3C traceparent; a store may leave it out
}

// Hold is one hold as others see it.
type Hold struct {
	Holder
	Shared  bool
	Foreign bool // not taken by padlock; Holder is unknown
	Cooling bool // a cool-down; Holder is the last one, if known

	// These are times on this process's clock, or zero if unknown. Until is the end of the lease,
	// PlannedEnd that of Plan.
	Since, Until, PlannedEnd time.Time
}

// State is a name as [Admin] saw it. It may be outdated.
type State struct {
	Name    string
	Holds   []Hold // also a cool-down
	Fence   uint64 // the highest fence minted, even if the name is free; 0 if unknown
	Waiters int    // in the store's queue; -1 without a queue, or if unknown
	Path    string // of a lock file
}
