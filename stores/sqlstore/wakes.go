package sqlstore

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// A Listener receives PostgreSQL's notifications.
type Listener interface {
	// Listen opens a connection, listens on the channel, and then calls the function ready. The
	// name of the channel needs no quotes in SQL. For each notification that arrives, Listen calls
	// notify with the payload. Listen returns when ctx ends or the connection is lost. The returned
	// error says why.
	Listen(ctx context.Context, channel string, ready func(), notify func(payload string)) error
}

// newChannel makes the name of the channel on which a store is notified. Each store has its own
// channel, so a notification reaches one process and does not wake all others.
func newChannel() string { return "padlock_" + strings.ToLower(rand.Text()[:16]) }

// notification returns the channel and the text of a notification for one waiter. Tokens are
// secrets, so the text has a hash of the waiter's token:
//
//	HASH FENCE  the name is reserved for the waiter, with this fence
//	HASH 0      the waiter has to look
//	- 0 HASH    the name is reserved for another waiter, directly ahead of this one
//
// Older builds of padlock add words to the first text.
func notification(a address, fence uint64, next bool) []any {
	text := a.token.hash() + " " + strconv.FormatUint(fence, 10)
	if next {
		text = "- 0 " + a.token.hash()
	}
	return []any{a.channel, text}
}

// tellWaiters wakes the waiters that a change concerns:
//
//   - the waiters for which there is a message
//   - in this process, the first waiter of the queue and the waiters without a place in the queue
//
// If quiet is true and messages is empty, tellWaiters wakes nobody.
func (s *Store) tellWaiters(ctx context.Context, name string, st *state, messages []reservation, quiet bool) {
	s.wakeReserved(ctx, messages)
	if !quiet || len(messages) > 0 {
		s.local.wakeFirst(name, st.firstToLook())
	}
}

// wakeReserved wakes the waiters for which the name was reserved, and warns the waiter behind each
// of them. It wakes waiters of this process directly, and those of other processes through the
// database.
func (s *Store) wakeReserved(ctx context.Context, messages []reservation) {
	for _, r := range messages {
		var args []any
		if !s.local.handTo(r.to.token.hash(), r.fence) && r.to.channel != "" {
			args = notification(r.to, r.fence, false)
		}
		if r.next.token != "" && !s.local.warnNext(r.next.token.hash()) && r.next.channel != "" {
			args = append(args, notification(r.next, 0, true)...)
		}
		s.notify(ctx, args)
	}
}

// askToLook makes the waiters look for which the name may have been reserved. The caller has lost
// the reply to the statement that reserves it, so it does not know. The caller does not wait for
// the notifications: the server may be silent.
func (s *Store) askToLook(ctx context.Context, messages []reservation) {
	for i := range messages {
		messages[i].fence = 0
	}
	s.calls.Work.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), driver.MaxReservation)
		defer cancel()
		s.wakeReserved(ctx, messages)
	})
}

// notify sends one or two notifications in one statement. It does so even if the caller's context
// has ended, because the change has already been made. A waiter that misses its notification loses
// its reservation, and looks again only after pushPause.
func (s *Store) notify(ctx context.Context, args []any) {
	text := s.rows.sql.notify[len(args)/2]
	if text == "" {
		return
	}
	if _, err := s.rows.db.ExecContext(ctx, text, args...); err == nil {
		return
	}
	s.calls.Work.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), driver.MaxReservation)
		defer cancel()
		_, _ = s.rows.db.ExecContext(ctx, text, args...)
	})
}

// localWaiters has the waiters of this process. If the process itself changes a name, it wakes the
// waiters for that name directly, without a notification through the database.
type localWaiters struct {
	mu      sync.Mutex
	byName  map[string][]*localWaiter
	byToken map[string]*localWaiter // by the hash of the token: waiters that want a place in the queue

	conn    *notifyConn // nil if nobody has waited for a while
	users   int         // calls of Wait that want notifications
	channel string      // the store's own channel; "" without a Listener
}

// A localWaiter has the channels and data of one waiter of this process, for one call of Wait.
type localWaiter struct {
	token opaque        // "" if the waiter takes no place in the queue
	look  chan struct{} // signals that the waiter has to look
	to    chan uint64   // gets the fence of a reservation for the waiter
	next  chan struct{} // signals that the waiter directly ahead has a reservation

	// For a fileWatch, guarded by localWaiters.mu:
	ahead  int       // how many waiters were ahead of this one at the last look
	stale  bool      // the file has changed since the waiter last had to look
	toldAt time.Time // when the file watch last made the waiter look
}

// add registers a waiter. The caller calls remove when the wait ends.
func (w *localWaiters) add(name string, token opaque) (one *localWaiter, remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byName == nil {
		w.byName, w.byToken = map[string][]*localWaiter{}, map[string]*localWaiter{}
	}
	one = &localWaiter{token: token, look: make(chan struct{}, 1), to: make(chan uint64, 1), next: make(chan struct{}, 1)}
	w.byName[name] = append(w.byName[name], one)
	if token != "" {
		w.byToken[token.hash()] = one
	}
	return one, func() { w.remove(name, one) }
}

func (w *localWaiters) remove(name string, one *localWaiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := slices.DeleteFunc(w.byName[name], func(x *localWaiter) bool { return x == one })
	if w.byName[name] = left; len(left) == 0 {
		delete(w.byName, name)
	}
	if key := one.token.hash(); w.byToken[key] == one {
		delete(w.byToken, key)
	}
}

// wakeFirst makes some waiters of this process look at the name: those that have no place in the
// queue, and the waiter with the token firstToken.
func (w *localWaiters) wakeFirst(name string, firstToken opaque) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.byName[name] {
		if one.token == "" || one.token == firstToken {
			signal(one.look)
		}
	}
}

// wakeAll makes all waiters of this process look.
func (w *localWaiters) wakeAll() {
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

// handTo tells a waiter of this process that the name is reserved for it, with this fence. The
// waiter is found by the hash of its token. If the fence is 0, nothing is reserved, and the waiter
// only looks at the name. handTo returns false if the waiter is not in this process.
func (w *localWaiters) handTo(hash string, fence uint64) bool {
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

// warnNext tells a waiter that the name was reserved for the waiter directly ahead in the queue.
// The parameter is the hash of the warned waiter's token. warnNext returns false if that waiter is
// not in this process.
func (w *localWaiters) warnNext(hash string) bool {
	one := w.waiter(hash)
	if one != nil {
		signal(one.next)
	}
	return one != nil
}

func (w *localWaiters) waiter(hash string) *localWaiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byToken[hash]
}

// handlePayload handles the payload of a notification.
func (w *localWaiters) handlePayload(payload string) {
	words := strings.Fields(payload)
	if len(words) < 2 {
		return
	}
	if words[0] == "-" && len(words) > 2 {
		w.warnNext(words[2])
	} else if fence, err := strconv.ParseUint(words[1], 10, 64); err == nil {
		w.handTo(words[0], fence)
	}
}

// idleListen is how long the connection for notifications stays open when nobody waits.
const idleListen = 10 * time.Second

// A notifyConn stands for the store's connection for notifications. If the connection is lost, the
// store opens a new one, and the notifyConn stands for the new connection.
type notifyConn struct {
	stop context.CancelFunc
	on   bool // notifications arrive
}

// wantNotifications makes sure that notifications arrive while a waiter needs them. The first
// waiter opens the connection for them. The waiter calls done when it no longer needs
// notifications.
func (s *Store) wantNotifications() (done func()) {
	if s.cfg.listener == nil {
		return func() {}
	}
	w := &s.local
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users++
	if w.conn == nil {
		ctx, stop := context.WithCancel(s.calls.Closing)
		c := &notifyConn{stop: stop}
		w.conn = c
		s.calls.Work.Go(func() { s.keepConn(ctx, c) })
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.users--
	}
}

// keepConn keeps the connection for notifications open. It closes the connection when nobody
// has waited for idleListen.
func (s *Store) keepConn(ctx context.Context, c *notifyConn) {
	defer c.stop()
	idle := time.NewTicker(idleListen)
	defer idle.Stop()
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		for pause := 10 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 5*time.Second) {
			_ = s.cfg.listener.Listen(ctx, s.local.channel, func() { s.noteConn(c, true); pause = 10 * time.Millisecond }, s.local.handlePayload)
			s.noteConn(c, false)
			storekit.Sleep(ctx, pause)
		}
	}()
	for {
		select {
		case <-lost:
			return
		case <-idle.C:
			if s.local.forget(c) {
				c.stop()
				<-lost
				return
			}
		}
	}
}

// forget removes the connection c if nobody waits, and reports whether it did. The next waiter then
// opens another connection, even if c has not been closed yet.
func (w *localWaiters) forget(c *notifyConn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users > 0 {
		return false
	}
	w.conn = nil
	return true
}

// noteConn is called when the connection for notifications was opened or lost. It records whether
// notifications arrive now. It also makes each waiter look at its name once, because a notification
// may have been lost.
func (s *Store) noteConn(c *notifyConn, on bool) {
	w := &s.local
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.on = on; w.conn == c {
		w.wakeAll()
	}
}

// pushChannel returns the channel on which notifications arrive now, or "".
func (w *localWaiters) pushChannel() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == nil || !w.conn.on {
		return ""
	}
	return w.channel
}
