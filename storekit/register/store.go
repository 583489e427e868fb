package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
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

	mu   sync.Mutex
	seen map[string]sighting // by name; only with Clock.Observed
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

// maxRequest is how long the service may be silent in one call.
const maxRequest = driver.MaxSilence * 9 / 10

// A call is one call of a method.
type call struct {
	*Store
	ctx   context.Context
	name  string
	until time.Time // when the service will have been silent for too long
	spare int       // how much room the decision must leave in the record: it has added a hold or a holder
}

func (s *Store) begin(ctx context.Context, name string) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.closed.Load() {
		return nil, driver.ErrClosed
	}
	return &call{Store: s, ctx: ctx, name: name, until: time.Now().Add(maxRequest)}, nil
}

// get reads the record.
func (c *call) get() (*view, error) {
	ctx, cancel := context.WithDeadline(c.ctx, c.until)
	defer cancel()
	from := c.local.Now()
	v, err := c.r.Get(ctx, c.opts.key(c.name))
	if err != nil {
		return nil, errors.Join(c.cause(), driver.ErrUnavailable, err) // a Get changes nothing
	}
	c.until = time.Now().Add(maxRequest)
	return c.decode(c.name, v, from)
}

// cause returns the error of the caller's context, or nil.
func (c *call) cause() error {
	if c.closed.Load() {
		return driver.ErrClosed
	}
	return c.ctx.Err()
}

// An answer is what a call returns.
type answer[T any] struct {
	value T
	err   error
	at    decide.Time // of the decision
}

// A decision changes a view. It says whether the record has to be written, and what the call then
// returns. A decision is made again if somebody else has written.
type decision[T any] func(w *view) (write bool, value T, err error)

// change reads the record, decides and writes, until the record is written as it was decided. The
// states of a call:
//
//	state     what is known                       next
//	deciding  the record                          writing, or done if nothing changes
//	writing   a Put is under way                  done, raced or unknown
//	raced     somebody else wrote                 deciding, once, if the refusal has the record;
//	                                              otherwise a pause, then reading
//	unknown   the reply to the Put was lost       a pause, then reading
//	reading   the record is one of this call      done, with the answer of that Put
//	          the record is another one           deciding
//
// After an unknown outcome no refusal is certain: the Put may still arrive, or others have written
// since it arrived. The call then returns driver.ErrUncertain instead.
//
// Two Puts of a call never both take effect: they name the same version, or the second one names a
// version that came after the first.
func change[T any](c *call, decide decision[T]) (value T, err error) {
	tried := map[string]answer[T]{} // by the number of the record
	uncertain := false
	var refused contradiction
	var w *view // of a refusal
	for n := 0; ; n++ {
		if w == nil {
			if w, err = c.get(); err != nil {
				return value, c.lost(uncertain, err)
			}
		}
		if a, mine := tried[w.Nonce]; mine {
			c.wrote(w.Nonce, a.at)
			return ifNil(a.value, a.err)
		}
		write, result, failure := decide(w)
		if !write && failure != nil {
			return value, c.lost(uncertain, failure)
		}
		if !write {
			return result, nil
		}
		data, nonce, err := w.encode(c.opts.Clock.Observed)
		if err == nil {
			err = c.checkSize(data)
		}
		if err != nil {
			return value, c.lost(uncertain, err)
		}
		at, version := w.now.At, w.version
		w, err = c.put(data, version)
		switch {
		case err == nil:
			c.wrote(nonce, at)
			return ifNil(result, failure)
		case errors.Is(err, ErrChanged) && w != nil && n == 0:
			continue
		case errors.Is(err, ErrChanged):
			if w = nil; refused.lasts(version) {
				return value, c.lost(uncertain, fmt.Errorf("%w: the service returns a value, and refuses for %v to replace it, as if it had another version", driver.ErrUnavailable, maxRequest))
			}
		case errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain):
			return value, c.lost(uncertain, err)
		default:
			uncertain, tried[nonce] = true, answer[T]{result, failure, at}
			if c.cause() != nil || time.Now().After(c.until) {
				return value, errors.Join(c.cause(), driver.ErrUncertain, err)
			}
		}
		if err := c.pause(n); err != nil {
			return value, c.lost(uncertain, err)
		}
	}
}

// A contradiction is a version that Get returns and Put refuses. It may last for a moment, if Get
// reads from a server that is behind.
type contradiction struct {
	version string
	since   time.Time
}

// lasts reports whether Put has refused this version, and no other one, for maxRequest.
func (r *contradiction) lasts(version string) bool {
	if r.since.IsZero() || r.version != version {
		*r = contradiction{version, time.Now()}
	}
	return time.Since(r.since) > maxRequest
}

// lost returns the error of a call that ends without a success. After an unknown outcome that is
// driver.ErrUncertain, and errors.Is finds no refusal in it.
func (c *call) lost(uncertain bool, err error) error {
	if !uncertain {
		return err
	}
	return errors.Join(c.cause(), driver.ErrUncertain, errors.New(err.Error()))
}

// put writes a record. If the service refuses and says what the record is, put returns that one. A
// record that cannot be read is left to the next Get.
func (c *call) put(data []byte, version string) (now *view, err error) {
	ctx, cancel := context.WithDeadline(c.ctx, c.until)
	defer cancel()
	from := c.local.Now()
	err = c.r.Put(ctx, c.opts.key(c.name), data, version)
	if err == nil || errors.Is(err, ErrChanged) {
		c.until = time.Now().Add(maxRequest)
	}
	var changed *Changed
	if errors.As(err, &changed) {
		now, _ = c.decode(c.name, changed.Value, from)
	}
	return now, err
}

// pause waits for a random time, which doubles with each try up to a second. So callers that write
// the same record do not meet again and again, even if many of them are slow.
func (c *call) pause(n int) error {
	t := time.NewTimer(rand.N(time.Millisecond << min(n, 10)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	case <-c.life.Done():
		return driver.ErrClosed
	}
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
		c.spare = spareFor(w.Live(q.Token, w.now) == nil, r.Replaces != "")
		h, err := w.Acquire(&q, w.now)
		if err != nil {
			return false, driver.Grant{}, err
		}
		g := c.grant(w, h)
		g.Shared = r.Replaces != "" && h.Shared
		return true, g, nil
	})
}

// hashed returns a request whose tokens are hashed.
func hashed(r driver.Request) driver.Request {
	r.Token = hash(r.Token)
	if r.Replaces != "" {
		r.Replaces = hash(r.Replaces)
	}
	return r
}

func ifNil[T any](v T, err error) (T, error) {
	if err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}

// Extend moves the end of a lease; see driver.Store.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	err := driver.CheckHold(name, token, &s.g)
	if err == nil && ttl != 0 {
		err = driver.CheckTTL("TTL", ttl, &s.g)
	}
	if err != nil {
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
	err := driver.CheckHold(name, token, &s.g)
	if err == nil {
		err = driver.CheckKeep("cool-down", keep, &s.g)
	}
	if err != nil {
		return driver.OutcomeGone, err
	}
	c, err := s.begin(ctx, name)
	if err != nil {
		return driver.OutcomeGone, err
	}
	return change(c, func(w *view) (bool, driver.Outcome, error) {
		return true, w.Release(hash(token), keep, w.now), nil
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

// List reads the names that are in use; see driver.Admin. It sends a Get for each name.
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
		return nil, errors.Join(c.cause(), driver.ErrUnavailable, some)
	}
	var all []driver.State
	for _, key := range keys {
		name, ours := s.opts.name(key)
		if !ours {
			continue
		}
		if c, err = s.begin(ctx, name); err != nil {
			return all, err
		}
		w, err := c.get()
		if err != nil {
			return all, err
		}
		if !w.Idle(w.now) {
			all = append(all, c.report(w))
		}
	}
	return all, some
}
