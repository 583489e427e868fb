package register_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/storekit/register"
)

// full is a service that answers reads, and no Put.
type full struct{ *front }

func (full) Put(context.Context, string, []byte, string) error { return errCut }

// A service that answers reads alone makes each change uncertain after MaxSilence, even if ctx
// never ends: a Release that waits for it would keep its program without end.
func TestServiceThatOnlyReads(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		sound, _ := openOn(s)
		defer sound.Close()
		r := request("job")
		g, err := sound.Acquire(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		store := register.New(full{s.open()}, register.Options{Name: "shelf", Clock: s.clock})
		defer store.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // so that the test ends
		defer cancel()
		for method, call := range map[string]func() error{
			"Acquire": func() error { _, err := store.Acquire(ctx, request("another job")); return err },
			"Extend":  func() error { _, err := store.Extend(ctx, r.Name, r.Token.Text(), time.Minute); return err },
			"Release": func() error { _, err := store.Release(ctx, r.Name, r.Token.Text(), 0); return err },
			"Break":   func() error { _, err := store.Break(ctx, r.Name, g.Fence); return err },
		} {
			start := time.Now()
			if err := call(); !errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("%s: %v", method, err)
			}
			if d := time.Since(start); d > driver.MaxSilence {
				t.Errorf("%s took %v", method, d)
			}
		}
	})
}

// A service that loses the connection in the middle of a Put, and is silent from then on, ends a
// call within MaxSilence all the same.
func TestSilenceAfterAPut(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		store, f := openOn(s)
		defer store.Close()
		if _, err := store.Inspect(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		var goOn func() error
		f.next(func(func() error) error {
			<-time.After(2 * time.Second)
			goOn = s.pause()
			return fmt.Errorf("%w: the connection is lost", driver.ErrUncertain)
		})
		start := time.Now()
		_, err := store.Acquire(t.Context(), request("job"))
		if d := time.Since(start); !errors.Is(err, driver.ErrUncertain) || d > driver.MaxSilence {
			t.Errorf("after %v: %v", d, err)
		}
		goOn()
	})
}

// Another process that writes the record of the store at the same time, and fails, makes no service
// careless.
func TestOpenAfterAConflict(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		f := s.open()
		f.next(func(func() error) error { return register.ErrChanged })
		store, err := register.Open(t.Context(), f, register.Options{Name: "shelf", Clock: s.clock, NoVersion: "none"}, false)
		if err != nil {
			t.Fatal(err)
		}
		store.Close()
	})
}

// A Release that has worked is never reported as the loss of a lock that somebody had taken before:
// its reply was lost, and others have written the record since.
func TestReleaseOvertaken(t *testing.T) {
	for _, shared := range []bool{false, true} {
		perClock(t, func(t *testing.T, s *shelf) {
			store, f := openOn(s)
			defer store.Close()
			other, _ := openOn(s)
			defer other.Close()
			r, next := request("job"), request("job")
			r.Shared, next.Shared = shared, shared
			if _, err := store.Acquire(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			f.next(overtaken(t, other, next))
			if _, err := store.Release(t.Context(), r.Name, r.Token.Text(), 0); !errors.Is(err, driver.ErrUncertain) {
				t.Errorf("shared=%v: Release: %v", shared, err)
			}
			if out, err := store.Release(t.Context(), r.Name, r.Token.Text(), 0); out != driver.OutcomeGone || err != nil {
				t.Errorf("shared=%v: Release once more: %v, %v", shared, out, err)
			}
			if _, err := other.Extend(t.Context(), next.Name, next.Token.Text(), 0); err != nil {
				t.Errorf("shared=%v: the next holder: %v", shared, err)
			}
		})
	}
}

// The record of the store is written again by each process that asks for the id, and once a day, so
// that it does not look old to a rule that deletes old values. The id stays, and an error does not
// matter.
func TestStoreIDStaysYoung(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		store, f := openOn(s)
		defer store.Close()
		id, err := store.StoreID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		version := func() string { return f.value("").Version }
		ask := func(after time.Duration, written bool) {
			t.Helper()
			<-time.After(after)
			before := version()
			if again, err := store.StoreID(t.Context()); err != nil || again != id {
				t.Errorf("the id was %q and is %q, %v", id, again, err)
			}
			if (version() != before) != written {
				t.Errorf("written: %v", !written)
			}
		}
		ask(0, true)
		ask(time.Hour, false)
		ask(25*time.Hour, true)
		f.next(lost(false))
		ask(25*time.Hour, false)
		ask(0, true)
		f.next(lost(true))
		ask(25*time.Hour, true)
	})
}

// A value of another program whose key can be a name is no lock. A list leaves it out, and an
// Acquire does not replace it.
func TestForeignValue(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		store, f := openOn(s)
		defer store.Close()
		if _, err := store.Acquire(t.Context(), request("job")); err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string]string{"index.html": "<html>", "config.json": `{"padlocks":3}`} {
			if err := f.Put(t.Context(), name, []byte(data), ""); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Acquire(t.Context(), request(name)); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "no record") {
				t.Errorf("%s: Acquire: %v", name, err)
			}
		}
		if states, err := store.List(t.Context(), ""); err != nil || len(states) != 1 || states[0].Name != "job" {
			t.Errorf("List: %+v, %v", states, err)
		}
		if err := f.Put(t.Context(), "new", []byte(`{"padlock":99}`), ""); err != nil {
			t.Fatal(err)
		}
		if _, err := store.List(t.Context(), ""); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "newer padlock") {
			t.Errorf("List of a record that a newer padlock has written: %v", err)
		}
	})
}

// A proxy that gets no reply sends a Put once more, and passes on the refusal of the second one,
// which is about the value that the first one has written. The call recognises its own value.
func TestPutSentTwice(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		store, f := openOn(s)
		defer store.Close()
		twice := func(apply func() error) error {
			if err := apply(); err != nil {
				return err
			}
			return apply()
		}
		r := request("job")
		f.next(twice)
		g, err := store.Acquire(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		f.next(twice)
		if e, err := store.Extend(t.Context(), r.Name, r.Token.Text(), time.Minute); err != nil || e.Fence != g.Fence {
			t.Errorf("Extend: %+v, %v; the fence was %d", e, err, g.Fence)
		}
		f.next(twice)
		if out, err := store.Release(t.Context(), r.Name, r.Token.Text(), 0); out != driver.OutcomeReleased || err != nil {
			t.Errorf("Release: %v, %v", out, err)
		}
		if g, err = store.Acquire(t.Context(), request("job")); err != nil {
			t.Fatal(err)
		}
		f.next(twice)
		if fence, err := store.Break(t.Context(), "job", g.Fence); err != nil || !safety.Rises(t, fence, g.Fence) {
			t.Errorf("Break: %d, %v", fence, err)
		}
	})
}

// overtaken is the fault of a Put that takes effect and whose reply is lost, while another process
// takes the name.
func overtaken(t *testing.T, other *register.Store, next driver.Request) func(apply func() error) error {
	return func(apply func() error) error {
		if err := apply(); err != nil {
			return err
		}
		if _, err := other.Acquire(t.Context(), next); err != nil {
			t.Errorf("after the lost reply: %v", err)
		}
		return errCut
	}
}

// A racer is a service in which somebody else writes before each Put.
type racer struct{ *front }

func (r racer) Put(ctx context.Context, name string, data []byte, version string) error {
	now := r.value(name)
	if err := r.apply(name, string(now.Data), now.Version); err != nil {
		return err
	}
	return r.front.Put(ctx, name, data, version)
}

// A call whose every write comes too late ends.
func TestOvertakenWithoutEnd(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		store, _ := openOn(s)
		defer store.Close()
		r := request("job")
		if _, err := store.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		late := register.New(racer{s.open()}, register.Options{Name: "shelf", Clock: s.clock})
		defer late.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if _, err := late.Release(ctx, r.Name, r.Token.Text(), 0); !errors.Is(err, driver.ErrUnavailable) || ctx.Err() != nil {
			t.Errorf("Release: %v", err)
		}
	})
}
