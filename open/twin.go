package open

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// A twin stands for the second of two stores that keep their locks in one table, in two layouts.
// Such a pair is used during a move from one layout to the other. For most names the layouts use
// different rows of the table, so a lock needs both rows. For other names the layouts use the same
// row. Then the lock in the first store is enough, and the twin does nothing.
//
// A twin has no method Unwrap, because callers could then use the second store without the twin.
type twin struct {
	driver.Store
	first, second driver.Places
	waiter        driver.Waiter
	admin         driver.Admin
}

var _ interface {
	driver.Store
	driver.Waiter
	driver.Admin
} = (*twin)(nil)

// newTwin returns a twin for the second store. If a store cannot tell where it keeps the lock of a
// name, newTwin closes the second store and returns an error.
func newTwin(first, second driver.Store) (driver.Store, error) {
	a, ok := driver.As[driver.Places](first)
	b, also := driver.As[driver.Places](second)
	w, waits := driver.As[driver.Waiter](second)
	i, inspects := driver.As[driver.Admin](second)
	if !ok || !also || !waits || !inspects {
		_ = second.Close() // an error of Close is ignored: the error below is returned
		return nil, storekit.Invalidf("two layouts of one store cannot be used together here")
	}
	return &twin{second, a, b, w, i}, nil
}

// sameLock reports whether both stores keep the lock of a name in the same row.
func (t *twin) sameLock(name string) bool {
	a, err := t.first.Location(name)
	if err != nil {
		return false // the store returns the error
	}
	b, err := t.second.Location(name)
	return err == nil && a == b
}

// Acquire implements driver.Store.
func (t *twin) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if t.sameLock(r.Name) {
		return driver.Grant{TTL: r.TTL}, ctx.Err()
	}
	return t.Store.Acquire(ctx, r)
}

// Extend implements driver.Store. The first store knows how long the lease lasts.
func (t *twin) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if !t.sameLock(name) {
		return t.Store.Extend(ctx, name, token, ttl)
	}
	if ttl == 0 {
		ttl = driver.MaxTTL
	}
	return driver.Grant{TTL: ttl}, ctx.Err()
}

// Release implements driver.Store.
func (t *twin) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if t.sameLock(name) {
		return driver.OutcomeReleased, ctx.Err()
	}
	return t.Store.Release(ctx, name, token, keep)
}

// Wait implements driver.Waiter.
func (t *twin) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	return t.waiter.Wait(ctx, r, reserve)
}

// Inspect implements driver.Admin.
func (t *twin) Inspect(ctx context.Context, name string) (driver.State, error) {
	return t.admin.Inspect(ctx, name)
}

// List implements driver.Admin. The first store lists the names.
func (t *twin) List(context.Context, string) ([]driver.State, error) {
	return nil, errors.ErrUnsupported
}

// Break implements driver.Admin.
func (t *twin) Break(context.Context, string, uint64) (uint64, error) {
	return 0, errors.ErrUnsupported
}

// Guarantees implements driver.Store.
func (t *twin) Guarantees() driver.Guarantees {
	g := t.Store.Guarantees()
	g.Lacks |= driver.AbilityList | driver.AbilityBreak
	return g
}
