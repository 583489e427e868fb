package padlockotel

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// Store returns a store that keeps its locks in s and measures Acquire, Extend and Release for the
// metric padlock.store.operation.duration. The returned store also has the optional interfaces that
// s has. It does not measure requests of the optional interfaces. A request that finds the lock
// held does not count as an error.
func (o *Observer) Store(s padlock.Store) padlock.Store {
	return &measured{s, o, s.Guarantees().Store}
}

type measured struct {
	padlock.Store
	o    *Observer
	kind string
}

// Unwrap makes driver.As find the abilities of the store inside.
func (m *measured) Unwrap() padlock.Store { return m.Store }

func (m *measured) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	start := time.Now()
	g, err := m.Store.Acquire(ctx, r)
	m.took(ctx, "acquire", start, err)
	return g, err
}

func (m *measured) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	start := time.Now()
	g, err := m.Store.Extend(ctx, name, token, ttl)
	m.took(ctx, "extend", start, err)
	return g, err
}

func (m *measured) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	start := time.Now()
	out, err := m.Store.Release(ctx, name, token, keep)
	m.took(ctx, "release", start, err)
	return out, err
}

// errorTypes says which value the attribute error.type gets for an error. If several entries match
// the error (errors.Is), the first of them is used.
var errorTypes = []struct {
	err  error
	name string
}{
	{driver.ErrHeld, ""}, {driver.ErrClosed, "closed"}, {driver.ErrInvalid, "invalid"}, {errors.ErrUnsupported, "unsupported"},
	{driver.ErrExpired, "expired"}, {driver.ErrLost, "lost"}, {driver.ErrUnavailable, "unavailable"},
	{context.Canceled, "canceled"}, {context.DeadlineExceeded, "timeout"}, {driver.ErrUncertain, "uncertain"},
}

func (m *measured) took(ctx context.Context, operation string, start time.Time, err error) {
	l := labels{store: m.kind, operation: operation}
	if err != nil {
		l.errorType = "other"
	}
	for _, t := range errorTypes {
		if errors.Is(err, t.err) {
			l.errorType = t.name
			break
		}
	}
	m.o.instruments.operation.Record(ctx, time.Since(start).Seconds(), m.o.optionFor(l))
}
