package pgadvisory

import (
	"context"
	"slices"
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
type state int

const (
	none state = iota
	reserved
	held
	unsure
)

// A hold is everything that the store knows about a token. Operations on a hold run one after the
// other.
type hold struct {
	id
	key  int64
	turn chan struct{}
	refs int // operations; guarded by holds.mu

	state  state
	shared bool
	// intent is true while the hold waits for its promotion. The session of the hold then has the
	// second lock that keyring.intent describes.
	intent bool
	fence  uint64
	c      *conn
	back   func() // frees the slot if c is in a slot for waiters
	timer  *time.Timer
	since  time.Time
	holder driver.Holder
}

// live reports whether h has the lock.
func (h *hold) live() bool { return (h.state == held || h.state == reserved) && h.c.alive() }

func (h *hold) grant() driver.Grant {
	return driver.Grant{Fence: h.fence, Bound: h.c.bound, Shared: h.shared}
}

// heldTokens has the holds of a store, by their tokens and by their locks.
type heldTokens struct {
	mu    sync.Mutex
	byID  map[id]*hold
	byKey map[int64][]*hold // live holds
	naps  map[int64][]chan struct{}
}

func newHolds() heldTokens {
	return heldTokens{byID: map[id]*hold{}, byKey: map[int64][]*hold{}, naps: map[int64][]chan struct{}{}}
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

// noteGrant records that a session was granted the lock for h.
func (hs *heldTokens) noteGrant(h *hold, st state, c *conn, shared bool, fence uint64, r *driver.Request) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h.state, h.c, h.shared, h.fence, h.holder, h.since = st, c, shared, fence, r.Holder, time.Now()
	hs.byKey[h.key] = append(hs.byKey[h.key], h)
}

// clear records that h no longer has the lock. It wakes the waiters of this process for that lock.
func (hs *heldTokens) clear(h *hold) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
	}
	h.state, h.c, h.intent, h.timer = none, nil, false, nil
	left := slices.DeleteFunc(hs.byKey[h.key], func(o *hold) bool { return o == h })
	if hs.byKey[h.key] = left; len(left) == 0 {
		delete(hs.byKey, h.key)
	}
	hs.wake(h.key)
}

// change calls f, which sets fields of a hold. The mutex is locked meanwhile, because operations on
// other holds read these fields.
func (hs *heldTokens) change(f func()) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	f()
}

func (hs *heldTokens) wake(key int64) {
	for _, c := range hs.naps[key] {
		close(c)
	}
	delete(hs.naps, key)
}

// inTheWay returns the holds of this process that conflict with a request. The server cannot find
// these conflicts, because it lets one session take a lock twice.
func (hs *heldTokens) inTheWay(key int64, shared bool, except *hold) *driver.HeldError {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	err := &driver.HeldError{Waiters: -1}
	for _, h := range hs.byKey[key] {
		if h != except && h.live() && (!shared || !h.shared || h.intent) {
			err.Holds = append(err.Holds, h.report())
		}
	}
	if err.Holds == nil {
		return nil
	}
	return err
}

func (h *hold) report() driver.Hold {
	out := driver.Hold{Holder: h.holder, Shared: h.shared, Since: h.since}
	if h.holder.Plan > 0 {
		out.PlannedEnd = h.since.Add(h.holder.Plan)
	}
	return out
}

// promoting reports whether another hold of this process on the same lock wants to be promoted.
func (hs *heldTokens) promoting(h *hold) bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return slices.ContainsFunc(hs.byKey[h.key], func(o *hold) bool { return o != h && o.live() && o.intent })
}

// holding reports whether a hold of this process has the lock.
func (hs *heldTokens) holding(key int64) bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return slices.ContainsFunc(hs.byKey[key], (*hold).live)
}

// nap returns a channel that is closed when this process releases the lock.
func (hs *heldTokens) nap(key int64) (woken <-chan struct{}, done func()) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	c := make(chan struct{})
	hs.naps[key] = append(hs.naps[key], c)
	return c, func() {
		hs.mu.Lock()
		defer hs.mu.Unlock()
		left := slices.DeleteFunc(hs.naps[key], func(o chan struct{}) bool { return o == c })
		if hs.naps[key] = left; len(left) == 0 {
			delete(hs.naps, key)
		}
	}
}
