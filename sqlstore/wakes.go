package sqlstore

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
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
	byName  map[string][]*waiting
	byToken map[string]*waiting  // those with a place, by the hash of the token
	claims  map[string]time.Time // tokens that were handed a name and have not claimed it yet, and since when

	listener *listening // nil if nobody has waited for a while
	waiters  int        // that want notifications
}

// A waiting is a call of Wait.
type waiting struct {
	token opaque        // "" if it takes no place
	look  chan struct{} // it has to look
	to    chan uint64   // the fence of a reservation for it
	next  chan struct{} // somebody before it has one
}

// add counts a call of Wait, until remove is called.
func (w *waits) add(name string, token opaque) (one *waiting, remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byName == nil {
		w.byName, w.byToken, w.claims = map[string][]*waiting{}, map[string]*waiting{}, map[string]time.Time{}
	}
	one = &waiting{token, make(chan struct{}, 1), make(chan uint64, 1), make(chan struct{}, 1)}
	w.byName[name] = append(w.byName[name], one)
	if token != "" {
		w.byToken[token.hash()] = one
	}
	return one, func() { w.remove(name, one) }
}

func (w *waits) remove(name string, one *waiting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := slices.DeleteFunc(w.byName[name], func(x *waiting) bool { return x == one })
	if w.byName[name] = left; len(left) == 0 {
		delete(w.byName, name)
	}
	if key := one.token.hash(); w.byToken[key] == one {
		delete(w.byToken, key)
	}
}

// wake makes the waiters of this process for a name look that have no place, and the one with the
// token first.
func (w *waits) wake(name string, first opaque) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.byName[name] {
		if one.token == "" || one.token == first {
			signal(one.look)
		}
	}
}

// wakeAll makes all waiters of this process look.
func (w *waits) wakeAll() {
	for _, list := range w.byName {
		for _, one := range list {
			signal(one.look)
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// hand tells the waiter of this process whose token has that hash that the name is reserved for it,
// or with fence 0, that it has to look. It reports whether there is one.
func (w *waits) hand(hash string, fence uint64) bool {
	one := w.waiter(hash)
	switch {
	case one == nil:
		return false
	case fence == 0:
		signal(one.look)
	default:
		select {
		case one.to <- fence:
		default:
		}
	}
	return true
}

// warn tells the waiter that the one before it was handed the name.
func (w *waits) warn(hash string) bool {
	one := w.waiter(hash)
	if one != nil {
		signal(one.next)
	}
	return one != nil
}

func (w *waits) waiter(hash string) *waiting {
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
	now := time.Now()
	if len(w.claims) >= 64 { // callers that never came for theirs
		maps.DeleteFunc(w.claims, func(_ string, since time.Time) bool { return now.Sub(since) > driver.MaxReservation })
	}
	w.claims[token] = now
}

// handed reports whether token was handed a name, once.
func (w *waits) handed(token string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, yes := w.claims[token]
	delete(w.claims, token)
	return yes
}

// idleListen is how long the connection that listens stays open when nobody waits.
const idleListen = 10 * time.Second

// A listening is the connection for notifications, and its successors when it is lost.
type listening struct {
	stop context.CancelFunc
	on   bool // notifications arrive
}

// listen counts a waiter, and opens the connection for notifications if it is the first.
func (s *Store) listen() (done func()) {
	if s.cfg.listener == nil {
		return func() {}
	}
	w := &s.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiters++
	if w.listener == nil {
		ctx, stop := context.WithCancel(s.closing)
		l := &listening{stop: stop}
		w.listener = l
		s.work.Go(func() { s.keepListening(ctx, l) })
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waiters--
	}
}

// keepListening holds the connection for notifications until nobody has waited for a while.
func (s *Store) keepListening(ctx context.Context, l *listening) {
	defer l.stop()
	idle := time.NewTicker(idleListen)
	defer idle.Stop()
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		for pause := 10 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 5*time.Second) {
			_ = s.cfg.listener.Listen(ctx, s.channel(), func() { s.hearing(l, true); pause = 10 * time.Millisecond }, s.waits.hears)
			s.hearing(l, false)
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
			if s.waits.forget(l) {
				l.stop()
				<-lost
				return
			}
		}
	}
}

// forget gives up l if nobody waits, and reports whether it did. A waiter that comes later opens
// another connection, whether l has ended or not.
func (w *waits) forget(l *listening) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiters > 0 {
		return false
	}
	w.listener = nil
	return true
}

// hearing notes whether notifications arrive, and makes all waiters look: what came before is lost.
func (s *Store) hearing(l *listening, on bool) {
	w := &s.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.on = on; w.listener == l {
		w.wakeAll()
	}
}

func (w *waits) pushed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.listener != nil && w.listener.on
}
