package padlocktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A Script is a store in memory in which the test can cause trouble. It works like memstore, except
// that it behaves like a server behind a network. Its methods are safe for concurrent use.
type Script struct {
	mem *memstore.Store

	mu       sync.Mutex
	faults   []*fault
	broken   bool // while the Script is silent: a request has noticed it
	requests map[Request]int
	bounds   map[string]bound // the bounds of live holds, by token
	actors   map[string]padlock.Hold
	made     int // how many tokens Hold has made
}

// bound is the context of one hold. Lose ends it, so that a Locker notices the loss at once and not
// only at its next renewal.
type bound struct {
	name string
	ctx  context.Context
	end  context.CancelCauseFunc
}

// New returns a Locker on a new Script. At the end of the test, the Script's faults end (see Heal),
// and the Locker is closed.
func New(t testing.TB, opts ...padlock.LockerOption) (*padlock.Locker, *Script) {
	t.Helper()
	s := NewScript()
	l := padlock.New(s, opts...)
	t.Cleanup(func() {
		s.Heal()
		if err := l.Close(context.Background()); err != nil {
			t.Logf("padlocktest: %v", err)
		}
	})
	return l, s
}

// NewScript returns a Script for padlock.New. If the Locker has its own clock, pass the same clock
// with memstore.WithClock. Leases are limited as in Redis, see memstore.MaxTTL.
func NewScript(opts ...memstore.Option) *Script { return script(memstore.New(opts...)) }

func script(mem *memstore.Store) *Script {
	return &Script{mem: mem, requests: map[Request]int{}, bounds: map[string]bound{}, actors: map[string]padlock.Hold{}}
}

// Peer returns another store with the same locks. Use it to make a second Locker, which stands for
// another process. The faults of the Script do not affect this store. After Lose, the second Locker
// notices the loss only at its next renewal.
func (s *Script) Peer() padlock.Store { return s.mem.Open() }

var errScript = errors.New("padlocktest: Script.Lose")

// Lose ends all locks on name at once, as if another client had taken and released the name. The
// contexts of these locks end, and their methods return ErrLost. Lose panics if nobody holds the
// name.
func (s *Script) Lose(name string) {
	ctx := context.Background()
	state, err := s.mem.Inspect(ctx, name)
	if err == nil && len(state.Holds) == 0 {
		err = errors.New("nobody holds it")
	}
	if err == nil {
		_, err = s.mem.Break(ctx, name, state.Fence)
	}
	if err != nil {
		panic(fmt.Sprintf("padlocktest: Lose(%q): %v", name, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, b := range s.bounds {
		if b.name == name {
			delete(s.bounds, token)
			b.end(errScript)
		}
	}
}

// Hold makes another client hold name, and returns a function that releases the hold. All Lockers
// see the hold as the parameter by describes it. If by.Since is zero, Hold uses the current time.
// The hold ends at by.Until at the latest, or after a day if by.Until is zero. Hold panics if it
// cannot take the name.
func (s *Script) Hold(name string, by padlock.Hold) (free func()) {
	s.mu.Lock()
	s.made++
	token := fmt.Sprintf("padlocktest %d", s.made)
	s.mu.Unlock()
	ttl := driver.MaxTTL
	if !by.Until.IsZero() {
		ttl = min(max(time.Until(by.Until), driver.MinTTL), driver.MaxTTL)
	}
	if by.Since.IsZero() {
		by.Since = time.Now()
	}
	actor := s.mem.Open(memstore.MaxTTL(driver.MaxTTL)) // the hold is not renewed, so its lease may have to be long
	_, err := actor.Acquire(context.Background(), driver.Request{Name: name, Token: driver.TokenOf(token), Shared: by.Shared, TTL: ttl,
		Holder: driver.Holder{Label: token}})
	if err != nil {
		panic(fmt.Sprintf("padlocktest: Hold(%q): %v", name, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actors[token] = by
	return func() { s.mem.Release(context.Background(), name, token, 0) }
}

// disguise looks for the holds that Script.Hold has taken. It replaces each of them by the
// description that the test gave to Script.Hold.
func (s *Script) disguise(holds []padlock.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range holds {
		if by, ok := s.actors[holds[i].Label]; ok {
			holds[i] = by
		}
	}
}

// bind sets g.Bound to the context of a hold. The token says which hold it is. Script.Lose can end
// the context.
func (s *Script) bind(name, token string, g *driver.Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.bounds[token]
	if !ok {
		b.name = name
		b.ctx, b.end = context.WithCancelCause(context.Background())
		s.bounds[token] = b
	}
	g.Bound = b.ctx
}

func (s *Script) unbind(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.bounds[token]; ok {
		delete(s.bounds, token)
		b.end(nil)
	}
}
