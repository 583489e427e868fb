package mutants

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// wrap passes every call on. A mutant replaces some methods.
type wrap struct{ driver.Store }

func (w wrap) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	return w.Store.(driver.Waiter).Wait(ctx, r, reserve)
}

func (w wrap) Inspect(ctx context.Context, name string) (driver.State, error) {
	return w.Store.(driver.Admin).Inspect(ctx, name)
}

func (w wrap) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	return w.Store.(driver.Converter).Convert(ctx, r)
}

func (w wrap) List(ctx context.Context, prefix string) ([]driver.State, error) {
	return w.Store.(driver.Admin).List(ctx, prefix)
}

func (w wrap) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	return w.Store.(driver.Admin).Break(ctx, name, seenFence)
}

// shared is the state that all handles of a mutant have in common.
type shared struct {
	mu     sync.Mutex
	last   map[string]string // the token of the last grant of a name
	spent  map[string]int
	fences map[string]uint64
}

func newShared() *shared {
	return &shared{last: map[string]string{}, spent: map[string]int{}, fences: map[string]uint64{}}
}

func (s *shared) granted(name, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[name] = token
}

func (s *shared) holder(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[name]
}

// every reports true once in n calls of the same kind.
func (s *shared) every(n int, kind string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent[kind]++
	return s.spent[kind]%n == 0
}

// anyRelease releases the hold of any token.
type anyRelease struct {
	wrap
	*shared
}

func (s anyRelease) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := s.Store.Acquire(ctx, r)
	if err == nil {
		s.granted(r.Name, r.Token.Text())
	}
	return g, err
}

func (s anyRelease) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	g, err := s.wrap.Wait(ctx, r, reserve)
	if g.TTL > 0 {
		s.granted(r.Name, r.Token.Text())
	}
	return g, err
}

func (s anyRelease) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	s.Store.Release(ctx, name, token, keep)
	return s.Store.Release(ctx, name, s.holder(name), keep)
}

// fromReply counts leases from the time of the reply, which sometimes comes late.
type fromReply struct {
	wrap
	*shared
}

func (s fromReply) late(g driver.Grant, err error) (driver.Grant, error) {
	if err == nil && g.TTL > 0 {
		if s.every(5, "late") {
			<-time.After(100 * time.Millisecond)
		}
		g.From = driver.SystemClock().Now()
	}
	return g, err
}

func (s fromReply) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	return s.late(s.Store.Acquire(ctx, r))
}

func (s fromReply) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	return s.late(s.wrap.Wait(ctx, r, reserve))
}

// noMargin takes away the margin that the face leaves for clock drift.
type noMargin struct{ wrap }

func full(g driver.Grant, err error) (driver.Grant, error) {
	if g.TTL > 0 {
		g.TTL += g.TTL/90 + 2*time.Millisecond + min(50*time.Millisecond, g.TTL/10)
	}
	return g, err
}

func (s noMargin) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	return full(s.Store.Acquire(ctx, r))
}

func (s noMargin) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	return full(s.wrap.Wait(ctx, r, reserve))
}

// fastClock is a server's clock that gains 0.8 %.
type fastClock struct{ driver.Clock }

func (c fastClock) Now() driver.Instant {
	at := c.Clock.Now()
	return at + at%driver.Instant(time.Hour*24*365)*8/1000
}

func (c fastClock) AfterFunc(d time.Duration, f func()) func() bool {
	return c.Clock.AfterFunc(d*992/1000, f)
}

// onServer hides the server's clock: leases count from before the request.
type onServer struct{ wrap }

func (s onServer) Guarantees() driver.Guarantees {
	g := s.Store.Guarantees()
	g.InProcess = false
	return g
}

func (s onServer) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := s.Store.Acquire(ctx, r)
	g.From = 0
	return g, err
}

func (s onServer) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	g, err := s.Store.Extend(ctx, name, token, ttl)
	g.From = 0
	return g, err
}

func (s onServer) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := s.wrap.Convert(ctx, r)
	g.From = 0
	return g, err
}

func (s onServer) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	g, err := s.wrap.Wait(ctx, r, reserve)
	g.From = 0
	return g, err
}

// anyPromotion makes a reader the writer while other readers are in.
type anyPromotion struct{ wrap }

func (s anyPromotion) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := s.wrap.Convert(ctx, r)
	if errors.Is(err, driver.ErrHeld) {
		if g, err = s.Extend(ctx, r.Name, r.Token.Text(), r.TTL); err == nil {
			g.Fence++
		}
	}
	return g, err
}

// revival delays extensions until after the release. These extensions restore the hold.
type revival struct {
	wrap
	*shared
}

func (s revival) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	out, err := s.Store.Release(ctx, name, token, keep)
	if err == nil && s.every(20, "late") {
		s.Store.Acquire(ctx, driver.Request{Name: name, Token: driver.TokenOf(token), TTL: 2 * time.Second})
	}
	return out, err
}

// counting counts fences from 1, and begins again after a restart.
type counting struct {
	wrap
	*shared
}

func (s counting) next(name string, g driver.Grant, err error) (driver.Grant, error) {
	if err == nil && g.TTL > 0 {
		s.mu.Lock()
		s.fences[name]++
		g.Fence = s.fences[name]
		s.mu.Unlock()
	}
	return g, err
}

func (s counting) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.fences)
}

func (s counting) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := s.Store.Acquire(ctx, r)
	return s.next(r.Name, g, err)
}

func (s counting) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	g, err := s.wrap.Wait(ctx, r, reserve)
	return s.next(r.Name, g, err)
}

// deaf sometimes misses a wake-up.
type deaf struct {
	wrap
	*shared
}

func (s deaf) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	g, err := s.wrap.Wait(ctx, r, reserve)
	if err == nil && s.every(50, "deaf") {
		s.Store.Release(context.WithoutCancel(ctx), r.Name, r.Token.Text(), 0)
		<-ctx.Done()
		return driver.Grant{}, ctx.Err()
	}
	return g, err
}

// starved is like deaf, but only in every second process. So the others go on, and the name is
// never free for long.
type starved struct {
	deaf
	misses bool
}

func (s starved) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if !s.misses {
		return s.wrap.Wait(ctx, r, reserve)
	}
	return s.deaf.Wait(ctx, r, reserve)
}

// keeping hands the lock to a waiter that has given up, and does not take it back.
type keeping struct{ wrap }

func (s keeping) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	type answer struct {
		g   driver.Grant
		err error
	}
	got, gone := make(chan answer), make(chan struct{})
	go func() {
		g, err := s.wrap.Wait(context.WithoutCancel(ctx), r, reserve)
		select {
		case got <- answer{g, err}:
		case <-gone:
			r.TTL = driver.DefaultMaxTTL
			s.Store.Acquire(context.WithoutCancel(ctx), r)
		}
	}()
	select {
	case a := <-got:
		return a.g, a.err
	case <-ctx.Done():
		close(gone)
		return driver.Grant{}, ctx.Err()
	}
}
