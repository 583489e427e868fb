package stampede_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/stampede"
)

var bg = context.Background()

// newCache returns a Cache of its own process in the store, whose values are fresh for an hour.
func newCache(t *testing.T, store *memstore.Store, values stampede.Values, fn func(context.Context, string) (string, error), opts ...stampede.Option) *stampede.Cache[string] {
	t.Helper()
	l := padlock.New(store.Open())
	c, err := stampede.New(l, values, "test", fn, append([]stampede.Option{stampede.Fresh(time.Hour)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(bg), l.Close(bg)); err != nil {
			t.Error(err)
		}
	})
	return c
}

func wantValue(t *testing.T, c *stampede.Cache[string], key, want string) {
	t.Helper()
	if v, err := c.Get(bg, key); v != want || err != nil {
		t.Errorf("%q is %q, %v, want %q", key, v, err, want)
	}
}

// TestFreshFor: the function says how long its value, or its error, counts, also in other
// processes.
func TestFreshFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errMissing := errors.New("no such page")
		runs := map[string]int{}
		fn := func(ctx context.Context, key string) (string, error) {
			runs[key]++
			switch key {
			case "short":
				stampede.FreshFor(ctx, time.Minute)
			case "long":
				stampede.FreshFor(ctx, 24*time.Hour)
			case "missing":
				stampede.FreshFor(ctx, time.Minute)
				return "", errMissing
			}
			return fmt.Sprint(runs[key]), nil
		}
		stampede.FreshFor(bg, time.Second) // does nothing
		store, values := memstore.New(), shared{stampede.NewMemory()}
		one, two := newCache(t, store, values, fn), newCache(t, store, values, fn)
		for _, c := range []*stampede.Cache[string]{one, two} {
			for _, key := range []string{"short", "long", "other"} {
				wantValue(t, c, key, "1")
			}
			if _, err := c.Get(bg, "missing"); !errors.Is(err, errMissing) {
				t.Error(err)
			}
		}
		<-time.After(50 * time.Second)
		two.Get(bg, "missing")
		if runs["missing"] != 1 {
			t.Error("the other process does not know how long the error counts")
		}
		wantValue(t, two, "short", "1")
		<-time.After(20 * time.Second)
		two.Get(bg, "missing")
		wantValue(t, two, "short", "2")
		<-time.After(2 * time.Hour)
		wantValue(t, one, "long", "1")
		wantValue(t, one, "other", "2")
		if runs["missing"] != 2 {
			t.Errorf("the function that found nothing ran %d times, want 2", runs["missing"])
		}
	})
}

// TestDoNotKeep: only the callers that wait get the result.
func TestDoNotKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		fn := func(ctx context.Context, key string) (string, error) {
			runs++
			n := runs
			stampede.DoNotKeep(ctx)
			<-time.After(time.Second)
			if key == "error" {
				return "", errors.New("oops")
			}
			return fmt.Sprint(n), nil
		}
		c := newCache(t, memstore.New(), shared{stampede.NewMemory()}, fn, stampede.Local(time.Minute), stampede.OnError(func(_ context.Context, _ string, err error) { t.Error(err) }))
		got := make(chan string)
		for range 3 {
			go func() { v, _ := c.Get(bg, "k"); got <- v }()
		}
		for range 3 {
			if v := <-got; v != "1" {
				t.Errorf("a caller that waited got %q", v)
			}
		}
		wantValue(t, c, "k", "2")
		for range 2 {
			c.Get(bg, "error")
		}
		if runs != 4 {
			t.Errorf("%d runs, want 4", runs)
		}
	})
}

// TestSet: a value that a caller sets is served in all processes, and a function that runs
// meanwhile does not replace it.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fn := func(context.Context, string) (string, error) {
			<-time.After(time.Second)
			return "made", nil
		}
		store, values := memstore.New(), shared{stampede.NewMemory()}
		one, two := newCache(t, store, values, fn), newCache(t, store, values, fn, stampede.Local(time.Minute))
		set := func(c *stampede.Cache[string], v string) {
			t.Helper()
			if err := c.Set(bg, "k", v); err != nil {
				t.Error(err)
			}
		}
		set(one, "first")
		wantValue(t, two, "k", "first")
		set(two, "second")
		wantValue(t, one, "k", "second")
		wantValue(t, two, "k", "second")
		if err := one.Invalidate(bg, "k"); err != nil {
			t.Error(err)
		}
		made := make(chan string)
		go func() { v, _ := one.Get(bg, "k"); made <- v }()
		<-time.After(time.Millisecond)
		set(two, "third")
		if v := <-made; v != "made" {
			t.Errorf("the caller that waited got %q", v)
		}
		wantValue(t, one, "k", "third")
		<-time.After(2 * time.Hour)
		wantValue(t, one, "k", "made")
	})
}

// TestGetMany: each key is made once, and an error of one key is no error of the others.
func TestGetMany(t *testing.T) {
	c := newCache(t, memstore.New(), stampede.NewMemory(), func(_ context.Context, key string) (string, error) {
		if key == "bad" {
			return "", errors.New("oops")
		}
		return key, nil
	}, stampede.Lease(longLease)) // if the lock is lost, a function that failed runs again
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprint(i), fmt.Sprint(i))
	}
	got, err := c.GetMany(bg, append(keys, "bad"))
	if len(got) != 100 || got["7"] != "7" || err == nil || !strings.Contains(err.Error(), `"bad": oops`) {
		t.Errorf("%d values, %v", len(got), err)
	}
	if s := c.Stats(); s.Runs != 101 || s.Errors != 1 {
		t.Errorf("%+v", s)
	}
	if got, err := c.GetMany(bg, nil); len(got) != 0 || err != nil {
		t.Error(slices.Sorted(maps.Keys(got)), err)
	}
}

// TestStats counts one call of each kind.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := false
		c := newCache(t, memstore.New(), stampede.NewMemory(), func(context.Context, string) (string, error) {
			if fail {
				return "", errors.New("oops")
			}
			return "v", nil
		}, stampede.Stale(time.Hour), stampede.ErrorTTL(time.Minute))
		c.Get(bg, "k") // a miss
		c.Get(bg, "k") // a hit
		<-time.After(90 * time.Minute)
		fail = true
		c.Get(bg, "k") // stale, and a run that fails
		synctest.Wait()
		<-time.After(time.Hour)
		c.Get(bg, "k") // a miss, and a run that fails
		c.Get(bg, "k") // a miss that gets the error again
		if got, want := c.Stats(), (stampede.Stats{Hits: 1, Stale: 1, Misses: 3, Runs: 3, Errors: 2}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// TestMaxBytes: the values that were not used for the longest time make room, and a value that is
// too large is not kept.
func TestMaxBytes(t *testing.T) {
	m := stampede.NewMemory(stampede.MaxBytes(100))
	put := func(key string, size int) error {
		_, err := m.Store(bg, key, stampede.Entry{Value: make([]byte, size), Fresh: time.Hour, Keep: time.Hour})
		return err
	}
	want := func(keys string) {
		t.Helper()
		got := ""
		for _, key := range []string{"a", "b", "c", "d"} {
			if e, _ := m.Load(bg, key); e.Value != nil {
				got += key
			}
		}
		if got != keys {
			t.Errorf("there are %q, want %q", got, keys)
		}
	}
	for _, err := range []error{put("a", 40), put("b", 40), put("c", 10)} {
		if err != nil {
			t.Error(err)
		}
	}
	want("abc")
	m.Load(bg, "a")
	for range 5 {
		put("c", 30) // replaces the smaller one
	}
	want("ac")
	for range 5 {
		put("c", 10)
	}
	put("b", 20)
	want("abc")
	put("c", 50)
	want("bc")
	if err := put("d", 100); err == nil {
		t.Error("a value of 101 bytes was kept")
	}
	want("bc")
	put("d", 99)
	want("d")
	m.Discard(bg, "d")
	put("a", 90)
	want("a")
}
