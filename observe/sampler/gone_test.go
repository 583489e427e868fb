package sampler_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/stores/memstore"
)

// leaving is a store that cannot list all of its locks. When it has been asked for the list, it
// calls leave.
type leaving struct {
	*memstore.Store
	leave func()
}

func (s leaving) List(ctx context.Context, prefix string) ([]driver.State, error) {
	states, err := s.Store.List(ctx, prefix)
	s.leave()
	if err == nil {
		err = errors.ErrUnsupported
	}
	return states, err
}

func (s leaving) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := ctx.Err(); err != nil {
		return driver.State{}, err
	}
	return s.Store.Inspect(ctx, name)
}

// If the context of a Sample ends, others still see the last complete snapshot.
func TestSampleThatIsGivenUp(t *testing.T) {
	leave := func() {}
	l := padlock.New(leaving{memstore.New(), func() { leave() }})
	defer l.Close(t.Context())
	take(t, l, "held")
	s := sampler.New(l, sampler.Watch("watched"))
	before := sample(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	leave = cancel
	if _, err := s.Sample(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Sample: %v, want that the context ended", err)
	}
	if after := s.Snapshot(); after != before {
		t.Errorf("others see the snapshot %+v", after)
	}
}

// The longest interval is no short one. A Sampler with it takes samples only when somebody asks.
func TestLongestInterval(t *testing.T) {
	l := padlock.New(memstore.New())
	defer l.Close(t.Context())
	s := sampler.New(l, sampler.Interval(math.MaxInt64))
	if c := sample(t, s).Cost; c.Interval != math.MaxInt64 {
		t.Errorf("the interval is %v", c.Interval)
	}
}

// If the context of LookAll ends while the slots are being listed, the name is unknown: not free,
// because slots of it may be held.
func TestLookAllThatIsGivenUp(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	l := padlock.New(leaving{memstore.New(), leave})
	defer l.Close(context.WithoutCancel(t.Context()))
	if _, err := l.Acquire(t.Context(), "job", padlock.Slots(2)); err != nil {
		t.Fatal(err)
	}
	n, err := sampler.LookAll(ctx, l, "job", time.Minute)
	if err == nil || n.Name != "job" || n.State != sampler.Unknown || n.Why == "" || n.Waiters != -1 {
		t.Errorf("LookAll: %+v, %v; want an unknown state", n, err)
	}
}
