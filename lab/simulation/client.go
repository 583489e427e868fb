package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// client is the connection of one process to the server. It has no queue, so package padlock polls.
type client struct {
	server *Server
	closed atomic.Bool
}

// queueClient is a client whose server keeps a queue and sends a message to a waiter when the
// waiter's turn has come. The server of redisstore does the same.
type queueClient struct {
	client
	maxOutage time.Duration // how long the server may be down before a wait fails
}

// Connect returns the store of one process. If queue is true, the server keeps a queue of waiters,
// and a wait fails if the server is down for maxOutage. If queue is false, the process polls.
func (s *Server) Connect(queue bool, maxOutage time.Duration) driver.Store {
	if queue {
		return &queueClient{client: client{server: s}, maxOutage: maxOutage}
	}
	return &client{server: s}
}

// request sends a request to the server and waits for the reply. The wait simulates the network in
// both directions and the server's work. Set grants to true if the request asks for a lock.
func (c *client) request(ctx context.Context, grants bool, serve func(*life) error) error {
	if c.closed.Load() {
		return driver.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s := c.server
	<-time.After(s.net.OneWay)
	l, busy, err := s.arrive(grants)
	if l == nil {
		pause(ctx, busy+s.net.OneWay)
		return err
	}
	if err == nil {
		err = serve(l)
		if s.losesReply() {
			err = errBroken
		}
	}
	select {
	case <-time.After(busy + s.net.OneWay):
		return err
	case <-l.ended:
		return errBroken
	}
}

// Guarantees implements driver.Store.
func (c *client) Guarantees() driver.Guarantees {
	return driver.Guarantees{Store: "simulation", Fence: driver.FenceDurable, Lease: true}
}

// Close implements driver.Store.
func (c *client) Close() error {
	c.closed.Store(true)
	return nil
}

// Acquire implements driver.Store.
func (c *client) Acquire(ctx context.Context, r driver.Request) (g driver.Grant, err error) {
	err = c.request(ctx, true, func(l *life) (err error) {
		g, err = l.locks.Acquire(context.Background(), r)
		return err
	})
	return answer(g, err)
}

// Extend implements driver.Store.
func (c *client) Extend(ctx context.Context, name, token string, ttl time.Duration) (g driver.Grant, err error) {
	err = c.request(ctx, false, func(l *life) (err error) {
		g, err = l.locks.Extend(context.Background(), name, token, ttl)
		return err
	})
	return answer(g, err)
}

// Release implements driver.Store.
func (c *client) Release(ctx context.Context, name, token string, keep time.Duration) (out driver.Outcome, err error) {
	err = c.request(ctx, false, func(l *life) (err error) {
		out, err = l.locks.Release(context.Background(), name, token, keep)
		return err
	})
	return out, err
}

// answer returns g without the field From, because a client does not know when the server made the
// grant.
func answer(g driver.Grant, err error) (driver.Grant, error) {
	if err != nil {
		return driver.Grant{}, err
	}
	g.From = 0
	return g, nil
}

// longLook is the interval at which a waiter asks whether it still has its place in the queue, as
// in redisstore. Only the first question comes earlier, after driver.MaxReservation.
const longLook = 15 * time.Second

// firstRetry is the mean pause of a waiter between its first and its second request to a server
// that is down. After that, each pause is twice as long, up to lastRetry. All this is as in
// redisstore.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 400 * time.Millisecond
)

// queued is a waiter in the server's queue.
type queued struct {
	c          *queueClient
	r          driver.Request
	called     chan driver.Grant // gets the grant when it is the waiter's turn
	life       *life             // the waiter loses its place when the server stops; see the type life
	leaveQueue func() bool       // takes the waiter out of the queue; nil if it is not in the queue; guarded by Server.mu
	granted    bool              // the server has granted the lock; guarded by Server.mu
}

// Wait implements driver.Waiter. The grant that it returns is a reservation.
func (c *queueClient) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if !reserve {
		return driver.Grant{}, errors.ErrUnsupported
	}
	w := &queued{c: c, r: r, called: make(chan driver.Grant, 1)}
	w.r.TTL = driver.MaxReservation
	var downSince time.Time
	var retry time.Duration
	for next := driver.MaxReservation; ; next = longLook {
		var g driver.Grant
		err := c.request(ctx, true, func(l *life) (err error) {
			g, err = w.look(l)
			return err
		})
		if err == nil && g.TTL == 0 {
			g, err = w.rest(ctx, next)
		}
		switch {
		case err == nil && g.TTL > 0:
			return g, nil
		case err == nil:
			downSince = time.Time{}
			continue
		}
		w.leave()
		if downSince.IsZero() {
			downSince, retry = time.Now(), firstRetry
		}
		if time.Since(downSince) >= c.maxOutage || ctx.Err() != nil {
			return driver.Grant{}, err
		}
		// The connections of all processes broke at the same instant, so the pauses are random.
		pause(ctx, retry/2+rand.N(retry))
		retry = min(2*retry, lastRetry)
	}
}

// look joins the queue, unless the waiter is in the queue already. If the server has granted the
// lock but its message to the waiter was lost, look returns the grant.
func (w *queued) look(l *life) (driver.Grant, error) {
	s := w.c.server
	s.mu.Lock()
	granted, placed := w.granted, w.leaveQueue != nil
	s.mu.Unlock()
	if granted {
		if g, err := l.locks.Extend(context.Background(), w.r.Name, w.r.Token, 0); err == nil {
			return g, nil
		}
	}
	if placed && !granted {
		return driver.Grant{}, nil
	}
	s.mu.Lock()
	w.granted, w.life = false, l
	s.mu.Unlock()
	leave := enqueue(l, w)
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.leaveQueue = leave; !w.granted && l.waits != nil {
		l.waits[w] = w.leave
	}
	return driver.Grant{}, nil
}

// enqueue starts a goroutine that waits in the server's queue for w. The function leave gives up
// the place. It returns false if the waiter has got the lock.
func enqueue(l *life, w *queued) (leave func() bool) {
	ctx, cancel := context.WithCancel(context.Background())
	done, handed := make(chan struct{}), false
	go func() {
		defer close(done)
		g, err := l.locks.Wait(ctx, w.r, true)
		if handed = g.TTL > 0 || err != nil && ctx.Err() == nil; handed {
			w.handOver(g, err)
		}
	}()
	return func() bool {
		cancel()
		<-done
		return !handed
	}
}

// handOver runs in the server when the waiter's turn has come.
func (w *queued) handOver(g driver.Grant, err error) {
	s := w.c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	w.granted = true
	delete(w.life.waits, w)
	s.handOvers++
	if lost := s.net.LoseHandOvers > 0 && s.handOvers%s.net.LoseHandOvers == 0; err == nil && !lost {
		select {
		case w.called <- g:
		default:
		}
	}
}

// rest waits until the server grants the lock, and returns the grant. After the timeout, it returns
// the zero Grant.
func (w *queued) rest(ctx context.Context, timeout time.Duration) (driver.Grant, error) {
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case g := <-w.called:
		<-time.After(w.c.server.net.OneWay)
		return g, nil
	case <-t.C:
		return driver.Grant{}, nil
	case <-w.life.ended:
		if w.c.server.isSilent() {
			pause(ctx, rand.N(watchdogTick))
		}
		return driver.Grant{}, errBroken
	case <-ctx.Done():
		_ = w.c.request(context.WithoutCancel(ctx), false, func(*life) error { return nil })
		return driver.Grant{}, ctx.Err()
	}
}

// leave gives up the place, and the lock if it was granted. It may be called more than once.
func (w *queued) leave() {
	s := w.c.server
	s.mu.Lock()
	leave := w.leaveQueue
	w.leaveQueue = nil
	if leave != nil {
		delete(w.life.waits, w)
	}
	s.mu.Unlock()
	if leave != nil && !leave() {
		_, _ = w.life.locks.Release(context.Background(), w.r.Name, w.r.Token, 0)
	}
}
