package sqlstore_test

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// A patient store makes a call again if the database did not answer in time. A busy machine may
// stand still for longer than a call may take. All calls that it repeats may be repeated.
type patient struct{ *sqlstore.Store }

// repeat calls f four times at most, until it ends in another way than by the store's own limit.
func repeat(f func() error) (err error) {
	for range 4 {
		if err = f(); err == nil || !strings.Contains(err.Error(), "did not answer within 4.5s") {
			break
		}
	}
	return err
}

func (p patient) Acquire(ctx context.Context, r driver.Request) (g driver.Grant, err error) {
	err = repeat(func() error { g, err = p.Store.Acquire(ctx, r); return err })
	return g, err
}

// Release counts a hold as released if only an earlier try can have released it.
func (p patient) Release(ctx context.Context, name, token string, keep time.Duration) (out driver.Outcome, err error) {
	tries := 0
	err = repeat(func() error {
		tries++
		out, err = p.Store.Release(ctx, name, token, keep)
		return err
	})
	if tries > 1 && err == nil && out == driver.OutcomeGone {
		out = driver.OutcomeReleased
	}
	return out, err
}

func (p patient) Extend(ctx context.Context, name, token string, ttl time.Duration) (g driver.Grant, err error) {
	err = repeat(func() error { g, err = p.Store.Extend(ctx, name, token, ttl); return err })
	return g, err
}

func (p patient) Inspect(ctx context.Context, name string) (st driver.State, err error) {
	err = repeat(func() error { st, err = p.Store.Inspect(ctx, name); return err })
	return st, err
}

func (p patient) List(ctx context.Context, prefix string) (list []driver.State, err error) {
	err = repeat(func() error { list, err = p.Store.List(ctx, prefix); return err })
	return list, err
}

func (p patient) ExtendBatch(ctx context.Context, holds []driver.Extension) (out []driver.Extended, err error) {
	_ = repeat(func() error {
		out, err = p.Store.ExtendBatch(ctx, holds)
		all := err
		for _, o := range out {
			all = errors.Join(all, o.Err)
		}
		return all
	})
	return out, err
}
