package quorum_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

func locker(t *testing.T, cl *client) *padlock.Locker {
	t.Helper()
	l := padlock.New(cl, padlock.TTL(10*time.Second))
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// A lock lives for an hour while one member after the other restarts empty,
// and another is silent half of the time.
func TestLockOutlivesItsMembers(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		cl := open()
		a, b := locker(t, cl), locker(t, open())
		lock, err := a.Acquire(t.Context(), "n")
		if err != nil {
			t.Fatal(err)
		}
		fence := lock.Fence()
		for i := range 360 {
			pass(10 * time.Second)
			c[i%5].restart()
			cl.heal()
			if i%2 == 0 {
				cl.these(silent, i*7%5+1)
			}
		}
		if err := lock.Check(t.Context()); err != nil || lock.Fence() != fence {
			safety.Broken(t, "after an hour: %v, fence %d, was %d", err, lock.Fence(), fence)
		}
		if _, err := b.TryAcquire(t.Context(), "n"); !errors.Is(err, padlock.ErrHeld) {
			t.Errorf("beside it: %v", err)
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
		if again, err := b.TryAcquire(t.Context(), "n"); err != nil || !safety.Rises(t, again.Fence(), fence) {
			t.Errorf("after it: %v", err)
		}
	})
}

// Denials end a lock with the next renewal, silence at the end of its lease.
func TestLossOfALock(t *testing.T) {
	for name, k := range map[string]struct {
		harm     func(c cluster, cl *client)
		from, to time.Duration
	}{
		"denied": {func(c cluster, _ *client) { c[0].restart(); c[1].restart() }, 0, 5 * time.Second},
		"silent": {func(_ cluster, cl *client) { cl.these(silent, 1, 2, 3) }, 9 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
				cl := open()
				lock, err := locker(t, cl).Acquire(t.Context(), "n")
				if err != nil {
					t.Fatal(err)
				}
				pass(time.Millisecond)
				k.harm(c, cl)
				ctx := lock.Context()
				d := took(func() { <-ctx.Done() })
				if d < k.from || d > k.to || !errors.Is(context.Cause(ctx), padlock.ErrLost) {
					t.Errorf("it ended after %v: %v", d, context.Cause(ctx))
				}
				lock.Release()
			})
		})
	}
}

// T-C1: a thousand acquires, cancelled at every moment, leave nothing.
func TestAThousandCancels(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		cl := open()
		for i, l := range cl.links {
			l.always(slow(time.Duration(i+1) * time.Millisecond))
		}
		l := locker(t, cl)
		for i := range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Microsecond)
			lock, err := l.Acquire(ctx, "n")
			cancel()
			if err == nil {
				err = lock.Release()
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%d: %v", i, err)
			}
		}
		pass(3 * time.Second)
		wantHolders(t, c, "n")
	})
}

// Lockers of many processes take turns.
func TestLockersTakeTurns(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		p := &site{}
		errs := together(t, 6, func(ctx context.Context, i int) error {
			cl := open()
			cl.links[i%3].always(slow(time.Duration(i+1) * 100 * time.Microsecond))
			l := locker(t, cl)
			for range 5 {
				err := l.Do(ctx, "n", func(ctx context.Context) error {
					fence, _ := padlock.FenceFrom(ctx)
					p.enter(fence)
					<-time.After(time.Millisecond)
					p.leave()
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err := errors.Join(errs...); err != nil || len(p.faults) > 0 {
			t.Fatal(err, p.faults)
		}
	})
}

func TestHandOverBetweenLockers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, b := locker(t, open()), locker(t, open())
		lock, err := a.Acquire(t.Context(), "n", padlock.Shared())
		if err != nil {
			t.Fatal(err)
		}
		key, err := lock.Export(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		adopted, err := b.Adopt(t.Context(), key)
		if err != nil || !adopted.Shared() {
			t.Fatal(adopted, err)
		}
		if err := lock.Check(t.Context()); !errors.Is(err, driver.ErrLost) {
			t.Errorf("the exporter's lock: %v", err)
		}
		pass(time.Minute)
		if err := adopted.Release(); err != nil {
			t.Error(err)
		}
	})
}

// healing is a quorum whose members all work again after its first try has ended.
type healing struct{ *client }

func (h healing) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := h.client.Acquire(ctx, r)
	h.heal()
	return g, err
}

// The quorum gave up a try, so the token of the try is spent, and members may refuse it from then
// on. The next try must not fail because of that.
func TestATryAfterOneGivenUp(t *testing.T) {
	for name, f := range map[string]fault{"call lost": lostCall, "silent": silent} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
				cl := open()
				for _, l := range cl.links {
					l.remember()
				}
				cl.these(f, 2, 3)
				l := padlock.New(healing{cl})
				defer l.Close(context.Background())
				lock, err := l.TryAcquire(t.Context(), "n")
				if err != nil {
					t.Fatal(err)
				}
				pass(3 * time.Second) // the requests of the first try that still arrive harm nobody
				if err := lock.Check(t.Context()); err != nil {
					t.Error(err)
				}
				wantHolders(t, c, "n", 1, 2, 3)
				if err := lock.Release(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// With two of five members out of reach, several callers that come at once may split the other
// three. That is contention and no outage, so a caller that would wait gets no error. It cannot be
// known whether the name is held.
func TestSplitVotesBesideTheDead(t *testing.T) {
	for name, f := range map[string]fault{"down": down, "silent": silent} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
				var clients []*client
				for i := range 3 {
					cl := open()
					for j, l := range cl.links[:3] {
						l.always(slow(time.Duration((j-i+3)%3+1) * time.Millisecond))
					}
					cl.these(f, 4, 5)
					clients = append(clients, cl)
				}
				errs := together(t, 3, func(ctx context.Context, i int) error {
					_, err := clients[i].Acquire(ctx, request("n"))
					return err
				})
				granted := 0
				for _, err := range errs {
					if err == nil {
						granted++
					} else if !errors.Is(err, driver.ErrHeld) && !errors.Is(err, driver.ErrSpent) {
						t.Error(err)
					}
				}
				if granted != 1 {
					t.Errorf("%d got through", granted)
				}
				errs = together(t, 3, func(ctx context.Context, i int) error {
					return locker(t, clients[i]).Do(ctx, "m", func(context.Context) error { return nil })
				})
				if err := errors.Join(errs...); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
