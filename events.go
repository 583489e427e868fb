package padlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// EventKind says what happened.
type EventKind int

// An acquire (Acquire, TryAcquire, Do or Adopt) begins with EventAcquiring and ends with either
// EventAcquired or EventRefused. A hold begins with EventAcquired and ends with exactly one of
// EventReleasing, EventLost and EventEnded, whichever comes first. EventReleased follows when
// Release has its result. So a program can count the locks that are held: it adds 1 for each
// EventAcquired, and subtracts 1 for each EventReleasing, EventLost or EventEnded.
const (
	// EventAcquiring: an acquire begins.
	EventAcquiring EventKind = iota
	// EventContended: another holder has the name, and this caller waits or gives up. Each acquire
	// has at most one EventContended. Err is the *HeldError. It is nil if the caller joins a queue
	// without asking the store. That happens if its Locker holds the lock, or if other callers of
	// its Locker already wait.
	EventContended
	// EventAcquired: the lock was granted. Event.Took is the time since the acquire began.
	EventAcquired
	// EventRefused: an acquire failed. Err and Outcome tell the reason. Event.Took is the time
	// since the acquire began.
	EventRefused
	// EventRenewed: the lease was extended, by the Locker or by Extend. Event.Slack is how much of
	// the lease was left when the store confirmed the renewal. Event.Took is the duration of the
	// request.
	EventRenewed
	// EventRenewFailed: the store did not confirm a renewal. The Locker tries again until the lease
	// ends. Err tells the reason, and Event.Slack is how much of the lease is left.
	EventRenewFailed
	// EventConverted: Promote or Demote ended, or the Locker noticed that another program demoted
	// the lock. Event.Mode is the mode of the lock from now on, and Event.Err is the error that
	// Promote or Demote returned.
	EventConverted
	// EventLost: a lock ended before its Release, against the caller's will. Err is ErrLost or
	// ErrExpired. Outcome is OutcomeExpired if no renewal was confirmed in time, and OutcomeLost if
	// the store says that the lock is gone. Event.Took is how long the lock was held.
	EventLost
	// EventEnded: a lock ended before its Release, for one of these reasons:
	//
	//   - The time of HoldAtMost was over. Event.Err is ErrMaxHold.
	//   - The lock was taken with NoRenewal, and its lease ran out. Event.Err is ErrLost or
	//     ErrExpired.
	//   - The Locker was closed and did not release the lock, because the lock was exported or the
	//     store did not reply. Event.Err is ErrClosed.
	//
	// Event.Took is how long the lock was held.
	EventEnded
	// EventReleasing: the release of the lock begins. The lock is released by Release, by Close, or
	// by Do when its function has returned. The hold is over in this process, but nothing has been
	// sent to the store yet. Event.Took is how long the lock was held. Event.Err is the error that
	// the function of Do or DoAll returned. If the function panicked, Event.Err says so.
	EventReleasing
	// EventReleased: the release is done. Err is the error that Release returns. Event.Took is how
	// long the lock was held.
	EventReleased
	// EventForgotten: a Lock was garbage-collected without Release or Export. The lock stays
	// held and renewed until its HoldAtMost or Locker.Close.
	EventForgotten
	// EventUncertain: a request to acquire or release a lock got no reply. If a lock may be left in
	// the store, the Locker releases it in the background.
	EventUncertain
	// EventCleaned: a release in the background (see EventUncertain) is done. Event.Took is the
	// time since EventUncertain.
	EventCleaned
	// EventDropped: the Locker gave up a release in the background (see EventUncertain). The lock
	// may still be in the store. If so, the lock stays there until its lease ends. Err says why.
	EventDropped
)

var eventNames = [...]string{
	"acquiring", "contended", "acquired", "refused", "renewed", "renewal failed", "converted",
	"lost", "ended", "releasing", "released", "forgotten", "uncertain", "cleaned up", "clean-up dropped",
}

// String returns the name of the event, as it appears in logs.
func (k EventKind) String() string { return nameOf("EventKind", int(k), eventNames[:]) }

// starts reports whether k is the first event of an acquire, a hold or a release.
func (k EventKind) starts() bool {
	return k == EventAcquiring || k == EventAcquired || k == EventReleasing
}

// level is the level at which the event is logged.
func (k EventKind) level() slog.Level {
	switch k {
	case EventLost, EventDropped:
		return slog.LevelError
	case EventRenewFailed, EventUncertain, EventForgotten:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// Mode says whether a lock is exclusive or shared. A shared lock excludes only exclusive locks.
type Mode int

// The modes of a lock.
const (
	ModeExclusive Mode = iota
	ModeShared
)

var modeNames = [...]string{"exclusive", "shared"}

// String returns "exclusive" or "shared".
func (m Mode) String() string { return nameOf("Mode", int(m), modeNames[:]) }

func modeOf(shared bool) Mode {
	if shared {
		return ModeShared
	}
	return ModeExclusive
}

// Outcome says how an acquire, a hold or a request ended, in one word that can be the label of a
// metric.
type Outcome int

const (
	// OutcomeNone: the event did not end anything.
	OutcomeNone Outcome = iota
	// OutcomeAcquired: the lock was granted.
	OutcomeAcquired
	// OutcomeHeld: another holder has the name. The caller did not want to wait (TryAcquire,
	// Wait(0)), or SkipIfOutlived ended its wait.
	OutcomeHeld
	// OutcomeTimeout: the time of Wait, or the deadline of the context, was over.
	OutcomeTimeout
	// OutcomeCanceled: the context was cancelled.
	OutcomeCanceled
	// OutcomeUnavailable: the store was not available.
	OutcomeUnavailable
	// OutcomeUncertain: the store did not reply.
	OutcomeUncertain
	// OutcomeInvalid: the call had an invalid parameter, or the store does not support the call.
	OutcomeInvalid
	// OutcomeTooManyWaiters: see MaxWaiters.
	OutcomeTooManyWaiters
	// OutcomeClosed: the Locker was closed.
	OutcomeClosed
	// OutcomeReleased: the lock was held until its release.
	OutcomeReleased
	// OutcomeExpired: the lease ran out.
	OutcomeExpired
	// OutcomeLost: the store reports that the lock is gone. Another client took it or broke it.
	OutcomeLost
	// OutcomeMaxHold: the lock was held for as long as HoldAtMost allows.
	OutcomeMaxHold
	// OutcomeError: any other error; see Event.Err.
	OutcomeError
)

var outcomeNames = [...]string{
	"none", "acquired", "held", "timeout", "canceled", "unavailable", "uncertain", "invalid",
	"too_many_waiters", "closed", "released", "expired", "lost", "max_hold", "error",
}

// String returns the outcome in lower case, with "_" between words.
func (o Outcome) String() string { return nameOf("Outcome", int(o), outcomeNames[:]) }

// acquireOutcome is the outcome of an acquire that failed with err. timedOut means that the time of
// Wait was over.
func acquireOutcome(err error, timedOut bool) Outcome {
	return firstOutcome(err, []outcomeRule{
		{ErrClosed, OutcomeClosed},
		{context.Canceled, OutcomeCanceled}, {context.DeadlineExceeded, OutcomeTimeout}, {ErrTooManyWaiters, OutcomeTooManyWaiters},
		{ErrInvalid, OutcomeInvalid}, {errors.ErrUnsupported, OutcomeInvalid}, {ErrAlreadyHeld, OutcomeInvalid},
		{ErrHeld, heldOutcome(timedOut)}, {ErrUncertain, OutcomeUncertain}, {ErrUnavailable, OutcomeUnavailable},
		{ErrExpired, OutcomeExpired}, {ErrLost, OutcomeLost},
	})
}

func heldOutcome(timedOut bool) Outcome {
	if timedOut {
		return OutcomeTimeout
	}
	return OutcomeHeld
}

// holdOutcome returns the outcome of a hold that has ended, or of a request to extend, convert or
// release a hold. err is the reason why the hold has ended, or the error of the request, which may
// be nil.
func holdOutcome(err error) Outcome {
	if err == nil || err == ErrReleased {
		return OutcomeReleased
	}
	return firstOutcome(err, []outcomeRule{
		{ErrMaxHold, OutcomeMaxHold}, {ErrExpired, OutcomeExpired},
		{ErrLost, OutcomeLost}, {ErrClosed, OutcomeClosed}, {context.Canceled, OutcomeCanceled}, {context.DeadlineExceeded, OutcomeTimeout},
		{ErrInvalid, OutcomeInvalid}, {errors.ErrUnsupported, OutcomeInvalid}, {ErrHeld, OutcomeHeld},
		{ErrPromotionConflict, OutcomeHeld}, {ErrUncertain, OutcomeUncertain}, {ErrUnavailable, OutcomeUnavailable},
	})
}

type outcomeRule struct {
	err     error
	outcome Outcome
}

// firstOutcome returns the outcome of the first rule that matches err. A rule matches if err wraps
// the rule's error, as errors.Is reports.
func firstOutcome(err error, rules []outcomeRule) Outcome {
	for _, r := range rules {
		if errors.Is(err, r.err) {
			return r.outcome
		}
	}
	return OutcomeError
}

// HandOver is the way in which a lock went directly from one holder to the next, without being free
// for a moment.
type HandOver int

const (
	// NoHandOver: the lock was free, or it is not known how the holder got it.
	NoHandOver HandOver = iota
	// HandOverByQueue: the queue in the store handed the lock to its first waiter.
	HandOverByQueue
	// HandOverByRelease: the request that released the lock also granted it to a waiter of the same
	// Locker.
	HandOverByRelease
)

var handOverNames = [...]string{"none", "queue", "release"}

// String returns "none", "queue" or "release".
func (h HandOver) String() string { return nameOf("HandOver", int(h), handOverNames[:]) }

// Event is something that happened to a lock, for metrics, traces and logs. A later version may add
// fields and kinds.
type Event struct {
	Kind     EventKind
	Store    string // Guarantees.Store: "redis", …
	Name     string
	Mode     Mode
	Outcome  Outcome
	Took     time.Duration // see the EventKinds
	Slack    time.Duration // what was left of the lease; see EventRenewed
	Fence    uint64        // 0 if there is no grant, or if the store has no fences
	HandOver HandOver      // in EventAcquired: how the lock came from the previous holder; in EventReleased: how it went to the next one
	Err      error
}

// nameOf is for the String methods of integer types. It returns names[i], which is the name of the
// constant i. If names has no element i, nameOf returns the type and the number, such as "Mode(7)".
func nameOf(typeName string, i int, names []string) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("%s(%d)", typeName, i)
	}
	return names[i]
}
