package stampede_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/stampede"
)

// The comments of the options say these ranges. New returns an error for each of these values.
func TestRangesOfOptions(t *testing.T) {
	l := padlock.New(memstore.New())
	defer l.Close(t.Context())
	create := func(opts ...stampede.Option) error {
		c, err := stampede.New(l, stampede.NewMemory(), "page", func(context.Context, string) (int, error) { return 1, nil }, opts...)
		if err == nil {
			c.Close(t.Context())
		}
		return err
	}
	if err := create(); err == nil {
		t.Error("New works without Fresh")
	}
	for name, o := range map[string]stampede.Option{
		"Fresh": stampede.Fresh(-1), "Stale": stampede.Stale(-1), "Early": stampede.Early(-0.1), "Early of NaN": stampede.Early(math.NaN()),
		"Early without end": stampede.Early(math.Inf(1)), "Jitter below 0": stampede.Jitter(-0.1), "Jitter above 1": stampede.Jitter(1.1),
		"Local": stampede.Local(-1), "ValueCodec": stampede.ValueCodec(nil), "nil": nil,
		"Lease": stampede.Lease(0), "StaleIfError": stampede.StaleIfError(-1), "ErrorTTL": stampede.ErrorTTL(-1),
		"TimeLimit": stampede.TimeLimit(-1), "MaxWait": stampede.MaxWait(-1),
	} {
		if create(stampede.Fresh(time.Minute), o) == nil {
			t.Errorf("%s: New works", name)
		}
	}
	if err := create(stampede.Fresh(0), stampede.Jitter(1), stampede.Early(0), stampede.Stale(0), stampede.Local(0), stampede.OnError(nil)); err != nil {
		t.Error(err)
	}
}

// With MaxWait(0) a call does not wait for the function.
func TestMaxWaitZero(t *testing.T) {
	l := padlock.New(memstore.New())
	defer l.Close(t.Context())
	made := make(chan struct{})
	c, err := stampede.New(l, stampede.NewMemory(), "page", func(context.Context, string) (int, error) { <-made; return 1, nil },
		stampede.Fresh(time.Minute), stampede.MaxWait(0))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	defer close(made)
	if _, err := c.Get(t.Context(), "a"); !errors.Is(err, stampede.ErrNotReady) {
		t.Error(err)
	}
}

// patient is a store of values that looks at the context first, as a client of a server does.
type patient struct{ stampede.Values }

func (p patient) Load(ctx context.Context, key string) (stampede.Entry, error) {
	if err := ctx.Err(); err != nil {
		return stampede.Entry{}, err
	}
	return p.Values.Load(ctx, key)
}

// With MaxWait(0), a value that another process has stored is served.
func TestMaxWaitZeroReadsValues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := padlock.New(memstore.New())
		defer l.Close(t.Context())
		values := patient{stampede.NewMemory()}
		open := func(v int, opts ...stampede.Option) *stampede.Cache[int] {
			c, err := stampede.New(l, values, "page", func(context.Context, string) (int, error) { return v, nil }, append(opts, stampede.Fresh(time.Minute))...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close(context.Background()) })
			return c
		}
		if v, err := open(1).Get(t.Context(), "a"); v != 1 || err != nil {
			t.Fatal(v, err)
		}
		if v, err := open(2, stampede.MaxWait(0), stampede.Strict()).Get(t.Context(), "a"); v != 1 || err != nil {
			t.Errorf("%d, %v: want the stored value", v, err)
		}
	})
}

// A lease that the store does not allow is an error of each call.
func TestLeaseOutOfTheStoresRange(t *testing.T) {
	l := padlock.New(memstore.New())
	defer l.Close(t.Context())
	lease := stampede.Lease(time.Millisecond)
	c, err := stampede.New(l, stampede.NewMemory(), "page", func(context.Context, string) (int, error) { return 1, nil }, stampede.Fresh(time.Minute), lease)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if v, err := c.Get(t.Context(), "a"); !errors.Is(err, padlock.ErrInvalid) {
		t.Errorf("%v, %v", v, err)
	}
}
