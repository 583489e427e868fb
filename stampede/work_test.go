package stampede_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stampede"
	"github.com/padlock-go/padlock/stores/memstore"
)

func TestDoAndDoPer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 3)
		ran := 0
		work := func(context.Context) error { ran++; <-time.After(time.Second); return nil }
		for round := range 3 {
			var wg sync.WaitGroup
			for _, c := range f.caches {
				wg.Go(func() {
					if _, err := stampede.Do(t.Context(), c.Locker, "do", work); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if ran != round+1 {
				t.Fatalf("%d runs in round %d", ran, round+1)
			}
		}
		ran = 0
		for range 60 { // each minute for an hour, on three machines
			for _, c := range f.caches {
				if _, err := stampede.DoPer(t.Context(), c.Locker, "per", 10*time.Minute, work); err != nil {
					t.Error(err)
				}
			}
			<-time.After(time.Minute)
		}
		if ran < 6 || ran > 7 {
			t.Errorf("%d runs in an hour, once per 10 minutes", ran)
		}
	})
}

func TestPrevent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2)
		guard, err := stampede.Prevent(t.Context(), f.caches[0].Locker, "flag")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stampede.Prevent(t.Context(), f.caches[1].Locker, "flag"); !errors.Is(err, padlock.ErrHeld) {
			t.Errorf("the second got %v", err)
		}
		guard.Release()
		guard, err = stampede.Prevent(t.Context(), f.caches[1].Locker, "flag")
		if err != nil {
			t.Fatal(err)
		}
		guard.Release()
	})
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "page.html")
	l := padlock.New(memstore.New())
	defer l.Close(context.Background())
	runs := 0
	write := func(_ context.Context, name string, w io.Writer) error {
		if name != path {
			t.Errorf("write got the path %q", name)
		}
		runs++
		_, err := fmt.Fprint(w, strings.Repeat("x", 1<<16), runs)
		return err
	}
	c := filesOf(t, l, time.Hour, write)
	ask := func() string {
		if err := c.Ensure(t.Context(), path); err != nil {
			t.Error(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		return strings.TrimLeft(string(data), "x")
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if v := ask(); v != "1" {
				t.Errorf("a reader found %q", v)
			}
		})
	}
	wg.Wait()
	past := time.Now().Add(-2 * time.Hour)
	os.Chtimes(path, past, past)
	if v := ask(); v != "2" {
		t.Errorf("after it went stale a reader found %q", v)
	}
	os.Chtimes(path, past, past)
	guard, _ := l.Acquire(t.Context(), "stampede-file:"+path)
	if v := ask(); v != "2" {
		t.Errorf("while another caller renews it a reader found %q", v)
	}
	guard.Release()
	failing := func(context.Context, string, io.Writer) error { return errors.New("no data") }
	if err := filesOf(t, l, time.Hour, failing).Ensure(t.Context(), path); err == nil {
		t.Error("a failing write is no error")
	}
	if err := filesOf(t, l, time.Hour, failing, stampede.StaleIfError(24*time.Hour)).Ensure(t.Context(), path); err != nil {
		t.Errorf("with StaleIfError: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := errors.Join(c.Remove(path), c.Remove(path)); err != nil {
		t.Errorf("removing twice: %v", err)
	}
}

func TestDir(t *testing.T) {
	ctx := context.Background()
	l := padlock.New(memstore.New())
	defer l.Close(ctx)
	d, err := stampede.NewDir(filepath.Join(t.TempDir(), "cache"), l)
	if err != nil {
		t.Fatal(err)
	}
	c := stampede.NewFamily(l, d)
	runs := 0
	fn := func(context.Context) (map[string]int, error) { runs++; return map[string]int{"runs": runs}, nil }
	for _, key := range []string{"k", "k", "a/b", "../k", "k\x00"} {
		v, err := stampede.Remember(ctx, c, key, time.Hour, fn)
		if err != nil || v["runs"] != runs {
			t.Errorf("%q: %v, %v after %d runs", key, v, err, runs)
		}
	}
	if runs != 4 {
		t.Errorf("%d runs for 4 keys", runs)
	}
	before, _ := d.Load(ctx, "stampede:test:k")
	if err := c.Invalidate(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	if ok, _ := d.Store(ctx, "stampede:test:k", before); ok {
		t.Error("a value from before the invalidation was kept")
	}
	if v, _ := stampede.Remember(ctx, c, "k", time.Hour, fn); v["runs"] != 5 {
		t.Errorf("after the invalidation: %v", v)
	}
	if err := d.Clean(ctx); err != nil {
		t.Fatal(err)
	}
	if e, _ := d.Load(ctx, "stampede:test:k"); e.Value == nil {
		t.Error("Clean removed a value that is to be kept")
	}
}

// TestNowhereToWrite: if the directory is gone, Ensure returns an error, since no file can be
// served. Get returns no error, since it can still return the value.
func TestNowhereToWrite(t *testing.T) {
	ctx := t.Context()
	l := padlock.New(memstore.New())
	defer l.Close(context.Background())
	dir := filepath.Join(t.TempDir(), "cache")
	d, err := stampede.NewDir(dir, l)
	if err != nil {
		t.Fatal(err)
	}
	var told atomic.Int32
	c := stampede.NewFamily(l, d, stampede.Lease(longLease), stampede.OnError(func(context.Context, string, error) { told.Add(1) }))
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	v, err := stampede.Remember(ctx, c, "k", time.Hour, func(context.Context) (string, error) { return "made", nil })
	if v != "made" || err != nil || told.Load() != 1 {
		t.Errorf("%q, %v, OnError was called %d times", v, err, told.Load())
	}
	page := filepath.Join(dir, "page.html")
	pages := filesOf(t, l, time.Hour, func(context.Context, string, io.Writer) error { t.Error("it writes nowhere"); return nil })
	err = pages.Ensure(ctx, page)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("File: %v", err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // now a file has the directory's path
		t.Fatal(err)
	}
	if _, err := d.Load(ctx, "stampede:test:k"); err == nil {
		t.Error("Load: no error")
	}
	if err := pages.Ensure(ctx, page); err == nil {
		t.Error("File: no error")
	}
	if _, err := stampede.NewDir(dir, l); err == nil {
		t.Error("NewDir: no error")
	}
	if err := d.Clean(ctx); err == nil {
		t.Error("Clean: no error")
	}
}
