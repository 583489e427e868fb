package sampler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
)

// A Sampler watches the locks of a store. Its methods are safe for concurrent use.
type Sampler struct {
	locker *padlock.Locker
	set    settings
	turn   chan struct{} // contains one token; a goroutine takes the token out while it takes a sample
	looks  chan struct{} // contains a token if somebody has begun to wait in Next

	mu      sync.Mutex
	book    book
	snap    *Snapshot
	changed chan struct{} // closed, and made again, when snap changes
	took    time.Duration // how long the last successful sample took
}

// New returns a Sampler of the store of l. It sends no request. The caller closes l after the last
// use of the Sampler.
func New(l *padlock.Locker, opts ...Option) *Sampler {
	s := &Sampler{locker: l, set: newSettings(opts), turn: make(chan struct{}, 1), looks: make(chan struct{}, 1), changed: make(chan struct{})}
	s.turn <- struct{}{}
	s.book = newBook(&s.set, l.Guarantees().FIFO)
	s.snap = &Snapshot{Store: l.Guarantees().Store, Place: s.set.place, Prefix: s.set.prefix}
	return s
}

// Snapshot returns the result of the last sample. It sends no request. Before the first sample the
// snapshot has Number 0 and no rows.
func (s *Sampler) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snap
}

// Next waits until there is a snapshot whose Number is greater than number, and returns the newest
// one. If ctx ends first, Next returns the error of ctx.
func (s *Sampler) Next(ctx context.Context, number uint64) (*Snapshot, error) {
	for {
		s.mu.Lock()
		snap, changed := s.snap, s.changed
		s.mu.Unlock()
		if snap.Number > number {
			return snap, nil
		}
		select {
		case s.looks <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Lookup returns the row of name as of the last sample. It also knows names that are free now, if
// the Sampler remembers them from earlier samples.
func (s *Sampler) Lookup(name string) (row Name, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.lookup(name)
}

// Day returns what the Sampler saw of name in the last 24 hours, even if the name is free now.
func (s *Sampler) Day(name string) Day {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.dayOf(name, time.Now())
}

// Run takes samples while somebody waits in Next, until ctx ends, and returns the error of ctx. A
// store that cannot be reached does not end Run. While nobody looks, Run sends no request: a store
// that others use too pays for each look.
func (s *Sampler) Run(ctx context.Context) error {
	for {
		select {
		case <-s.looks:
		case <-ctx.Done():
			return ctx.Err()
		}
		snap, _ := s.Sample(ctx)
		pause := time.NewTimer(max(0, snap.Cost.Interval-snap.Cost.Took))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}

// Sample takes a sample now and returns its Snapshot, even while Run is under way. Use it after a
// change that must be seen at once. The error is Snapshot.Err. If ctx ends first, the error is that
// of ctx, and the Snapshot is that of the last sample.
func (s *Sampler) Sample(ctx context.Context) (*Snapshot, error) {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return s.Snapshot(), ctx.Err()
	}
	defer func() { s.turn <- struct{}{} }()
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.mu.Lock()
	absent := s.book.heldNames()
	s.mu.Unlock()
	r := read(bounded, s.locker, &s.set, absent)
	if ctx.Err() != nil && !r.isComplete() {
		return s.Snapshot(), ctx.Err()
	}
	if r.err != nil && bounded.Err() != nil {
		r.err = fmt.Errorf("%w: there was no reply within %s", padlock.ErrUnavailable, patience)
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := s.book.snapshot(s.snap, &r, began, now)
	snap.Cost = s.cost(&r, now.Sub(began))
	s.snap = snap
	close(s.changed)
	s.changed = make(chan struct{})
	return snap, snap.Err
}

// maxInterval is the longest interval to which the Sampler slows down by itself.
const maxInterval = time.Minute

// perGet is the time between two requests that read a single name each. Such a store is a service
// that asks for money for each request: a month of this rate costs some two dollars.
const perGet = time.Second / 2

// cost computes the interval until the next sample, and what samples cost the store. Samples may
// take at most a fiftieth of the time, so that twenty Samplers of one store leave it to others, and
// may read at most maxRate names in a second. A failure does
// not make the interval longer, and a single slow sample does not either, so that a recovery is
// seen soon. But requests for single names always do.
func (s *Sampler) cost(r *reading, took time.Duration) Cost {
	c := Cost{Took: took, Names: len(r.states) + len(r.unknown), Calls: r.calls}
	slow := max(50*min(took, s.took), time.Duration(c.Names)*time.Second/maxRate)
	if c.Interval = max(s.set.interval, s.set.interval+took); r.err == nil { // the sum may overflow
		c.Interval = max(c.Interval, min(slow, maxInterval))
	}
	c.Interval = max(c.Interval, min(time.Duration(r.gets)*perGet, maxInterval))
	if r.err == nil {
		s.took = took
	}
	c.Requests = float64(c.Calls+max(c.Names, r.gets)) / c.Interval.Seconds()
	return c
}
