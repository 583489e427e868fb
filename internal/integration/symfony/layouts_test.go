package symfony

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/open/all"
)

// One table, in one layout or in two, is one store.
func TestOneTableIsOneStore(t *testing.T) {
	t.Parallel()
	at := "sqlite://" + filepath.Join(t.TempDir(), "shop.db")
	for _, second := range []string{"symfony73", "symfony"} {
		stores := url.Values{"store": {at + "?layout=symfony73", at + "?layout=" + second}}.Encode()
		for _, scheme := range []string{"all", "quorum"} {
			if s, err := all.Store(t.Context(), scheme+":?fences=no&"+stores); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%s: of %s: %v, %v", scheme, second, s, err)
			}
		}
	}
}

// TestMoveToOwnTable moves names from PHP's table to padlock's own one, in the same database.
func TestMoveToOwnTable(t *testing.T) {
	t.Parallel()
	own := "sqlite://" + filepath.Join(t.TempDir(), "shop.db")
	php := own + "?layout=symfony"
	before, after := locker(t, php), locker(t, own)
	during := locker(t, "all:?"+url.Values{"fences": {"no"}, "store": {php, own}}.Encode())
	for _, name := range []string{"report", strings.Repeat("long-", 20)} {
		excluded(t, during, name, before, after, during)
		excluded(t, before, name, during)
		excluded(t, after, name, during)
	}
}

func locker(t *testing.T, rawURL string) *padlock.Locker {
	t.Helper()
	s, err := all.Store(t.Context(), rawURL)
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(s)
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// excluded takes a name in one way, and checks that the others cannot get it until it is released.
func excluded(t *testing.T, holder *padlock.Locker, name string, others ...*padlock.Locker) {
	t.Helper()
	lock, err := holder.TryAcquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range others {
		if _, err := o.TryAcquire(t.Context(), name); !errors.Is(err, padlock.ErrHeld) {
			t.Errorf("locker %d: got %v, want ErrHeld", i, err)
		}
	}
	if err := errors.Join(lock.Extend(t.Context(), 0), lock.Check(t.Context()), lock.Release()); err != nil {
		t.Errorf("extend, check and release: %v", err)
	}
	for i, o := range others {
		lock, err := o.TryAcquire(t.Context(), name)
		if err != nil {
			t.Errorf("locker %d after the release: %v", i, err)
			continue
		}
		if err := lock.Release(); err != nil {
			t.Errorf("locker %d: %v", i, err)
		}
	}
}
