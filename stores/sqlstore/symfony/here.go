package symfony

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// localParties remembers facts about the holds and waiters of this process, for which the table has
// no columns.
type localParties struct {
	mu    sync.Mutex
	holds map[string]*hold           // by id
	waits map[string][]chan struct{} // by id
	// doubts contains tokens for which the outcome of a statement is not known. The value is the
	// time when that statement ended.
	doubts  map[storekit.HoldID]time.Time // of no name
	streaks map[string]streak             // by id
}

// A hold describes a lock that this process holds.
type hold struct {
	token  storekit.HoldID // of no name
	holder driver.Holder
	since  time.Time
}

// maxEntries is the maximum number of entries of each kind. When it is reached, old entries are
// removed.
const maxEntries = 4096

// noteTaken records that this process has a new hold.
func (h *localParties) noteTaken(id, token string, r *driver.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.holds == nil {
		h.holds = map[string]*hold{}
	}
	if len(h.holds) >= maxEntries {
		old := time.Now().Add(-driver.MaxTTL)
		maps.DeleteFunc(h.holds, func(_ string, o *hold) bool { return o.since.Before(old) })
	}
	if was := h.holds[id]; (was == nil || was.token != storekit.IDOf("", token)) && len(h.holds) < maxEntries {
		h.holds[id] = &hold{storekit.IDOf("", token), r.Holder, time.Now()}
	}
}

// ownHold returns the hold of a token, if the hold belongs to this process.
func (h *localParties) ownHold(id, token string) (own *hold, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	own = h.holds[id]
	return own, own != nil && own.token == storekit.IDOf("", token)
}

// noteReleased records that a token was released, and wakes the waiters of this process.
func (h *localParties) noteReleased(id, token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o, ok := h.holds[id]; ok && o.token == storekit.IDOf("", token) {
		delete(h.holds, id)
		h.noteGiven(id, o.since)
	}
	h.wakeLocked(id)
}

// noteDoubt remembers a token if err says that the outcome of a statement for this token is not
// known.
func (h *localParties) noteDoubt(token string, err error) {
	if !errors.Is(err, driver.ErrUncertain) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.doubts == nil {
		h.doubts = map[storekit.HoldID]time.Time{}
	}
	if len(h.doubts) >= maxEntries {
		old := time.Now().Add(-time.Minute)
		maps.DeleteFunc(h.doubts, func(_ storekit.HoldID, t time.Time) bool { return t.Before(old) })
	}
	h.doubts[storekit.IDOf("", token)] = time.Now()
}

// takeDoubt reports whether the outcome of an earlier statement for the token is unknown. It also
// removes the token from doubts, so it returns true only once.
func (h *localParties) takeDoubt(token string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, yes := h.doubts[storekit.IDOf("", token)]
	delete(h.doubts, storekit.IDOf("", token))
	return yes
}

// releaseSignal returns a channel that receives a value when this process releases the name. The
// caller must call remove at the end.
func (h *localParties) releaseSignal(id string) (released chan struct{}, remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waits == nil {
		h.waits = map[string][]chan struct{}{}
	}
	c := make(chan struct{}, 1)
	h.waits[id] = append(h.waits[id], c)
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		left := slices.DeleteFunc(h.waits[id], func(x chan struct{}) bool { return x == c })
		if h.waits[id] = left; len(left) == 0 {
			delete(h.waits, id)
		}
	}
}

func (h *localParties) wake(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wakeLocked(id)
}

func (h *localParties) wakeLocked(id string) {
	for _, c := range h.waits[id] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// A streak is a time in which this process holds a name again and again. Between the holds, the
// name is free for so short a time that a program that polls cannot take it.
type streak struct {
	since time.Time // of the first hold
	given time.Time // the end of the last hold
}

const (
	// gap is how long a name stays free for programs that poll. It is longer than PHP's pause
	// between two tries, which is 90 to 110 ms.
	gap = 130 * time.Millisecond
	// maxStreak is how long a streak may last before this process has to leave a gap.
	maxStreak = time.Second
)

// noteGiven updates the streak of a name when this process releases the name. heldSince is when the
// hold began. If the name was free for less than gap before the hold, the streak continues.
// Otherwise the hold begins a new streak.
func (h *localParties) noteGiven(id string, heldSince time.Time) {
	if h.streaks == nil {
		h.streaks = map[string]streak{}
	}
	now := time.Now()
	if len(h.streaks) >= maxEntries {
		maps.DeleteFunc(h.streaks, func(_ string, s streak) bool { return now.Sub(s.given) > gap })
	}
	if s, ok := h.streaks[id]; ok && heldSince.Sub(s.given) < gap {
		heldSince = s.since
	}
	if len(h.streaks) < maxEntries {
		h.streaks[id] = streak{heldSince, now}
	}
}

// leaveGap waits after a long streak, so that other programs get a chance to take the name. If ctx
// ends first, it returns the error of ctx.
func (h *localParties) leaveGap(ctx context.Context, id string) error {
	h.mu.Lock()
	s, ok := h.streaks[id]
	now := time.Now()
	left := gap - now.Sub(s.given)
	if ok && left <= 0 {
		delete(h.streaks, id)
	}
	h.mu.Unlock()
	if !ok || left <= 0 || now.Sub(s.since) < maxStreak {
		return nil
	}
	if !storekit.Sleep(ctx, left) {
		return ctx.Err()
	}
	return nil
}
