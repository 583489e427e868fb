package mutants

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/lab/soak"
)

// many contains broken stores. Only work with more than one lock can show their bugs.
var many = []mutant{
	{name: "a permit that is given twice", within: 4000, seen: []string{"I10"}, load: func(l *soak.Load) { l.Slots, l.MaxHold = 50, 5*time.Millisecond },
		open: func(s driver.Store, k *shared) driver.Store { return doubled{onServer{wrap{s}}, k} }},
	{name: "a name of several that is left behind", within: 2000, seen: []string{"I11"}, load: func(l *soak.Load) { l.Several = 30 },
		open: func(s driver.Store, k *shared) driver.Store { return leaving{onServer{wrap{s}}, k} }},
	{name: "a lead that ends early in the store", within: 4000, seen: []string{"I12"},
		open: func(s driver.Store, _ *shared) driver.Store { return deposing{onServer{wrap{s}}} }},
	{name: "a folder that keeps nobody out", within: 2000, seen: []string{"I16"}, saying: "before the end of", load: climbing,
		open: func(s driver.Store, k *shared) driver.Store { return openFolder{raising{onServer{wrap{s}}}, k} }},
	{name: "a folder whose fence is not raised", within: 8000, seen: []string{"I16"}, saying: "fence", load: climbing,
		open: func(s driver.Store, _ *shared) driver.Store { return unraised{raising{onServer{wrap{s}}}} }},
	{name: "a path that is refused without need", within: 4000, seen: []string{"I16"}, saying: "nobody had or wanted", load: climbing,
		open: func(s driver.Store, k *shared) driver.Store { return refusing{raising{onServer{wrap{s}}}, k} }},
	{name: "a permit of weights that is given twice", within: 4000, seen: []string{"I10"}, load: func(l *soak.Load) { l.Weights = 4 },
		open: func(s driver.Store, k *shared) driver.Store { return doubled{onServer{wrap{s}}, k} }},
}

// climbing makes many callers lock paths.
func climbing(l *soak.Load) { l.Paths, l.MaxHold = 6, 6*time.Millisecond }

// raising can raise fences.
type raising struct{ onServer }

func (s raising) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	return s.Store.(driver.FenceRaiser).RaiseFence(ctx, name, token, fence)
}

func isFolder(r driver.Request) bool { return r.Shared && strings.Contains(r.Name, "tree:") }

// openFolder sometimes shares a folder that somebody else has alone.
type openFolder struct {
	raising
	*shared
}

func (s openFolder) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := s.raising.Acquire(ctx, r)
	if isFolder(r) && errors.Is(err, driver.ErrHeld) && s.every(3, "folder") {
		return driver.Grant{Fence: uint64(time.Now().UnixMicro()), TTL: r.TTL}, nil
	}
	return g, err
}

func (s openFolder) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	_ = s.raising.RaiseFence(ctx, name, token, fence) // it fails for a folder that was not granted
	return nil
}

// unraised confirms that it raises fences, and raises none. The deeper a path, the greater its fence.
type unraised struct{ raising }

func (s unraised) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if !r.Shared {
		r.FenceAbove = max(r.FenceAbove, uint64(strings.Count(r.Name, "/"))<<51)
	}
	return s.raising.Acquire(ctx, r)
}

func (s unraised) RaiseFence(context.Context, string, string, uint64) error { return nil }

// refusing sometimes says of a folder that it is held.
type refusing struct {
	raising
	*shared
}

func (s refusing) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if isFolder(r) && s.every(20, "refused") {
		return driver.Grant{}, &driver.HeldError{Waiters: -1}
	}
	return s.raising.Acquire(ctx, r)
}

// doubled sometimes grants a permit that is held.
type doubled struct {
	onServer
	*shared
}

func (s doubled) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := s.onServer.Acquire(ctx, r)
	if _, slot, ok := fast.SplitSlot(r.Name); ok && slot >= 0 && errors.Is(err, driver.ErrHeld) && s.every(3, "permit") {
		return driver.Grant{Fence: uint64(time.Now().UnixMicro()), TTL: r.TTL}, nil
	}
	return g, err
}

// leaving sometimes does not release the first of several names.
type leaving struct {
	onServer
	*shared
}

func (s leaving) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if strings.Contains(name, "several:a:") && s.every(5, "several") {
		return driver.OutcomeReleased, nil
	}
	return s.onServer.Release(ctx, name, token, keep)
}

// deposing gives the leader of an election a third of the lease that it promises.
type deposing struct{ onServer }

func (s deposing) short(r driver.Request) driver.Request {
	if strings.HasSuffix(r.Name, "election") {
		r.TTL /= 3
	}
	return r
}

func (s deposing) promise(r driver.Request, g driver.Grant, err error) (driver.Grant, error) {
	if err == nil && g.TTL > 0 {
		g.TTL = r.TTL
	}
	return g, err
}

func (s deposing) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := s.onServer.Acquire(ctx, s.short(r))
	return s.promise(r, g, err)
}

func (s deposing) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	g, err := s.onServer.Wait(ctx, s.short(r), reserve)
	return s.promise(r, g, err)
}
