package driver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"
	"time"
)

// WithPrefix returns a store that keeps its locks in s. The returned store puts the prefix before
// each name. For example, if the prefix is "tenant-7:", the lock that a caller calls "job" is
// called "tenant-7:job" in s. Locks of s whose names do not begin with the prefix cannot be reached
// through the returned store. So tenants that must not see each other's locks can share a server:
//
//	tenant := padlock.NewShared(driver.WithPrefix(store, "tenant-7:"))
//
// No prefix may be the beginning of another one: two tenants would then share names. End each
// prefix with a character that occurs nowhere else in a prefix, such as ':'.
//
// The longest allowed name is shorter than in s by the length of the prefix; see
// Guarantees.MaxName. If the prefix leaves no room for a name, every call returns ErrInvalid. The
// StoreID of the returned store depends on the prefix. Close closes s. State.Path and the errors of
// s may show the prefix.
//
// The returned store has no Unwrap method, because it changes names; see [As]. If the prefix is
// empty, WithPrefix returns s.
func WithPrefix(s Store, prefix string) Store {
	if prefix == "" {
		return s
	}
	p := &prefixed{inner: s, prefix: prefix, guarantees: s.Guarantees()}
	g := &p.guarantees
	if g.MaxName == 0 {
		g.MaxName = MaxName
	}
	g.MaxName = max(1, g.MaxName-len(prefix))
	find(p, &p.waiter)
	find(p, &p.slotTaker)
	find(p, &p.batcher)
	find(p, &p.passer)
	find(p, &p.converter)
	find(p, &p.admin)
	find(p, &p.raiser)
	find(p, &p.files)
	find(p, &p.recorder)
	find(p, &p.reporter)
	find(p, &p.places)
	if p.places == nil {
		g.Lacks |= AbilityStoreID
	}
	return p
}

// find sets to to the ability of the inner store. If the inner store lacks the ability, the
// prefixed store lacks it too.
func find[T any](p *prefixed, to *T) {
	ability, ok := As[T](p.inner)
	if *to = ability; !ok {
		p.guarantees.Lacks |= abilityOf[T]()
	}
}

// prefixed is a store whose names begin with prefix in the inner store. It has the methods of all
// interfaces in abilities.go; a test checks that. It lacks those that the inner store lacks.
type prefixed struct {
	inner      Store
	prefix     string
	guarantees Guarantees
	waiter     Waiter // this and the following fields are nil if inner does not have the ability
	slotTaker  SlotTaker
	batcher    BatchExtender
	passer     Passer
	converter  Converter
	admin      Admin
	raiser     FenceRaiser
	files      FileSharer
	places     Places
	recorder   Recorder
	reporter   Reporter
}

// prepend adds the prefix to *name. It checks the name first, because the inner store sees the name
// only with the prefix and would accept an empty name.
func (p *prefixed) prepend(name *string) error {
	if err := CheckName(*name, &p.guarantees); err != nil {
		return err
	}
	*name = p.prefix + *name
	return nil
}

// prependOptional is like prepend, for a method that the inner store may lack.
func (p *prefixed) prependOptional(has bool, name *string) error {
	if !has {
		return errors.ErrUnsupported
	}
	return p.prepend(name)
}

func (p *prefixed) Acquire(ctx context.Context, r Request) (Grant, error) {
	if err := p.prepend(&r.Name); err != nil {
		return Grant{}, err
	}
	return p.inner.Acquire(ctx, r)
}

func (p *prefixed) Extend(ctx context.Context, name, token string, ttl time.Duration) (Grant, error) {
	if err := p.prepend(&name); err != nil {
		return Grant{}, err
	}
	return p.inner.Extend(ctx, name, token, ttl)
}

func (p *prefixed) Release(ctx context.Context, name, token string, keep time.Duration) (Outcome, error) {
	if err := p.prepend(&name); err != nil {
		return Gone, err
	}
	return p.inner.Release(ctx, name, token, keep)
}

func (p *prefixed) Guarantees() Guarantees { return p.guarantees }

func (p *prefixed) Close() error { return p.inner.Close() }

func (p *prefixed) Wait(ctx context.Context, r Request, reserve bool) (Grant, error) {
	if err := p.prependOptional(p.waiter != nil, &r.Name); err != nil {
		return Grant{}, err
	}
	return p.waiter.Wait(ctx, r, reserve)
}

func (p *prefixed) JoinFirst(name string) bool {
	return p.prependOptional(p.waiter != nil, &name) == nil && p.waiter.JoinFirst(name)
}

func (p *prefixed) AcquireSlot(ctx context.Context, r Request, n int, overtake bool) (int, Grant, error) {
	if err := p.prependOptional(p.slotTaker != nil, &r.Name); err != nil {
		return 0, Grant{}, err
	}
	return p.slotTaker.AcquireSlot(ctx, r, n, overtake)
}

func (p *prefixed) ExtendBatch(ctx context.Context, holds []Extension) ([]Extended, error) {
	if p.batcher == nil {
		return nil, errors.ErrUnsupported
	}
	inner := slices.Clone(holds)
	for i := range inner {
		if err := p.prepend(&inner[i].Name); err != nil {
			return nil, err
		}
	}
	return p.batcher.ExtendBatch(ctx, inner)
}

func (p *prefixed) Pass(ctx context.Context, token string, next Request) (Outcome, Grant, bool, error) {
	if err := p.prependOptional(p.passer != nil, &next.Name); err != nil {
		return Gone, Grant{}, false, err
	}
	return p.passer.Pass(ctx, token, next)
}

func (p *prefixed) Convert(ctx context.Context, r Request) (Grant, error) {
	if err := p.prependOptional(p.converter != nil, &r.Name); err != nil {
		return Grant{}, err
	}
	return p.converter.Convert(ctx, r)
}

func (p *prefixed) Inspect(ctx context.Context, name string) (State, error) {
	if err := p.prependOptional(p.admin != nil, &name); err != nil {
		return State{}, err
	}
	state, err := p.admin.Inspect(ctx, name)
	state.Name = strings.TrimPrefix(state.Name, p.prefix)
	return state, err
}

func (p *prefixed) List(ctx context.Context, prefix string) ([]State, error) {
	if p.admin == nil {
		return nil, errors.ErrUnsupported
	}
	states, err := p.admin.List(ctx, p.prefix+prefix)
	var out []State
	for _, state := range states {
		name, ours := strings.CutPrefix(state.Name, p.prefix)
		if state.Name = name; ours && name != "" { // "" is invalid
			out = append(out, state)
		}
	}
	return out, err
}

func (p *prefixed) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	if err := p.prependOptional(p.admin != nil, &name); err != nil {
		return 0, err
	}
	return p.admin.Break(ctx, name, seenFence)
}

func (p *prefixed) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	if err := p.prependOptional(p.raiser != nil, &name); err != nil {
		return err
	}
	return p.raiser.RaiseFence(ctx, name, token, fence)
}

func (p *prefixed) File(name, token string) (*os.File, error) {
	if err := p.prependOptional(p.files != nil, &name); err != nil {
		return nil, err
	}
	return p.files.File(name, token)
}

func (p *prefixed) Location(name string) (string, error) {
	err := p.prepend(&name)
	if err != nil || p.places == nil {
		return name, err
	}
	return p.places.Location(name)
}

func (p *prefixed) StoreID(ctx context.Context) (string, error) {
	if p.places == nil {
		return "", errors.ErrUnsupported
	}
	id, err := p.places.StoreID(ctx)
	if err != nil {
		return "", err
	}
	mixed := sha256.Sum256([]byte(id + "\x00" + p.prefix))
	return hex.EncodeToString(mixed[:16]), nil
}

func (p *prefixed) Record(ctx context.Context, name string, records []Record) error {
	if err := p.prependOptional(p.recorder != nil, &name); err != nil {
		return err
	}
	return p.recorder.Record(ctx, name, records)
}

func (p *prefixed) Records(ctx context.Context, name string) ([]Record, error) {
	if err := p.prependOptional(p.recorder != nil, &name); err != nil {
		return nil, err
	}
	return p.recorder.Records(ctx, name)
}

func (p *prefixed) RecordedNames(ctx context.Context, prefix string) ([]string, error) {
	if p.recorder == nil {
		return nil, errors.ErrUnsupported
	}
	names, err := p.recorder.RecordedNames(ctx, p.prefix+prefix)
	var out []string
	for _, name := range names {
		if name, ours := strings.CutPrefix(name, p.prefix); ours && name != "" { // "" is invalid
			out = append(out, name)
		}
	}
	return out, err
}

func (p *prefixed) SamePlace(other Store) bool { return SamePlace(p.inner, other) }

func (p *prefixed) Status(ctx context.Context) ([]Finding, error) {
	if p.reporter == nil {
		return nil, errors.ErrUnsupported
	}
	return p.reporter.Status(ctx)
}
