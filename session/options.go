package session

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/padlock-go/padlock"
)

// What a Manager does unless an Option says otherwise.
const (
	DefaultIdleTimeout = 2 * time.Hour
	DefaultLifetime    = 24 * time.Hour
	DefaultGrace       = 60 * time.Second
	DefaultWait        = 5 * time.Second
	DefaultMaxWaiters  = 128
	DefaultMaxSize     = 1 << 20
	// MaxKey is the longest key of a value, in bytes.
	MaxKey = 1024
)

// saveTime is how long a commit may take once the client has left.
const saveTime = 5 * time.Second

type config struct {
	codec      Codec
	locks      Locks
	cookie     Cookie
	broken     error // an option that cannot be
	idle       time.Duration
	lifetime   time.Duration
	wait       time.Duration
	maxWaiters int
	maxSize    int
	logger     *slog.Logger
	onEvent    func(Event)
	onError    func(http.ResponseWriter, *http.Request, error)
	onConflict func(*http.Request, int) *http.Request
	dev        bool

	discardUnreadable bool

	ids      idRules
	checkKey func(string) error
	mode     settings
}

// Option configures a Manager.
type Option interface{ applyManager(*config) }

type option func(*config)

func (o option) applyManager(c *config) { o(c) }

// WithLocker gives the Manager the locks that Exclusive, Consistent and Update
// need, and that make commits wait for each other instead of failing. All
// processes that serve the same sessions must use the same store of locks. The
// Locker stays the caller's.
func WithLocker(l *padlock.Locker) Option {
	return option(func(c *config) {
		if l == nil {
			c.broken = errors.New("session: WithLocker: the Locker is nil")
			return
		}
		c.locks = &padlockLocks{l, &c.ids}
	})
}

// WithLocks is WithLocker for locks of another kind.
func WithLocks(l Locks) Option { return option(func(c *config) { c.locks = l }) }

// WithCodec sets how values are encoded; JSON is the default.
func WithCodec(codec Codec) Option {
	return option(func(c *config) {
		if c.codec = codec; codec == nil {
			c.broken = errors.New("session: WithCodec: the Codec is nil")
		}
	})
}

// WithCookie sets the cookie. Empty fields keep their defaults.
func WithCookie(cookie Cookie) Option { return option(func(c *config) { c.cookie = cookie }) }

// IdleTimeout ends a session that was not used for d; 0 lets it live to the end
// of its lifetime. The default is DefaultIdleTimeout. The end is moved when a
// tenth of d has passed, so a session may end that much earlier.
func IdleTimeout(d time.Duration) Option { return option(func(c *config) { c.idle = d }) }

// Lifetime ends every session d after it was made, however much it is used; 0
// is never, and needs an IdleTimeout. The default is DefaultLifetime.
func Lifetime(d time.Duration) Option { return option(func(c *config) { c.lifetime = d }) }

// MaxWait bounds how long a request waits for its session's lock; the default
// is DefaultWait. 70 % of the time that the request has left bounds it too. With
// 0 a request tries once.
func MaxWait(d time.Duration) Option { return option(func(c *config) { c.wait = d }) }

// MaxWaiters bounds how many requests of this process wait for one session's
// lock; more are answered with 503 at once. The default is DefaultMaxWaiters.
func MaxWaiters(n int) Option { return option(func(c *config) { c.maxWaiters = n }) }

// MaxSize bounds the bytes of a session's keys and encoded values, all of them
// together; the default is DefaultMaxSize. A write that would exceed it is
// refused with ErrTooLarge, even if it is one of many that come at once. A
// session that is larger already can still be read, and made smaller.
func MaxSize(bytes int) Option { return option(func(c *config) { c.maxSize = bytes }) }

// Logger makes the Manager log what an operator must know: sessions that could
// not be loaded or saved. Without it nothing is logged.
func Logger(l *slog.Logger) Option {
	return option(func(c *config) {
		if c.logger = l; l == nil {
			c.logger = slog.New(slog.DiscardHandler)
		}
	})
}

// OnEvent calls f for each event, in the request's goroutine: f must be quick,
// safe for concurrent use, and must not use the session.
func OnEvent(f func(Event)) Option { return option(func(c *config) { c.onEvent = f }) }

// OnError makes f write the answer when a session could not be loaded or saved,
// instead of a line of text with Status(err). The header says
// "Cache-Control: no-store" unless f changes that.
func OnError(f func(w http.ResponseWriter, r *http.Request, err error)) Option {
	return option(func(c *config) { c.onError = f })
}

// OnConflict lets a handler run again after ErrConflict instead of 409. f gets
// the request and how often the handler has run, and returns the request with
// which it runs again, on the session as it is now, or nil for 409. What the
// handler put and what it wrote to the answer is dropped. What it did elsewhere is
// done, and so is what it did at once: Incr, Take, Update and Regenerate. A request
// with a body needs a new body. RetryBodyless is such a function.
func OnConflict(f func(r *http.Request, attempt int) *http.Request) Option {
	return option(func(c *config) { c.onConflict = f })
}

// RetryBodyless is for OnConflict: up to n more runs for requests without a
// body.
func RetryBodyless(n int) func(*http.Request, int) *http.Request {
	return func(r *http.Request, attempt int) *http.Request {
		if attempt > n || r.Body != nil && r.Body != http.NoBody {
			return nil
		}
		return r
	}
}

// Development reports values that a handler got, changed in place and did not
// put: such changes are not saved. It costs an encoding for each Get.
func Development() Option { return option(func(c *config) { c.dev = true }) }

// DiscardUnreadable makes a stored session that its format cannot read
// (ErrRefused) count as absent: the visitor begins a new one, and the stored one
// lapses. Without it such a visitor gets 503 until the stored one lapses or is
// destroyed. It is for after a change of formats: sessions of a newer version,
// or PHP's after its serialize_handler was changed.
func DiscardUnreadable() Option { return option(func(c *config) { c.discardUnreadable = true }) }

// settings is a mode and what was said about it.
type settings struct {
	mode         modeKind
	consistent   bool
	lockOptional bool // of Update: without the lock the mode is optimistic
	hasWait      bool // by Wait; else it is the Manager's
	wait         time.Duration
}

type modeKind uint8

const (
	delta modeKind = iota
	exclusive
	readOnly
	lastWriteWins
	optimistic // of Update without locks: nothing must have changed since the load
)

// Mode says how the requests of a route use their session. Given to New it is
// the default of all routes; given to Manager.With, that of one.
type Mode struct{ set settings }

func (m Mode) applyManager(c *config) { c.mode = m.set }
func (m Mode) applyRoute(s *settings) {
	was := *s
	*s = m.set
	s.wait, s.hasWait = was.wait, was.hasWait
}

// RouteOption configures a route; see Manager.With.
type RouteOption interface{ applyRoute(*settings) }

type routeOption func(*settings)

func (o routeOption) applyRoute(s *settings) { o(s) }

// The modes.
var (
	// Delta saves what this request wrote, if what it had read and wrote is
	// unchanged. The handler runs without a lock.
	Delta = Mode{settings{mode: delta}}
	// Exclusive locks the session from its first use to its commit.
	Exclusive = Mode{settings{mode: exclusive}}
	// ReadOnly refuses writes with ErrReadOnly, except in Update. It never
	// waits.
	ReadOnly = Mode{settings{mode: readOnly}}
	// Consistent is ReadOnly after those that have the session's lock: it
	// waits for an Exclusive request under way. It does not keep others
	// waiting.
	Consistent = Mode{settings{mode: readOnly, consistent: true}}
	// LastWriteWins saves what this request wrote, whatever others did to the
	// same keys. Other keys are not touched.
	LastWriteWins = Mode{settings{mode: lastWriteWins}}
)

// Wait bounds the wait for the session's lock on one route, instead of MaxWait.
// Wait(0) is one try.
func Wait(d time.Duration) RouteOption {
	return routeOption(func(s *settings) { s.wait, s.hasWait = d, true })
}

func (c *config) check(store Store) error {
	t := store.Traits()
	switch {
	case c.broken != nil:
		return c.broken
	case c.idle < 0 || c.lifetime < 0 || c.wait < 0 || c.maxWaiters < 1 || c.maxSize < 1:
		return errors.New("session: New: a time is negative, or a limit is less than 1")
	case t.CommitsNeedLock && c.locks == nil:
		return errors.New("session: New: others write these sessions under a lock, so WithLocker is needed")
	case c.mode.needsLock() && c.locks == nil:
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

var errNeedsLocker = errors.New("session: Exclusive and Consistent need WithLocker")

func (s *settings) needsLock() bool { return s.mode == exclusive || s.consistent }

// whole says that a commit depends on all of the session.
func (s *settings) whole() bool { return s.mode == exclusive || s.mode == optimistic }
