//go:build linux

package trial

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// A Meter reads counters of a server or of this process. It is called when a measurement begins.
// The function that it returns is called at the end, and adds figures for each of n operations.
type Meter func() (end func(f measure.Figures, n int) error, err error)

// around calls work between the two readings of the meter, which may be nil.
func (m Meter) around(work func() (f measure.Figures, n int, err error)) (measure.Figures, error) {
	if m == nil {
		f, _, err := work()
		return f, err
	}
	end, err := m()
	if err != nil {
		return nil, err
	}
	f, n, err := work()
	if err != nil {
		return nil, err
	}
	return f, end(f, n)
}

// PairColumns are the columns of Repeat that most tables show.
var PairColumns = []string{"us", "p50 us", "client us"}

// warmUps is how often an operation is repeated before it is measured, if there is time. On each
// connection, PostgreSQL plans a prepared statement anew for its first five executions.
const warmUps = 50

// Repeat measures operations. It repeats each of them for d, each in a goroutine of its own.
func Repeat(d time.Duration, m Meter, once ...func() error) (measure.Figures, error) {
	if err := Together(len(once), func(i int) (err error) {
		for n, start := 0, now(); n < warmUps && now()-start < int64(d) && err == nil; n++ {
			err = once[i]()
		}
		return err
	}); err != nil {
		return nil, err
	}
	times := make([]measure.Times, len(once))
	return m.around(func() (measure.Figures, int, error) {
		used, start := measure.Used(), now()
		err := Together(len(once), func(i int) (err error) {
			times[i] = make(measure.Times, 0, 1<<12)
			for last := start; last < start+int64(d) && err == nil; {
				err = once[i]()
				done := now()
				times[i], last = append(times[i], done-last), done
			}
			return err
		})
		took, all := now()-start, slices.Concat(times...)
		n, sum := float64(len(all)), int64(0)
		for _, t := range all {
			sum += t
		}
		return measure.Figures{
			"ops/s": n / float64(took) * 1e9, "us": float64(sum) / 1e3 / n, "p50 us": all.Micros(0.5), "p99 us": all.Micros(0.99),
			"client us": float64((measure.Used() - used).Nanoseconds()) / 1e3 / n,
		}, len(all), err
	})
}

// Pairs measures n goroutines of one client that lock and unlock names of their own.
func (p *Peer) Pairs(n int, d time.Duration, m func(*Page) Meter) (f measure.Figures, err error) {
	page := new(Page)
	c, locks, err := p.Start(&page.Sent[0], NewNames(n)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	// A context with a deadline makes gRPC send the deadline with each request. That costs a
	// library that does not make contexts of its own more than the others.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer time.AfterFunc(d+2*Patience, cancel).Stop()
	var once []func() error
	for _, l := range locks {
		once = append(once, func() error { return l.Once(ctx) })
	}
	return Repeat(d, meter(m, page), once...)
}

func meter(m func(*Page) Meter, p *Page) Meter {
	if m == nil {
		return nil
	}
	return m(p)
}

// Crowd measures how long it takes until each of n goroutines of one client has had the same lock
// once. All of them begin at the same time. The figure is the median of seven new names.
func (p *Peer) Crowd(n int) (f measure.Figures, err error) {
	c, _, err := p.Start(new(Counter))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	const trials = 7
	var all []float64
	for range trials + 1 {
		once, err := crowdOnce(c, n)
		if err != nil {
			return nil, err
		}
		all = append(all, float64(once)/1e6)
	}
	return measure.Figures{"total_ms": measure.Median(all[1:])}, nil // the first one only warms up
}

func crowdOnce(c *Client, n int) (took int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*Patience)
	defer cancel()
	name := NewName()
	locks := make([]Lock, n)
	for i := range locks {
		if locks[i], err = c.Lock(name); err != nil {
			return 0, err
		}
	}
	if err := locks[0].Once(ctx); err != nil { // makes what the server keeps for the name
		return 0, err
	}
	start := now()
	err = Together(n, func(i int) error { return locks[i].Once(ctx) })
	return now() - start, err
}
