//go:build linux

package filestore

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

// Readers that hold the lock at the same time have the same fence, so that a guard refuses none of
// them. It does not matter whether they came one after the other or all at once.
func TestReadersShareAFence(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir), open(t, dir)
	writer := take(t, a, request("job", "writer")).Fence
	free(t, a, "job", "writer")
	for i := range 30 {
		var fences [2]uint64
		var both sync.WaitGroup
		for j, s := range []*Store{a, b} {
			both.Go(func() {
				g, err := s.Acquire(patience(t), shared("job", "reader"))
				if err != nil {
					t.Error(err)
				}
				fences[j] = g.Fence
			})
		}
		both.Wait()
		late := take(t, a, shared("job", "late")).Fence
		if fences[0] != fences[1] || late != fences[0] || !safety.Rises(t, late, writer) {
			t.Fatalf("round %d: readers at once have %v, a later one %d, the writer before them had %d", i, fences, late, writer)
		}
		for _, s := range []*Store{a, b} {
			free(t, s, "job", "reader")
		}
		free(t, a, "job", "late")
		next := take(t, b, request("job", "writer")).Fence
		safety.Rises(t, next, late)
		writer = next
		free(t, b, "job", "writer")
	}
}

// free releases a hold. The hold must exist.
func free(t testing.TB, s *Store, name, token string) {
	t.Helper()
	if out, err := s.Release(patience(t), name, token, 0); err != nil || out != driver.OutcomeReleased {
		t.Fatalf("Release of %q: %v, %v", token, out, err)
	}
}

// A program that does not know the intent, such as PHP, takes the shared lock and tries to convert
// it, again and again. If a promotion of padlock fails and its reader keeps the shared lock, the
// program must not have had the exclusive lock in the meantime.
func TestNoForeignWriterInsideAFailedPromotion(t *testing.T) {
	s := open(t, t.TempDir())
	take(t, s, shared("job", "reader"))
	free(t, s, "job", "reader")
	file, err := os.OpenFile(filepath.Join(s.Dir(), fileName("job")), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fd := int(file.Fd())
	var mu sync.Mutex
	wrote, stop := 0, make(chan struct{})
	var peer sync.WaitGroup
	peer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB) != nil {
				continue
			}
			if syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) == nil {
				mu.Lock()
				wrote++
				mu.Unlock()
			}
			syscall.Flock(fd, syscall.LOCK_UN)
		}
	})
	defer peer.Wait()
	defer close(stop)
	writes := func() int {
		mu.Lock()
		defer mu.Unlock()
		return wrote
	}
	failed := 0
	deadline := time.Now().Add(30 * time.Second) // on a busy machine it may take long until the two collide
	for i := 0; i < 600 || failed == 0 && time.Now().Before(deadline); i++ {
		r := shared("job", "reader")
		if _, err := s.Acquire(patience(t), r); errors.Is(err, driver.ErrHeld) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		before := writes()
		r.Shared = false
		_, err := s.Convert(patience(t), r)
		if errors.Is(err, driver.ErrHeld) {
			failed++
			if n := writes() - before; n > 0 {
				t.Fatalf("after %d failed promotions: a foreign writer was in %d times, and the shared hold is said to be as it was", failed, n)
			}
		}
		_, _ = s.Release(patience(t), "job", "reader", 0) // the hold may be lost
	}
	if failed == 0 {
		t.Error("no promotion met another reader")
	}
}

// If the path no longer leads to the file, other processes could take the name. Release reports
// that, even if the file exists under another name.
func TestReleaseOfAMovedFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	s := open(t, dir)
	take(t, s, request("job", "us"))
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Release(patience(t), "job", "us", 0); err != nil || out != driver.OutcomeGone {
		t.Errorf("Release after the directory was renamed: %v, %v", out, err)
	}
}

// Break ends a cool-down, and nothing else.
func TestBreakEndsACoolDown(t *testing.T) {
	s := open(t, t.TempDir())
	fence := take(t, s, request("job", "us")).Fence
	if _, err := s.Break(patience(t), "job", fence); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Break of a lock that is held: %v", err)
	}
	if out, err := s.Release(patience(t), "job", "us", time.Hour); err != nil || out != driver.OutcomeReleased {
		t.Fatalf("Release with a cool-down: %v, %v", out, err)
	}
	refused(t, s, request("job", "us"))
	if _, err := s.Break(patience(t), "job", fence-1); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Break with another fence: %v", err)
	}
	refused(t, s, request("job", "us"))
	minted, err := s.Break(patience(t), "job", fence)
	if err != nil || !safety.Rises(t, minted, fence) {
		t.Fatalf("Break of a cool-down: fence %d after %d, %v", minted, fence, err)
	}
	safety.Rises(t, take(t, s, request("job", "us")).Fence, minted, minted)
}

// If the process that took a lock has ended, the holders are the processes that inherited its
// descriptor. The number of the ended process is not reported.
func TestHoldersThatInheritedTheLock(t *testing.T) {
	if !machine().seesAll {
		t.Skip("these tests run in a container, where not every lock can be seen")
	}
	s := open(t, t.TempDir())
	path := filepath.Join(s.Dir(), fileName("job"))
	take(t, s, request("job", "us"))
	free(t, s, "job", "us")
	ended := exec.Command("sh", "-c", `exec 9>>"$1"; flock 9; sleep 300 >/dev/null 2>&1 & echo $!`, "sh", path)
	out, err := ended.Output()
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	for _, c := range out[:len(out)-1] {
		pid = 10*pid + int(c-'0')
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	seen := inspect(t, s, "job").Holds
	s.seen.size = 0 // other programs may have made the list long, and then a refusal does not read it (see tooLong)
	for _, holds := range [][]driver.Hold{seen, refused(t, s, request("job", "us")).Holds} {
		if len(holds) != 1 || holds[0].PID != pid {
			t.Errorf("held by %+v, want process %d", holds, pid)
		}
	}
}

// Where deviceByStat returns a device, it is the same device as in the kernel's list.
func TestDeviceByStat(t *testing.T) {
	dir := t.TempDir()
	device := deviceByStat(dir)
	if device == "" {
		t.Skip("on this file system only a probe can tell")
	}
	var k calibration
	if probed, err := k.calibrate(dir); err != nil || probed != device {
		t.Errorf("stat tells %q, a probe %q, %v", device, probed, err)
	}
	if slices.Contains([]string{"00:00", "0:0"}, device) {
		t.Errorf("the device is %q", device)
	}
}
