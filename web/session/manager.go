package session

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"github.com/padlock-go/padlock/web/internal/jsoncodec"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// A Manager gives requests their sessions. It is safe for concurrent use. A program needs one
// Manager for each kind of session.
type Manager struct {
	store  sessionstore.Store
	traits sessionstore.Traits
	rules  sessionstore.Rules
	cfg    config

	mu      sync.Mutex
	waiting map[digest]int // number of requests that wait for a session's lock
}

// digest stands for a session's key in a map, because printers show the keys of a map, and a key of
// PHP has the id.
type digest [sha256.Size]byte

// New returns a Manager of the sessions in store. It does not call the store. It returns an error
// if an option is invalid or if options do not go together.
func New(store sessionstore.Store, opts ...Option) (*Manager, error) {
	if store == nil {
		return nil, errors.New("session: New: store is nil")
	}
	if slices.Contains(opts, nil) {
		return nil, errors.New("session: New: an Option is nil")
	}
	m := &Manager{store: store, traits: store.Traits(), waiting: make(map[digest]int)}
	m.cfg = config{
		codec: jsoncodec.Codec{}, idle: DefaultIdleTimeout, lifetime: DefaultLifetime, set: settings{wait: DefaultMaxWait},
		maxSize: DefaultMaxSize, logger: slog.New(slog.DiscardHandler),
	}
	for _, o := range opts {
		if o != nil {
			o.applyManager(&m.cfg)
		}
	}
	m.cfg.cookie.setDefaults()
	if err := m.cfg.check(store); err != nil {
		return nil, err
	}
	if m.rules = m.traits.Rules; m.rules == nil {
		m.rules = ownRules{}
	}
	if m.cfg.locks != nil {
		m.cfg.locks.rules = m.rules
	}
	return m, nil
}

// Middleware returns a handler that calls next. In next, the function From returns the request's
// session. Put the middleware outside of handlers that change the answer, for example compression,
// so that the session is saved before the first byte is sent.
func (m *Manager) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.find(r.Context()) != nil {
			next.ServeHTTP(w, r) // this middleware is inside With
			return
		}
		m.serve(w, r, next, m.cfg.set)
	})
}

// With returns a middleware for one route, which then has its own mode and options. The route may
// also be inside Manager.Middleware, but need not be.
//
//	mux.Handle("POST /cart", m.With(session.Exclusive, session.MaxWait(2*time.Second))(cart))
//
// It panics if the mode needs a Locker and there is none, or if an option is invalid.
func (m *Manager) With(opts ...RouteOption) func(http.Handler) http.Handler {
	set := m.cfg.set
	for _, o := range opts {
		if o != nil {
			o.applyRoute(&set)
		}
	}
	switch {
	case set.needsLock() && m.cfg.locks == nil:
		panic(errNeedsLocker.Error())
	case !set.mode.valid() || set.wait < 0:
		panic(fmt.Sprintf("session: With: there is no mode %v, or MaxWait is negative", set.mode))
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s := m.find(r.Context()); s != nil {
				s.setMode(set)
				next.ServeHTTP(w, r.WithContext(carry(r.Context(), s)))
				return
			}
			m.serve(w, r, next, set)
		})
	}
}
