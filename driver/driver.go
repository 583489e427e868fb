// Package driver is the contract between padlock and a store. Programs that
// take locks use package padlock; this page is for those who write a store.
//
// A store keeps, for each name, who holds it and until when. It makes one try
// at a time and answers at once. It does not wait for its turn, renew leases,
// watch deadlines, retry, log or clean up after a caller that went away: the
// face (package padlock) does all of that, once, for every store. A store is
// five methods; package drivertest checks each sentence below by name, and
// prints the sentence that was broken.
//
// # What holds for every method
//
// A store is safe for concurrent use, and two stores opened on the same place
// see the same locks: two opens stand for two processes.
//
// A name is 1 to [MaxName] bytes of any kind, zero bytes, spaces and slashes
// included; it is never normalised or cut. Two names never share a lock. A
// token is an opaque string of 1 to [MaxToken] bytes that stands for one hold;
// it is a secret and never appears in an error, a log or a String method.
// Every method checks it with CheckToken and returns ErrInvalid for one that
// no hold can have.
//
// A token is good for one hold. It is spent when Acquire answered a *HeldError
// for it, when Wait returned the zero Grant or an error for it, or when Release
// was called with it, or [Passer.Pass] did the one or the other; a spent token
// is never sent to Acquire, Wait or Convert again. Only an Acquire whose outcome is not known is repeated with the same
// token, unless the answer was [ErrSpent]; and a store made of stores may ask a
// member again for a token that it has not released there. So a store may
// remember for a while a token that Release found nothing for, and answer
// ErrLost to an Acquire that was on its way and comes after it.
//
// An error is returned as it is, wrapped where that helps, and answers
// [errors.Is] for one of the sentinels of this package, for
// [errors.ErrUnsupported], or for what the client said. "Cannot know" is never
// turned into "no": a request whose reply was lost is [ErrUncertain] and never
// a [*HeldError]; a store that could not be asked is [ErrUnavailable], which
// also says that nothing was changed. When ctx ends first, its error can be
// reached with errors.Is, joined with ErrUncertain if the request may have
// been sent. Every value outside the range that [Store.Guarantees] names is
// [ErrInvalid], with the name of the parameter, before anything is sent.
//
// A store that has no memory or disk space for new holds refuses them, with
// ErrUnavailable. It still extends, verifies, demotes and releases the holds that
// it has: a full server must not end the locks of everybody.
//
// A method other than Wait returns within [MaxSilence] when its server is
// silent, also if ctx never ends. So the face needs no timer for each call.
//
// Time is judged by the store's own clock where it has one, else by the
// [Clock] given by option; never by two clocks at once.
package driver

import (
	"context"
	"time"
)

// Store is a place where locks are kept.
type Store interface {
	// Acquire makes one try to take r.Name for r.Token. It never queues.
	//
	// It is idempotent per token: while the token's hold is live, the same
	// request again gives the same fence and a full lease from the second
	// request, in the mode asked for the first time. So a caller whose reply
	// was lost may simply ask again. (A store bound to a connection repeats
	// within its process only; while a connection left behind by this token's
	// own try may still hold the name, it answers ErrUncertain.) When the hold
	// has ended by time, the same request is a new try, and its grant has a new
	// fence.
	//
	// If others hold the name, or wait for it ahead of this caller in a store
	// that queues, or the name cools down, it answers a *HeldError that says
	// by whom, since and until when as far as the store knows. A reservation
	// handed out by [Waiter.Wait] is claimed with the token that waited.
	//
	// A shared request is granted beside other shared holds only. A store
	// without shared mode answers errors.ErrUnsupported: never a silent
	// exclusive grant.
	//
	// A store made of stores decides for itself: a try that it gives up is no
	// grant, whatever single members did, and it releases what they granted,
	// on a context of its own that Close waits for. Then ErrSpent goes with
	// ErrUncertain, and with an ErrUnavailable that is worth another try.
	Acquire(ctx context.Context, r Request) (Grant, error)

	// Extend makes the lease of a live hold last at least ttl from now. It
	// never shortens a lease, and never revives one that has run out: then it
	// answers ErrExpired if it can tell that nobody took the name since, else
	// ErrLost. With ttl 0 it changes nothing and only verifies the hold. The
	// Grant's fence is that of the hold, or 0 if the store did not look.
	Extend(ctx context.Context, name, token string, ttl time.Duration) (Grant, error)

	// Release ends the hold, the reservation or the queue place of token, and
	// nobody else's, ever. With keep > 0 the name stays taken for that long
	// (a cool-down), as it does for what is left of Request.AtLeast. The
	// cool-down that a shared hold leaves keeps exclusive requests out, and may
	// let shared ones in.
	//
	// It is idempotent and tells the truth: see [Outcome]. A wrong or lapsed
	// token is an outcome, not an error.
	Release(ctx context.Context, name, token string, keep time.Duration) (Outcome, error)

	// Guarantees says what this store promises as it is configured. It is
	// constant for the life of the store and asks nobody.
	Guarantees() Guarantees

	// Close gives back connections and files, makes waits return, and waits for
	// clean-ups that the store itself began. Holds that are not bound to the process stay until
	// their leases end. After Close every method answers ErrClosed. A second
	// Close does nothing.
	Close() error
}

// Request is what Acquire, Wait and Convert are asked.
type Request struct {
	Name   string
	Token  string        // of the hold that is asked for; never empty
	Shared bool          // beside other shared holds
	TTL    time.Duration // length of the lease; a store without leases checks and ignores it

	// AtLeast, if longer than TTL, is the length of the first lease. Extend
	// never ends the hold before it; a Release before it leaves a cool-down
	// for the rest. So the name stays taken even if the holder dies. A repeat
	// of Acquire arms it from the second request on, also if the first did not
	// ask for it, and never shortens it.
	AtLeast time.Duration

	// Replaces asks for a hand-over. If Token is live, this is a repeat and
	// answers as such. Else, if Replaces is a live hold, it is swapped for
	// Token in the same mode with a new fence, and Replaces is lost. Else the
	// answer is ErrLost. It is never a fresh grant. What is left of AtLeast goes
	// over too. A store whose holds are bound to a process or connection answers
	// errors.ErrUnsupported; every other store can do it.
	Replaces string

	// FenceAbove, if not 0, makes the fence of a new grant greater than it,
	// and of every later one. A repeat keeps its fence. MaxFenceAbove bounds it.
	FenceAbove uint64

	// Spent lists tokens that were spent for the same name by the same caller,
	// at most MaxSpent, the latest last. Only a store made of stores looks at
	// it: what such a token has left at a member is in nobody's way for long, and
	// is no reason to tell its caller that somebody holds the name.
	Spent []string

	Holder Holder // who asks, for those who find the name held
}

// Grant is a hold, or the answer to a try that gave none (the zero Grant of
// [Waiter.Wait]).
type Grant struct {
	// Fence orders the grants of one name: see [Guarantees.Fence]. An exclusive
	// grant has a greater fence than every grant before it. A shared grant has a
	// greater fence than every exclusive one before it, even one whose lease ran
	// out: a writer that has not noticed the end of its lease must not have the
	// fence of the readers that follow.
	//
	// Readers that hold together have one fence where Guarantees.SharedFence
	// says so: a reader that comes beside others gets theirs, and a demoted hold
	// counts as a reader. Only FenceAbove and Replaces ask for a greater one.
	//
	// A fence is below 2^53, so that JSON, Lua and floating point keep it exactly.
	// It is 0 where the store has none. When the last one
	// below MaxFence was granted, what needs a new fence (a grant, a promotion,
	// a swap, Break) answers ErrFencesUsedUp. What a caller asks for one name
	// raises the fences of no other.
	Fence uint64

	// From is the instant from which TTL counts, on the clock given to the
	// store. Zero means: from before the request was sent, which the caller
	// knows best.
	From Instant

	// TTL is the time left at From. It is 0 if the hold has no lease and lasts
	// until Bound ends or Release; the face renews no such hold.
	TTL time.Duration

	// Shared, in the answer to Extend, and to Acquire with Replaces, says that
	// the hold is shared as it stands. A store that cannot tell leaves it false,
	// which says nothing.
	Shared bool

	// Bound, if not nil, ends with the hold: it is shared by all holds of one
	// connection or session and is cancelled, with its cause, when that ends.
	// The store watches for that itself, and cancels within
	// Guarantees.LossDelay also when its peer is silent. After it every method
	// but Release answers ErrLost for the token.
	Bound context.Context
}

// Outcome is what Release found.
type Outcome int

const (
	// Gone: the token holds nothing and the store cannot tell why. A second
	// Release of a hold answers so too, also one that repeats a Release whose
	// outcome was uncertain. A store whose names other programs share answers
	// Gone, and ErrLost, where it could otherwise say that nobody else came.
	Gone Outcome = iota
	// Released: a live hold, reservation or queue place was ended.
	Released
	// Expired: the lease had run out and nobody took the name since.
	Expired
	// Taken: the lease had run out, or was broken, and the name went to
	// somebody else.
	Taken
	// Passed: this process is out, and a child that was given the hold's file
	// still holds the name.
	Passed
)

// Holder tells others who asks for, or holds, a name. It proves nothing.
type Holder struct {
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid,omitempty"`
	Label string `json:"label,omitempty"` // at most MaxLabel bytes, free text

	// Plan is how long the holder means to keep the name, counted from the
	// grant. 0 means that it has no plan: it renews until it is done.
	Plan time.Duration `json:"plan,omitempty"`
}

// Hold is one hold as others see it.
type Hold struct {
	Holder
	Shared  bool
	Foreign bool // not taken by padlock: host, label and plan are not known
	Cooling bool // nobody's: the name is kept free until Until; Holder is who had it, where known

	// Since, Until and PlannedEnd are on this process's clock; zero where
	// unknown. Until is the end of the lease as it stands, which a renewal
	// moves. PlannedEnd is zero when the holder has no plan.
	Since, Until, PlannedEnd time.Time
}

// State is a name as [Inspector] and [Lister] saw it. It is news, not a lock:
// it may be old when it arrives.
type State struct {
	Name    string
	Holds   []Hold // live ones; a cool-down is a Hold with Cooling set
	Fence   uint64 // the highest minted, also of a name that is free now; 0 if unknown
	Waiters int    // in the store's queue; -1 if it has none or cannot know
	Path    string // of the file, for stores on a file system
}
