//go:build linux

package trial

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/memstore"
)

// open is a wrapper: it finds its Waiter only through driver.As. It stays open, because all clients
// of a trial share it.
type open struct{ driver.Store }

func (o open) Unwrap() driver.Store { return o.Store }
func (open) Close() error           { return nil }

// Each trial has all figures, for a client with package padlock and for one without it. Each waiter
// gets the lock once, and nobody gets it together with another.
func TestTrials(t *testing.T) {
	for name, client := range map[string]func(driver.Store) *Client{
		"driver": Driver, "face": Face,
	} {
		t.Run(name, func(t *testing.T) {
			s, ended := open{memstore.New()}, 0
			p := &Peer{Open: func(*Counter) (*Client, error) { return client(s), nil }}
			ends := func(*Page) Meter {
				return func() (func(measure.Figures, int) error, error) {
					return func(_ measure.Figures, n int) error { ended = n; return nil }, nil
				}
			}
			check := func(f measure.Figures, err error, n int, columns ...string) {
				t.Helper()
				for _, c := range columns {
					if x, ok := f[c]; !ok || x-x != 0 {
						t.Errorf("%s is %v in %v", c, x, f)
					}
				}
				if err != nil || f["violations"] != 0 || n > 0 && ended != n {
					t.Errorf("%v, %v, and the meter counts %d operations, want %d", f, err, ended, n)
				}
			}
			f, err := p.Pairs(2, time.Millisecond, ends)
			check(f, err, 0, "ops/s", "us", "p50 us", "p99 us", "client us")
			if name == "driver" {
				return // it does not wait
			}
			for _, p.Drains = range []int{0, 1} {
				for _, clients := range []int{1, 2, 5} {
					f, err = p.Drain(5, clients, 10*time.Millisecond, ends)
					check(f, err, 5, "total_ms", "hop us", "hand p50 us")
				}
			}
			f, err = p.Compete(3, 20*time.Millisecond, 5*time.Second, time.Microsecond, ends)
			check(f, err, 0, "locks/s", "served", "fewest", "longest ms")
			f, err = p.Crowd(4)
			check(f, err, 0, "total_ms")
		})
	}
}

// A trial fails if its lock cannot be released: the holder has lost it.
func TestLostLocksFailTheTrial(t *testing.T) {
	s := memstore.New()
	p := &Peer{Open: func(*Counter) (*Client, error) { return Driver(broken{open{s}}), nil }}
	if _, err := p.Pairs(1, time.Millisecond, nil); err == nil {
		t.Error("a pair without a release is no error")
	}
	none := errors.New("no server")
	p.Open = func(*Counter) (*Client, error) { return nil, none }
	if _, err := p.Drain(2, 2, 0, nil); !errors.Is(err, none) {
		t.Errorf("got %v, want the error of Open", err)
	}
}

// Pairs locks without a deadline, because gRPC would send the deadline with each request.
func TestPairsSetsNoDeadline(t *testing.T) {
	deadlines := 0
	p := &Peer{Open: func(*Counter) (*Client, error) {
		starting := true // the lock that Start takes itself may have a deadline
		return NewClient(func() error { return nil }, func(ctx context.Context, _ string) (func() error, error) {
			if _, ok := ctx.Deadline(); ok && !starting {
				deadlines++
			}
			starting = false
			return func() error { return nil }, nil
		}), nil
	}}
	if _, err := p.Pairs(1, time.Millisecond, nil); err != nil || deadlines != 0 {
		t.Errorf("%v, %d locks have a deadline", err, deadlines)
	}
}

// broken says that a release found no lock.
type broken struct{ open }

func (b broken) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	_, err := b.open.Release(ctx, name, token, keep)
	return driver.OutcomeReleased + 1, err
}
