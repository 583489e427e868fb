package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

// ear is the one connection on which the waiters of a store are called,
// however many they are. It is made for the first of them. What was said while
// it was down is lost, so all of them look for themselves when it is back.
type ear struct {
	s       *Store
	channel string
	waits   sync.WaitGroup

	mu      sync.Mutex
	started bool
	up      chan struct{} // closed while it listens
	err     error         // why it does not
	waiters map[uint64]*waiter
	lines   map[string][]*waiter // those who want a name alone, in the order of their coming
	lastID  uint64
	ended   chan struct{} // closed when listen has returned
}

// waiter is a caller of Wait. Its number stands for it in messages, for these
// can be read by others and the token is secret.
type waiter struct {
	id     uint64
	r      *driver.Request
	lined  bool
	called chan message // of a few: what does not fit is less than a look tells
}

// message is what a waiter is told: h handed over with a fence, g granted with a
// fence by a release of its own process, f to look in so many ms at the latest,
// b to try, l to look now.
type message struct {
	kind  byte
	value int64
	from  driver.Instant // of g: when the lease began, or before
}

func (e *ear) init(s *Store) {
	e.s, e.channel = s, newID()
	e.up = make(chan struct{})
	e.waiters, e.lines = map[uint64]*waiter{}, map[string][]*waiter{}
	e.ended = make(chan struct{})
}

func (e *ear) add(r *driver.Request, lined bool) *waiter {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastID++
	w := &waiter{e.lastID, r, lined, make(chan message, 4)}
	e.waiters[w.id] = w
	if lined {
		e.lines[r.Name] = append(e.lines[r.Name], w)
	}
	return w
}

// first returns who in this process has waited longest for name, or nil.
func (e *ear) first(name string) *waiter {
	e.mu.Lock()
	defer e.mu.Unlock()
	if line := e.lines[name]; len(line) > 0 {
		return line[0]
	}
	return nil
}

func (e *ear) remove(w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.waiters, w.id)
	if !w.lined {
		return
	}
	line := e.lines[w.r.Name]
	if i := slices.Index(line, w); i == 0 {
		line[0] = nil
		line = line[1:]
	} else {
		line = slices.Delete(line, i, i+1)
	}
	if e.lines[w.r.Name] = line; len(line) == 0 {
		delete(e.lines, w.r.Name)
	}
}

// listening waits until the ear hears: before that, the server would take
// those who wait for gone.
func (e *ear) listening(ctx context.Context) error {
	e.mu.Lock()
	if !e.started {
		e.started = true
		go e.listen()
	}
	up := e.up
	e.mu.Unlock()
	select {
	case <-up:
		return nil
	default:
	}
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.err != nil {
			return unavailable("it cannot be listened to: %v", e.err)
		}
		return unavailable("it cannot be listened to")
	}
}

// listen subscribes, again and again, until Close.
func (e *ear) listen() {
	defer close(e.ended)
	for pause := time.Millisecond; e.s.ctx.Err() == nil; pause = min(2*pause, time.Second) {
		since := time.Now()
		err := e.subscribe()
		e.down(err)
		if time.Since(since) > time.Second {
			pause = time.Millisecond
		}
		_ = e.s.sleep(e.s.ctx, pause)
	}
}

// subscribe returns when the connection is lost.
func (e *ear) subscribe() error {
	c, err := e.s.ready(e.s.ctx, false)
	if err != nil {
		return err
	}
	d, giveBack := c.Dedicate()
	defer giveBack()
	defer d.Close() // not back into the pool: it may be half dead
	// Hooks are called by the goroutine that reads: one less that has to wake.
	lost := d.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: e.hear,
		OnSubscription: func(u rueidis.PubSubSubscription) {
			if u.Kind == "subscribe" {
				e.hears()
			}
		},
	})
	if err := d.Do(e.s.ctx, d.B().Subscribe().Channel("padlock:"+e.channel).Build()).Error(); err != nil {
		return err
	}
	select {
	case err := <-lost:
		return err
	case <-e.s.ctx.Done():
		return driver.ErrClosed
	}
}

func (e *ear) hears() {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.up:
	default:
		close(e.up)
	}
	for _, w := range e.waiters {
		w.call(message{kind: 'l'})
	}
}

func (e *ear) down(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
	select {
	case <-e.up:
		e.up = make(chan struct{})
	default:
	}
}

func (e *ear) hear(m rueidis.PubSubMessage) {
	kind, rest, _ := strings.Cut(m.Message, " ")
	who, what, _ := strings.Cut(rest, " ")
	id, err := strconv.ParseUint(who, 10, 64)
	if err != nil || len(kind) != 1 {
		return // somebody else's idea of a message
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := e.waiters[id]; w != nil {
		w.call(message{kind: kind[0], value: atoi(what)})
	}
}

func (w *waiter) call(m message) {
	select {
	case w.called <- m:
	default:
	}
}

// grant tells w that it has the name. That must not be lost: nobody else is
// told.
func (w *waiter) grant(fence int64, from driver.Instant) {
	m := message{'g', fence, from}
	for {
		select {
		case w.called <- m:
			return
		default:
		}
		select {
		case <-w.called: // something less
		default:
		}
	}
}

// forget drops a call that has become idle. What was said before stays, in
// order.
func (w *waiter) forget(kind byte) {
	for range len(w.called) {
		if m := <-w.called; m.kind != kind {
			w.call(m)
		}
	}
}

// close waits until the listener is gone. Store.ctx has ended.
func (e *ear) close() {
	e.mu.Lock()
	started := e.started
	e.started = true // nobody starts it any more
	e.mu.Unlock()
	if started {
		<-e.ended
	}
}
