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

// TestMoveBetweenLayouts moves names from the layout of older versions of PHP's Symfony to the
// newer one. A process that uses both layouts excludes the processes that use one of them. Long
// names have the same row in both layouts.
func TestMoveBetweenLayouts(t *testing.T) {
	t.Parallel()
	at := "sqlite://" + filepath.Join(t.TempDir(), "shop.db")
	members := func(layouts ...string) string {
		q := url.Values{"fences": {"no"}}
		for _, l := range layouts {
			q.Add("store", at+"?layout="+l)
		}
		return "all:?" + q.Encode()
	}
	before, during, after := locker(t, at+"?layout=symfony73"), locker(t, members("symfony73", "symfony")), locker(t, at+"?layout=symfony")
	for name, text := range map[string]string{"short": "report", "long": strings.Repeat("long-", 20), "63": strings.Repeat("x", 63), "64": strings.Repeat("x", 64)} {
		t.Run(name, func(t *testing.T) {
			excluded(t, during, text, before, after, during)
			excluded(t, before, text, during)
			excluded(t, after, text, during)
		})
	}
	for _, layouts := range [][]string{{"symfony73", "symfony73"}, {"symfony", "symfony"}, {"symfony73", "symfony", "symfony73"}} {
		if s, err := all.Store(t.Context(), members(layouts...)); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("all: of %v: %v, %v", layouts, s, err)
		}
	}
	if s, err := all.Store(t.Context(), "quorum"+strings.TrimPrefix(members("symfony73", "symfony"), "all")); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a majority with two votes of one table: %v, %v", s, err)
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
