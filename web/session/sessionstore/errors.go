package sessionstore

import (
	"errors"
	"fmt"
)

// Errors of a Store. Package session turns them into its own errors, or has them under the same
// name.
var (
	// ErrNotFound: there is no such session.
	ErrNotFound = errors.New("no such session")
	// ErrExists: Change.Create was set, and there is a session at the key already.
	ErrExists = errors.New("session exists already")
	// ErrConflict: a condition of the Change does not hold. The error is a *ConflictError.
	ErrConflict = errors.New("session was changed by another request")
	// ErrMoved: there is a tombstone at the key. The error is a *MovedError.
	ErrMoved = errors.New("session has a new id")
	// ErrTooLarge: the session would exceed Change.MaxSize.
	ErrTooLarge = errors.New("session is too large")
	// ErrNotNumber: the value is not an integer, or the sum does not fit 64 bits.
	ErrNotNumber = errors.New("session value is no integer")
	// ErrKey: the key is empty, longer than MaxKey, or impossible in the store's format.
	ErrKey = errors.New("invalid session key")
	// ErrRefused: the stored session cannot be read, or the change would damage it. A session
	// cannot be read if it is damaged or if a newer padlock wrote it.
	ErrRefused = errors.New("stored session cannot be used")
	// ErrUnavailable: the store could not be reached, and nothing was changed.
	ErrUnavailable = errors.New("session store is unavailable")
)

// MaxKey is the maximum length of a key of a session, in bytes.
const MaxKey = 1024

// A ConflictError names the keys that another request changed. errors.Is finds ErrConflict in it.
type ConflictError struct {
	Keys []string // empty if the store compared the session as a whole
}

// Is reports whether target is ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Error names the keys.
func (e *ConflictError) Error() string {
	if len(e.Keys) == 0 {
		return ErrConflict.Error()
	}
	return ErrConflict.Error() + fmt.Sprintf(": %q", e.Keys)
}

// A MovedError is the error of a store that finds a tombstone at the key: the session has moved.
// errors.Is finds ErrMoved in it.
type MovedError struct{ Moved Moved }

// Is reports whether target is ErrMoved.
func (e *MovedError) Is(target error) bool { return target == ErrMoved }

// Error does not name the new key, which may be a secret.
func (e *MovedError) Error() string { return ErrMoved.Error() }

// unavailable adds ErrUnavailable to err.
func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }
