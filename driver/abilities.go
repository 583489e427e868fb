package driver

import (
	"context"
	"os"
	"time"
)

// The interfaces in this file are optional. The caller finds them with As. If a store does not have
// one of them, the caller does without it or returns errors.ErrUnsupported.
//
// A store may implement an interface that its configuration, its server or its members cannot
// serve, in whole or in part. Then Guarantees.Lacks says so, and the caller does not call these
// methods. If somebody calls one all the same, it changes nothing and returns
// errors.ErrUnsupported.

// Ability is a set of optional interfaces, or of methods of [Admin] and [Places].
type Ability uint

// Each Ability has the name of its interface or method.
const (
	AbilityWaiter Ability = 1 << iota
	AbilitySlotTaker
	AbilityBatchExtender
	AbilityPasser
	AbilityConverter
	AbilityInspect
	AbilityList
	AbilityBreak
	AbilityFenceRaiser
	AbilityFileSharer
	AbilityStoreID
	AbilitySamePlace
	AbilityRecorder
	AbilityReporter
)

// Waiter waits until a name may be free, or until the store gives the name to the waiter.
//
// # What a waiter gets
//
// When a waiter's turn in the store's queue comes, the store may give it the name. Wait then
// returns a Grant with TTL > 0. The Grant is a reservation or a hold:
//
//   - A reservation is a short lease with the fence that the hold will have. The waiter claims the
//     reservation by calling Acquire with the token that it gave to Wait. Then it has a hold with a
//     full lease.
//   - A hold needs no claim. From is set, and TTL is above [MaxReservation].
//
// A reservation that nobody claims ends by itself. Release gives up a reservation.
//
// If a reservation has From set, the waiter may use the name before the claim, until From+TTL.
// From+TTL is at most MaxReservation after the store made the reservation. If From is zero, the
// waiter must claim the reservation before it uses the name.
//
// A hold that Wait returns may have a lease shorter than Request.TTL at first. The store gives the
// hold its full lease later. A caller that needs the full lease at once calls Extend, or Acquire
// with the token that it gave to Wait.
//
// A store with Guarantees.InProcess makes no reservations. It gives each waiter a hold with its
// full lease, even if the TTL is short.
type Waiter interface {
	// Wait returns when another try for r may succeed: the store has woken the waiter, or the
	// holder's lease has ended. A wake-up is only a hint. The name may still be taken.
	//
	// If reserve is true, the waiter joins the store's queue, if there is one. If the store then
	// gives the name to the waiter, Wait returns a Grant with TTL > 0; see [Waiter].
	//
	// If reserve is false, the waiter joins no queue, and the store does not give it the name. When
	// the name may be free, the store wakes all such waiters together. A reader that wants to be
	// promoted waits in this way, with the token of its shared hold in r.Token. Wait does not spend
	// that token.
	//
	// A zero Grant means that the caller should try now, with a new token. The store then keeps
	// nothing for r.Token.
	//
	// When Wait returns an error, the store gives up the place in the queue and any reservation.
	// The store may do this in the background, after Wait has returned. Close waits until the store
	// has done it.
	//
	// After joining the queue, Wait checks the name once more. So it misses no wake-up that came
	// after the caller's try. Other programs may use the same locks and wake nobody. Then Wait also
	// returns from time to time. A short loss of the connection does not end Wait, unless the place
	// in the queue is lost.
	//
	// A caller ends a wait by ctx, and not by Release. If Release is called with r.Token during the
	// wait, Wait returns a zero Grant, or goes on with a new place until ctx ends.
	//
	// A waiter whose process died or was stopped delays the waiters behind it by at most
	// Guarantees.DeadWaiter. No token is in two waits at the same time.
	Wait(ctx context.Context, r Request, reserve bool) (Grant, error)

	// JoinFirst reports whether a caller that may wait for name should call Wait with reserve true
	// at once, instead of trying Acquire first. The answer is a guess from the hand-overs that the
	// store has just seen. If the guess is wrong and the name is free, the request that Wait sends
	// takes the name. The guess is only for exclusive requests without Replaces, AtLeast and
	// FenceAbove, and with a TTL above MaxReservation.
	//
	// JoinFirst sends nothing and returns at once. It returns false if the store cannot be reached.
	// A store that does not guess always returns false.
	JoinFirst(name string) bool
}

// SlotTaker tries all permits of a name with slots in one step, and takes one of them; see
// [SlotName].
type SlotTaker interface {
	// AcquireSlot makes one try for any of the permits 0 to n-1 of r.Name. In one step it does what
	// Acquire would do for the names SlotName(r.Name, 0) to SlotName(r.Name, n-1), one after the
	// other, until one is granted. The grant is a hold of r.Token on SlotName(r.Name, slot), like
	// any other hold. If r.Token has such a hold already, the request is a repeat, and returns that
	// hold.
	//
	// If none of the permits can be granted, the error is a *HeldError with the holds of all of
	// them.
	//
	// Several callers may wait for any of the n permits. Their queue is the queue of another lock,
	// the gate, whose name is SlotGate(r.Name, n). If a caller holds the gate or waits for it, a
	// new caller must queue too. So the error is a *HeldError even if a permit is free. If overtake
	// is true, AcquireSlot ignores the gate. The caller sets overtake if it holds the gate itself,
	// or if it does not wait and so may overtake the waiting callers.
	//
	// If r is shared, has Replaces, AtLeast or FenceAbove, or if n is above
	// Guarantees.SlotsAtOnce, the error is ErrInvalid. Such a caller tries one permit after the
	// other.
	AcquireSlot(ctx context.Context, r Request, n int, overtake bool) (slot int, g Grant, err error)
}

// BatchExtender extends the leases of many holds with few requests.
type BatchExtender interface {
	// ExtendBatch does for every hold in the list what Extend does, and returns what Extend would
	// return, in the same order. If one hold cannot be extended, or the name of one hold causes an
	// error, the other holds are extended all the same. No token occurs twice in the list.
	//
	// If the error is not nil, nothing was sent. The error is errors.ErrUnsupported if the caller
	// has to call Extend for each hold, and ErrInvalid if an argument is invalid.
	ExtendBatch(ctx context.Context, holds []Extension) ([]Extended, error)
}

// Extension has the arguments of Extend for one hold of a batch.
type Extension struct {
	Name, Token string
	TTL         time.Duration
}

// Extended is the result of Extend for one hold of a batch. If Err is not nil, Grant is empty.
type Extended struct {
	Grant Grant
	Err   error
}

// Passer releases a name and takes it for another caller of the same process, with one request
// instead of several.
type Passer interface {
	// Pass hands a lock from one caller of a process to the next with one request. It ends the
	// exclusive hold of token, as Release without a cool-down does. Then it makes one try for r, as
	// Acquire does. After the release and before the try, only a waiter in the store's queue can
	// get the name. The request r must be exclusive, for the same name, and with another token. Its
	// field Replaces must be empty.
	//
	// Pass returns the Outcome of the release. If r was granted, the Grant has a TTL above 0, and
	// the Outcome is Released. Pass does not grant r if other callers wait, if the name cools down,
	// or if token held nothing. A store may also end the hold without making the try. If r was not
	// granted and queued is false, r.Token is spent: the caller must not use it again.
	//
	// If a waiter in the store's queue gets the name, Pass may put r at the end of that queue, in
	// the same step. Then queued is true, the Grant is empty, and r.Token is not spent. A caller
	// whose request has a place must soon call Wait with the same request and with reserve true.
	// Wait then waits at that place. If the caller does not want the name any more, it calls
	// Release with r.Token instead. If the caller does neither, the place delays the waiters behind
	// it by at most Guarantees.DeadWaiter. A store that is not a [Waiter] gives no place.
	//
	// If Pass is repeated with the same tokens while the new hold is live, or before Wait or
	// Release was called for the place, it returns the same result as the first time. After
	// ErrUncertain, the outcomes of the release and of the try are both unknown, and r may have a
	// place in the queue.
	Pass(ctx context.Context, token string, r Request) (out Outcome, g Grant, queued bool, err error)
}

// Converter makes a shared hold exclusive, or an exclusive hold shared.
type Converter interface {
	// Convert makes one try. The result depends on the mode that r asks for.
	//
	// Promotion: r is exclusive and the hold is shared. If this is the only hold, Convert succeeds,
	// and the hold gets a new fence. If other readers hold the name, Convert returns a *HeldError
	// and records an intent: the reader wants to be promoted. As long as the intent lasts, no new
	// reader gets the name. An intent ends after MaxIntent at the latest, unless the reader calls
	// Convert again. If another reader has an intent already, Convert returns ErrPromotionConflict.
	// After a failed promotion, the reader still has its shared hold, unless the error is ErrLost.
	//
	// Demotion: r is shared and the hold is exclusive. Convert succeeds if the hold is live, and
	// keeps the fence.
	//
	// If the hold already has the mode of r, Convert only verifies the hold and withdraws its
	// intent.
	//
	// Afterwards the lease lasts as long as before, or for r.TTL if that is longer.
	//
	// Some stores cannot promote a hold in one step: they end the shared hold and then grant an
	// exclusive one (see Regrant). Another holder may have had the name in between. The new fence
	// shows this.
	Convert(ctx context.Context, r Request) (Grant, error)
}

// Admin shows people who has and who wants a name, and ends holds by force. A store may lack one or
// two of the methods.
type Admin interface {
	// Inspect returns the state of name as far as the store knows it, and changes nothing. If the
	// store cannot know the holders of this name now, Inspect returns errors.ErrUnsupported.
	// Together with that error, it may return the part of the state that it knows. If the store
	// cannot know whether a name is free, Inspect does not report the name as free.
	Inspect(ctx context.Context, name string) (State, error)

	// List returns the names that begin with prefix and are held, are cooling down or have waiters,
	// in any order. It may miss or repeat a name that changes meanwhile. If the store cannot know
	// all of these names now, List returns errors.ErrUnsupported. Together with that error, or with
	// ErrUnavailable, List may return the names that it knows.
	List(ctx context.Context, prefix string) ([]State, error)

	// Break ends all holds and the cool-down of name if the fence of name is still seenFence, the
	// one that Inspect returned. Otherwise it returns ErrLost, because the name has another hold
	// now. Break mints a new fence and returns it. So a resource that checks fences rejects an
	// evicted holder. If nobody but the holder can end the hold that name has now, Break returns
	// errors.ErrUnsupported.
	Break(ctx context.Context, name string, seenFence uint64) (fence uint64, err error)
}

// FenceRaiser raises the fence of a hold, so that the members of a quorum agree on one fence.
type FenceRaiser interface {
	// RaiseFence makes sure that the fence of a live hold is at least the given one, and that every
	// later fence is greater. It never lowers a fence. It returns ErrExpired or ErrLost as Extend
	// does. If the given fence is 2^53 or more, RaiseFence returns ErrInvalid; 2^53 - 1 is the last
	// fence that a name can have.
	RaiseFence(ctx context.Context, name, token string, fence uint64) error
}

// FileSharer lets a child process share a hold of this process.
type FileSharer interface {
	// File returns a duplicate of the file descriptor that carries the hold, for
	// exec.Cmd.ExtraFiles. The caller must close the duplicate. While any copy is open, the name
	// stays held, even after Release (which then returns Inherited) and after the death of this
	// process.
	File(name, token string) (*os.File, error)
}

// Places tells where locks are kept. A store may lack StoreID and SamePlace.
type Places interface {
	// StoreID returns an id that stays with the data, so that a key that was made at another store
	// can be recognised. Every program that opens the same store gets the same id, now and later,
	// and another store has another id. If the data was lost, the store gets a new id. An id has at
	// most [MaxStoreID] bytes of letters, digits, '-' and '_'. It is not a secret.
	//
	// ErrUnavailable means that the id cannot be known now, because the server, or a member of a
	// composite store, cannot be reached. The caller compares two ids only if both are known.
	StoreID(ctx context.Context) (string, error)

	// Location returns a text that is the same for two names if, and only if, they share one lock.
	// It sends no request. If the name is not valid, it returns ErrInvalid. Without
	// Guarantees.Hashed, no two names have the same location.
	Location(name string) (string, error)

	// SamePlace reports whether this store and the store in the parameter keep their locks in the
	// same memory or on the same server, so that both fail together. It sends no request. If the
	// store cannot tell, SamePlace returns false. Callers use the function [SamePlace], which
	// removes wrappers first.
	SamePlace(other Store) bool
}

// Recorder keeps a short history for each name, such as the last runs of a job, so that several
// machines share it. The history is kept apart from the locks: no method needs a lock or changes
// one. Package history writes and reads the records.
type Recorder interface {
	// Record adds records to the history of name. A record replaces the one with the same ID. In
	// each series, the store keeps the MaxRecords records with the greatest IDs and removes the
	// others. Record first calls CheckName and CheckRecords. After ErrUncertain, a repeat is
	// harmless.
	Record(ctx context.Context, name string, records []Record) error

	// Records returns the records of name, sorted by ID. For a name without records, Records
	// returns no records and no error.
	Records(ctx context.Context, name string) ([]Record, error)

	// RecordedNames returns the names that begin with prefix and have records, in any order. Names
	// may have records without being held. RecordedNames may miss or repeat a name that changes
	// meanwhile.
	RecordedNames(ctx context.Context, prefix string) ([]string, error)
}

// Reporter reports the state of a live server.
type Reporter interface {
	// Status asks the server. A finding that could not be read has the value Unknown. An error
	// means that the server could not be asked at all.
	Status(ctx context.Context) ([]Finding, error)
}

// Finding is one fact about a server, as Status found it.
type Finding struct {
	Name   string // "maxmemory-policy", "uptime", …
	Value  string // as the server reports it, or Unknown
	Advice string // what the operator should do about it; empty if there is nothing to do
}

// Unknown is the value of a Finding that could not be read.
const Unknown = "unknown"
