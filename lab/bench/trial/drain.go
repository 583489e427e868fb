//go:build linux

package trial

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// Drain makes n waiters wait for a held name. Then the holder releases the name, and each waiter
// takes it once. The waiters share a number of clients: with 1, the holder shares it too; else it
// has one of its own. The waiters get the time queued to join the queue.
func (p *Peer) Drain(n, clients int, queued time.Duration, m func(*Page) Meter) (f measure.Figures, err error) {
	if clients > 1 {
		clients++
	}
	page := new(Page)
	all, err := p.gather(page, clients)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, all.close()) }()
	for range p.Drains + 1 {
		locks, err := all.locks(n, true)
		if err != nil {
			return nil, err
		}
		d := drain{page: page}
		if f, err = d.run(locks, queued, meter(m, page)); err != nil {
			return nil, err
		}
	}
	return f, nil
}

type drain struct {
	page  *Page
	mu    sync.Mutex
	hands measure.Times // times from an unlock call until the next owner's lock returns
	at    []int64       // when each waiter got the lock
}

// run releases the name, which the first lock holds, and measures the drain.
func (d *drain) run(locks []Lock, queued time.Duration, m Meter) (measure.Figures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	unlock, err := locks[0](ctx)
	if err != nil {
		return nil, err
	}
	d.page.enter(1)
	failed := make(chan error, 1)
	go func() {
		failed <- Together(len(locks)-1, func(i int) error { return d.once(ctx, locks[i+1], int32(i+2)) })
	}()
	d.awaitQueue(len(locks), queued)
	return m.around(func() (measure.Figures, int, error) {
		start := now()
		d.page.leave(1)
		err := errors.Join(unlock(), <-failed)
		return d.figures(start), len(d.at), err
	})
}

// awaitQueue gives the waiters time to join the queue. It waits for queueTime. If the waiters are
// still sending many requests after that, it waits a little longer. It does not wait until the
// requests end, because waiters that poll never stop sending.
func (d *drain) awaitQueue(parties int, queueTime time.Duration) {
	time.Sleep(queueTime)
	for range 10 {
		sent := d.page.SentByAll()
		time.Sleep(queueTime / 5)
		if d.page.SentByAll()-sent < int64(parties)/16+1 {
			return
		}
	}
}

// once runs one waiter.
func (d *drain) once(ctx context.Context, l Lock, id int32) error {
	unlock, err := l(ctx)
	got := now()
	if err != nil {
		return err
	}
	d.page.enter(id)
	hand := got - d.page.released.Load()
	d.mu.Lock()
	d.at, d.hands = append(d.at, got), append(d.hands, hand)
	d.mu.Unlock()
	d.page.leave(id)
	return unlock()
}

func (d *drain) figures(start int64) measure.Figures {
	waits := make(measure.Times, len(d.at))
	for i, at := range d.at {
		waits[i] = at - start
	}
	total := waits.Micros(1)
	return measure.Figures{
		"total_ms": total / 1000, "hop us": total / float64(len(waits)),
		"hand p50 us": d.hands.Micros(0.5), "violations": float64(d.page.violations.Load()),
	}
}
