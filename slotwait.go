package padlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// gateTTL is the lease of the gate, the lock of the first waiting caller. If that caller dies, the
// others must wait until this lease ends. A shorter lease would have to be renewed more often while
// the caller waits.
const gateTTL = time.Second

// queueForPermit waits for the gate, and then for a permit.
func (p *permitCall) queueForPermit() (*hold, error) {
	gateName := driver.SlotGate(p.name, p.set.slots)
	if err := p.l.beginPermitWait(gateName); err != nil {
		return nil, err
	}
	defer p.l.endPermitWait(gateName)
	g := &attempt{call: call{l: p.l, ctx: p.ctx, noted: true}, part: true, gate: true}
	g.set = settings{ttl: max(gateTTL, p.l.guarantees.MinTTL), wait: p.remaining(), label: p.set.label}
	gate, err := g.take(gateName)
	p.timeout = g.timeout
	switch {
	case errors.Is(err, ErrHeld) && p.ctx.Err() != nil:
		return nil, &joined{p.refusal(), p.ctx.Err()}
	case errors.Is(err, ErrHeld):
		return nil, p.refusal()
	case err != nil:
		return nil, err
	}
	over, stopTimer := p.startTimer()
	if stopTimer != nil {
		defer stopTimer()
	}
	ctx, stop := p.bounded(over)
	defer stop()
	h, err := p.watch(ctx)
	// The call does not wait for the store's reply. Close does, because the gate is a hold.
	go gate.giveBack(context.Background(), 0, nil)
	return h, err
}

// watch tries the permits whenever one may be free, until it gets one or ctx ends.
func (p *permitCall) watch(ctx context.Context) (*hold, error) {
	var downSince driver.Instant
	var trouble error // the last error; nil if the store has replied since
	w := p.newWatch(ctx)
	defer w.stop()
	for {
		began := p.l.clock.Now()
		h, err := p.scan(true)
		switch {
		case err == nil:
			return h, nil
		case errors.Is(err, ErrHeld) || splitVote(err):
			if downSince, trouble = 0, nil; p.skips() {
				return nil, err
			}
			w.await()
		case ctx.Err() == nil && !p.tolerates(err, began, &downSince):
			return nil, err
		default:
			trouble = err
			p.l.sleep(ctx, p.poll.next())
		}
		if ctx.Err() != nil {
			return nil, p.waitEnded(p.refusal(), context.Cause(ctx), trouble)
		}
	}
}

// The first waiting caller watches at most watchMost permits of one name at the same time. If the
// name has more permits, this caller also tries all of them every 250 ms (rescanAfter).
const (
	watchMost   = 16
	rescanAfter = 250 * time.Millisecond
)

// permitWatch waits in the store for several permits at the same time, without a place in their
// queues. The waits go on while the caller tries the permits. So a wait that has ended is started
// again, and the others cost no further requests.
type permitWatch struct {
	p        *permitCall
	ctx      context.Context
	cancel   context.CancelFunc
	idle     []int       // the permits whose wait has ended, or has not begun
	ended    chan waited // one for each wait that has ended
	watching sync.WaitGroup
}

// waited is the end of one wait.
type waited struct {
	permit int
	err    error
}

// newWatch chooses the permits to watch.
func (p *permitCall) newWatch(ctx context.Context) *permitWatch {
	w := &permitWatch{p: p}
	w.idle = rand.Perm(len(p.held))
	w.idle = w.idle[:min(len(w.idle), watchMost)]
	w.ended = make(chan waited, len(w.idle))
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

// await waits until a permit may be free, or until ctx ends.
func (w *permitWatch) await() {
	p := w.p
	if p.l.waiter == nil {
		p.l.sleep(w.ctx, p.poll.next())
		return
	}
	for _, i := range w.idle {
		w.watching.Go(func() {
			_, err := p.l.waiter.Wait(w.ctx, p.request(driver.SlotName(p.name, i)), false)
			w.ended <- waited{i, err}
		})
	}
	w.idle = w.idle[:0]
	var rescan chan struct{}
	if len(p.held) > watchMost {
		rescan = make(chan struct{})
		defer p.l.clock.AfterFunc(rescanAfter, func() { close(rescan) })()
	}
	select {
	case <-w.ctx.Done():
	case <-rescan:
	case e := <-w.ended:
		w.idle = append(w.idle, e.permit)
		if e.err != nil {
			p.l.sleep(w.ctx, p.poll.next())
		}
	}
}

// stop ends all waits.
func (w *permitWatch) stop() {
	w.cancel()
	w.watching.Wait()
}

// request returns the request with which the caller waits for permits. This request takes no place
// in the store's queue.
func (p *permitCall) request(name string) driver.Request {
	l := p.l
	l.mu.Lock()
	defer l.mu.Unlock()
	return driver.Request{
		Name: name, Token: l.newToken(), TTL: p.set.ttl,
		Holder: driver.Holder{Host: l.host, PID: l.pid, Label: p.set.label},
	}
}

// beginPermitWait counts a caller that begins to wait for a permit. If as many callers wait already
// as MaxWaiters allows, it returns ErrTooManyWaiters. The caller that has the gate counts too,
// although it has left the line for the gate.
func (l *Locker) beginPermitWait(gateName string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.permitWaiters[gateName] >= l.cfg.maxWaiters {
		return ErrTooManyWaiters
	}
	if l.permitWaiters == nil {
		l.permitWaiters = make(map[string]int)
	}
	l.permitWaiters[gateName]++
	l.stats.waiting++
	return nil
}

// endPermitWait ends the wait that beginPermitWait has counted.
func (l *Locker) endPermitWait(gateName string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.permitWaiters[gateName]--; l.permitWaiters[gateName] == 0 {
		delete(l.permitWaiters, gateName)
	}
	l.stats.waiting--
}
