package sqlstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Listener receives PostgreSQL's notifications. It has a connection of its own, which it opens
// for each call of Listen.
type Listener interface {
	// Listen listens on a channel, calls ready, and then calls woken with the payload of each
	// notification, until ctx ends or the connection is lost. It returns the reason.
	Listen(ctx context.Context, channel string, ready func(), woken func(payload string)) error
}

// channel is the name under which the stores of one table notify each other.
func (s *Store) channel() string { return "padlock_" + opaque(s.rows.tables.locks).hash()[:12] }

// waits are the waiters of this process. A change by this process wakes them without the database.
type waits struct {
	mu      sync.Mutex
	byName  map[string][]chan struct{}
	byToken map[string]*handing // by the hash of the token
	claims  map[string]bool     // tokens that were handed a name and have not claimed it yet

	listening bool // notifications arrive
	waiters   int  // that want them
	stop      context.CancelFunc
	restarted chan struct{}
}

// A handing is a waiter that wants to know of a reservation.
type handing struct {
	to   chan uint64   // the fence of a reservation for it
	next chan struct{} // somebody before it has one
}

// add returns the function that removes the waiter.
func (w *waits) add(name string, woken chan struct{}) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byName == nil {
		w.byName = map[string][]chan struct{}{}
	}
	w.byName[name] = append(w.byName[name], woken)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		left := slices.DeleteFunc(w.byName[name], func(c chan struct{}) bool { return c == woken })
		if w.byName[name] = left; len(left) == 0 {
			delete(w.byName, name)
		}
	}
}

// wake makes the waiters of this process for a name look.
func (w *waits) wake(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.byName[name] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// expect makes reservations for token arrive at the returned handing, until forget is called.
func (w *waits) expect(token string) (h *handing, forget func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byToken == nil {
		w.byToken, w.claims = map[string]*handing{}, map[string]bool{}
	}
	h = &handing{make(chan uint64, 1), make(chan struct{}, 1)}
	key := opaque(token).hash()
	w.byToken[key] = h
	return h, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.byToken, key)
	}
}

// hand tells the waiter of this process whose token has that hash that the name is reserved for it.
// It reports whether there is one.
func (w *waits) hand(hash string, fence uint64) bool {
	h := w.waiter(hash)
	if h == nil {
		return false
	}
	select {
	case h.to <- fence:
	default:
	}
	return true
}

// warn tells the waiter that the one before it was handed the name.
func (w *waits) warn(hash string) bool {
	h := w.waiter(hash)
	if h == nil {
		return false
	}
	select {
	case h.next <- struct{}{}:
	default:
	}
	return true
}

func (w *waits) waiter(hash string) *handing {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byToken[hash]
}

// hears reads a notification.
func (w *waits) hears(payload string) {
	words := strings.Fields(payload)
	if len(words) < 2 {
		return
	}
	if fence, err := strconv.ParseUint(words[1], 10, 64); err == nil {
		w.hand(words[0], fence)
	}
	if len(words) > 2 {
		w.warn(words[2])
	}
}

// reserve notes that token was handed a name, so that it claims it in one statement.
func (w *waits) reserve(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims[token] = true
}

// handed reports whether token was handed a name, once.
func (w *waits) handed(token string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	yes := w.claims[token]
	delete(w.claims, token)
	return yes
}

// idleListen is how long the connection that listens stays open when nobody waits.
const idleListen = 10 * time.Second

// listen counts a waiter, and opens the connection for notifications if it is the first.
func (s *Store) listen() (done func()) {
	if s.cfg.listener == nil {
		return func() {}
	}
	w := &s.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiters++
	if w.stop == nil {
		ctx, stop := context.WithCancel(s.closing)
		w.stop = stop
		s.work.Go(func() { s.keepListening(ctx) })
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waiters--
	}
}

// keepListening holds the connection for notifications until nobody has waited for a while.
func (s *Store) keepListening(ctx context.Context) {
	idle := time.NewTicker(idleListen)
	defer idle.Stop()
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		for pause := 10 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 5*time.Second) {
			_ = s.cfg.listener.Listen(ctx, s.channel(), func() { s.hearing(true); pause = 10 * time.Millisecond }, s.waits.hears)
			s.hearing(false)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}()
	for {
		select {
		case <-lost:
			return
		case <-idle.C:
			if s.stopListening() {
				<-lost
				return
			}
		}
	}
}

// stopListening ends the connection if nobody waits, and reports whether it did.
func (s *Store) stopListening() bool {
	w := &s.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiters > 0 {
		return false
	}
	w.stop()
	w.stop = nil
	return true
}

// hearing notes whether notifications arrive, and makes all waiters look: what came before is lost.
func (s *Store) hearing(on bool) {
	w := &s.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listening = on
	for _, list := range w.byName {
		for _, c := range list {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
}

func (w *waits) pushed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.listening
}
