package register_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/reads"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/storekit/register"
)

// A record that is near the limit of the service takes no more readers. Its holders can still renew
// and release, and others come in when they have left.
func TestManyReaders(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		s.limit = 64 << 10
		store := register.New(s.open(), register.Options{Name: "shelf", Clock: s.clock, MaxData: s.limit})
		defer store.Close()
		overhttptest.CheckReaders(t, store, 5)
	})
}

// A reader of a full record can be handed on, even to a holder with the longest label. The record
// keeps room for the clean-up, however many readers are handed on.
func TestAdoptInAFullRecord(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		s.limit = 64 << 10
		store := register.New(s.open(), register.Options{Name: "shelf", Clock: s.clock, MaxData: s.limit})
		defer store.Close()
		reader := func() driver.Request {
			r := request("readers")
			r.Shared, r.Holder.Label = true, strings.Repeat("<", 100)
			return r
		}
		var tokens []string
		for {
			r := reader()
			_, err := store.Acquire(t.Context(), r)
			if errors.Is(err, driver.ErrUnavailable) && len(tokens) > 50 {
				break
			} else if err != nil {
				t.Fatalf("after %d readers: %v", len(tokens), err)
			}
			tokens = append(tokens, r.Token.Text())
		}
		refused := error(nil)
		for n := 0; n < len(tokens) && refused == nil; n++ {
			next := reader()
			next.Replaces, next.Holder.Label = driver.TokenOf(tokens[n]), strings.Repeat("<", driver.MaxLabel)
			if _, refused = store.Acquire(t.Context(), next); refused != nil && n == 0 {
				t.Errorf("the first one: %v", refused)
			}
		}
		if !errors.Is(refused, driver.ErrUnavailable) || !strings.Contains(refused.Error(), "with this holder") {
			t.Errorf("the last one: %v", refused)
		}
		for range 20 {
			if _, err := store.Release(t.Context(), "readers", rand.Text(), 0); err != nil {
				t.Fatalf("the clean-up of a token without a hold: %v", err)
			}
		}
	})
}

// A store without fences has none in any answer, and Break needs none.
func TestNoFences(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		store := register.New(s.open(), register.Options{Name: "shelf", Clock: s.clock, NoFences: true})
		defer store.Close()
		if s.clock == (register.Clock{}) || server.IsThorough() { // clocks and fences have nothing to do with each other
			for _, failure := range drivertest.Check(drivertest.Harness{Open: func(context.Context) (driver.Store, error) {
				return register.New(s.open(), register.Options{Name: "shelf", Clock: s.clock, NoFences: true}), nil
			}}) {
				t.Error(failure)
			}
		}
		if _, err := store.Acquire(t.Context(), request("job")); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Break(t.Context(), "job", 1); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Break of a fence: %v", err)
		}
		if fence, err := store.Break(t.Context(), "job", 0); fence != 0 || err != nil {
			t.Errorf("Break: %d, %v", fence, err)
		}
		breakWithALostReply(t, s)
	})
}

// breakWithALostReply shows that a Break without fences ends the hold that it has found, and not
// that of the next holder.
func breakWithALostReply(t *testing.T, s *shelf) {
	o := register.Options{Name: "shelf", Clock: s.clock, NoFences: true}
	f := s.open()
	store, other := register.New(f, o), register.New(s.open(), o)
	defer store.Close()
	defer other.Close()
	if _, err := store.Acquire(t.Context(), request("lost")); err != nil {
		t.Fatal(err)
	}
	next := request("lost")
	f.next(overtaken(t, other, next))
	if _, err := store.Break(t.Context(), "lost", 0); !errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrLost) {
		t.Errorf("Break whose reply was lost: %v", err)
	}
	if _, err := other.Extend(t.Context(), next.Name, next.Token.Text(), 0); err != nil {
		t.Errorf("Break has ended the hold of the next holder: %v", err)
	}
	for _, effect := range []bool{true, false} {
		f.next(lost(effect))
		if _, err := store.Break(t.Context(), "lost", 0); err != nil {
			t.Errorf("Break with effect=%v, while nobody else comes: %v", effect, err)
		}
		if _, err := other.Acquire(t.Context(), request("lost")); err != nil {
			t.Errorf("after a Break with effect=%v: %v", effect, err)
		}
	}
}

// timeless is a register that forgets the time, or whose service is out of reach.
type timeless struct {
	*front
	down bool
}

func (r timeless) Get(ctx context.Context, name string) (register.Value, error) {
	if r.down {
		return register.Value{}, fmt.Errorf("%w: nobody listens", driver.ErrUnavailable)
	}
	v, err := r.front.Get(ctx, name)
	v.Now = time.Time{}
	return v, err
}

// The error of a Get says each thing once, on one line; one of them is that the time is missing.
func TestErrorOfGet(t *testing.T) {
	for want, r := range map[string]timeless{
		"must set Value.Now":                   {},
		"store is unavailable: nobody listens": {down: true},
	} {
		r.front = newShelf(clocks["grain"]).open()
		store := register.New(r, register.Options{Name: "shelf", Clock: clocks["grain"]})
		defer store.Close()
		_, err := store.Acquire(t.Context(), request("job"))
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), driver.ErrUnavailable.Error()) != 1 || strings.Contains(err.Error(), "\n") {
			t.Errorf("want %q: %q", want, err)
		}
	}
}

// Even the shortest lease ends no later than the guarantees say, and than two fifths of it, as the
// contract wants. The clock of the holder is ahead, and the lease ends within a grain.
func TestLateEnds(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		if s.clock.Observed {
			return
		}
		holder := register.New(&front{shelf: s, ahead: s.clock.Skew}, register.Options{Clock: s.clock})
		defer holder.Close()
		next := register.New(&front{shelf: s}, register.Options{Clock: s.clock})
		defer next.Close()
		g, latest := holder.Guarantees(), 2*(s.clock.Grain+s.clock.Skew)
		if latest > 0 && !strings.Contains(strings.Join(g.Notes, " "), "up to "+latest.String()+" after") {
			t.Errorf("at most %v late; the notes: %q", latest, g.Notes)
		}
		for _, odd := range []time.Duration{0, time.Millisecond} {
			if s.clock.Grain > 0 {
				<-time.After(time.Until(time.Now().Truncate(s.clock.Grain).Add(s.clock.Grain)))
			}
			r, start := request(rand.Text()), time.Now()
			r.TTL = max(g.MinTTL, driver.MinTTL) + odd
			if _, err := holder.Acquire(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			for errors.Is(errOf(next.Acquire(t.Context(), request(r.Name))), driver.ErrHeld) {
				<-time.After(time.Millisecond)
			}
			if late := time.Since(start) - r.TTL; late < 0 || late > latest+time.Millisecond || late > r.TTL*2/5 {
				t.Errorf("a lease of %v ended %v late; at most %v", r.TTL, late, latest)
			}
		}
	})
}

// A distant is a service whose Gets take a moment.
type distant struct{ *front }

func (d distant) Get(ctx context.Context, name string) (register.Value, error) {
	<-time.After(60 * time.Millisecond)
	return d.front.Get(ctx, name)
}

// A list of many names that are free asks for several at once, in time for whoever looks.
func TestListOfManyNames(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		store, _ := openOn(s)
		defer store.Close()
		for n := range 200 {
			r := request(fmt.Sprintf("job-%03d", n))
			if _, err := store.Acquire(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if n%100 == 0 {
				continue // two are held
			}
			if _, err := store.Release(t.Context(), r.Name, r.Token.Text(), 0); err != nil {
				t.Fatal(err)
			}
		}
		far := register.New(distant{s.open()}, register.Options{Name: "shelf", Clock: s.clock})
		defer far.Close()
		began := time.Now()
		ctx, gets := reads.Count(t.Context())
		if all, err := far.List(ctx, "job-"); err != nil || len(all) != 2 || gets.Load() != 200 {
			t.Errorf("List: %+v, %v, of %d names", all, err, gets.Load())
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// slow is a service that checks a condition, and writes a moment later.
type slow struct{ *front }

func (s slow) Put(ctx context.Context, name string, data []byte, version string) error {
	if s.value(name).Version != version {
		return register.ErrChanged
	}
	<-time.After(5 * time.Millisecond)
	for { // careless looks at the version itself, which another Put may change meanwhile
		if err := careless(s).Put(ctx, name, data, version); !errors.Is(err, register.ErrChanged) {
			return err
		}
	}
}
