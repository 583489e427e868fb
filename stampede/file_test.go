package stampede_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/memstore"
	"github.com/padlock-go/padlock/stampede"
)

func fileCache(t *testing.T, opts ...stampede.Option) *stampede.Cache {
	l := padlock.New(memstore.New())
	t.Cleanup(func() { l.Close(context.Background()) })
	return stampede.New(l, stampede.NewMemory(0), opts...)
}

// TestFilePermissions: a new file has what os.Create gives, also under a umask
// of another; one that is replaced keeps what it has.
func TestFilePermissions(t *testing.T) {
	dir := t.TempDir()
	c := fileCache(t)
	other, err := os.Create(filepath.Join(dir, "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	page := filepath.Join(dir, "page.html")
	publish := func() os.FileMode {
		t.Helper()
		err := c.File(t.Context(), page, time.Nanosecond, func(context.Context, io.Writer) error { return nil })
		info, errStat := os.Stat(page)
		if err := errors.Join(err, errStat); err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	info, err := other.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if mode := publish(); mode != info.Mode() {
		t.Errorf("a new file has %v, os.Create gives %v", mode, info.Mode())
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, mode := range []os.FileMode{0o600, 0o666} {
		if err := os.Chmod(page, mode); err != nil {
			t.Fatal(err)
		}
		if got := publish(); got != mode {
			t.Errorf("a file of %v has %v when it is replaced", mode, got)
		}
	}
}

// TestFileLeavesNothing: a write that panics, or ends its goroutine, leaves no
// file behind, and the lock is free.
func TestFileLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	c := fileCache(t)
	page := filepath.Join(dir, "page.html")
	for _, wrong := range []func(){func() { panic("boom") }, runtime.Goexit} {
		over := make(chan struct{})
		go func() {
			defer close(over)
			defer func() { recover() }()
			c.File(t.Context(), page, time.Hour, func(context.Context, io.Writer) error { wrong(); return nil })
		}()
		<-over
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := c.File(t.Context(), page, time.Hour, func(context.Context, io.Writer) error { return nil }, stampede.WaitAtMost(time.Second)); err != nil {
		t.Error(err)
	}
}

// TestFileFails: while the function fails it is called once per ErrorTTL, and
// the time that it may take has a limit.
func TestFileFails(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(page, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	day := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(page, day, day); err != nil {
		t.Fatal(err)
	}
	c, runs := fileCache(t, stampede.ErrorTTL(time.Hour)), 0
	fail := func(context.Context, io.Writer) error { runs++; return errDown }
	for range 5 {
		if err := c.File(t.Context(), page, time.Hour, fail); !errors.Is(err, errDown) {
			t.Error(err)
		}
		if err := c.File(t.Context(), page, time.Hour, fail, stampede.StaleIfError(100*time.Hour)); err != nil {
			t.Error(err)
		}
	}
	if runs != 1 {
		t.Errorf("a failing write was called %d times", runs)
	}
	err := c.File(t.Context(), page+"2", time.Hour, func(ctx context.Context, _ io.Writer) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}, stampede.TimeLimit(time.Millisecond))
	if !errors.Is(err, stampede.ErrTimeLimit) {
		t.Errorf("a write that hangs: %v", err)
	}
}
