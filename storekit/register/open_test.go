package register_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/register"
)

// The id of a store comes with its data.
func TestStoreID(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		a, f := openOn(s)
		defer a.Close()
		b, _ := openOn(s)
		defer b.Close()
		f.next(lost(true))
		id, err := a.StoreID(t.Context())
		if err != nil || id == "" {
			t.Fatal(id, err)
		}
		if other, err := b.StoreID(t.Context()); err != nil || other != id {
			t.Errorf("another process has the id %q, not %q: %v", other, id, err)
		}
		s.restart(false)
		if anew, err := b.StoreID(t.Context()); err != nil || anew == id {
			t.Errorf("the id %q was lost with the data, and is %q again: %v", id, anew, err)
		}
		if states, err := a.List(t.Context(), ""); err != nil || len(states) != 0 {
			t.Errorf("List: %v, %v", states, err)
		}
	})
}

// Open takes no service that carries out a Put whose condition is not met, and no impossible skew. It
// waits for a service that answers late, as if its access key must be found first.
func TestOpen(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		for _, c := range []struct {
			name string
			r    register.Register
			skew time.Duration
			lazy bool
			want error
		}{
			{name: "honest", r: s.open()},
			{name: "careless", r: careless{s.open()}, want: driver.ErrInvalid},
			{name: "careless, lazily", r: careless{s.open()}, lazy: true},
			{name: "checks, then writes", r: slow{s.open()}, want: driver.ErrInvalid},
			{name: "checks, then writes, lazily", r: slow{s.open()}, lazy: true},
			{name: "late", r: &late{front: s.open()}},
			{name: "skew", r: s.open(), skew: time.Hour, want: driver.ErrInvalid},
		} {
			o := register.Options{Name: "shelf", Clock: s.clock, NoVersion: "-1"}
			o.Clock.Skew = max(o.Clock.Skew, c.skew)
			store, err := register.Open(t.Context(), c.r, o, c.lazy)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
			if err == nil {
				if passed, err := store.CheckWrites(t.Context(), 20, 16); (err != nil) != c.lazy || (passed == 20) == c.lazy || c.lazy && !errors.Is(err, driver.ErrInvalid) {
					t.Errorf("%s: %d rounds passed, %v", c.name, passed, err)
				}
				if found, err := store.Status(t.Context()); err != nil || (found[0].Advice != "") != c.lazy {
					t.Errorf("%s: %+v, %v", c.name, found, err)
				}
				store.Close()
			}
		}
		f := s.open()
		f.cut()
		if _, err := register.Open(t.Context(), f, register.Options{Name: "shelf", Clock: s.clock}, false); !errors.Is(err, driver.ErrUnavailable) || !f.closed {
			t.Errorf("a service that is down: %v, closed=%v", err, f.closed)
		}
	})
}

// late is a service whose first reply takes three seconds.
type late struct {
	*front
	once sync.Once
}

func (l *late) Get(ctx context.Context, name string) (register.Value, error) {
	l.once.Do(func() { storekit.Sleep(ctx, 3*time.Second) })
	return l.front.Get(ctx, name)
}

// careless is a service that ignores conditions.
type careless struct{ *front }

func (c careless) Put(ctx context.Context, name string, data []byte, _ string) error {
	for {
		v, err := c.Get(ctx, name)
		if err != nil {
			return err
		}
		if err = c.front.Put(ctx, name, data, v.Version); !errors.Is(err, register.ErrChanged) {
			return err
		}
	}
}
