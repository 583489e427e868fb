package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

// subscriber is the one connection on which all waiters of a store receive messages. It is made for
// the first waiter. Messages that are sent while the connection is down are lost. So all waiters
// look at their names when the connection is up again.
type subscriber struct {
	s       *Store
	channel string
	waits   sync.WaitGroup

	mu      sync.Mutex
	started bool
	up      chan struct{} // closed while the subscription is up
	err     error         // why the subscription is down
	waiters map[uint64]*waiter
	lines   map[string][]*waiter // by name, the waiters for an exclusive hold, in the order in which they came
	lastID  uint64
	ended   chan struct{} // closed when listen has returned

	suspect chan struct{} // receives a value if the subscription may be dead and must be tried
	echo    chan int64    // the numbers of the trial messages that arrived
}

// waiter is a caller of Wait. Messages name it by its number, because other users of the server can
// read them and the token is secret.
type waiter struct {
	id     uint64
	r      *driver.Request
	lined  bool
	called chan message // if it is full, messages are dropped: a look at the name tells more than any message
}

// The kinds of messages to a waiter. Scripts use the same letters.
const (
	msgHandedOver = 'h' // the name is reserved for the waiter; the message has the fence, and often the time
	msgGranted    = 'g' // a lock of this process was released and this waiter has it now; the message has the fence
	msgLookBy     = 'f' // the waiter must look at the name within the number of ms in the message
	msgTry        = 'b' // the waiter has no place in the queue, and may try
	msgLook       = 'l' // the waiter must look now
	msgTrial      = 'p' // a trial of the subscription itself; the message has the trial's number
)

type message struct {
	kind  byte
	value int64
	// With msgGranted, this field has the time at which the lease began, or an earlier time. With
	// msgHandedOver, it has the time at which the message arrived.
	from   driver.Instant
	handed int64 // with msgHandedOver: the server's time of the hand-over in microseconds, or 0
}

func (sub *subscriber) init(s *Store) {
	sub.s, sub.channel = s, newID()
	sub.up = make(chan struct{})
	sub.waiters, sub.lines = map[uint64]*waiter{}, map[string][]*waiter{}
	sub.ended = make(chan struct{})
	sub.suspect, sub.echo = make(chan struct{}, 1), make(chan int64, 1)
}

func newID() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func (sub *subscriber) add(r *driver.Request, lined bool) *waiter {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.lastID++
	w := &waiter{sub.lastID, r, lined, make(chan message, 4)}
	sub.waiters[w.id] = w
	if lined {
		sub.lines[r.Name] = append(sub.lines[r.Name], w)
	}
	return w
}

// firstWaiter returns the waiter of this process that has waited longest for name, or nil.
func (sub *subscriber) firstWaiter(name string) *waiter {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if line := sub.lines[name]; len(line) > 0 {
		return line[0]
	}
	return nil
}

func (sub *subscriber) remove(w *waiter) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	delete(sub.waiters, w.id)
	if !w.lined {
		return
	}
	line := sub.lines[w.r.Name]
	if i := slices.Index(line, w); i == 0 {
		line[0] = nil
		line = line[1:]
	} else {
		line = slices.Delete(line, i, i+1)
	}
	if sub.lines[w.r.Name] = line; len(line) == 0 {
		delete(sub.lines, w.r.Name)
	}
}

// listening waits until the subscription is made. Before that, the server would count the waiters
// of this process as gone.
func (sub *subscriber) listening(ctx context.Context) error {
	sub.mu.Lock()
	if !sub.started {
		sub.started = true
		go sub.listen()
	}
	up := sub.up
	sub.mu.Unlock()
	select {
	case <-up:
		return nil
	default:
	}
	t := time.NewTimer(spread(time.Second))
	defer t.Stop()
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		sub.mu.Lock()
		defer sub.mu.Unlock()
		if sub.err != nil {
			return unavailable("no subscription can be made: %v", sub.err)
		}
		return unavailable("no subscription can be made")
	}
}

// listen subscribes, and subscribes again whenever the connection is lost, until Close.
func (sub *subscriber) listen() {
	defer close(sub.ended)
	for pause := time.Millisecond; sub.s.ctx.Err() == nil; pause = min(2*pause, time.Second) {
		since := time.Now()
		err := sub.subscribe()
		sub.down(err)
		if time.Since(since) > time.Second {
			pause = time.Millisecond
		}
		_ = sub.s.sleep(sub.s.ctx, spread(pause))
	}
}

// subscribe returns when the connection is lost.
func (sub *subscriber) subscribe() error {
	c, err := sub.s.readyClient(sub.s.ctx, false)
	if err != nil {
		return err
	}
	d, giveBack := c.Dedicate()
	defer giveBack()
	defer d.Close() // not back into the pool: the connection may be half dead
	// Hooks run in the goroutine that reads, so no other goroutine has to wake.
	lost := d.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: sub.receive,
		OnSubscription: func(u rueidis.PubSubSubscription) {
			if u.Kind == "subscribe" {
				sub.subscribed()
			}
		},
	})
	if err := d.Do(sub.s.ctx, d.B().Subscribe().Channel("padlock:"+sub.channel).Build()).Error(); err != nil {
		return err
	}
	return sub.watch(d, lost)
}

// watch returns when the connection is lost. The subscriber writes nothing on the connection, so
// its watchdog cannot notice that the server is frozen or was replaced. Whenever something suggests
// that, the subscriber sends itself a message, at most once a second. Otherwise it sends nothing.
func (sub *subscriber) watch(d rueidis.DedicatedClient, lost <-chan error) error {
	suspect := sub.suspect
	var pause <-chan time.Time
	for trial := int64(1); ; {
		select {
		case err := <-lost:
			return err
		case <-sub.s.ctx.Done():
			return driver.ErrClosed
		case <-pause:
			suspect = sub.suspect
		case <-suspect:
			if err := sub.trySubscription(d, lost, trial); err != nil {
				return err
			}
			trial++
			suspect, pause = nil, time.After(time.Second)
		}
	}
}

// maybeDead starts a trial of the subscription, because a connection was made or lost, or a waiter
// has missed a message.
func (sub *subscriber) maybeDead() {
	select {
	case sub.suspect <- struct{}{}:
	default:
	}
}

var errDeaf = errors.New("messages do not arrive")

// trySubscription sends a PING on the subscriber's connection. Then it publishes a message, as
// scripts do. It returns an error if the PING gets no reply, or if the message does not arrive.
func (sub *subscriber) trySubscription(d rueidis.DedicatedClient, lost <-chan error, trial int64) error {
	ctx, cancel := context.WithTimeout(sub.s.ctx, patience)
	defer cancel()
	if err := d.Do(ctx, d.B().Ping().Build()).Error(); err != nil {
		return err
	}
	select {
	case <-sub.echo: // of an earlier trial
	default:
	}
	c := sub.s.gate.client.Load()
	err := c.Do(ctx, c.B().Publish().Channel("padlock:"+sub.channel).Message(string(msgTrial)+" "+itoa(trial)).Build()).Error()
	if _, refused := rueidis.IsRedisErr(err); refused {
		return nil // the user may not publish
	}
	if err != nil { // the message could not be sent; try again later
		sub.maybeDead()
		return nil
	}
	for {
		select {
		case n := <-sub.echo:
			if n == trial {
				return nil
			}
		case err := <-lost:
			return err
		case <-ctx.Done():
			return errDeaf
		}
	}
}

func (sub *subscriber) subscribed() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	select {
	case <-sub.up:
	default:
		close(sub.up)
	}
	for _, w := range sub.waiters {
		w.call(message{kind: msgLook})
	}
}

func (sub *subscriber) down(err error) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.err = err
	select {
	case <-sub.up:
		sub.up = make(chan struct{})
	default:
	}
}

func (sub *subscriber) receive(m rueidis.PubSubMessage) {
	kind, rest, _ := strings.Cut(m.Message, " ")
	number, value, _ := strings.Cut(rest, " ")
	id, err := strconv.ParseUint(number, 10, 64)
	if err != nil || len(kind) != 1 {
		return
	}
	switch kind[0] {
	case msgHandedOver, msgLookBy, msgTry:
	case msgTrial:
		select {
		case sub.echo <- int64(id):
		default:
		}
		return
	default:
		return // no script sends it
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	w := sub.waiters[id]
	if w == nil {
		return
	}
	called := message{kind: kind[0]}
	if called.kind == msgHandedOver {
		fence, handed, _ := strings.Cut(value, " ")
		value, called.from, called.handed = fence, sub.s.clock.Now(), atoi(handed)
	}
	called.value = atoi(value)
	w.call(called)
}

func (w *waiter) call(m message) {
	select {
	case w.called <- m:
	default:
	}
}

// grant sends w the message that it has the name. This message must not be lost, because nobody
// else gets it.
func (w *waiter) grant(fence int64, from driver.Instant) {
	m := message{kind: msgGranted, value: fence, from: from}
	for {
		select {
		case w.called <- m:
			return
		default:
		}
		select {
		case <-w.called: // a message that matters less
		default:
		}
	}
}

// forget drops the messages of one kind, which are no longer needed. The others stay, in order.
func (w *waiter) forget(kind byte) {
	for range len(w.called) {
		if m := <-w.called; m.kind != kind {
			w.call(m)
		}
	}
}

// awaitEnd waits until listen has returned. The caller has ended Store.ctx.
func (sub *subscriber) awaitEnd() {
	sub.mu.Lock()
	started := sub.started
	sub.started = true // so that nobody starts listen any more
	sub.mu.Unlock()
	if started {
		<-sub.ended
	}
}
