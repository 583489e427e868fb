package zkstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// The states of a hold.
//
//	none       nothing is known about the token
//	reserved   a waiter got the lock and has not claimed it yet
//	held       the node of the hold has the lock, as long as the session lives
//	leaving    a request that deletes the node of the hold is under way
//	uncertain  the reply to a request was lost: a node with the GUID of the hold may exist
type state int

const (
	none state = iota
	reserved
	held
	leaving
	uncertain
)

// A hold is what the store knows about a token. Operations on a hold run one after the other.
type hold struct {
	id    storekit.HoldID
	name  string
	token driver.Token
	turn  chan struct{}
	refs  int // the number of operations that run or wait; guarded by holds.mu

	// Operations on a hold take turns; see enter and leave. An operation may use the fields below
	// when it has its turn.

	// state, ss, node and watched may also be read without a turn, with holds.mu locked. So lock
	// holds.mu to change these four.
	state   state
	ss      *session
	node    node
	watched bool // the session notices if somebody deletes the node

	bound  context.Context // ends with the session, or when the node turns out to be deleted
	cancel context.CancelCauseFunc
	dir    string
	intent *node // keeps new readers out until h is promoted; or nil
	guid   string
	fence  uint64
	info   data
	joined time.Time // when the node was made, or a little later
	timer  *time.Timer
}

// path returns the node of h. In Symfony's layout that is the node of the lock itself.
func (h *hold) path() string {
	if h.node == (node{}) {
		return h.dir
	}
	return join(h.dir, h.node.String())
}

func (h *hold) grant() driver.Grant {
	return driver.Grant{Fence: h.fence, Bound: h.bound, Shared: h.node.kind.shared()}
}

// holds contains what a store knows about its tokens.
type holds struct {
	mu   sync.Mutex
	byID map[storekit.HoldID]*hold
	live map[string]*presence // by the name of the lock
}

// A presence says that this store holds or reserves a lock.
type presence struct {
	count int           // holds and reservations
	ends  chan struct{} // closed when the release of the last one begins
}

// presence returns nil if no hold of this store has the lock, as far as the store knows.
func (hs *holds) presence(name string) *presence {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.live[name]
}

func (st state) live() bool { return st == reserved || st == held }

// setState changes the state of h. The caller holds mu.
func (hs *holds) setState(h *hold, st state) {
	p := hs.live[h.name]
	switch {
	case st.live() && !h.state.live():
		if p == nil {
			p = &presence{ends: make(chan struct{})}
			hs.live[h.name] = p
		}
		p.count++
	case !st.live() && h.state.live():
		if p.count--; p.count == 0 {
			close(p.ends)
			delete(hs.live, h.name)
		}
	}
	h.state = st
}

// setLeaving records that the release of h begins.
func (hs *holds) setLeaving(h *hold) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.setState(h, leaving)
}

// enter begins an operation on a token. It waits until an earlier operation has ended. The caller
// must call leave at the end of the operation.
func (hs *holds) enter(ctx context.Context, name, token string) (*hold, error) {
	hs.mu.Lock()
	key := storekit.IDOf(name, token)
	h := hs.byID[key]
	if h == nil {
		h = &hold{id: key, name: name, token: driver.TokenOf(token), turn: make(chan struct{}, 1)}
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

func (hs *holds) leave(h *hold) {
	<-h.turn
	hs.forget(h)
}

func (hs *holds) forget(h *hold) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h.refs--; h.refs == 0 && h.state == none {
		delete(hs.byID, h.id)
	}
}

// enterHeld is like enter, but the token must have a live hold.
func (hs *holds) enterHeld(ctx context.Context, name, token string) (*hold, error) {
	h, err := hs.enter(ctx, name, token)
	if err != nil {
		return nil, err
	}
	switch {
	case h.state == uncertain:
		err = driver.ErrUncertain
	case h.state != held || !h.ss.alive():
		err = driver.ErrLost
	}
	if err != nil {
		hs.leave(h)
		return nil, err
	}
	return h, nil
}

var (
	errReleased = errors.New("the hold was released")
	errBroken   = fmt.Errorf("%w: the node of the hold was deleted", driver.ErrLost)
)

// setUncertain records that the reply to a request was lost. The request may have made a node with
// the given GUID. In Symfony's layout, nodes have no GUID.
func (hs *holds) setUncertain(h *hold, guid string) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.setState(h, uncertain)
	h.guid = guid
}

// setHold records that a node of h has the lock.
func (hs *holds) setHold(h *hold, st state, ss *session, n node, fence uint64) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.setState(h, st)
	h.ss, h.node, h.fence = ss, n, fence
	if h.cancel == nil {
		h.bound, h.cancel = context.WithCancelCause(ss.bound)
	}
}

// recordHold is like setHold, but returns an error if the session has ended in the meantime.
func (hs *holds) recordHold(ss *session, h *hold, st state, n node, fence uint64) error {
	if !ss.alive() {
		return fmt.Errorf("%w: %s", driver.ErrUncertain, context.Cause(ss.bound))
	}
	hs.setHold(h, st, ss, n, fence)
	return nil
}

// clear records that h has no lock any more, and deletes its intent. It cancels the hold's context
// with the given error.
func (hs *holds) clear(h *hold, why error) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h.watched {
		h.ss.unwatch(h.path())
	}
	if h.cancel != nil {
		h.cancel(why)
	}
	if h.timer != nil {
		h.timer.Stop()
	}
	if h.intent != nil {
		h.ss.deleteLater(h.dir, *h.intent)
	}
	hs.setState(h, none)
	h.ss, h.intent, h.timer, h.guid = nil, nil, nil, ""
	h.bound, h.cancel, h.watched = nil, nil, false
}

// watchAgain records that the node of h has no watch any more, so that the store sets a new one.
func (hs *holds) watchAgain(h *hold) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h.watched = false
}

// change records the new node and the new fence of h. It also records that h has no intent.
func (hs *holds) change(h *hold, n node, fence uint64) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h.watched && n != h.node {
		h.ss.unwatch(h.path())
		h.watched = false
	}
	h.node, h.fence, h.intent = n, fence, nil
}
