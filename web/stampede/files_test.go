package stampede_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/stampede"
)

// A web server can send the files of a Dir. A reader finds a complete file, and no file after
// Invalidate. If another program removes the file, it is made again.
func TestDirForAWebServer(t *testing.T) {
	ctx := t.Context()
	root := t.TempDir()
	path := filepath.Join(root, "pages", "blog", "first.html")
	l := padlock.New(memstore.New())
	defer l.Close(context.Background())
	d, err := stampede.NewDir(root, l)
	if err != nil {
		t.Fatal(err)
	}
	var runs atomic.Int32
	pages, err := stampede.New(l, d, "pages", func(context.Context, string) (string, error) {
		return fmt.Sprint(strings.Repeat("x", 1<<16), runs.Add(1)), nil
	}, stampede.Fresh(time.Hour), stampede.Lease(longLease))
	if err != nil {
		t.Fatal(err)
	}
	defer pages.Close(context.Background())
	check := func(want string) {
		v, err := pages.Get(ctx, "blog/first.html")
		data, errRead := os.ReadFile(path)
		if err := errors.Join(err, errRead); err != nil || v != string(data) || strings.TrimLeft(v, "x") != want {
			t.Errorf("Get returns %d bytes, the file has %d, want run %s: %v", len(v), len(data), want, err)
		}
	}
	var readers sync.WaitGroup
	for range 50 {
		readers.Go(func() { check("1") })
	}
	readers.Wait()
	if err := pages.Set(ctx, "blog/first.html", strings.Repeat("x", 1<<16)+"set"); err != nil {
		t.Fatal(err)
	}
	check("set")
	if err := pages.Invalidate(ctx, "blog/first.html"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Invalidate: %v", err)
	}
	check("2")
	for run, harm := range []func() error{
		func() error { return os.Remove(path) },
		func() error { return os.WriteFile(path, nil, 0o600) }, // as a crash of the machine may leave it
		func() error { return os.WriteFile(path, []byte(strings.Repeat("y", 1<<16)+"2"), 0o600) },
	} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprint(run + 3))
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

// TestNowhereToWrite: if the directory is gone, Get returns no error, since it can still return the
// value.
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
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // now a file has the directory's path
		t.Fatal(err)
	}
	if _, err := d.Load(ctx, "stampede:test:k"); err == nil {
		t.Error("Load: no error")
	}
	if _, err := stampede.NewDir(dir, l); err == nil {
		t.Error("NewDir: no error")
	}
	if err := d.Clean(ctx); err == nil {
		t.Error("Clean: no error")
	}
}
