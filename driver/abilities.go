package driver

import (
	"context"
	"os"
)

// The interfaces in this file are optional, with one method each. The caller finds them with As,
// and without one it falls back or returns errors.ErrUnsupported. A method may return
// errors.ErrUnsupported itself, as those of a store made of stores must. The caller takes that as
// if the method were missing.

// Waiter waits for a turn.
type Waiter interface {
	// Wait returns when it is worth asking again for r. It looks at the name once more after
	// joining the queue, so that it misses no wake-up between the caller's try and the joining. A
	// wake-up is a hint: Wait also returns when the holder's lease ends, and from time to time if
	// other programs take the name without waking anybody. It survives a short loss of the
	// connection, and returns an error only if its place is lost.
	//
	// With reserve, Wait joins the store's queue, if there is one, and the store may hand the name
	// over. A Grant with TTL > 0 is a reservation for r.Token, with the fence that the hold will
	// have. It can be used until From+TTL, at most [MaxReservation] after it was made. If From is
	// zero, the store does not know when that was, and the reservation must be claimed before it is
	// used. Acquire with the same token claims it, and then it has a full lease. Release gives it
	// up, and so does the end of its time. A Grant with From and a TTL above MaxReservation is no
	// reservation but the hold with its full lease, which needs no claim: so a release can hand
	// over to a waiter of its own process. (A store with Guarantees.InProcess hands over only such
	// holds, whatever their TTL.)
	//
	// Without reserve, Wait takes no place, keeps nobody out and hands nothing over. It is woken,
	// together with all others that wait so, when the name may be free. The holder of a shared lock
	// that wants to be promoted waits so, with the token of its hold, and Wait does not spend that
	// token.
	//
	// A zero Grant means: try now, with a new token. The store then keeps nothing for r.Token. When
	// Wait returns an error, the store has left the queue and given up what it was handed, or it
	// does so on a context of its own that Close waits for.
	//
	// A waiter whose process died or was stopped delays those behind it by at most
	// Guarantees.DeadWaiter. The same token never waits twice at once.
	Wait(ctx context.Context, r Request, reserve bool) (Grant, error)
}

// Enqueuer is a Waiter in whose queue a place costs no goroutine: a store that lives in this
// process (Guarantees.InProcess). The caller then keeps no queue of its own in front of it, so
// Enqueue returns errors.ErrUnsupported always or never.
type Enqueuer interface {
	Waiter

	// Enqueue is Wait with reserve, without the waiting: when it returns, r has its place. When it
	// is r's turn, the store calls answer once, with a hold that has its full lease, or with
	// ErrClosed. The call comes from any goroutine, while no lock of the store is held, and answer
	// returns at once. leave gives the place up. It reports whether it came in time, so that answer
	// is not called.
	Enqueue(r Request, answer func(Grant, error)) (leave func() bool, err error)
}

// Passer gives a name back and takes it for another caller of the same process, with one request
// instead of several.
type Passer interface {
	// Pass ends the exclusive hold of token as Release without a cool-down does, and then makes one
	// try for next as Acquire does. Both are one step: only a waiter in the store's queue comes
	// between. next is exclusive, on the same name, replaces nothing, and has a token of its own.
	//
	// The Outcome is that of the Release. A Grant with TTL > 0 is the hold of next; there is one
	// only if the Outcome is Released. Without a Grant, next's token is spent, as it is when
	// Acquire refuses: others wait, the name cools down, or token held nothing. So a store may
	// always leave the try out.
	//
	// Repeated with the same tokens, Pass returns the same as the first time while next's hold is
	// live. After ErrUncertain the two halves are as uncertain as a Release and an Acquire would
	// be.
	Pass(ctx context.Context, token string, next Request) (Outcome, Grant, error)
}

// Converter changes the mode of a live hold to r.Shared.
type Converter interface {
	// Convert makes one try.
	//
	// To exclusive (promotion), it succeeds if this is the only hold, with a new fence. While
	// others read, it returns a *HeldError and notes the intent, so that no new reader is let in.
	// If another reader's intent is noted, it returns ErrPromotionConflict. A failed promotion
	// leaves the shared hold as it was, or returns ErrLost. An intent that is not renewed by
	// another Convert lapses within MaxIntent.
	//
	// To shared (demotion), it always succeeds while the name is held, and keeps the fence.
	//
	// To the mode that the hold has, it verifies the hold and withdraws an intent. The lease
	// afterwards lasts as long as before, or for r.TTL if that is longer.
	//
	// A store whose promotion is a re-grant says so in its Guarantees: another holder may have come
	// between the two holds, and the new fence shows it.
	Convert(ctx context.Context, r Request) (Grant, error)
}

// Inspector reports who holds a name without touching it.
type Inspector interface {
	// Inspect returns what the store knows of name. A store that cannot know returns
	// errors.ErrUnsupported, and perhaps, together with it, the part that it knows. It never
	// reports a name as free because it cannot know.
	Inspect(ctx context.Context, name string) (State, error)
}

// Lister lists names.
type Lister interface {
	// List returns the names that are held, cooling down or waited for and begin with prefix, in
	// any order. It may miss or repeat a name that changes meanwhile. A store that cannot know
	// returns errors.ErrUnsupported, as for Inspect.
	List(ctx context.Context, prefix string) ([]State, error)
}

// Breaker ends everybody's hold on a name by force.
type Breaker interface {
	// Break ends all holds and the cool-down of name if its fence is still seenFence, as Inspect
	// returned it. Otherwise it returns ErrLost, because the name has another hold now. It mints a
	// fence, so that an evicted holder is rejected where fences are checked, and returns that
	// fence.
	Break(ctx context.Context, name string, seenFence uint64) (fence uint64, err error)
}

// FenceRaiser raises the fence of a hold, so that the members of a quorum agree on one.
type FenceRaiser interface {
	// RaiseFence makes the fence of a live hold at least fence, and so every later one greater. It
	// returns ErrExpired or ErrLost as Extend does, and never lowers a fence. 2^53 and more is
	// ErrInvalid; 2^53 - 1 is the last fence that the name can have.
	RaiseFence(ctx context.Context, name, token string, fence uint64) error
}

// FileSharer shares a hold with a child process.
type FileSharer interface {
	// File returns a duplicate of the file descriptor that carries the hold, for
	// exec.Cmd.ExtraFiles. The caller closes it. While any copy is open the name stays held, even
	// after Release (which then returns Inherited) and after the death of this process.
	File(name, token string) (*os.File, error)
}

// Identifier knows which store this is, so that a key that was made at another store is recognised.
type Identifier interface {
	// StoreID returns an id that stays with the data: everybody who opens the same place gets the
	// same id, now and later, and another place has another id. If the data was lost, the id is
	// new. An id is at most [MaxStoreID] bytes of letters, digits, '-' and '_', and no secret.
	//
	// ErrUnavailable means that the id is not known while the server, or a member of a store made
	// of stores, cannot be reached. A caller that does not know one of two ids does not compare
	// them.
	StoreID(ctx context.Context) (string, error)
}

// SamePlacer knows, without a request, whether two stores are in one place.
type SamePlacer interface {
	// SamePlace reports whether other keeps its locks in the same memory or on the same server as
	// this store, so that both fail together. False says nothing, because it may not be known. Use
	// the function [SamePlace], which looks into wrappers first.
	SamePlace(other Store) bool
}

// Reporter reports the state of a live server.
type Reporter interface {
	// Status asks the server. A finding that could not be read has the value Unknown. An error
	// means that the server could not be asked at all.
	Status(ctx context.Context) ([]Finding, error)
}

// Finding is one thing that Status found out.
type Finding struct {
	Name   string // "maxmemory-policy", "uptime", …
	Value  string // as the server says it, or Unknown
	Advice string // what to do about it; empty if nothing
}

// Unknown is the value of a Finding that could not be read.
const Unknown = "unknown"
