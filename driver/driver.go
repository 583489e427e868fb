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
//   - [Admin]: people can see who holds a name, and end a hold.
//   - [Converter]: a shared hold becomes exclusive, or an exclusive hold shared.
//   - [FenceRaiser]: the store can be a member of a quorum with fences, and locks can be passed on
//     inside a process without a request.
//   - [SlotTaker]: a caller takes any permit of n in one step.
//   - [BatchExtender]: many leases are renewed with one request.
//   - [Passer]: a lock is passed on inside a process with one request instead of several.
//   - [Places]: a key of another store is refused, as are two names of one lock, and a member that
//     a quorum has twice.
//   - [Recorder]: machines share the history of the runs of a name.
//   - [Reporter]: people can see what the server is and what is wrong with its settings.
//   - [FileSharer]: a child process can share a hold.
//
// An interface that the store implements works, unless Guarantees.Lacks names it: nobody finds it
// out by calling.
//
// # Names
//
// A name is 1 to [MaxName] bytes of any kind, including zero bytes, spaces and slashes. If a store
// takes only shorter names, its Guarantees.MaxName says so. A name is never normalised or cut. Two
// names never share a lock, unless Guarantees.Hashed is set.
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
//   - [Passer.Pass] released it, or
//   - Pass returned neither a Grant nor a place in the queue for it.
//
// If the outcome of an Acquire is unknown, the caller may repeat it with the same token, unless the
// error was [ErrSpent].
//
// There is one exception. A composite store, such as a quorum, may send a spent token to a member
// again if it has not called Release with the token at that member.
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
// If the server is silent, every method except Wait returns within [MaxSilence], even if ctx never
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
	// Acquire is idempotent for each token. A caller whose reply was lost may send the same request
	// again. While the token's hold is live, the repeated request returns the same fence, with a
	// full lease that counts from the repeated request. The hold keeps the mode of the first
	// request. If the lease of the hold has run out, the repeated request is a new try, and its
	// grant has a new fence.
	//
	// In a store whose holds are bound to a connection, only the process that sent the first
	// request can repeat it. The connection of an earlier try with this token may still be open on
	// the server and hold the name. As long as the store cannot rule this out, Acquire returns
	// ErrUncertain.
	//
	// Acquire returns a *HeldError if others hold the name, if the name cools down, or, in a store
	// with a queue, if others wait for the name ahead of this caller. The *HeldError lists the
	// holds that are in the way, with their times, as far as the store knows them. To claim a
	// reservation, the caller sends Acquire with the token that it has given to [Waiter.Wait].
	//
	// A shared request is granted only together with other shared holds. A store without shared
	// mode returns errors.ErrUnsupported, and never silently grants an exclusive hold.
	//
	// A composite store, such as a quorum, may abandon a try that some of its members granted. Then
	// the error is [ErrSpent], joined with another error that says what the caller should do. The
	// store releases these members in the background, and Close waits for that.
	Acquire(ctx context.Context, r Request) (Grant, error)

	// Extend makes the lease of a live hold last at least ttl from now. It never shortens a lease
	// and never revives a lease that has run out. If ttl is 0, Extend changes nothing and only
	// verifies the hold. Grant.Fence is the fence of the hold, or 0 if the store did not read it.
	//
	// If the lease has run out, the error is ErrExpired or ErrLost. ErrExpired means that nobody
	// has taken the name since. If the store cannot tell, the error is ErrLost.
	//
	// A store may extend several holds with one request. If an earlier request has just extended
	// this hold, Extend may send nothing and return the earlier result. Then the lease counts from
	// Grant.From, the time of the earlier request. That time is at most ttl/10 ago.
	//
	// No call of Extend fails because of another hold. If nobody extends a hold, it ends when its
	// TTL is over, or up to [RenewalInterval] later.
	Extend(ctx context.Context, name, token string, ttl time.Duration) (Grant, error)

	// Release ends the hold, the reservation or the place in the queue that token has. It changes
	// nothing for other tokens. If keep > 0, a cool-down follows: the name stays taken for that
	// long. If Request.AtLeast is not over yet, the name stays taken for the rest of that time,
	// too. In a cool-down after a shared hold, the store may grant shared requests, but no
	// exclusive ones.
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
	TTL    time.Duration // length of the lease; a store without leases only checks that TTL is valid

	// AtLeast is how long the name stays taken after the grant, even if the holder dies or releases
	// the lock earlier. If AtLeast is longer than TTL, it is the length of the first lease. Extend
	// never ends the hold before AtLeast is over. If Release comes before AtLeast is over, it
	// leaves a cool-down for the rest of the time.
	//
	// AtLeast may be longer than Guarantees.MaxTTL. Then the name stays taken for AtLeast, but no
	// Grant has a TTL above Guarantees.MaxTTL: the holder must extend the hold to work for longer.
	//
	// If the caller repeats the Acquire, AtLeast counts from the repeated request, even if the
	// first request had no AtLeast. A repeated request with a shorter AtLeast does not make the
	// name free earlier.
	AtLeast time.Duration

	// Replaces, if not empty, is the token of a hold of the name. The request replaces that hold
	// with a hold of Token:
	//
	//   - If Token has a live hold already, the request is a repeat.
	//   - Otherwise, if the token in Replaces has a live hold, that hold ends, and Token gets a
	//     hold in the same mode with a new fence. If AtLeast of the old hold is not over yet, the
	//     new hold takes over the rest of that time.
	//   - If neither token has a live hold, the error is ErrLost, even if the name is free.
	//
	// A store whose holds are bound to a process or connection returns errors.ErrUnsupported,
	// unless the request is Detached and Guarantees.Detached is true. Every other store supports
	// Replaces.
	Replaces string

	// Detached is for a store that binds its holds to a process or to a connection; see
	// Guarantees.Bound. If Detached is set, the request asks for a hold that is bound to nothing.
	// Such a hold has a lease (Grant.TTL is above 0), outlives the process, and ends with its lease
	// or with Release. Every program that knows the token can extend, verify, replace and release
	// it. If Guarantees.Detached is false, or the request is shared, the store returns
	// errors.ErrUnsupported. A store that binds no hold ignores Detached. Convert is not possible
	// on a detached hold.
	Detached bool

	// FenceAbove, if not 0, makes the fence of a new grant greater than FenceAbove. So every later
	// fence is greater too. If the token has a live hold already, that hold keeps its fence. The
	// greatest value allowed is MaxFenceAbove.
	FenceAbove uint64

	// Spent lists the tokens of earlier tries of the same caller for the same name: at most
	// MaxSpent tokens, in the order of the tries. Only a composite store uses the list. One of its
	// members may still have a hold with one of these tokens. The composite store knows from the
	// list that such a hold will end soon, and does not report the name as held because of it.
	Spent []string

	Holder Holder // the caller, as it appears to others that find the name held
}

// Grant is a hold. The zero Grant, which [Waiter.Wait] can return, is not a hold.
type Grant struct {
	// Fence orders the grants of one name: see [Guarantees.Fence]. An exclusive grant has a greater
	// fence than every earlier grant. A shared grant has a greater fence than every earlier
	// exclusive grant. So a writer that has not noticed the end of its lease has a lower fence than
	// the readers after it.
	//
	// If Guarantees.SharedFence is Yes, all readers that hold the name at the same time have the
	// same fence: a reader that joins other readers gets their fence. A hold that was demoted
	// counts as a reader. A reader gets a greater fence only if its request has FenceAbove or
	// Replaces.
	//
	// A fence is below 2^53, so that JSON, Lua and floating point keep it exactly. It is 0 if the
	// store has no fences. When all fences of a name below MaxFence are used, everything that needs
	// a new fence fails with ErrFencesUsedUp: grants, promotions, hand-overs and Break. Requests
	// for one name do not change the fences of other names.
	Fence uint64

	// From is the instant from which TTL counts, on the clock given to the store. If From is zero,
	// TTL counts from the instant just before the caller sent the request.
	From Instant

	// TTL is the time left at From. If TTL is 0, the hold has no lease: it lasts until Release, or
	// until the context in Bound is cancelled. The caller does not renew such a hold.
	TTL time.Duration

	// Shared means that the hold was shared when the store answered. If Shared is false, the hold
	// was exclusive, or the store does not know the mode. Extend sets Shared. Acquire sets it only
	// if Request.Replaces is set. No other method sets it.
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
	// hold also returns Gone, even if the outcome of the first Release was uncertain.
	//
	// If other programs may use the same names, the store cannot always know whether one of them
	// took the name after the lease had run out. Then Release returns Gone, and other methods
	// return ErrLost.
	Gone Outcome = iota
	// Released means that Release ended a live hold, reservation or place in the queue.
	Released
	// Expired means that the lease has run out, and that nobody has taken the name since.
	Expired
	// Taken means that the lease ran out or was broken, and that somebody else has taken the name
	// since.
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

// State is the state of a name as [Admin] saw it. It may be outdated when it
// arrives: it is information, not a lock.
type State struct {
	Name    string
	Holds   []Hold // the live holds; a cool-down is a Hold with Cooling set
	Fence   uint64 // the highest fence minted, even if the name is free now; 0 if unknown
	Waiters int    // how many wait in the store's queue; -1 if the store has no queue or cannot know
	Path    string // the path of the lock file, for stores on a file system
}
