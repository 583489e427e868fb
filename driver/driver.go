// Package driver is the contract between padlock and a store. Programs that take locks use package
// padlock; this page is for authors of stores.
//
// For each name, a store keeps the holders and the times at which their leases end. Each call makes
// one try and returns at once. The store does not wait for a turn, renew leases, watch deadlines,
// retry, log, or clean up after a caller that went away. Package padlock does all of that once for
// every store. This page calls package padlock "the caller".
//
// # Writing a store
//
// Implement the five methods of [Store]. Each begins with a check of its arguments:
// [Request.Validate] in Acquire; [CheckHold] and then [CheckTTL] or [CheckKeep] in Extend and
// Release. The method Guarantees returns what the store promises.
//
// Test the store with package drivertest. It checks every rule on this page that applies to a store
// with these Guarantees, and prints the rule that the store breaks. The example of that package is
// a whole store in 180 lines, with its test: begin with a copy of it.
//
// Then add the optional interfaces that the store can support. The caller finds them with [As]:
//
//   - [Waiter]: the store wakes waiters. Without it the caller polls.
//   - [Inspector], [Lister], [Breaker]: people can see who holds a name, and end a hold.
//   - [Converter]: a shared hold becomes exclusive, or an exclusive hold shared.
//   - [FenceRaiser]: the store can be a member of a quorum with fences, and locks can be passed on
//     inside a process without a request.
//   - [SlotTaker], [SlotWaiter]: a caller takes any permit of n in one step, or waits for one.
//   - [SlotQueuer]: the store hands permits over to waiters directly.
//   - [SharedTaker]: many readers of a process acquire a name with one request.
//   - [BatchExtender]: many leases are renewed with one request.
//   - [Passer]: a lock is passed on inside a process with one request instead of several.
//   - [QueuePasser]: a process hands a lock over to another process, and its own next waiter joins
//     the queue, with one request.
//   - [QueueAdviser]: a caller that will certainly have to wait can join the queue at once.
//   - [Enqueuer]: waiters need no goroutine each; for a store in the memory of the process.
//   - [Identifier]: a key that was made at another store is refused.
//   - [Locator]: a caller that takes several names notices that two of them share a lock.
//   - [SamePlacer]: a quorum notices that it names the same store twice.
//   - [Recorder]: machines share the history of the runs of a name.
//   - [Reporter]: people can see what the server is and what is wrong with its settings.
//   - [FileSharer]: a child process can share a hold.
//
// # Names
//
// A name is 1 to [MaxName] bytes of any kind, including zero bytes, spaces and slashes. If a store
// takes only shorter names, its Guarantees.MaxName says so. A name is never normalised or cut, and
// two names never share a lock.
//
// # Tokens
//
// A token is an opaque string of 1 to [MaxToken] bytes that stands for one hold. It is a secret and
// never appears in an error, a log or a String method. Every method checks it with [CheckToken] and
// returns ErrInvalid for a token that no hold can have.
//
// A token is good for one hold, and then it is spent. The caller never sends a spent token to
// Acquire, Wait or Convert again. A token is spent when
//
//   - Acquire returned a *HeldError for it,
//   - Wait returned the zero Grant or an error for it,
//   - Release was called with it,
//   - [Passer.Pass] released it, or made a try with it that was not granted, or
//   - [QueuePasser.PassOrQueue] did so and gave it no place in the queue.
//
// If the outcome of an Acquire is unknown, the caller may repeat it with the same token, unless the
// error was [ErrSpent].
//
// There is one exception. A composite store, such as a quorum, may send a spent token to a member
// again, but only if it has not released the token at that member.
//
// So after a Release, no caller sends a new Acquire with the same token to the same store. If
// Release finds nothing for a token, the store may therefore remember the token for a while. If an
// Acquire with that token arrives later, it was sent before the Release, and the store may return
// ErrLost.
//
// # Errors
//
// A store returns errors as they are, or wraps them where that helps. In every error, [errors.Is]
// finds an error of this package, [errors.ErrUnsupported], or the client's error.
//
//   - If the reply to a request was lost, the error is [ErrUncertain] and never a [*HeldError]:
//     "cannot know" must not become "no".
//   - If the store could not be reached and nothing was changed, the error is [ErrUnavailable].
//   - If ctx ends before the reply arrives, errors.Is finds the error of ctx. It is joined with
//     ErrUncertain if the request may have been sent.
//   - If a value is outside the range in the Guarantees, the error is [ErrInvalid] and names the
//     parameter. Then nothing was sent.
//
// If a store has no memory or disk space for new holds, it refuses them with ErrUnavailable. It
// still extends, verifies, demotes and releases the holds that it has: a full server must not end
// everybody's locks.
//
// # Concurrency and time
//
// A store is safe for concurrent use. Two stores that are opened for the same place see the same
// locks, as two processes would.
//
// Every method except Wait returns within [MaxSilence] if the server is silent, even if ctx never
// ends. So the caller needs no timer for each call. A store measures leases by its server's clock
// if there is one, or else by the [Clock] that an option gives it. It never mixes two clocks.
package driver

import (
	"context"
	"time"
)

// Store is a place where locks are kept.
type Store interface {
	// Acquire makes one try to take r.Name for r.Token. It never queues.
	//
	// Acquire is idempotent for each token. While the token's hold is live, the same request again
	// returns the same fence, with a full lease that counts from the second request. The hold keeps
	// the mode of the first request. So a caller whose reply was lost may simply ask again. If the
	// lease of the hold has run out, the same request is a new try, and its grant has a new fence.
	//
	// In a store whose holds are bound to a connection, only the process that sent the first
	// request can repeat it. The connection of an earlier try with this token may still be open on
	// the server and hold the name. As long as this is possible, Acquire returns ErrUncertain.
	//
	// Acquire returns a *HeldError if others hold the name, if the name cools down, or, in a store
	// with a queue, if others wait for the name ahead of this caller. The *HeldError lists the
	// holds that are in the way, with their times, as far as the store knows them. To claim a
	// reservation, the caller sends Acquire with the token that it has given to [Waiter.Wait].
	//
	// A shared request is granted only together with other shared holds. A store without shared
	// mode returns errors.ErrUnsupported, and never silently grants an exclusive hold.
	//
	// A composite store decides for itself whether a try succeeded. If it abandons a try, there is
	// no grant, even if some members granted it. The store releases these members in the
	// background, with a context of its own, and Close waits for that. The error is ErrSpent. It is
	// joined with ErrUnavailable if the caller should try again, and otherwise with ErrUncertain.
	Acquire(ctx context.Context, r Request) (Grant, error)

	// Extend makes the lease of a live hold last at least ttl from now. It never shortens a lease
	// and never revives a lease that has run out. If ttl is 0, Extend changes nothing and only
	// verifies the hold. Grant.Fence is the fence of the hold, or 0 if the store did not read it.
	//
	// If the lease has run out, the error is ErrExpired or ErrLost. ErrExpired means that nobody
	// has taken the name since. If the store cannot tell, the error is ErrLost.
	//
	// A store may renew several holds with one request. Then ttl counts from the time at which that
	// request was sent. Grant.From gives this time, which is at most ttl/10 ago. Extend of one hold
	// never fails because of another hold, and never keeps another hold alive. If nobody extends a
	// hold, it ends when its TTL is over, or up to [RenewalInterval] later.
	Extend(ctx context.Context, name, token string, ttl time.Duration) (Grant, error)

	// Release ends the hold, the reservation or the place in the queue that token has. It never
	// ends anything of another token. If keep > 0, the name stays taken for that long, which is
	// called a cool-down. The name also stays taken for the rest of Request.AtLeast. After the
	// release of a shared hold, no exclusive request is granted during the cool-down, but the store
	// may grant shared requests.
	//
	// Release is idempotent and reports what it found, see [Outcome]. If a token is wrong or its
	// lease ran out, that is an Outcome, not an error.
	Release(ctx context.Context, name, token string, keep time.Duration) (Outcome, error)

	// Guarantees returns what this store promises with its configuration. It is constant for the
	// life of the store and sends no request.
	Guarantees() Guarantees

	// Close closes connections and files, makes calls of Wait return, and waits for clean-ups that
	// the store itself began. Holds that are not bound to the process stay until their leases end.
	// After Close every method returns ErrClosed. A second Close does nothing.
	Close() error
}

// Request is the argument of Acquire, Wait and Convert.
type Request struct {
	Name   string
	Token  string        // the token of the hold that is asked for; never empty
	Shared bool          // the hold may exist together with other shared holds
	TTL    time.Duration // length of the lease; without leases, a store only checks that it is valid

	// AtLeast is how long the name stays taken after the grant, even if the holder dies or releases
	// the lock earlier. If AtLeast is longer than TTL, it is the length of the first lease. Extend
	// never ends the hold before AtLeast is over. If Release comes before AtLeast is over, it
	// leaves a cool-down for the rest of the time.
	//
	// The caller may send the same Acquire again. Then AtLeast counts from the second request, even
	// if the first request had no AtLeast. But the name never becomes free earlier than the first
	// request alone would allow.
	AtLeast time.Duration

	// Replaces, if not empty, is the token of an existing hold of the name. The request asks for
	// this hold to be replaced by a hold of Token:
	//
	//   - If Token has a live hold already, the request is a repeat.
	//   - Otherwise, if the token in Replaces has a live hold, that hold is lost, and Token gets a
	//     hold in the same mode with a new fence. The new hold also keeps the rest of AtLeast.
	//   - If neither token has a live hold, the error is ErrLost, even if the name is free.
	//
	// A store whose holds are bound to a process or connection returns errors.ErrUnsupported,
	// unless the request is Detached and Guarantees.Detached is true. Every other store supports
	// Replaces.
	Replaces string

	// Detached is for a store that binds its holds to a process or to a connection; see
	// Guarantees.Bound. It asks for a hold that is not bound in this way. Such a hold has a lease
	// (Grant.TTL is above 0), outlives the process, and ends with its lease or with Release. Every
	// program that knows the token can extend, verify, replace and release it. If
	// Guarantees.Detached is false, or the request is shared, the store returns
	// errors.ErrUnsupported. A store whose holds are bound to nothing ignores Detached. Convert is
	// not possible on a detached hold.
	Detached bool

	// FenceAbove, if not 0, makes the fence of a new grant greater than FenceAbove. So every later
	// fence is greater too. A repeat keeps its fence. The greatest value allowed is MaxFenceAbove.
	FenceAbove uint64

	// Spent lists the tokens of earlier tries of the same caller for the same name: at most
	// MaxSpent tokens, the latest last. Only a composite store uses the list. A member of that
	// store may still have a hold with one of these tokens. That hold will end soon. So that hold
	// alone is no reason for the composite store to report that the name is held.
	Spent []string

	Holder Holder // the caller, as it appears to others that find the name held
}

// Grant is a hold. The zero Grant, which [Waiter.Wait] can return, is not a hold.
type Grant struct {
	// Fence orders the grants of one name: see [Guarantees.Fence]. An exclusive grant has a greater
	// fence than every grant before it. A shared grant has a greater fence than every exclusive
	// grant before it, even one whose lease ran out. The reason is that a writer that has not
	// noticed the end of its lease must not have the same fence as the readers that follow.
	//
	// If Guarantees.SharedFence says so, all readers that hold the name together have one fence: a
	// reader that joins others gets their fence, and a demoted hold counts as a reader. Only
	// FenceAbove and Replaces ask for a greater fence.
	//
	// A fence is below 2^53, so that JSON, Lua and floating point keep it exactly. It is 0 if the
	// store has none. After the last fence below MaxFence, everything that needs a new fence (a
	// grant, a promotion, a hand-over, Break) fails with ErrFencesUsedUp. A request for one name
	// raises the fences of no other name.
	Fence uint64

	// From is the instant from which TTL counts, on the clock given to the store. If From is zero,
	// TTL counts from the instant just before the caller sent the request.
	From Instant

	// TTL is the time left at From. It is 0 if the hold has no lease and lasts until Release or
	// until Bound ends; the caller does not renew such a hold.
	TTL time.Duration

	// Shared means that the hold was shared when the store answered. Extend sets Shared, and
	// Acquire sets it if the request has Replaces. No other method sets it. A store that cannot
	// tell the mode never sets it. So false may also mean that the mode is not known.
	Shared bool

	// Bound, if not nil, belongs to the connection or session of the hold. All holds of one
	// connection or session share it. When the connection ends, the hold ends too, and the store
	// cancels Bound with a cause. The store itself checks that the connection is alive. It cancels
	// Bound within Guarantees.LossDelay even if the server is silent. From then on every method but
	// Release returns ErrLost for the token.
	Bound context.Context
}

// Outcome is what Release found.
type Outcome int

const (
	// Gone means that the token holds nothing and the store cannot tell why. A second Release of a
	// hold also returns Gone, even if it repeats a Release whose outcome was uncertain. A store may
	// share its names with other programs. If it cannot know whether one of them took the name
	// after the lease had run out, Release returns Gone, and other methods return ErrLost.
	Gone Outcome = iota
	// Released means that Release ended a live hold, reservation or place in the queue.
	Released
	// Expired means that the lease had run out and nobody took the name since.
	Expired
	// Taken means that the lease had run out, or was broken, and somebody else took the name.
	Taken
	// Inherited means that this process no longer holds the name, but a child process still does,
	// through the hold's file: see [FileSharer].
	Inherited
)

// Holder describes a caller to others that find the name held. It is not verified.
type Holder struct {
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid,omitempty"`
	Label string `json:"label,omitempty"` // at most MaxLabel bytes, free text

	// Plan is how long the holder plans to keep the name, counted from the grant. 0 means that it
	// has no plan and renews the lease until it is done.
	Plan time.Duration `json:"plan,omitempty"`

	// Trace is the traceparent of the holder's trace, in the format of W3C Trace Context, or "". It
	// has at most MaxTrace bytes. A store may leave it out.
	Trace string `json:"trace,omitempty"`
}

// Hold is one hold as others see it.
type Hold struct {
	Holder
	Shared  bool
	Foreign bool // not taken by padlock; host, label and plan are not known
	Cooling bool // a cool-down: no one holds the name, but it stays taken; Holder is the last holder, if known

	// Since, Until and PlannedEnd are times on this process's clock, or zero if unknown. Until is
	// the current end of the lease, which a renewal moves. PlannedEnd is zero if the holder has no
	// plan.
	Since, Until, PlannedEnd time.Time
}

// State is the state of a name as [Inspector] and [Lister] saw it. It may be outdated when it
// arrives: it is information, not a lock.
type State struct {
	Name    string
	Holds   []Hold // the live holds; a cool-down is a Hold with Cooling set
	Fence   uint64 // the highest fence minted, even if the name is free now; 0 if unknown
	Waiters int    // how many wait in the store's queue; -1 if the store has no queue or cannot know
	Path    string // the path of the lock file, for stores on a file system
}
