package register_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/storekit/register"
)

func openOn(s *shelf) (*register.Store, *front) {
	f := s.open()
	return register.New(f, register.Options{Name: "shelf", Clock: s.clock, Where: fmt.Sprintf("%p", s)}), f
}

func request(name string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(rand.Text()), TTL: 30 * time.Second}
}

// perClock runs a test with each clock, in time that costs nothing.
func perClock(t *testing.T, f func(t *testing.T, s *shelf)) {
	for name, clock := range clocks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, newShelf(clock)) })
		})
	}
}

// lost loses the reply to a Put, which has an effect or not.
func lost(effect bool) func(apply func() error) error {
	return func(apply func() error) error {
		if effect {
			if err := apply(); err != nil {
				return err
			}
		}
		return errCut
	}
}

// A lost reply to a Put is repaired by reading, whether the Put had an effect or not.
func TestLostReplies(t *testing.T) {
	for _, effect := range []bool{true, false} {
		t.Run(fmt.Sprint("effect=", effect), func(t *testing.T) {
			perClock(t, func(t *testing.T, s *shelf) {
				store, f := openOn(s)
				defer store.Close()
				r := request("job")
				f.next(lost(effect))
				g, err := store.Acquire(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				f.next(lost(effect))
				if e, err := store.Extend(t.Context(), r.Name, r.Token.Text(), time.Minute); err != nil || e.Fence != g.Fence || e.TTL < time.Minute {
					t.Errorf("Extend: %+v, %v; the fence was %d", e, err, g.Fence)
				}
				next := request("job")
				next.Replaces = r.Token
				f.next(lost(effect))
				n, err := store.Acquire(t.Context(), next)
				if err != nil || !safety.Rises(t, n.Fence, g.Fence) {
					t.Errorf("Replaces: %+v, %v", n, err)
				}
				f.next(lost(effect))
				if out, err := store.Release(t.Context(), next.Name, next.Token.Text(), 0); out != driver.OutcomeReleased || err != nil {
					t.Errorf("Release: %v, %v", out, err)
				}
				last, err := store.Acquire(t.Context(), request("job"))
				if err != nil || !safety.Rises(t, last.Fence, n.Fence) {
					t.Errorf("the next Acquire: %+v, %v", last, err)
				}
				f.next(lost(effect))
				if fence, err := store.Break(t.Context(), "job", last.Fence); err != nil || !safety.Rises(t, fence, last.Fence) {
					t.Errorf("Break: %d, %v", fence, err)
				}
			})
		})
	}
}

// A service that falls silent in a Put makes the call uncertain, never held and never unavailable,
// within MaxSilence. The effect comes after the clean-up, or twice, and nobody gets the name by it.
func TestLateEffects(t *testing.T) {
	for _, times := range []int{1, 2} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			perClock(t, func(t *testing.T, s *shelf) {
				store, f := openOn(s)
				defer store.Close()
				var late func() error
				f.next(func(apply func() error) error {
					late = apply
					<-time.After(driver.MaxSilence) // the register ignores its context for a moment
					return context.DeadlineExceeded
				})
				r, start := request("job"), time.Now()
				_, err := store.Acquire(t.Context(), r)
				if !errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrHeld) {
					t.Fatalf("Acquire of a silent service: %v", err)
				}
				if d := time.Since(start); d > driver.MaxSilence {
					t.Errorf("Acquire took %v", d)
				}
				if out, err := store.Release(t.Context(), r.Name, r.Token.Text(), 0); out != driver.OutcomeGone || err != nil {
					t.Errorf("the clean-up: %v, %v", out, err)
				}
				for range times {
					if err := late(); !errors.Is(err, register.ErrChanged) {
						t.Errorf("the late Put: %v", err)
					}
				}
				if st, err := store.Inspect(t.Context(), "job"); err != nil || len(st.Holds) > 0 {
					t.Errorf("after the late Put: %+v, %v", st, err)
				}
				if _, err := store.Acquire(t.Context(), r); !errors.Is(err, driver.ErrLost) {
					t.Errorf("Acquire with the token that was cleaned up: %v", err)
				}
				other, _ := openOn(s)
				defer other.Close()
				if _, err := other.Acquire(t.Context(), request("job")); err != nil {
					t.Errorf("the next caller: %v", err)
				}
			})
		})
	}
}

// The first Put of a call arrives late, after the second one of the same call.
func TestTwoPutsOfACall(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		store, f := openOn(s)
		defer store.Close()
		var late func() error
		f.next(func(apply func() error) error { late = apply; return errCut })
		r := request("job")
		g, err := store.Acquire(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if err := late(); !errors.Is(err, register.ErrChanged) {
			t.Errorf("the late Put: %v", err)
		}
		if e, err := store.Extend(t.Context(), r.Name, r.Token.Text(), 0); err != nil || e.Fence != g.Fence {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// An ended context ends a call, and says that nobody knows the outcome, unless nothing was sent.
func TestCancelled(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		store, f := openOn(s)
		defer store.Close()
		ctx, cancel := context.WithCancel(t.Context())
		f.next(func(func() error) error { cancel(); return ctx.Err() })
		_, err := store.Acquire(ctx, request("job"))
		if !errors.Is(err, driver.ErrUncertain) || !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire: %v", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		f.next(func(func() error) error { cancel(); return fmt.Errorf("%w: nothing was sent", driver.ErrUnavailable) })
		_, err = store.Acquire(ctx, request("other"))
		if errors.Is(err, driver.ErrUncertain) || !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire whose Put was not sent: %v", err)
		}
	})
}

// Fifty stores compete for a name, half of them to read. Nobody fails for another reason than that
// the name is held, and the holders exclude each other.
func TestContenders(t *testing.T) {
	for name, clock := range clocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(clock)
			var readers, writers, grants atomic.Int32
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					store, _ := openOn(s)
					defer store.Close()
					for range 10 {
						contend(t, s, store, i%2 == 0, &readers, &writers, &grants)
					}
				})
			}
			all.Wait()
			if grants.Load() == 0 {
				t.Error("nobody got the name")
			}
		})
	}
}

func contend(t *testing.T, s *shelf, store driver.Store, shared bool, readers, writers, grants *atomic.Int32) {
	failed := func(method string, err error) {
		if noAnswer := errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain); !noAnswer || !s.overdue.Load() {
			t.Errorf("%s: %v", method, err)
		}
	}
	r := request("job")
	r.Shared = shared
	switch _, err := store.Acquire(t.Context(), r); {
	case errors.Is(err, driver.ErrHeld):
		return
	case err != nil:
		failed("Acquire", err)
		return
	}
	grants.Add(1)
	mine, limit := writers, int32(1)
	if shared {
		mine, limit = readers, 50
	}
	if n := mine.Add(1); n > limit || !shared && readers.Load() > 0 || shared && writers.Load() > 0 {
		safety.TwoHold(t, "%d readers and %d writers hold the name", readers.Load(), writers.Load())
	}
	if _, err := store.Extend(t.Context(), r.Name, r.Token.Text(), time.Minute); err != nil {
		failed("Extend", err)
	}
	mine.Add(-1)
	if out, err := store.Release(t.Context(), r.Name, r.Token.Text(), 0); err != nil {
		failed("Release", err)
	} else if out != driver.OutcomeReleased {
		t.Errorf("Release: %v", out)
	}
}

// A lease is never shorter than it was granted, whichever front end the holder and the next caller
// use, and not longer than the clock allows.
func TestLeasesAreNotCutShort(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		late := s.clock.Grain + 2*s.clock.Skew
		for _, ahead := range [][2]time.Duration{{0, 0}, {0, s.clock.Skew}, {s.clock.Skew, 0}} {
			for range 10 { // from different moments within a grain
				<-time.After(7 * time.Millisecond)
				holder := register.New(&front{shelf: s, ahead: ahead[0]}, register.Options{Clock: s.clock})
				next := register.New(&front{shelf: s, ahead: ahead[1]}, register.Options{Clock: s.clock})
				r, start := request(rand.Text()), time.Now()
				r.TTL = 2 * time.Second
				g, err := holder.Acquire(t.Context(), r)
				if err != nil || g.TTL != r.TTL {
					t.Fatalf("granted %v, %v", g.TTL, err)
				}
				pause := r.TTL - 100*time.Millisecond // a try after it finds a lease that ended before
				for errors.Is(errOf(next.Acquire(t.Context(), request(r.Name))), driver.ErrHeld) {
					<-time.After(pause)
					pause = 5 * time.Millisecond
				}
				if d := time.Since(start); d < r.TTL || d > r.TTL+late+6*time.Millisecond {
					t.Errorf("holder ahead by %v, next caller by %v: a lease of %v ended after %v", ahead[0], ahead[1], r.TTL, d)
				}
				holder.Close()
				next.Close()
			}
		}
	})
}

func errOf(_ driver.Grant, err error) error { return err }

// After a Put with an unknown outcome, no refusal is certain: the Put may still arrive, or it has
// arrived and somebody has written since.
func TestNoRefusalAfterAnUnknownOutcome(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		store, f := openOn(s)
		defer store.Close()
		r := request("extend")
		r.TTL = 2 * time.Second
		if _, err := store.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		var late func() error
		f.next(func(apply func() error) error {
			late = apply
			<-time.After(3 * time.Second) // the lease ends meanwhile
			return errCut
		})
		if _, err := store.Extend(t.Context(), r.Name, r.Token.Text(), time.Minute); !errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrExpired) {
			t.Errorf("Extend: %v", err)
		}
		if err := late(); err != nil {
			t.Errorf("the late Put no longer had an effect, so this test shows nothing: %v", err)
		}

		g, err := store.Acquire(t.Context(), request("break"))
		if err != nil {
			t.Fatal(err)
		}
		other, _ := openOn(s)
		defer other.Close()
		f.next(func(apply func() error) error {
			if err := apply(); err != nil {
				return err
			}
			if _, err := other.Acquire(t.Context(), request("break")); err != nil {
				t.Errorf("after the Break: %v", err)
			}
			return errCut
		})
		if _, err := store.Break(t.Context(), "break", g.Fence); !errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrLost) {
			t.Errorf("Break: %v", err)
		}
	})
}

// A refusal that has the record spares the Get.
func TestRefusalWithTheRecord(t *testing.T) {
	for _, tells := range []bool{true, false} {
		perClock(t, func(t *testing.T, s *shelf) {
			s.tells = tells
			store, f := openOn(s)
			defer store.Close()
			rival, _ := openOn(s)
			defer rival.Close()
			first := request("job")
			f.next(func(apply func() error) error {
				if _, err := rival.Acquire(t.Context(), first); err != nil {
					t.Error(err)
				}
				return apply()
			})
			before := f.gets.Load()
			_, err := store.Acquire(t.Context(), request("job"))
			if held := (*driver.HeldError)(nil); !errors.As(err, &held) || len(held.Holds) != 1 {
				t.Fatalf("Acquire: %v", err)
			}
			want := map[bool]int64{true: 1, false: 2}[tells]
			if n := f.gets.Load() - before; n != want {
				t.Errorf("tells=%v: %d Gets, want %d", tells, n, want)
			}
		})
	}
}

// hasty is a service that ends each watch at once, without a change.
type hasty struct {
	*front
	watches int
}

func (h *hasty) Watch(context.Context, string, string) error {
	if h.watches++; h.watches > 10_000 {
		return errCut
	}
	return nil
}

// A service that ends each watch at once is asked now and then.
func TestHastyWatch(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		h := &hasty{front: s.open()}
		store := register.New(h, register.Options{Name: "shelf", Clock: s.clock})
		defer store.Close()
		if _, err := store.Acquire(t.Context(), request("job")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := store.Wait(ctx, request("job"), false); !errors.Is(err, context.DeadlineExceeded) || h.watches > 100 {
			t.Errorf("%d watches in 20 s: %v", h.watches, err)
		}
	})
}

// keyless is a service whose register calls a missing key a wrong setting.
type keyless struct{ *front }

func (keyless) Put(context.Context, string, []byte, string) error {
	return fmt.Errorf("%w: there is no access key", driver.ErrInvalid)
}

// A store that is closed asks nothing.
func TestStatusOfAClosedStore(t *testing.T) {
	store, f := openOn(newShelf(register.Clock{}))
	store.Close()
	if _, err := store.Status(t.Context()); !errors.Is(err, driver.ErrClosed) || f.gets.Load() != 0 {
		t.Errorf("%v, after %d Gets", err, f.gets.Load())
	}
}

// A missing key says nothing about the conditions of the service.
func TestStatusWithoutAKey(t *testing.T) {
	store := register.New(keyless{newShelf(register.Clock{}).open()}, register.Options{Name: "shelf", NoVersion: "-1"})
	defer store.Close()
	if found, err := store.Status(t.Context()); !errors.Is(err, driver.ErrInvalid) || len(found) != 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// contrary refuses every Put, as if the value had another version than Get returns.
type contrary struct{ register.Register }

func (contrary) Put(context.Context, string, []byte, string) error { return register.ErrChanged }

// A service that contradicts itself is unavailable, and does not keep the caller without end.
func TestServiceThatContradictsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(clocks["grain"])
		store := register.New(contrary{s.open()}, register.Options{Name: "shelf", Clock: s.clock})
		defer store.Close()
		begun := time.Now()
		_, err := store.Acquire(t.Context(), request("job"))
		if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
			t.Errorf("Acquire: %v", err)
		}
		if d := time.Since(begun); d > driver.MaxSilence+time.Second {
			t.Errorf("Acquire has returned after %v", d)
		}
	})
}
