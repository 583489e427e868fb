package session

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// Errors of a Session's methods and of the middleware. Check for them with errors.Is.
var (
	// ErrConflict: this request had read a key, and then wrote or watched that key. Before the
	// commit, another request changed the key. Nothing was saved. The error is a
	// *sessionstore.ConflictError, which names the keys.
	ErrConflict = sessionstore.ErrConflict
	// ErrDestroyed: the session ended while the request worked, by a logout or because it expired.
	// Nothing was saved, and no new session is made.
	ErrDestroyed = errors.New("session was destroyed")
	// ErrMoved: Regenerate gave the session a new id, and the client sent the old id. A request
	// with the old id gets the values that the session had before Regenerate. It cannot change or
	// end the session.
	ErrMoved = sessionstore.ErrMoved
	// ErrReadOnly: the route's mode is ReadOnly.
	ErrReadOnly = errors.New("session is read-only here")
	// ErrClosed: the session is already saved, because Commit was called or the answer has begun. A
	// call that waits for the lock when the answer begins gets this error, too. Reading and Update
	// still work.
	ErrClosed = errors.New("session was saved already")
	// ErrAbandoned: the handler has called Abandon.
	ErrAbandoned = errors.New("session was abandoned")
	// ErrBusy: the request did not get the session's lock in time. The error is a *BusyError.
	ErrBusy = errors.New("session is in use by other requests")
	// ErrTooManyWaiters: too many requests wait for this session's lock (see Locker).
	ErrTooManyWaiters = errors.New("too many requests wait for the session")
	// ErrTooLarge: the session would exceed MaxSize. The write was refused: see
	// Session.IgnoreRefused.
	ErrTooLarge = sessionstore.ErrTooLarge
	// ErrNotNumber: the value is not an integer, or the sum does not fit 64 bits.
	ErrNotNumber = sessionstore.ErrNotNumber
	// ErrKey: the key is empty, longer than MaxKey, or impossible in the store's format.
	ErrKey = sessionstore.ErrKey
	// ErrNoSession: the context does not come from a Manager's Middleware.
	ErrNoSession = errors.New("no session in this context")
	// ErrUnsaved: the store did not confirm the write. The write may or may not be saved.
	ErrUnsaved = errors.New("session may not have been saved")
	// ErrRefused: the stored session cannot be read, or the change would damage it. A session
	// cannot be read if it is damaged or if a newer padlock wrote it.
	ErrRefused = sessionstore.ErrRefused
	// ErrUnavailable: the store could not be reached, and nothing was changed.
	ErrUnavailable = sessionstore.ErrUnavailable
)

var errNested = fmt.Errorf("session: a call inside of an Update of this session would wait for that Update: %w", padlock.ErrAlreadyHeld)

// A BusyError says how long the request waited for the lock. errors.Is finds ErrBusy in it.
type BusyError struct {
	Waited time.Duration
	Lock   string // the lock's name, shortened where it contains the session's id
	Holder string // the lock's holder, if it is known

	// Foreign says that a program other than padlock holds the lock, and that the lock does not
	// expire. If that program crashed, the lock stays until it is deleted.
	Foreign bool
}

// Is reports whether target is ErrBusy.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Error names the lock and its holder. If a crashed program may have left the lock behind, Error
// says what to do.
func (e *BusyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: waited %v for lock %q", ErrBusy, e.Waited, e.Lock)
	if e.Holder != "" {
		fmt.Fprintf(&b, ", held by %s", e.Holder)
	}
	if e.Foreign {
		b.WriteString("; it has no expiry: if its holder crashed it stays until it is deleted (PHP: set redis.session.lock_expire)")
	}
	return b.String()
}

// Status returns the HTTP status for err. It is 409 if another request was faster and the client
// should load the session again, and 500 for a mistake in the program, such as
// padlock.ErrAlreadyHeld. Otherwise it is 503.
func Status(err error) int {
	for _, e := range []error{ErrConflict, ErrDestroyed, ErrMoved} {
		if errors.Is(err, e) {
			return http.StatusConflict
		}
	}
	if errors.Is(err, padlock.ErrAlreadyHeld) {
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}

// joinErrors joins two errors in one line. Either may be nil.
func joinErrors(first, second error) error {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return fmt.Errorf("%w: %w", first, second)
}

// wrapStore turns an error of the store into the error that a handler gets. An unknown error
// becomes ErrUnsaved, because the session may have been saved.
func wrapStore(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, sessionstore.ErrNotFound) {
		return ErrDestroyed
	}
	for _, known := range []error{
		ErrConflict, ErrMoved, ErrNotNumber, ErrBusy, ErrTooManyWaiters, ErrUnavailable, ErrTooLarge, ErrKey, ErrRefused,
		ErrUnsaved, ErrClosed, errNested,
	} {
		if errors.Is(err, known) {
			return err
		}
	}
	return joinErrors(ErrUnsaved, err)
}

// wrapLoad turns the error of a call that changes nothing into the error that the caller gets.
func wrapLoad(err error) error {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRefused) || err == errNested {
		return err
	}
	return joinErrors(ErrUnavailable, err)
}
