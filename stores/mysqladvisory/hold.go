package mysqladvisory

import (
	"context"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/calls"
)

type id struct{ name, token string }

// The states of a hold.
//
//	none      nothing is known about the token
//	reserved  a waiter was granted the lock and has not claimed it yet
//	held      the session of c has the lock, as long as c is alive
//	unsure    c ended while the store asked for the lock or released it, so the session of c may
//	          have the lock
//
//	from      to        when
//	none      held      the server grants a try
//	none      unsure    the connection ends during a try
//	none      reserved  the server grants a wait
//	reserved  held      the waiter claims the lock
//	reserved  none      the reservation is released or lapses
//	held      none      Release
//	held      unsure    the connection ends during Release
//	unsure    none      settle has seen that the session is gone
type state int

const (
	none state = iota
	reserved
	held
	unsure
)

// A hold is what the store knows about a token. Operations on a hold run one after the other.
type hold struct {
	id
	key  string
	turn chan struct{}
	refs int // operations; guarded by holds.mu

	state  state
	fence  uint64
	c      *conn
	back   func() // frees the slot if c is in a slot for waiters
	timer  *time.Timer
	since  time.Time
	holder driver.Holder
}

// live reports whether h has the lock.
func (h *hold) live() bool { return (h.state == held || h.state == reserved) && h.c.alive() }

func (h *hold) grant() driver.Grant { return driver.Grant{Fence: h.fence, Bound: h.c.bound} }

func (h *hold) report() driver.Hold {
	out := driver.Hold{Holder: h.holder, Since: h.since}
	if h.holder.Plan > 0 {
		out.PlannedEnd = h.since.Add(h.holder.Plan)
	}
	return out
}

// heldTokens contains the tokens of a store.
type heldTokens struct {
	mu    sync.Mutex
	byID  map[id]*hold
	byKey map[string]*hold     // the latest grant of each lock
	asks  map[string]*askMutex // by lock
}

// An askMutex lets only one caller at a time ask the server for a lock. Otherwise two callers could
// ask for the lock in the same session, and the server would grant it to both.
type askMutex struct {
	turn chan struct{}
	refs int
}

func newHolds() heldTokens {
	return heldTokens{byID: map[id]*hold{}, byKey: map[string]*hold{}, asks: map[string]*askMutex{}}
}

// enter begins an operation on a token. leave ends it.
func (hs *heldTokens) enter(ctx context.Context, name, token string) (*hold, error) {
	hs.mu.Lock()
	key := id{name, token}
	h := hs.byID[key]
	if h == nil {
		h = &hold{id: key, turn: make(chan struct{}, 1)}
		hs.byID[key] = h
	}
	h.refs++
	hs.mu.Unlock()
	if err := calls.Await(ctx, h.turn); err != nil {
		hs.forget(h)
		return nil, err
	}
	return h, nil
}

func (hs *heldTokens) leave(h *hold) {
	<-h.turn
	hs.forget(h)
}

func (hs *heldTokens) forget(h *hold) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h.refs--; h.refs == 0 && h.state == none {
		delete(hs.byID, h.id)
	}
}

// beginAsk waits until no other caller asks for the lock. The returned function lets the next
// caller ask.
func (hs *heldTokens) beginAsk(ctx context.Context, key string) (end func(), err error) {
	hs.mu.Lock()
	t := hs.asks[key]
	if t == nil {
		t = &askMutex{turn: make(chan struct{}, 1)}
		hs.asks[key] = t
	}
	t.refs++
	hs.mu.Unlock()
	left := func() {
		hs.mu.Lock()
		defer hs.mu.Unlock()
		if t.refs--; t.refs == 0 {
			delete(hs.asks, key)
		}
	}
	if err := calls.Await(ctx, t.turn); err != nil {
		left()
		return nil, err
	}
	return func() { <-t.turn; left() }, nil
}

// noteGrant records that a session was granted the lock for h.
func (hs *heldTokens) noteGrant(h *hold, st state, c *conn, fence uint64, r *driver.Request) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h.state, h.c, h.fence, h.holder, h.since = st, c, fence, r.Holder, time.Now()
	hs.byKey[h.key] = h
}

// clear records that h no longer has the lock.
func (hs *heldTokens) clear(h *hold) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
	}
	h.state, h.c, h.timer = none, nil, nil
	if hs.byKey[h.key] == h {
		delete(hs.byKey, h.key)
	}
}

// change calls f, which sets fields of a hold. The mutex is locked meanwhile, because operations on
// other holds read these fields.
func (hs *heldTokens) change(f func()) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	f()
}

// inTheWay returns an error if this process already holds a lock, and nil otherwise. The server
// cannot find this conflict, because it lets a session take a lock twice.
func (hs *heldTokens) inTheWay(key string) *driver.HeldError {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.byKey[key]
	if h == nil || !h.live() {
		return nil
	}
	return &driver.HeldError{Waiters: -1, Holds: []driver.Hold{h.report()}}
}
