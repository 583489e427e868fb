package driver

import (
	"context"
)

// Ability is a set of optional interfaces and methods.
type Ability uint

// Each has the name of its interface or method.
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

// Waiter waits until a name may be free, or until the store gives it to the waiter. Then Wait
// returns a Grant with TTL > 0:
//
//   - A reservation is a short lease, with the fence that the hold will have. Acquire with the same
//     token claims it, and returns a hold with a full lease. Nobody uses the name before that.
//     Release gives the reservation up. Otherwise it ends at most [MaxReservation] after it was
//     made, or later if the store knows that the claim takes longer.
//   - A hold needs no claim. From is set, and TTL is above MaxReservation. The store may give it
//     its full lease later; Extend, or Acquire with the same token, gives it at once.
//
// With Guarantees.InProcess there are no reservations, and every hold has its full lease.
type Waiter interface {
	// Wait returns when the store wakes the waiter, or the holder's lease has ended; the name may
	// still be taken. A zero Grant means that the caller should try with a new token. The store
	// then keeps nothing for r.Token.
	//
	// If reserve is true, the waiter joins the store's queue, if there is one. Otherwise it is
	// given nothing, and the store wakes all such waiters together. A reader that wants to be
	// promoted waits in this way, with the token of its hold, which is not spent.
	//
	// After joining the queue, Wait checks the name once more. If other programs may use the name
	// and wake nobody, it also returns from time to time. A short loss of the connection does not
	// end Wait, unless the place in the queue is lost.
	//
	// After an error, the store gives up the place in the queue and any reservation, perhaps in the
	// background. The error may be [ErrQueueFull], and is never a *HeldError. A caller ends a wait
	// by ctx. After a Release of r.Token, Wait returns a zero Grant, or goes on with a new place.
	// No token is in two waits at a time.
	Wait(ctx context.Context, r Request, reserve bool) (Grant, error)
}

// Converter makes one try to give the hold of r.Token the mode of r. The lease lasts as long as
// before, or for r.TTL if that is longer.
//
// Promotion, to exclusive: if this is the only hold, it gets a new fence. Otherwise the error is a
// *HeldError, and the store records an intent, which keeps new readers out until at most MaxIntent
// after the last Convert. If another reader has an intent, the error is ErrPromotionConflict. A
// failed promotion leaves the shared hold as it was, unless the error is ErrLost.
//
// Demotion, to shared: the hold keeps its fence. If the hold has the mode of r, Convert verifies it
// and withdraws its intent.
type Converter interface {
	Convert(ctx context.Context, r Request) (Grant, error)
}

// Admin shows holds, and ends them by force.
type Admin interface {
	// Inspect returns the state of name and changes nothing. If the store cannot know the holders
	// now, the error is errors.ErrUnsupported, perhaps with a part of the State. It never guesses
	// that a name is free.
	Inspect(ctx context.Context, name string) (State, error)

	// List returns the names that begin with prefix and are held, cool down or have waiters, in any
	// order. It may miss or repeat a name that changes meanwhile. If the store cannot know all of
	// them now, it returns errors.ErrUnsupported, perhaps with some names.
	List(ctx context.Context, prefix string) ([]State, error)

	// Break ends all holds and the cool-down of name, and mints a new fence. If the fence is not
	// seenFence, which Inspect returned, the error is ErrLost. If only the holder can end its hold,
	// the error is errors.ErrUnsupported.
	Break(ctx context.Context, name string, seenFence uint64) (fence uint64, err error)
}

// FenceRaiser makes the fence of a live hold at least the given one, and every later exclusive one greater.
// It never lowers a fence. The errors are those of Extend and [CheckFence].
type FenceRaiser interface {
	RaiseFence(ctx context.Context, name, token string, fence uint64) error
}

// Places tells where locks are kept. Only StoreID sends requests.
type Places interface {
	// StoreID returns a unique id that is kept with the data: the same in every program, and a new
	// one after the data was lost. It has at most [MaxStoreID] letters, digits, '-' and '_', and is
	// no secret. If it cannot be known now, the error is ErrUnavailable.
	StoreID(ctx context.Context) (string, error)

	// Location returns a text that is the same for two names if, and only if, they share one lock.
	Location(name string) (string, error)

	// SamePlace is for the function [SamePlace]. It reports whether both stores are known to fail
	// together, as on one server.
	SamePlace(other Store) bool
}

// Reporter asks the server how it is. It fails only if the server cannot be asked.
type Reporter interface {
	Status(ctx context.Context) ([]Finding, error)
}

// Finding is one fact about a server.
type Finding struct {
	Name   string // "maxmemory-policy", …
	Value  string // as the server reports it
	Advice string // what the operator should do, if anything
}

// Unknown is a Finding.Value that could not be read.
const Unknown = "unknown"
