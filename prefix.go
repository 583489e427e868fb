package padlock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// WithPrefix returns a store that keeps its locks in s, puts the prefix before each name, and
// cannot reach other names of s. So tenants can share a server:
//
//	tenant := padlock.New(padlock.WithPrefix(store, "tenant-7:"), padlock.KeepStoreOpen())
//
// No prefix may be the beginning of another one: end each with a character that occurs nowhere else
// in a prefix, such as ':'. The empty prefix changes nothing. The prefix shortens
// Guarantees.MaxName; if it leaves no room, every call returns ErrInvalid. Each prefix has its own
// StoreID. Close closes s. State.Path and the errors of s may show the prefix.
func WithPrefix(s driver.Store, prefix string) driver.Store {
	if prefix == "" {
		return s
	}
	// The result has no Unwrap, because it changes names: see driver.As.
	p := &prefixed{inner: s, prefix: prefix, guarantees: s.Guarantees()}
	g := &p.guarantees
	if g.MaxName == 0 {
		g.MaxName = driver.MaxName
	}
	g.MaxName = max(1, g.MaxName-len(prefix))
	for ability, has := range map[driver.Ability]bool{
		driver.AbilityWaiter:        able[driver.Waiter](s),
		driver.AbilitySlotTaker:     able[fast.SlotTaker](s),
		driver.AbilityBatchExtender: able[fast.BatchExtender](s),
		driver.AbilityPasser:        able[fast.Passer](s),
		driver.AbilityConverter:     able[driver.Converter](s),
		driver.AbilityFenceRaiser:   able[driver.FenceRaiser](s),
		driver.AbilityFileSharer:    able[fast.FileSharer](s),
		driver.AbilityStoreID:       able[driver.Places](s),
		driver.AbilityRecorder:      able[fast.Recorder](s),
		driver.AbilityReporter:      able[driver.Reporter](s),

		driver.AbilityInspect | driver.AbilityList | driver.AbilityBreak: able[driver.Admin](s),
	} {
		if !has {
			g.Lacks |= ability
		}
	}
	return p
}

func able[T any](s driver.Store) bool {
	_, ok := driver.As[T](s)
	return ok
}

// prefixed is a store whose names begin with prefix in the inner store. It has the methods of all
// optional interfaces, and lacks those that the inner store lacks. It embeds nothing: a method that
// somebody forgets to write here is missing, and never reaches names without the prefix.
type prefixed struct {
	inner      driver.Store
	prefix     string
	guarantees driver.Guarantees
}

// prepend adds the prefix to *name. It checks the name first, because the inner store sees the name
// only with the prefix and would accept an empty name.
func (p *prefixed) prepend(name *string) error {
	if err := driver.CheckName(*name, &p.guarantees); err != nil {
		return err
	}
	*name = p.prefix + *name
	return nil
}

// reach returns the inner store as a T, which is Store or an optional interface, and adds the
// prefix to *name. Every method that takes a name begins with it.
func reach[T any](p *prefixed, name *string) (T, error) {
	s, ok := driver.As[T](p.inner)
	if !ok {
		return s, errors.ErrUnsupported
	}
	return s, p.prepend(name)
}

// with makes a call of the inner store, for methods with one result and an error. The function call
// sees *name with the prefix.
func with[T, R any](p *prefixed, name *string, call func(T) (R, error)) (R, error) {
	s, err := reach[T](p, name)
	if err != nil {
		var none R
		return none, err
	}
	return call(s)
}

// shorten removes the prefix from a name of the inner store. ok is false for a name without the
// prefix, and for the prefix alone, because no name is empty.
func (p *prefixed) shorten(name string) (short string, ok bool) {
	short, ok = strings.CutPrefix(name, p.prefix)
	return short, ok && short != ""
}

func (p *prefixed) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	return with(p, &r.Name, func(s driver.Store) (driver.Grant, error) { return s.Acquire(ctx, r) })
}

func (p *prefixed) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	return with(p, &name, func(s driver.Store) (driver.Grant, error) { return s.Extend(ctx, name, token, ttl) })
}

func (p *prefixed) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	return with(p, &name, func(s driver.Store) (driver.Outcome, error) { return s.Release(ctx, name, token, keep) })
}

func (p *prefixed) Guarantees() driver.Guarantees { return p.guarantees }

func (p *prefixed) Close() error { return p.inner.Close() }

func (p *prefixed) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	return with(p, &r.Name, func(s driver.Waiter) (driver.Grant, error) { return s.Wait(ctx, r, reserve) })
}

func (p *prefixed) AcquireSlot(ctx context.Context, r driver.Request, n int, overtake bool) (int, driver.Grant, error) {
	s, err := reach[fast.SlotTaker](p, &r.Name)
	if err != nil {
		return 0, driver.Grant{}, err
	}
	return s.AcquireSlot(ctx, r, n, overtake)
}

func (p *prefixed) ExtendBatch(ctx context.Context, holds []fast.Extension) ([]fast.Extended, error) {
	s, ok := driver.As[fast.BatchExtender](p.inner)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	inner := slices.Clone(holds)
	for i := range inner {
		if err := p.prepend(&inner[i].Name); err != nil {
			return nil, err
		}
	}
	return s.ExtendBatch(ctx, inner)
}

func (p *prefixed) Pass(ctx context.Context, token string, next driver.Request) (driver.Outcome, driver.Grant, error) {
	s, err := reach[fast.Passer](p, &next.Name)
	if err != nil {
		return driver.OutcomeGone, driver.Grant{}, err
	}
	return s.Pass(ctx, token, next)
}

func (p *prefixed) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	return with(p, &r.Name, func(s driver.Converter) (driver.Grant, error) { return s.Convert(ctx, r) })
}

func (p *prefixed) Inspect(ctx context.Context, name string) (driver.State, error) {
	s, err := reach[driver.Admin](p, &name)
	if err != nil {
		return driver.State{}, err
	}
	state, err := s.Inspect(ctx, name)
	state.Name = strings.TrimPrefix(state.Name, p.prefix)
	return state, err
}

func (p *prefixed) List(ctx context.Context, prefix string) ([]driver.State, error) {
	s, ok := driver.As[driver.Admin](p.inner)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	states, err := s.List(ctx, p.prefix+prefix)
	var out []driver.State
	for _, state := range states {
		if state.Name, ok = p.shorten(state.Name); ok {
			out = append(out, state)
		}
	}
	return out, err
}

func (p *prefixed) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	return with(p, &name, func(s driver.Admin) (uint64, error) { return s.Break(ctx, name, seenFence) })
}

func (p *prefixed) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	s, err := reach[driver.FenceRaiser](p, &name)
	if err != nil {
		return err
	}
	return s.RaiseFence(ctx, name, token, fence)
}

func (p *prefixed) File(name, token string) (*os.File, error) {
	return with(p, &name, func(s fast.FileSharer) (*os.File, error) { return s.File(name, token) })
}

func (p *prefixed) Location(name string) (string, error) {
	s, err := reach[driver.Places](p, &name)
	switch {
	case errors.Is(err, errors.ErrUnsupported): // no two names share a lock
		err = p.prepend(&name)
		return name, err
	case err != nil:
		return "", err
	}
	return s.Location(name)
}

func (p *prefixed) StoreID(ctx context.Context) (string, error) {
	s, ok := driver.As[driver.Places](p.inner)
	if !ok {
		return "", errors.ErrUnsupported
	}
	id, err := s.StoreID(ctx)
	if err != nil {
		return "", err
	}
	mixed := sha256.Sum256([]byte(id + "\x00" + p.prefix))
	return hex.EncodeToString(mixed[:16]), nil
}

func (p *prefixed) Record(ctx context.Context, name string, records []fast.Record) error {
	s, err := reach[fast.Recorder](p, &name)
	if err != nil {
		return err
	}
	return s.Record(ctx, name, records)
}

func (p *prefixed) Records(ctx context.Context, name string) ([]fast.Record, error) {
	return with(p, &name, func(s fast.Recorder) ([]fast.Record, error) { return s.Records(ctx, name) })
}

func (p *prefixed) Recorded(ctx context.Context, prefix string, most int) (map[string][]fast.Record, error) {
	s, ok := driver.As[fast.Recorder](p.inner)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	all, err := s.Recorded(ctx, p.prefix+prefix, most)
	out := make(map[string][]fast.Record, len(all))
	for name, records := range all {
		if name, ok := p.shorten(name); ok {
			out[name] = records
		}
	}
	return out, err
}

func (p *prefixed) SamePlace(other driver.Store) bool { return driver.SamePlace(p.inner, other) }

func (p *prefixed) Status(ctx context.Context) ([]driver.Finding, error) {
	s, ok := driver.As[driver.Reporter](p.inner)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return s.Status(ctx)
}
