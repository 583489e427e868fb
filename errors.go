package padlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// The errors of this package. Use errors.Is to find them. One error may match several of them, and
// also context.Canceled, context.DeadlineExceeded or errors.ErrUnsupported.
var (
	// ErrHeld: another holder has the name, now or at the end of the wait. errors.As finds the
	// *HeldError with the holders and their times.
	ErrHeld = driver.ErrHeld
	// ErrExpired: the lease ran out before the release. No padlock client has taken the lock since.
	// Redis can tell that only with redisstore.OnlyPadlock, because other programs leave no trace
	// there; without it, the error is ErrLost. The cause of a Context matches both ErrExpired and
	// ErrLost if the lease ran out by the clock of this process. Check, Extend and Release ask the
	// store, and return the one that is true.
	ErrExpired = driver.ErrExpired
	// ErrLost: the lock is gone. Another client took it or broke it, or the store cannot tell what
	// happened.
	ErrLost = driver.ErrLost
	// ErrUncertain: the request may or may not have been carried out, because its reply was lost,
	// or because the caller did not wait for the reply. If a lock may have been granted, the Locker
	// releases it in the background. If that fails too, the lock ends with its lease.
	ErrUncertain = driver.ErrUncertain
	// ErrUnavailable: the store is not available, and nothing was changed.
	ErrUnavailable = driver.ErrUnavailable
	// ErrPromotionConflict: another reader asked for its promotion first. That reader waits until
	// all other readers have left. Release the shared lock and take an exclusive one.
	ErrPromotionConflict = driver.ErrPromotionConflict
	// ErrInvalid: a parameter is out of range. No request was sent, except for a Release with a
	// cool-down that is out of range: Release always releases.
	ErrInvalid = driver.ErrInvalid
	// ErrAlreadyHeld: the caller's context comes from a lock on the same name, of this Locker or of
	// another one with the same Store, so the caller would wait for itself.
	ErrAlreadyHeld = driver.ErrAlreadyHeld
	// ErrClosed: the Locker was closed, or its store was: by another Locker with this store, unless
	// that one has KeepStoreOpen.
	ErrClosed = driver.ErrClosed

	// ErrMaxHold: the lock was held for as long as HoldAtMost allows.
	ErrMaxHold = errors.New("lock was held for its maximum time")
	// ErrReleased: the lock was released before.
	ErrReleased = errors.New("lock was released")
	// ErrTooManyWaiters: MaxWaiters goroutines wait for this name already.
	ErrTooManyWaiters = errors.New("too many waiters")
)

// errWaitOver is the cause of a wait that the Wait option ended. It never leaves the package: the
// caller gets ErrHeld.
var errWaitOver = errors.New("the time to wait is over")

// HeldError is ErrHeld with the holders of the name: Holds []Hold is what is in the way, Until when
// the last of them ends if none is renewed, and Waiters how many are ahead (-1 if unknown). See
// driver.HeldError for its methods.
type HeldError = driver.HeldError

// Op is the operation that failed.
type Op string

// The operations of an Error.
const (
	OpAcquire Op = "acquire" // Acquire, TryAcquire and Do
	OpAdopt   Op = "adopt"
	OpHold    Op = "hold" // the cause of a Lock.Context that has ended
	OpCheck   Op = "check"
	OpExtend  Op = "extend" // Extend and ExtendKey
	OpPromote Op = "promote"
	OpDemote  Op = "demote"
	OpExport  Op = "export"
	OpFile    Op = "file"
	OpRelease Op = "release" // Release, ReleaseKey and the end of Do
	OpInspect Op = "inspect"
	OpList    Op = "list"
	OpBreak   Op = "break"
	OpAsk     Op = "ask"
	OpStatus  Op = "status"
	OpClose   Op = "close"
)

// Error is the type of all errors of a Locker and a Lock.
type Error struct {
	Op   Op
	Name string // the name of the lock, or the prefix that was listed; empty if the operation concerns no name
	Err  error
}

// Error returns operation, name and cause in one line.
func (e *Error) Error() string {
	cause := strings.ReplaceAll(e.Err.Error(), "\n", "; ") // errors that a store has joined
	if e.Name == "" {                                      // Close, Status and List of all names
		return "padlock: " + string(e.Op) + ": " + cause
	}
	return "padlock: " + string(e.Op) + " " + quote(e.Name) + ": " + cause
}

// Unwrap returns the cause, which may itself be several joined errors.
func (e *Error) Unwrap() error { return e.Err }

// failed returns an *Error for a failed operation. It leaves out causes that are nil. If several
// causes are left, failed joins them.
func failed(op Op, name string, causes ...error) error {
	var err error
	for _, c := range causes {
		err = joinErrors(err, c)
	}
	return &Error{op, withoutSlot(name), err}
}

// withoutSlot returns the name that the caller of Acquire gave. If name is the name of a permit
// (see Slots), withoutSlot leaves out the number of the permit. Otherwise it returns name.
func withoutSlot(name string) string {
	if base, _, ok := fast.SplitSlot(name); ok {
		return base
	}
	return name
}

// slotOf returns the permit that a name stands for, or -1.
func slotOf(name string) int {
	if _, slot, ok := fast.SplitSlot(name); ok {
		return slot
	}
	return -1
}

// joinErrors joins two errors, each of which may be nil.
func joinErrors(first, second error) error {
	switch {
	case second == nil:
		return first
	case first == nil:
		return second
	}
	return fmt.Errorf("%w; %w", first, second)
}

// withUncertain joins ErrUncertain to err, because the outcome of a request is not known.
func withUncertain(err error) error {
	if errors.Is(err, ErrUncertain) {
		return err
	}
	return fmt.Errorf("%w; %w", ErrUncertain, err)
}

// callerError hides context errors that did not come from ctx: a timeout inside a store's client
// must not look like the caller's deadline.
func callerError(ctx context.Context, err error) error {
	if ctx.Err() != nil || !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		return err // the client noticed the deadline before ctx did
	}
	return &errorWithout{err, []error{context.Canceled, context.DeadlineExceeded}}
}

// errorWithout wraps an error and hides the listed errors from errors.Is.
type errorWithout struct {
	err    error
	untrue []error
}

func (w *errorWithout) Error() string { return w.err.Error() }

func (w *errorWithout) Is(target error) bool {
	return !slices.Contains(w.untrue, target) && errors.Is(w.err, target)
}

func (w *errorWithout) As(target any) bool { return errors.As(w.err, target) }

// definite reports whether an error of a store means for certain that nothing was granted or
// changed.
func definite(err error) bool {
	if errors.Is(err, ErrUncertain) {
		return false
	}
	for _, known := range definiteErrors {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

var definiteErrors = []error{
	ErrHeld, ErrExpired, ErrLost, ErrUnavailable, ErrPromotionConflict, ErrInvalid, ErrClosed,
	errors.ErrUnsupported,
}

// lossIn returns ErrLost or ErrExpired if err says that a hold is gone, and otherwise nil.
func lossIn(err error) error {
	switch {
	case errors.Is(err, ErrLost):
		return ErrLost
	case errors.Is(err, ErrExpired):
		return ErrExpired
	}
	return nil
}
