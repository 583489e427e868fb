package memstore_test

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/storeurl"
	"github.com/padlock-go/padlock/stores/memstore"
)

// TestLimits: a lease may last for a day, unless MaxTTL sets another limit. A cool-down may last for a
// day in any case.
func TestLimits(t *testing.T) {
	s := memstore.New()
	other, err := opened(t, "memory:?max-ttl=10m")
	if err != nil {
		t.Fatal(err)
	}
	for longest, s := range map[time.Duration]driver.Store{
		driver.MaxTTL:        s,
		time.Hour:            s.Open(memstore.MaxTTL(time.Hour)),
		10 * time.Minute:     other,
		driver.DefaultMaxTTL: memstore.New(memstore.MaxTTL(driver.DefaultMaxTTL)),
	} {
		for ttl, want := range map[time.Duration]error{longest: nil, longest + 1: driver.ErrInvalid} {
			r := driver.Request{Name: ttl.String(), Token: driver.TokenOf("t"), TTL: ttl}
			if _, err := s.Acquire(t.Context(), r); !errors.Is(err, want) {
				t.Errorf("a lease of %v where %v is allowed: %v", ttl, longest, err)
			}
		}
		r := driver.Request{Name: "kept " + longest.String(), Token: driver.TokenOf("t"), TTL: longest}
		g, err := s.Acquire(t.Context(), r)
		if err != nil || g.TTL != longest {
			t.Errorf("Acquire: %+v, %v; want a lease of %v", g, err, longest)
		}
		if _, err := s.Release(t.Context(), r.Name, r.Token.Text(), 24*time.Hour); err != nil {
			t.Errorf("Release with a cool-down of a day: %v", err)
		}
		r.Token = driver.TokenOf("another")
		var held *driver.HeldError
		if _, err := s.Acquire(context.Background(), r); !errors.As(err, &held) || time.Until(held.Until) < 23*time.Hour {
			t.Errorf("Acquire after a cool-down of a day: %v", err)
		}
	}
	for _, raw := range []string{"memory:?max-ttl=25h", "memory:?max-ttl=x", "memory:?max-ttl=", "memory:?max-ttl=1m&max-ttl=2m", "memory:?x=1", "memory:x?max-ttl=1m"} {
		if _, err := opened(t, raw); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func opened(t *testing.T, raw string) (driver.Store, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return memstore.Scheme().Open(t.Context(), u, storeurl.Opening{})
}
