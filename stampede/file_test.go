package stampede_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stampede"
	"github.com/padlock-go/padlock/stores/memstore"
)

// newFiles returns Files with a Locker of their own.
func newFiles(t *testing.T, maxAge time.Duration, write func(context.Context, string, io.Writer) error, opts ...stampede.FileOption) *stampede.Files {
	t.Helper()
	l := padlock.New(memstore.New())
	t.Cleanup(func() { l.Close(context.Background()) })
	return filesOf(t, l, maxAge, write, opts...)
}

// longLease is a lease that does not end while a slow machine stands still.
const longLease = 30 * time.Second

func filesOf(t *testing.T, l *padlock.Locker, maxAge time.Duration, write func(context.Context, string, io.Writer) error, opts ...stampede.FileOption) *stampede.Files {
	t.Helper()
	f, err := stampede.NewFiles(l, maxAge, write, append([]stampede.FileOption{stampede.Lease(longLease)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFilePermissions: a new file has the permissions that os.Create gives, under other umasks too.
// A file that is replaced keeps its permissions.
func TestFilePermissions(t *testing.T) {
	dir := t.TempDir()
	c := newFiles(t, time.Nanosecond, func(context.Context, string, io.Writer) error { return nil })
	other, err := os.Create(filepath.Join(dir, "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	page := filepath.Join(dir, "page.html")
	publish := func() os.FileMode {
		t.Helper()
		err := c.Ensure(t.Context(), page)
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

// TestFileLeavesNothing: if the write function panics or ends its goroutine, no file is left behind
// and the lock is free.
func TestFileLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	wrong := func() {}
	c := newFiles(t, time.Hour, func(context.Context, string, io.Writer) error { wrong(); return nil }, stampede.MaxWait(time.Second))
	page := filepath.Join(dir, "page.html")
	for _, wrong = range []func(){func() { panic("boom") }, runtime.Goexit} {
		over := make(chan struct{})
		go func() {
			defer close(over)
			defer func() { recover() }()
			c.Ensure(t.Context(), page)
		}()
		<-over
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
	wrong = func() {}
	if err := c.Ensure(t.Context(), page); err != nil {
		t.Error(err)
	}
}

// TestFileFails: while the function fails, it is called once per ErrorTTL. TimeLimit bounds how
// long it runs.
func TestFileFails(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(page, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	day := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(page, day, day); err != nil {
		t.Fatal(err)
	}
	runs := 0
	fail := func(context.Context, string, io.Writer) error { runs++; return errDown }
	c := newFiles(t, time.Hour, fail, stampede.ErrorTTL(time.Hour))
	lenient := newFiles(t, time.Hour, fail, stampede.ErrorTTL(time.Hour), stampede.StaleIfError(100*time.Hour))
	for range 5 {
		if err := c.Ensure(t.Context(), page); !errors.Is(err, errDown) {
			t.Error(err)
		}
		if err := lenient.Ensure(t.Context(), page); err != nil {
			t.Error(err)
		}
	}
	if runs != 2 {
		t.Errorf("two Files called a failing write %d times", runs)
	}
	// Remove ends the back-off too.
	if err := c.Remove(page); err != nil {
		t.Error(err)
	}
	if err := c.Ensure(t.Context(), page); !errors.Is(err, errDown) || runs != 3 {
		t.Errorf("after Remove: %v, %d runs", err, runs)
	}
	err := newFiles(t, time.Hour, func(ctx context.Context, _ string, _ io.Writer) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}, stampede.TimeLimit(time.Millisecond)).Ensure(t.Context(), page+"2")
	if !errors.Is(err, stampede.ErrTimeLimit) {
		t.Errorf("a write that hangs: %v", err)
	}
}

// TestFileNotReady: if there is no file yet and another caller makes it, a caller waits at most
// MaxWait. Then it gets ErrNotReady, and not ErrHeld.
func TestFileNotReady(t *testing.T) {
	l := padlock.New(memstore.New())
	defer l.Close(context.Background())
	page := filepath.Join(t.TempDir(), "page.html")
	goOn, began := make(chan struct{}), make(chan struct{})
	write := func(context.Context, string, io.Writer) error { close(began); <-goOn; return nil }
	c := filesOf(t, l, time.Hour, write, stampede.MaxWait(time.Millisecond))
	var made error
	done := make(chan struct{})
	go func() { made = c.Ensure(t.Context(), page); close(done) }()
	<-began
	if err := c.Ensure(t.Context(), page); !errors.Is(err, stampede.ErrNotReady) || errors.Is(err, padlock.ErrHeld) {
		t.Errorf("while another caller writes: %v", err)
	}
	close(goOn)
	if <-done; made != nil {
		t.Error(made)
	}
	if err := c.Ensure(t.Context(), page); err != nil {
		t.Error(err)
	}
}

// TestLongFileNames: a file with a name of almost 255 bytes is made as any other.
func TestLongFileNames(t *testing.T) {
	c := newFiles(t, time.Hour, func(_ context.Context, _ string, w io.Writer) error {
		_, err := io.WriteString(w, "x")
		return err
	})
	page := filepath.Join(t.TempDir(), strings.Repeat("p", 230)+".html")
	if err := c.Ensure(t.Context(), page); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(page); string(text) != "x" {
		t.Errorf("the file is %q: %v", text, err)
	}
}
