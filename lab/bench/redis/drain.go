//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

var drainColumns = append([]measure.Column{
	{Name: "total_ms", Format: "%.2f"}, // from the first release to the last acquire
	{Name: "hand p50 us", Format: "%.0f"}, {Name: "hand p99 us", Format: "%.0f"},
	{Name: "max/mean wait", Format: "%.2f"}, // 2 if waiters are served in order of arrival: the mean wait is then half of the longest wait
	{Name: "violations", Format: "%.0f"},
}, costColumns...)

// drain makes n waiters wait for a held name. Then the holder releases the name, and each waiter
// takes it once. If ownClients is true, every waiter has its own client, as if it were another
// process. Otherwise all waiters share one client.
func (b *bench) drain(n int, ownClients bool) *measure.Experiment {
	e := &measure.Experiment{
		Name:    fmt.Sprintf("drain, one client for all, %d waiters", n),
		Columns: drainColumns, Base: limitHop, Ratio: "total_ms",
		Targets: drainTargets(n, ownClients),
	}
	in := oneDrain
	if ownClients {
		e.Name, e.Base, in = fmt.Sprintf("drain, a client each, %d waiters", n), limitQueue, eachDrain
	}
	b.fill(e, in, func(c *contestant) (measure.Figures, error) { return b.drainOnce(c, n, ownClients) })
	return e
}

func (b *bench) drainOnce(c *contestant, n int, ownClients bool) (f measure.Figures, err error) {
	d := drainTrial{name: b.name("drain"), page: new(page)}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := c.ready(b.rig, d.name); err != nil {
		return nil, err
	}
	if err := d.open(b, c, n, ownClients); err != nil {
		return nil, err
	}
	return d.run(b.rig, b.plan.queued)
}

type drainTrial struct {
	name    string
	page    *page
	clients []*opened
	lockers []Locker // the first one belongs to the holder

	mu    sync.Mutex
	hands measure.Times // times from an unlock call until the next owner's Lock returns
	at    []int64       // when each waiter got the lock
	err   error
}

func (d *drainTrial) open(b *bench, c *contestant, n int, ownClients bool) error {
	names := make([]string, n+1)
	for i := range names {
		names[i] = d.name
	}
	groups := [][]string{names}
	if ownClients {
		groups = nil
		for i := range names {
			groups = append(groups, names[i:i+1])
		}
	}
	for i, group := range groups {
		o, err := c.openFor(b.rig, site{b.rig.addr, &d.page.sent[i]}, b.name("warm"), group...)
		if err != nil {
			return err
		}
		d.clients = append(d.clients, o)
		d.lockers = append(d.lockers, o.lockers...)
	}
	return nil
}

// close closes all clients at the same time, because some clients need a while to close.
func (d *drainTrial) close() error {
	errs := make([]error, len(d.clients))
	var all sync.WaitGroup
	for i, c := range d.clients {
		all.Go(func() { errs[i] = c.close() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// run lets all waiters wait for queueTime. Then it releases the lock and measures the drain.
func (d *drainTrial) run(r *rig, queueTime time.Duration) (measure.Figures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	unlock, err := d.lockers[0].Lock(ctx)
	if err != nil {
		return nil, err
	}
	d.page.enter(1)
	var all sync.WaitGroup
	for i, l := range d.lockers[1:] {
		all.Go(func() { d.once(ctx, l, int32(i+2)) })
	}
	d.awaitQueue(queueTime)
	before, err := r.cost(d.page)
	if err != nil {
		return nil, err
	}
	start := now()
	d.page.leave(1)
	err = unlock()
	all.Wait()
	after, bad := r.cost(d.page)
	if err = errors.Join(err, bad, d.err); err != nil {
		return nil, err
	}
	f := d.figures(start)
	addCosts(f, before, after, len(d.at))
	return f, nil
}

// awaitQueue gives the waiters time to join the queue. It waits for queueTime. If the waiters are
// still sending many requests after that, it waits a little longer. It does not wait until the
// requests end, because waiters that poll never stop sending.
func (d *drainTrial) awaitQueue(queueTime time.Duration) {
	time.Sleep(queueTime)
	for range 10 {
		sent := d.page.sentByAll()
		time.Sleep(queueTime / 5)
		if d.page.sentByAll()-sent < int64(len(d.lockers))/16+1 {
			return
		}
	}
}

// once runs one waiter.
func (d *drainTrial) once(ctx context.Context, l Locker, id int32) {
	unlock, err := l.Lock(ctx)
	got := now()
	if err == nil {
		d.page.enter(id)
		hand := got - d.page.released.Load()
		d.mu.Lock()
		d.at, d.hands = append(d.at, got), append(d.hands, hand)
		d.mu.Unlock()
		d.page.leave(id)
		err = unlock()
	}
	if err != nil {
		d.mu.Lock()
		d.err = err // one error is enough, even if hundreds occur
		d.mu.Unlock()
	}
}

func (d *drainTrial) figures(start int64) measure.Figures {
	waits := make(measure.Times, len(d.at))
	for i, at := range d.at {
		waits[i] = at - start
	}
	return measure.Figures{
		"total_ms":    waits.Micros(1) / 1000,
		"hand p50 us": d.hands.Micros(0.5), "hand p99 us": d.hands.Micros(0.99),
		"max/mean wait": waits.MaxToMean(),
		"violations":    float64(d.page.violations.Load()),
	}
}
