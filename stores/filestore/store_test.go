//go:build linux

package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

func TestNamesOfAllKinds(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	other := open(t, s.Dir())
	names := []string{
		strings.Repeat("x", 1024), strings.Repeat("x", 1023), strings.Repeat("/", 1024), "../../etc", "..", ".", "/", "\x00", "a\x00b", "a\x00",
		"\xff\xfe", "é", " ", "\n", "sf.x.1234567.lock", "nightly report", "nightly-report", strings.Repeat("é", 512),
	}
	for _, name := range names {
		take(t, s, request(name, "us"))
	}
	for _, name := range names {
		if h := refused(t, other, request(name, "them")); h.Holds[0].Label != "us" {
			t.Errorf("%q is held by %+v", name, h.Holds)
		}
		if state := inspect(t, other, name); state.Name != name || !strings.HasPrefix(state.Path, s.Dir()+"/sf.") {
			t.Errorf("Inspect(%q) = %+v", name, state)
		}
		release(t, s, name, "us", driver.OutcomeReleased)
	}
	entries, err := os.ReadDir(s.Dir())
	if err != nil || len(entries) != len(names) {
		t.Errorf("%d files for %d names, %v", len(entries), len(names), err)
	}
}

// These two names have the same file in Symfony: their readable parts are equal, and so are 42 bits
// of their hashes.
const (
	collides1 = "nightly-report-of-the-branch-office-in-the-north-1509303"
	collides2 = "nightly-report-of-the-branch-office-in-the-north-1660377"
)

func TestCollidingNamesExcludeEachOtherAndSaySo(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	if fileName(collides1) != fileName(collides2) {
		t.Fatal("these names do not collide")
	}
	first := take(t, s, request(collides1, "one"))
	_, err := s.Acquire(patience(t), request(collides2, "two"))
	wantErr(t, err, driver.ErrHeld, collides1, "same file", "rename")
	var refusal *driver.HeldError
	if !errors.As(err, &refusal) || refusal.Holds[0].Label != "one" {
		t.Errorf("got %v", err)
	}
	release(t, s, collides2, "one", driver.OutcomeGone)
	if _, err := s.Release(patience(t), collides1, "one", time.Hour); err != nil {
		t.Fatal(err)
	}
	_, err = s.Acquire(patience(t), request(collides2, "two"))
	wantErr(t, err, driver.ErrHeld, collides1, "cools down")
	if _, err := s.Break(patience(t), collides1, first.Fence); err != nil {
		t.Fatal(err)
	}
	take(t, s, request(collides2, "two"))
	safety.Rises(t, held(t, s, collides2, "two").Fence, first.Fence)
}

func TestFilesAreOursAlone(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	take(t, s, shared("readers", "us"))
	entries, err := os.ReadDir(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
	// PHP's file is accessible to everybody. Afterwards, only this user has access.
	if err := os.WriteFile(pathOf(s, "php"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(pathOf(s, "php"), 0o666); err != nil {
		t.Fatal(err)
	}
	take(t, s, request("php", "us"))
	if info, err := os.Stat(pathOf(s, "php")); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestWhatIsNotALockFileIsRefused(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	elsewhere := s.Dir() + "/elsewhere"
	text := []byte("something of the user's")
	for name, put := range map[string]func(path string) error{
		"symbolic link":    func(path string) error { return os.Symlink(elsewhere, path) },
		"hard link":        func(path string) error { return os.Link(elsewhere, path) },
		"directory":        func(path string) error { return os.Mkdir(path, 0o700) },
		"fifo":             func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"socket":           func(path string) error { return syscall.Mknod(path, syscall.S_IFSOCK|0o600, 0) },
		"broken link":      func(path string) error { return os.Symlink(s.Dir()+"/nothing", path) },
		"link to a device": func(path string) error { return os.Symlink("/dev/null", path) },
	} {
		if err := os.WriteFile(elsewhere, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := put(pathOf(s, name)); err != nil {
			t.Fatal(err)
		}
		for _, r := range []driver.Request{request(name, "us"), shared(name, "us")} {
			if _, err := s.Acquire(patience(t), r); !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := s.Wait(patience(t), request(name, "us"), true); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%s: Wait: %v", name, err)
		}
		if _, err := s.Break(patience(t), name, 0); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%s: Break: %v", name, err)
		}
		if state, err := s.Inspect(patience(t), name); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%s: Inspect says %+v, %v", name, state, err)
		}
		if got, _ := os.ReadFile(elsewhere); !bytes.Equal(got, text) {
			t.Errorf("%s: what it leads to was changed to %q", name, got)
		}
		if list, err := s.List(patience(t), name); len(list) > 0 || err != nil { // the look is complete
			t.Errorf("%s: List: %+v, %v", name, list, err)
		}
	}
	if _, err := os.Lstat(s.Dir() + "/nothing"); err == nil {
		t.Error("a file was made at the end of a link")
	}
}

// A process whose lock file was removed or replaced gets ErrLost, and never frees the hold of the
// next process.
func TestFileRemovedOrReplaced(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(dir, path string) error{
		"removed":           func(_, path string) error { return os.Remove(path) },
		"replaced":          func(_, path string) error { return replace(path) },
		"moved away":        func(_, path string) error { return os.Rename(path, path+".old") },
		"directory moved":   func(dir, _ string) error { return os.Rename(dir, dir+".old") },
		"directory removed": func(dir, _ string) error { return os.RemoveAll(dir) },
	} {
		for _, r := range []driver.Request{request("job", "us"), shared("job", "us")} {
			t.Run(fmt.Sprintf("%s/shared=%v", what, r.Shared), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir() + "/locks"
				s := open(t, dir)
				take(t, s, r)
				if err := spoil(dir, pathOf(s, "job")); err != nil {
					t.Fatal(err)
				}
				open(t, dir) // makes the directory if need be
				next := take(t, open(t, dir), request("job", "next"))
				lost(t, s, "job", "us")
				release(t, s, "job", "us", driver.OutcomeGone)
				if h := refused(t, s, request("job", "us again")); h.Holds[0].Label != "next" {
					t.Errorf("held by %+v, want next with fence %d", h.Holds, next.Fence)
				}
			})
		}
	}
}

func replace(path string) error {
	if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// If the file is gone, Release returns OutcomeGone, even if no earlier call noticed the loss.
func TestReleaseOfARemovedFile(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	if err := os.Remove(pathOf(s, "job")); err != nil {
		t.Fatal(err)
	}
	if o, err := s.Release(patience(t), "job", "us", time.Minute); o != driver.OutcomeGone || err != nil {
		t.Errorf("%v, %v", o, err)
	}
	take(t, s, request("job", "next"))
}

// A repeat after the loss is a fresh grant with a new fence.
func TestRepeatAfterLoss(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	before := take(t, s, request("job", "us"))
	if err := os.Remove(pathOf(s, "job")); err != nil {
		t.Fatal(err)
	}
	safety.Rises(t, take(t, s, request("job", "us")).Fence, before.Fence)
}

// Many callers take and release the lock while somebody removes the file again and again. So two
// callers may have holds at once. But after the later grant, the earlier hold is never reported as
// live.
func TestUnlinkRace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stop := make(chan struct{})
	var removing, taking sync.WaitGroup
	removing.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(rand.N(time.Millisecond)): // more often, a slow machine never finds the file that it opened
				os.Remove(dir + "/" + fileName("job"))
			}
		}
	})
	var last atomic.Uint64
	var losses atomic.Int64
	for i := range 4 {
		s := open(t, dir)
		taking.Go(func() { contend(t, s, fmt.Sprint("party ", i), &last, &losses) })
	}
	taking.Wait()
	close(stop)
	removing.Wait()
	if losses.Load() == 0 {
		t.Error("nobody ever lost his file, so nothing was tried")
	}
}

func contend(t *testing.T, s *Store, token string, last *atomic.Uint64, losses *atomic.Int64) {
	ctx := context.Background()
	deadline := time.Now().Add(time.Minute) // the goroutine that removes the file may stand still for seconds
	for i := 0; i < 2000 || losses.Load() == 0 && time.Now().Before(deadline); i++ {
		g, err := s.Acquire(ctx, request("job", token))
		if err != nil {
			if !errors.Is(err, driver.ErrHeld) {
				t.Error(err)
			}
			continue
		}
		for old := last.Load(); old < g.Fence && !last.CompareAndSwap(old, g.Fence); old = last.Load() {
		}
		runtime.Gosched()
		later := last.Load() > g.Fence
		_, err = s.Extend(ctx, "job", token, 0)
		if later && err == nil {
			safety.Broken(t, "a hold with fence %d is called live after a grant with fence %d", g.Fence, last.Load())
		}
		if errors.Is(err, driver.ErrLost) {
			losses.Add(1)
		}
		if _, err := s.Release(ctx, "job", token, 0); err != nil {
			t.Error(err)
		}
	}
}

// A cool-down names the holder that left it.
func TestCoolDownNamesItsHolder(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := driver.Request{Name: "n", Token: driver.TokenOf("a"), TTL: time.Minute, Holder: driver.Holder{Host: "h", PID: 7, Label: "report"}}
	if _, err := s.Acquire(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Release(t.Context(), "n", "a", time.Minute); err != nil {
		t.Fatal(err)
	}
	r.Token = driver.TokenOf("b")
	_, err = s.Acquire(t.Context(), r)
	var held *driver.HeldError
	if !errors.As(err, &held) || len(held.Holds) != 1 || !held.Holds[0].Cooling || held.Holds[0].Label != "report" {
		t.Errorf("during a cool-down: %+v", err)
	}
	state, err := s.Inspect(t.Context(), "n")
	if err != nil || len(state.Holds) != 1 || state.Holds[0].Host != "h" {
		t.Errorf("inspected during a cool-down: %+v, %v", state, err)
	}
}

func TestSamePlace(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	link := other + "/link"
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	if !driver.SamePlace(s, open(t, link)) {
		t.Error("one directory by two paths is two places")
	}
	if driver.SamePlace(s, open(t, other)) || s.SamePlace(nil) {
		t.Error("two directories are one place")
	}
}
