package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// Defaults of a Manager, and limits.
const (
	DefaultIdleTimeout = 2 * time.Hour
	DefaultLifetime    = 24 * time.Hour
	DefaultGrace       = 60 * time.Second
	DefaultMaxWait     = 5 * time.Second
	DefaultMaxSize     = 1 << 20
	// DefaultCookieName is the name of the cookie unless Cookie.Name says otherwise. Because of its
	// prefix, browsers refuse a cookie of this name that comes from another host of the same
	// domain, or from an attacker on plain HTTP.
	DefaultCookieName = "__Host-session"
	// MaxKey is the maximum length of a key, in bytes.
	MaxKey = sessionstore.MaxKey
)

// saveTime is how long a commit may take once the client has left.
const saveTime = 5 * time.Second

// maxWaiters is how many requests of this process wait for the lock of one session. The option
// MaxWaiters of the Locker can set less.
const maxWaiters = 128

type config struct {
	codec    Codec
	locks    *locks
	cookie   Cookie
	broken   error // the error of an invalid option
	idle     time.Duration
	lifetime time.Duration
	maxSize  int
	logger   *slog.Logger
	onEvent  []func(context.Context, Event)
	onError  func(http.ResponseWriter, *http.Request, error)
	retries  int // how often a handler runs again after a conflict
	dev      bool

	discardUnreadable bool

	set settings // of routes without options
}

// Option configures a Manager. Cookie, the modes and MaxWait are Options too. If an option is given
// twice, the last one counts. OnEvent is different: all its functions are called.
type Option interface{ applyManager(*config) }

type option func(*config)

func (o option) applyManager(c *config) { o(c) }

// nilArgument returns an option that makes New fail. Its error says which argument is nil.
func nilArgument(what string) Option {
	return option(func(c *config) { c.broken = errors.New("session: New: " + what + " is nil") })
}

// Locker gives the Manager the locks that Exclusive needs. With them, Update and commits take
// turns. All processes that serve the same sessions must use the same lock store. At most 128
// requests of a process wait for the lock of one session, or fewer if the Locker has the option
// padlock.MaxWaiters; further requests get 503 at once. The Manager does not close the Locker.
// Without Locker, commits and Update are tried again if another request was faster, which loses
// nothing either, and New refuses the mode Exclusive. If l is nil, New returns an error.
func Locker(l *padlock.Locker) Option {
	if l == nil {
		return nilArgument("the Locker")
	}
	return option(func(c *config) { c.locks = &locks{locker: l} })
}

// ValueCodec sets how values are encoded. The default is JSON, by encoding/json. It refuses a struct
// without an exported field, of which it would keep nothing. If codec is nil,
// New returns an error.
func ValueCodec(codec Codec) Option {
	if codec == nil {
		return nilArgument("the Codec")
	}
	return option(func(c *config) { c.codec = codec })
}

// IdleTimeout sets how long a session lives without being used. With 0, only its Lifetime ends it.
// The default is DefaultIdleTimeout, 2 h. The time is 0 or more; otherwise New returns an error.
//
// Each use of a session gives it the full time again. To save writes, the Manager does that at most
// once in a tenth of d. So a session can end after nine tenths of d without a use.
func IdleTimeout(d time.Duration) Option { return option(func(c *config) { c.idle = d }) }

// Lifetime sets how long a session lives after it was made, even if it is in use. With 0 the
// lifetime has no limit, and IdleTimeout must have one. The default is DefaultLifetime, 24 h. The
// time is 0 or more; otherwise New returns an error.
func Lifetime(d time.Duration) Option { return option(func(c *config) { c.lifetime = d }) }

// MaxSize limits the bytes of all keys and encoded values of a session together. The default is
// DefaultMaxSize, 1 MiB. The limit is at least 1; otherwise New returns an error. A write that
// would exceed the limit is refused with ErrTooLarge, even if several requests write at the same
// time. A session that is already larger can still be read and made smaller.
func MaxSize(bytes int) Option { return option(func(c *config) { c.maxSize = bytes }) }

// Logger makes the Manager log what an operator must know: sessions that could not be loaded or
// saved. Without it, or if l is nil, nothing is logged.
func Logger(l *slog.Logger) Option {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return option(func(c *config) { c.logger = l })
}

// OnEvent calls f for each event, in the request's goroutine and with its context. f must return
// quickly, be safe for concurrent use, and not use the session. OnEvent may be given several times.
// By default nothing is called. If f is nil, New returns an error.
func OnEvent(f func(ctx context.Context, e Event)) Option {
	if f == nil {
		return nilArgument("the function of OnEvent")
	}
	return option(func(c *config) { c.onEvent = append(c.onEvent, f) })
}

// OnError makes f write the answer when a session could not be loaded or saved. Without it, or if f
// is nil, the answer is a line of text with Status(err). The header says "Cache-Control: no-store"
// unless f changes that.
func OnError(f func(w http.ResponseWriter, r *http.Request, err error)) Option {
	return option(func(c *config) { c.onError = f })
}

// RetryConflicts lets a handler run again after ErrConflict, at most n times, instead of answering
// 409. Each run gets the session as it is at that time. The answer and the Puts and Deletes of the
// failed run are dropped. Incr, Take, Update and Regenerate write at once, so their changes stay.
// Effects outside the session also stay. The number is 0 or more; otherwise New returns an error.
// The default is 0.
//
// A request with a body runs again only if its GetBody is set. A server does not set GetBody; an
// outer handler that has read the body can do so.
func RetryConflicts(n int) Option { return option(func(c *config) { c.retries = n }) }

// Development reports two common mistakes. One is EventInPlace: a handler gets a value, changes it
// in place, and does not call Put. Such a change is not saved. The other is an answer that bypasses
// the session's ResponseWriter, as with some adapters for web frameworks: then the request panics.
// It is noticed if the framework's ResponseWriter has a method Written() bool. The option costs two
// more encodings for each Get. Without it, the first mistake is not noticed, and the second is
// EventLost.
func Development() Option { return option(func(c *config) { c.dev = true }) }

// DiscardUnreadable makes the Manager ignore a stored session that cannot be read (ErrRefused). The
// visitor begins a new session, and the unreadable session stays in the store until it expires.
// Without this option, the visitor gets 503 until the unreadable session expires or is destroyed.
// Give this option after the format has changed: when a newer version of padlock has written
// sessions, or when PHP's serialize_handler was changed.
func DiscardUnreadable() Option { return option(func(c *config) { c.discardUnreadable = true }) }

func (c *config) check(store sessionstore.Store) error {
	t := store.Traits()
	switch {
	case c.broken != nil:
		return c.broken
	case c.idle < 0 || c.lifetime < 0 || c.set.wait < 0 || c.maxSize < 1 || c.retries < 0:
		return errors.New("session: New: a time or a number is negative, or a limit is less than 1")
	case !c.set.mode.valid():
		return fmt.Errorf("session: New: there is no mode %v", c.set.mode)
	case t.CommitsNeedLock && c.locks == nil:
		return errors.New("session: New: other programs write these sessions under a lock, so the option Locker is needed")
	case c.set.needsLock() && c.locks == nil:
		return errNeedsLocker
	case t.NoDeadline && c.lifetime != 0:
		return errors.New("session: New: this store keeps no absolute lifetime; give Lifetime(0)")
	case c.idle == 0 && c.lifetime == 0:
		return errors.New("session: New: with IdleTimeout(0) and Lifetime(0) no session would ever end")
	case c.cookie.Persist && c.lifetime == 0:
		return errors.New("session: New: Cookie.Persist keeps the cookie for the Lifetime, so it needs one")
	}
	if err := c.cookie.check(); err != nil {
		return fmt.Errorf("session: New: %w", err)
	}
	return nil
}

var errNeedsLocker = errors.New("session: the mode Exclusive needs the option Locker")
