package advisory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

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
//	reserved  none      the reservation is released, lapses, or has ended with its connection
//	held      none      Release
//	held      unsure    the connection ends during Release
//	unsure    none      settle has seen that the session is gone
//
// A connection that ends at any other time leaves the state as it is; live reports that.
type state int

const (
	none state = iota
	reserved
	held
	unsure
)

// A hold is everything that the store knows about a token. Operations on a hold run one after the
// other.
type hold[C Session] struct {
	id    storekit.HoldID
	name  string
	token driver.Token
	key   string
	turn  chan struct{}
	refs  int // operations; guarded by heldTokens.mu

	state  state
	shared bool
	// intent is true while the hold waits for its promotion. The session of the hold then has the
	// intent, see Sharer, or asks for it.
	intent bool
	lapses time.Time // when the intent ends if it is not renewed
	fence  uint64
	c      *conn[C]
	back   func() // frees the entry if c is in an entry for waiters
	timer  *time.Timer
	since  time.Time
	holder driver.Holder
}

func (h *hold[C]) lock() Lock { return Lock{h.name, h.key} }

// live reports whether h has the lock.
func (h *hold[C]) live() bool { return (h.state == held || h.state == reserved) && h.c.alive() }

func (h *hold[C]) grant() driver.Grant {
	return driver.Grant{Fence: h.fence, Bound: h.c.s.Bound(), Shared: h.shared}
}

// heldTokens has the holds of a store, by their tokens and by their locks.
type heldTokens[C Session] struct {
	mu    sync.Mutex
	byID  map[storekit.HoldID]*hold[C]
	byKey map[string][]*hold[C] // those that were granted their lock
}

// enter begins an operation on a token. leave ends it.
func (hs *heldTokens[C]) enter(ctx context.Context, name, token string) (*hold[C], error) {
	hs.mu.Lock()
	key := storekit.IDOf(name, token)
	h := hs.byID[key]
	if h == nil {
		h = &hold[C]{id: key, name: name, token: driver.TokenOf(token), turn: make(chan struct{}, 1)}
		hs.byID[key] = h
	}
	h.refs++
	hs.mu.Unlock()
	if err := storekit.Await(ctx, h.turn); err != nil {
		hs.forget(h)
		return nil, err
	}
	return h, nil
}

func (hs *heldTokens[C]) leave(h *hold[C]) {
	<-h.turn
	hs.forget(h)
}

func (hs *heldTokens[C]) forget(h *hold[C]) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h.refs--; h.refs == 0 && h.state == none {
		delete(hs.byID, h.id)
	}
}

// noteGrant records that a session was granted the lock for h.
func (hs *heldTokens[C]) noteGrant(h *hold[C], st state, c *conn[C], fence uint64, r *driver.Request) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h.state, h.c, h.shared, h.fence, h.holder, h.since = st, c, r.Shared, fence, r.Holder, time.Now()
	hs.byKey[h.key] = append(hs.byKey[h.key], h)
}

// clear records that h no longer has the lock.
func (hs *heldTokens[C]) clear(h *hold[C]) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
	}
	h.state, h.c, h.intent, h.timer = none, nil, false, nil
	left := slices.DeleteFunc(hs.byKey[h.key], func(o *hold[C]) bool { return o == h })
	if hs.byKey[h.key] = left; len(left) == 0 {
		delete(hs.byKey, h.key)
	}
}

// change calls f, which sets fields of a hold. The mutex is locked meanwhile, because operations on
// other holds read these fields.
func (hs *heldTokens[C]) change(f func()) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	f()
}

// inTheWay returns an error with the holds of this process that conflict with a request, or nil.
// The server cannot find these conflicts within a session, because it lets one session take a lock
// twice.
func (hs *heldTokens[C]) inTheWay(key string, shared bool, except *hold[C]) *driver.HeldError {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	err := &driver.HeldError{Waiters: -1}
	for _, h := range hs.byKey[key] {
		if h != except && h.live() && (!shared || !h.shared || h.intent) {
			err.Holds = append(err.Holds, storekit.HoldOf(h.holder, h.shared, h.since))
		}
	}
	if err.Holds == nil {
		return nil
	}
	return err
}

// intend records that h wants to be promoted. It returns false if another hold of this process on
// the same lock wants that already.
func (hs *heldTokens[C]) intend(h *hold[C]) bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if slices.ContainsFunc(hs.byKey[h.key], func(o *hold[C]) bool { return o != h && o.live() && o.intent }) {
		return false
	}
	h.intent = true
	return true
}

// has reports whether a token has the lock, or with the token "", whether any hold of this process
// has it.
func (hs *heldTokens[C]) has(key, token string) bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return slices.ContainsFunc(hs.byKey[key], func(h *hold[C]) bool { return (token == "" || h.token.Text() == token) && h.live() })
}
