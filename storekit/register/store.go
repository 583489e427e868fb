package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/reads"
	"github.com/padlock-go/padlock/storekit/decide"
)

// A Store is a driver.Store over a Register.
type Store struct {
	r      Register
	opts   Options
	g      driver.Guarantees
	local  driver.Clock
	closed atomic.Bool
	end    context.CancelFunc
	life   context.Context

	mu        sync.Mutex
	seen      map[string]sighting // by name; only with Clock.Observed
	rewritten time.Time           // when this process has rewritten the record of the store
}

// New makes a store of a register. It sends nothing. Close closes the register, too. If the
// register is no Watcher, the store lacks driver.AbilityWaiter.
func New(r Register, o Options) *Store {
	s := &Store{r: r, opts: o, g: o.guarantees(r), local: o.Local, seen: map[string]sighting{}}
	if s.local == nil {
		s.local = driver.SystemClock()
	}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

var _ interface {
	driver.Store
	driver.Waiter
	driver.Converter
	driver.Admin
	driver.FenceRaiser
	driver.Places
	driver.Reporter
} = (*Store)(nil)

// Guarantees returns what the store promises.
func (s *Store) Guarantees() driver.Guarantees { return s.g }

// Close closes the register.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.end()
	return s.r.Close()
}

// grant returns a hold as the caller gets it: the lease counts from the Get before the decision,
// and is shorter than in the record by Slack.
func (c *call) grant(w *view, h *decide.Hold) driver.Grant {
	g := driver.Grant{Fence: h.Fence, From: w.from, TTL: max(h.Until.Sub(w.now.At)-w.now.Slack, time.Microsecond)}
	if c.opts.NoFences {
		g.Fence = 0
	}
	return g
}

// Acquire makes one try; see driver.Store.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&s.g); err != nil {
		return driver.Grant{}, err
	}
	c, err := s.begin(ctx, r.Name)
	if err != nil {
		return driver.Grant{}, err
	}
	q := hashed(r)
	return change(c, func(w *view) (bool, driver.Grant, error) {
		c.spare = spareFor(w.Live(q.Token.Text(), w.now) == nil, r.Replaces.Text() != "")
		h, err := w.Acquire(&q, w.now)
		if err != nil {
			return false, driver.Grant{}, err
		}
		g := c.grant(w, h)
		g.Shared = h.Shared
		return true, g, nil
	})
}

// hashed returns a request whose tokens are hashed.
func hashed(r driver.Request) driver.Request {
	r.Token = driver.TokenOf(hash(r.Token.Text()))
	if r.Replaces.Text() != "" {
		r.Replaces = driver.TokenOf(hash(r.Replaces.Text()))
	}
	return r
}

// Extend moves the end of a lease; see driver.Store.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if err := driver.CheckExtend(name, token, ttl, &s.g); err != nil {
		return driver.Grant{}, err
	}
	c, err := s.begin(ctx, name)
	if err != nil {
		return driver.Grant{}, err
	}
	return change(c, func(w *view) (bool, driver.Grant, error) {
		h, err := w.Extend(hash(token), ttl, w.now)
		if err != nil {
			return false, driver.Grant{}, err
		}
		g := c.grant(w, h)
		g.Shared = h.Shared
		return ttl != 0, g, nil
	})
}

// Release ends a hold; see driver.Store.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckRelease(name, token, keep, &s.g); err != nil {
		return driver.OutcomeGone, err
	}
	c, err := s.begin(ctx, name)
	if err != nil {
		return driver.OutcomeGone, err
	}
	released := false // by a Put of this call, if it has arrived
	return change(c, func(w *view) (bool, driver.Outcome, error) {
		out := w.Release(hash(token), keep, w.now)
		if out == driver.OutcomeGone && released && c.unsure != nil {
			return true, out, fmt.Errorf("%w: a request without a reply may have released the lock, and others have written since", driver.ErrUncertain)
		}
		released = released || out == driver.OutcomeReleased
		return true, out, nil
	})
}

// Convert changes the mode of a hold; see driver.Converter.
func (s *Store) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&s.g); err != nil {
		return driver.Grant{}, err
	}
	c, err := s.begin(ctx, r.Name)
	if err != nil {
		return driver.Grant{}, err
	}
	q := hashed(r)
	return change(c, func(w *view) (bool, driver.Grant, error) {
		h, changed, err := w.Convert(&q, w.now)
		if err != nil {
			return changed, driver.Grant{}, err
		}
		return changed, c.grant(w, h), nil
	})
}

// RaiseFence raises the fence of a hold; see driver.FenceRaiser.
func (s *Store) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	err := driver.CheckHold(name, token, &s.g)
	if err == nil {
		err = driver.CheckFence(fence)
	}
	if err == nil && s.opts.NoFences {
		err = errors.ErrUnsupported
	}
	if err != nil {
		return err
	}
	c, err := s.begin(ctx, name)
	if err != nil {
		return err
	}
	_, err = change(c, func(w *view) (bool, struct{}, error) {
		changed, err := w.RaiseFence(hash(token), fence, w.now)
		return changed, struct{}{}, err
	})
	return err
}

// Break ends all holds of a name; see driver.Admin.
func (s *Store) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	if err := driver.CheckName(name, &s.g); err != nil {
		return 0, err
	}
	c, err := s.begin(ctx, name)
	if err != nil {
		return 0, err
	}
	first := uint64(0) // the fence in the first record; later ones may be of other holders
	return change(c, func(w *view) (bool, uint64, error) {
		seen := seenFence
		if s.opts.NoFences && seen == 0 {
			first = cmp.Or(first, w.Fence)
			seen = first
		} else if s.opts.NoFences {
			seen = 0
		}
		fence, err := w.Break(seen, w.now)
		if s.opts.NoFences {
			fence = 0
		}
		return err == nil, fence, err
	})
}

// Inspect reads the state of a name; see driver.Admin.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name, &s.g); err != nil {
		return driver.State{}, err
	}
	c, err := s.begin(ctx, name)
	if err != nil {
		return driver.State{}, err
	}
	w, err := c.get()
	if err != nil {
		return driver.State{}, err
	}
	return c.report(w), nil
}

// report returns the state of a name as others see it.
func (c *call) report(w *view) driver.State {
	state := w.Report(c.name, w.now, time.Now())
	if c.opts.NoFences {
		state.Fence = 0
	}
	return state
}

// maxLooks is how many Gets List sends at the same time.
const maxLooks = 16

// List reads the names that are in use; see driver.Admin. It sends a Get for each name that has a
// value, thus for each that was ever locked.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	l, ok := s.r.(Lister)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	c, err := s.begin(ctx, prefix)
	if err != nil {
		return nil, err
	}
	listing, cancel := context.WithDeadline(ctx, c.until)
	defer cancel()
	from := prefix
	if s.opts.Keys != nil {
		from = s.opts.Prefix + s.opts.Keys.Escape(prefix)
	}
	keys, some := l.Names(listing, from)
	if some != nil && !errors.Is(some, errors.ErrUnsupported) {
		return nil, c.unavailable(some)
	}
	var names []string
	for _, key := range keys {
		if name, ours := s.opts.name(key); ours {
			names = append(names, name)
		}
	}
	reads.Add(ctx, len(names))
	all, err := s.inUse(ctx, names)
	return all, cmp.Or(err, some)
}

// inUse returns the states of those of the names that are in use, as far as the service tells them.
func (s *Store) inUse(ctx context.Context, names []string) (all []driver.State, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	states, errs := make([]*driver.State, len(names)), make([]error, len(names))
	looks := make(chan struct{}, maxLooks)
	var looking sync.WaitGroup
	for i, name := range names {
		looks <- struct{}{}
		looking.Go(func() {
			defer func() { <-looks }()
			if states[i], errs[i] = s.inspectUsed(ctx, name); errs[i] != nil {
				cancel() // the first error is that of the list
			}
		})
	}
	looking.Wait()
	for i, state := range states {
		if state != nil {
			all = append(all, *state)
		}
		if errs[i] != nil && (err == nil || errors.Is(err, context.Canceled)) {
			err = errs[i]
		}
	}
	return all, err
}

// inspectUsed returns the state of a name, or nil if the name is free, or the value is not ours.
func (s *Store) inspectUsed(ctx context.Context, name string) (*driver.State, error) {
	c, err := s.begin(ctx, name)
	if err != nil {
		return nil, err
	}
	w, err := c.get()
	switch {
	case errors.Is(err, errForeign):
		return nil, nil
	case err != nil:
		return nil, err
	case w.Idle(w.now):
		return nil, nil
	}
	state := c.report(w)
	return &state, nil
}
