package election_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/election"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A candidate is one process of a test.
type candidate struct {
	*election.Election
	locker *padlock.Locker
	stop   context.CancelFunc
	result chan error
}

// world has a store, and counts the leaders.
type world struct {
	store   driver.Store
	leading atomic.Int32
	terms   atomic.Int32
}

func (w *world) join(t *testing.T, label string, opts ...election.Option) *candidate {
	return w.joinWith(t, label, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, opts...)
}

func (w *world) joinWith(t *testing.T, label string, lead func(context.Context) error, opts ...election.Option) *candidate {
	c := &candidate{locker: padlock.New(w.store, padlock.KeepStoreOpen()), result: make(chan error, 1)}
	c.Election = election.New(c.locker, "scheduler", append(opts, election.LockOptions(padlock.Label(label)))...)
	ctx, stop := context.WithCancel(t.Context())
	c.stop = stop
	go func() {
		c.result <- c.Run(ctx, func(ctx context.Context) error {
			if n := w.leading.Add(1); n != 1 {
				safety.TwoHold(t, "%d candidates lead", n)
			}
			defer w.leading.Add(-1)
			w.terms.Add(1)
			if fence, ok := padlock.FenceFrom(ctx); !ok || fence == 0 {
				t.Error("the leader has no fence")
			}
			return lead(ctx)
		})
	}()
	synctest.Wait()
	return c
}

func (c *candidate) leave(t *testing.T) {
	c.stop()
	if err := <-c.result; err != nil {
		t.Errorf("Run returns %v", err)
	}
	if err := c.locker.Close(context.Background()); err != nil {
		t.Error(err)
	}
	synctest.Wait()
}

func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// evict ends the lead by force, as an operator does with padlock break.
func (w *world) evict(t *testing.T) {
	l := padlock.New(w.store, padlock.KeepStoreOpen())
	defer l.Close(t.Context())
	state, err := l.Inspect(t.Context(), "scheduler")
	if err == nil {
		_, err = l.Break(t.Context(), "scheduler", state.Fence)
	}
	if err != nil {
		t.Error(err)
	}
}

// leader returns the label of the leader, as e sees it.
func leader(t *testing.T, e *election.Election) string {
	l, err := e.Leader(t.Context())
	if err != nil {
		return err.Error()
	}
	if l.Fence == 0 || l.Since.IsZero() || l.PID == 0 {
		t.Errorf("the leader is %+v", l)
	}
	return l.Label
}

func TestOneLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{store: memstore.New()}
		watcher := election.New(padlock.New(w.store, padlock.KeepStoreOpen()), "scheduler")
		if _, err := watcher.Leader(t.Context()); !errors.Is(err, election.ErrNoLeader) {
			t.Errorf("before anybody campaigns: %v", err)
		}
		a, b, c := w.join(t, "a"), w.join(t, "b"), w.join(t, "c")
		if got := leader(t, watcher); got != "a" {
			t.Errorf("the leader is %s", got)
		}
		if err := a.IsLeader(t.Context()); err != nil {
			t.Errorf("a: %v", err)
		}
		if err := b.IsLeader(t.Context()); !errors.Is(err, election.ErrNotLeader) {
			t.Errorf("b: %v", err)
		}
		if err := b.Resign(t.Context()); !errors.Is(err, election.ErrNotLeader) {
			t.Errorf("b resigns: %v", err)
		}
		a.leave(t)
		synctest.Wait()
		if got := leader(t, watcher); got != "b" {
			t.Errorf("after a left, the leader is %s", got)
		}
		b.leave(t)
		c.leave(t)
		if w.terms.Load() != 3 {
			t.Errorf("there were %d terms", w.terms.Load())
		}
	})
}

// skupper #1646: an elector returned after it had lost the lead, and nobody campaigned again.
func TestCampaignsAgainAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{store: memstore.New()}
		a := w.join(t, "a")
		for range 5 {
			w.evict(t)
			wait(time.Minute)
			if got := leader(t, a.Election); got != "a" {
				t.Fatalf("after a loss the leader is %s", got)
			}
		}
		a.leave(t)
		if w.terms.Load() != 6 {
			t.Errorf("there were %d terms, want 6", w.terms.Load())
		}
	})
}

// kubernetes #139991: the lead was given up before the work had stopped.
func TestLeadsUntilTheWorkHasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{store: memstore.New()}
		slow := func(ctx context.Context) error {
			<-ctx.Done()
			<-time.After(10 * time.Minute) // far longer than a lease
			return nil
		}
		a := w.joinWith(t, "a", slow)
		b := w.join(t, "b")
		a.stop()
		wait(9 * time.Minute)
		if got := leader(t, b.Election); got != "a" {
			t.Errorf("while a works on, the leader is %s", got)
		}
		wait(2 * time.Minute)
		if got := leader(t, b.Election); got != "b" {
			t.Errorf("after that, the leader is %s", got)
		}
		a.leave(t)

		done := make(chan error)
		go func() { done <- b.Resign(t.Context()) }()
		if err := <-done; err != nil {
			t.Errorf("b resigns: %v", err)
		}
		b.leave(t)
	})
}

// After Resign, another candidate takes over. Later the first one may lead again.
func TestResign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{store: memstore.New()}
		var cause atomic.Value
		a := w.joinWith(t, "a", func(ctx context.Context) error {
			<-ctx.Done()
			cause.Store(context.Cause(ctx))
			return context.Cause(ctx)
		}, election.OnError(func(err error) { t.Errorf("OnError gets %v", err) }))
		if err := a.Resign(t.Context()); err != nil {
			t.Error(err)
		}
		if cause.Load() != election.ErrResigned {
			t.Errorf("the cause is %v", cause.Load())
		}
		if err := a.IsLeader(t.Context()); !errors.Is(err, election.ErrNotLeader) {
			t.Errorf("after Resign: %v", err)
		}
		b := w.join(t, "b")
		wait(time.Minute)
		if got := leader(t, a.Election); got != "b" {
			t.Errorf("the leader is %s", got)
		}
		b.leave(t)
		wait(time.Minute)
		if got := leader(t, a.Election); got != "a" {
			t.Errorf("in the end the leader is %s", got)
		}
		a.leave(t)
	})
}

func TestWhatRunReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{store: memstore.New()}
		broken := errors.New("broken")
		var runs atomic.Int32
		var told []error
		a := w.joinWith(t, "a", func(context.Context) error {
			switch runs.Add(1) {
			case 1:
				return broken
			case 2:
				return nil
			}
			return fmt.Errorf("the end: %w", election.ErrStop)
		}, election.OnError(func(err error) { told = append(told, err) }))
		if runs.Load() != 1 {
			t.Errorf("a new campaign began %d times without a pause", runs.Load()-1)
		}
		wait(time.Minute)
		if err := <-a.result; err != nil || runs.Load() != 2 || len(told) != 1 || told[0] != broken {
			t.Errorf("Run returns %v after %d terms, OnError got %v", err, runs.Load(), told)
		}
		stop := func(context.Context) error { return fmt.Errorf("the end: %w", election.ErrStop) }
		if err := a.Run(t.Context(), stop); !errors.Is(err, election.ErrStop) {
			t.Errorf("Run returns %v", err)
		}
		bad := election.New(a.locker, "")
		if err := bad.Run(t.Context(), stop); !errors.Is(err, padlock.ErrInvalid) {
			t.Errorf("without a name, Run returns %v", err)
		}
		func() {
			defer func() {
				if p := recover(); p != "x" {
					t.Errorf("the panic is %v", p)
				}
			}()
			a.Run(t.Context(), func(context.Context) error { panic("x") })
		}()
		if _, err := a.Leader(t.Context()); !errors.Is(err, election.ErrNoLeader) {
			t.Errorf("after a panic: %v", err)
		}
		blocked := w.join(t, "b")
		if err := blocked.Run(t.Context(), stop); !errors.Is(err, election.ErrRunning) {
			t.Errorf("a second Run returns %v", err)
		}
		blocked.leave(t)
		a.locker.Close(t.Context())
		if err := a.Run(t.Context(), stop); !errors.Is(err, padlock.ErrClosed) {
			t.Errorf("after Close, Run returns %v", err)
		}
	})
}

// down is a store that cannot be reached for a while.
type down struct {
	driver.Store
	now   atomic.Bool
	tries atomic.Int32
}

func (d *down) Unwrap() driver.Store { return d.Store }

func (d *down) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if d.tries.Add(1); d.now.Load() {
		return driver.Grant{}, driver.ErrUnavailable
	}
	return d.Store.Acquire(ctx, r)
}

func TestStoreOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &down{Store: memstore.New()}
		store.now.Store(true)
		w := &world{store: store}
		var failures atomic.Int32
		a := w.join(t, "a", election.OnError(func(err error) {
			if failures.Add(1); !errors.Is(err, padlock.ErrUnavailable) {
				t.Errorf("OnError gets %v", err)
			}
		}))
		wait(10 * time.Minute)
		if n := failures.Load(); n < 20 || n > 60 { // with pauses of 15 to 30 s, after a few shorter ones
			t.Errorf("in 10 minutes, %d campaigns failed", n)
		}
		ready(t, a, http.StatusServiceUnavailable, "")
		store.now.Store(false)
		wait(time.Minute)
		ready(t, a, http.StatusOK, "leads\n")
		a.leave(t)
	})
}

// A candidate whose campaign failed is ready again when it waits for the lead. It must not wait for
// the end of the leader's term, which may come only with the next deployment.
func TestReadyAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &down{Store: memstore.New()}
		w := &world{store: store}
		a := w.join(t, "a")
		store.now.Store(true)
		b := w.join(t, "b")
		ready(t, b, http.StatusServiceUnavailable, "")
		store.now.Store(false)
		wait(time.Minute)
		ready(t, b, http.StatusOK, "waits for the lead\n")
		a.leave(t)
		synctest.Wait()
		ready(t, b, http.StatusOK, "leads\n")
		b.leave(t)
	})
}

// ready checks the answer of the probe Ready. An empty text stands for any text.
func ready(t *testing.T, c *candidate, status int, text string) {
	t.Helper()
	if gotStatus, gotText := probe(c.Ready()); gotStatus != status || text != "" && gotText != text {
		t.Errorf("the probe says %d %q, want %d %q", gotStatus, gotText, status, text)
	}
}

func probe(h http.Handler) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w.Code, w.Body.String()
}

// A candidate that waits must be ready. Otherwise a rolling deployment would never end.
func TestHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{store: memstore.New()}
		a, b := w.join(t, "a"), w.join(t, "b")
		idle := election.New(a.locker, "scheduler")
		for _, c := range []struct {
			what string
			h    http.Handler
			want int
		}{
			{"the leader is ready", a.Ready(), http.StatusOK}, {"the other is ready", b.Ready(), http.StatusOK},
			{"without Run", idle.Ready(), http.StatusServiceUnavailable}, {"the leader leads", a.Leading(), http.StatusOK},
			{"the other does not lead", b.Leading(), http.StatusServiceUnavailable},
		} {
			if status, text := probe(c.h); status != c.want {
				t.Errorf("%s: %d %s", c.what, status, text)
			}
		}
		a.leave(t)
		b.leave(t)
	})
}

// The context of a leader ends before its lease can have ended, even if the store does not reply.
func TestContextEndsBeforeTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &silent{Store: memstore.New()}
		w := &world{store: store}
		over := make(chan time.Time, 2)
		a := w.joinWith(t, "a", func(ctx context.Context) error {
			<-ctx.Done()
			over <- time.Now()
			return nil
		})
		store.now.Store(true)
		l, err := a.Leader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if end := <-over; end.After(l.Until) {
			t.Errorf("the context ended %v after the lease", end.Sub(l.Until))
		}
		store.now.Store(false)
		a.leave(t)
	})
}

// silent does not confirm renewals for a while.
type silent struct {
	driver.Store
	now atomic.Bool
}

func (s *silent) Unwrap() driver.Store { return s.Store }

func (s *silent) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if s.now.Load() {
		return driver.Grant{}, driver.ErrUnavailable
	}
	return s.Store.Extend(ctx, name, token, ttl)
}
