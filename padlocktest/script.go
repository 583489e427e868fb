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
	"github.com/padlock-go/padlock/memstore"
)

// A Script is a store in memory that does what the test says. Its methods may be called at any
// time, from any goroutine. Otherwise it works as memstore does, but like a server: behind a
// network, and without knowing which process asks.
type Script struct {
	mem *memstore.Store

	mu       sync.Mutex
	plans    []*plan
	requests map[Op]int
	bounds   map[string]bound // of live holds, by token
	actors   map[string]padlock.Hold
	made     int // tokens of Hold
}

// bound ends a hold at once. Without it a Locker would notice at its next renewal.
type bound struct {
	name string
	ctx  context.Context
	end  context.CancelCauseFunc
}

// New returns a Locker on a new Script. It is closed, without any trouble, at the end of the test.
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

// NewScript returns a Script for padlock.New. Give it memstore.WithClock if the Locker has a clock
// of its own.
func NewScript(opts ...memstore.Option) *Script { return script(memstore.New(opts...)) }

func script(mem *memstore.Store) *Script {
	return &Script{mem: mem, requests: map[Op]int{}, bounds: map[string]bound{}, actors: map[string]padlock.Hold{}}
}

// Peer returns a store on the same locks for another Locker, which stands for another process. The
// trouble that the Script makes for requests does not concern it, and it notices a Lose at its next
// renewal.
func (s *Script) Peer() padlock.Store { return s.mem.Open() }

var errScript = errors.New("padlocktest: lost, as the script says")

// Lose ends all locks on name, at once, as if somebody had taken it and was gone again: their
// contexts end, and every call says ErrLost. It panics if nobody holds the name.
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

// Hold makes somebody else hold name until free is called. Others see by as the holder; a Since of
// zero stands for now. The hold ends by itself at by.Until, or after a day if that is zero. Hold
// panics if the name is not free for it.
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
	_, err := s.mem.Acquire(context.Background(), driver.Request{Name: name, Token: token, Shared: by.Shared, TTL: ttl,
		Holder: driver.Holder{Label: token}})
	if err != nil {
		panic(fmt.Sprintf("padlocktest: Hold(%q): %v", name, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actors[token] = by
	return func() { s.mem.Release(context.Background(), name, token, 0) }
}

// told replaces the holders that Hold made by what others are to see of them.
func (s *Script) told(holds []padlock.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range holds {
		if by, ok := s.actors[holds[i].Label]; ok {
			holds[i] = by
		}
	}
}

// bind makes it possible to Lose the hold of token.
func (s *Script) bind(name, token string, g *driver.Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.bounds[token]
	if !ok {
		b.name = name
		b.ctx, b.end = context.WithCancelCause(context.Background())
		s.bounds[token] = b
	}
	g.Bound, g.From = b.ctx, 0
}

func (s *Script) unbind(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.bounds[token]; ok {
		delete(s.bounds, token)
		b.end(nil)
	}
}
