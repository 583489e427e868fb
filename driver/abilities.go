package driver

import (
	"context"
	"os"
)

// The interfaces in this file are optional, one method each. The caller finds them with As, and
// falls back or returns errors.ErrUnsupported. A method may also return errors.ErrUnsupported
// itself, as a store made of stores must: the caller takes that as if the method were missing.

// Waiter waits for a turn.
type Waiter interface {
	// Wait returns when it is worth asking again for r. It looks for itself
	// after joining, so that a wake-up between the caller's try and the joining
	// is not missed. A wake-up is a hint: Wait also returns at the holder's
	// expiry, and now and then where foreign parties wake nobody. It rides out
	// a short loss of the connection, and returns an error only when its place
	// is lost.
	//
	// With reserve it joins the store's queue, if there is one, and the store
	// may hand the name over. A Grant with TTL > 0 is a reservation for r.Token,
	// with the fence that the hold will have, usable until From+TTL, at most
	// [MaxReservation] from when it was made. If From is zero the store does not
	// know when that was, and it must be claimed before it is used. Acquire with
	// the same token claims it: then it is a full lease. Release gives it up, and
	// so does its time. A Grant with From and a TTL above MaxReservation is no
	// reservation but the hold with its full lease, which needs no claim: so a
	// release can hand over to a waiter of its own process. (A store with
	// Guarantees.InProcess hands over nothing else, whatever the TTL.)
	//
	// Without reserve Wait takes no place, keeps nobody out and hands nothing
	// over; it is woken with all others that wait so when the name may be free.
	// The holder of a shared lock waits so, with the token of its hold, to be
	// promoted; that token is not spent by it.
	//
	// A zero Grant means: try now, with a new token. The store keeps nothing
	// for r.Token then. When Wait returns an error the store has left the queue,
	// and given up what it was handed; or it does so on a context of its own,
	// which Close waits for.
	//
	// A waiter whose process died or was stopped delays those behind it by at
	// most Guarantees.DeadWaiter. The same token never waits twice at once.
	Wait(ctx context.Context, r Request, reserve bool) (Grant, error)
}

// Enqueuer is a Waiter in whose queue a place costs no goroutine: a store that
// lives in this process (Guarantees.InProcess). The face then keeps no line of
// its own in front of it.
type Enqueuer interface {
	Waiter

	// Enqueue is Wait with reserve, without the waiting: when it returns, r has
	// its place. When it is r's turn,
	// answer is called once, with a hold that has its full lease, or with
	// ErrClosed; it is called from any goroutine, with no lock of the store
	// held, and returns at once. leave gives the place up; it reports whether
	// it came in time, so that answer is not called.
	Enqueue(r Request, answer func(Grant, error)) (leave func() bool, err error)
}

// Passer gives a name back and takes it for another caller of the same process,
// with one request where it would be several.
type Passer interface {
	// Pass ends the exclusive hold of token as Release without a cool-down does,
	// and then makes one try for next as Acquire does, in one step: only who
	// waits in the store's queue comes between. next is exclusive, on the same
	// name, replaces nothing, and has a token of its own.
	//
	// The Outcome is that of the Release. A Grant with TTL > 0 is the hold of
	// next; there is one only where the Outcome is Released. Without one next's
	// token is spent, as it is when Acquire refuses: others wait, the name cools
	// down, or token held nothing. So a store may always leave the try out.
	//
	// Repeated with the same tokens it answers as the first time while next's
	// hold is live. After ErrUncertain the two halves are as uncertain as a
	// Release and an Acquire would be.
	Pass(ctx context.Context, token string, next Request) (Outcome, Grant, error)
}

// Converter changes the mode of a live hold to r.Shared.
type Converter interface {
	// Convert makes one try. To exclusive (promotion) it succeeds when this is
	// the only hold, with a new fence; while others read it answers a
	// *HeldError and notes the intent, so that no new reader is let in; if
	// somebody else's intent is noted it answers ErrPromotionConflict. A
	// failed promotion leaves the shared hold as it was, or answers ErrLost.
	//
	// To shared (demotion) it always succeeds while held, and keeps the fence.
	// Converting to the mode already held verifies the hold and withdraws an
	// intent. The lease afterwards lasts as long as before, or for r.TTL. An intent nobody renews lapses within MaxIntent.
	//
	// A store whose promotion is a re-grant says so in its Guarantees: between
	// the two holds another may have come, and the new fence tells.
	Convert(ctx context.Context, r Request) (Grant, error)
}

// Inspector says who holds a name without touching it. A store that cannot know
// here answers errors.ErrUnsupported, perhaps beside what it does know; it never
// says "free" for "cannot know". That holds for Lister too.
type Inspector interface {
	Inspect(ctx context.Context, name string) (State, error)
}

// Lister lists the names that are held, cooling down or waited for and begin
// with prefix, in any order. What changes meanwhile may be missed or doubled.
type Lister interface {
	List(ctx context.Context, prefix string) ([]State, error)
}

// Breaker ends everybody's hold on a name by force.
type Breaker interface {
	// Break ends all holds and the cool-down of name if its fence is still
	// seenFence, as Inspect told; otherwise it answers ErrLost, for it is
	// another hold now. It mints a fence, so that whoever was evicted is
	// rejected where fences are checked, and returns that fence.
	Break(ctx context.Context, name string, seenFence uint64) (fence uint64, err error)
}

// FenceRaiser is what a quorum needs to agree on one fence.
type FenceRaiser interface {
	// RaiseFence makes the fence of a live hold at least fence, and so every
	// later one greater. It answers ErrExpired or ErrLost as Extend does, and
	// never lowers a fence. 2^53 and more is ErrInvalid; 2^53 - 1 is the last
	// fence that the name can have.
	RaiseFence(ctx context.Context, name, token string, fence uint64) error
}

// FileSharer hands the kernel's or the server's end of a hold to a child.
type FileSharer interface {
	// File returns a duplicate of the descriptor that carries the hold, for
	// exec.Cmd.ExtraFiles; the caller closes it. While any copy is open the
	// name stays held, also after Release (which then answers Passed) and
	// after the death of this process.
	File(name, token string) (*os.File, error)
}

// Reporter tells what a live server was found to be.
type Reporter interface {
	// Status asks the server. What could not be read has the value Unknown;
	// an error means that the server could not be asked at all.
	Status(ctx context.Context) ([]Finding, error)
}

// Identifier knows which store this is, so that a key that was made at another store can be told
// apart.
type Identifier interface {
	// StoreID returns an id that stays with the data: whoever opens the same place gets the same
	// id, now and later, and another place has another one. If the data was lost, the id is new.
	// The id is at most [MaxStoreID] bytes of letters, digits, '-' and '_', and no secret.
	//
	// ErrUnavailable: the id is not known as long as the server, or one of the stores that this
	// store is made of, cannot be asked. A caller that does not know one of two ids does not
	// compare them.
	StoreID(ctx context.Context) (string, error)
}

// SamePlacer can say whether two handles lead to one place without asking a server.
type SamePlacer interface {
	// SamePlace reports whether other keeps its locks in the same memory or on the same server as
	// this store, so that both fail together. False says nothing: it may not be known. Callers use
	// the function SamePlace, which looks into wrappers first.
	SamePlace(other Store) bool
}

// Finding is one thing that Status found out.
type Finding struct {
	Name   string // "maxmemory-policy", "uptime", …
	Value  string // as the server says it, or Unknown
	Advice string // what to do about it; empty if nothing
}

// Unknown is the value of a Finding that could not be read.
const Unknown = "unknown"
