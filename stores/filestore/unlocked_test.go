//go:build linux

package filestore

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// fileOfChild returns the file of a hold as a child gets it. The file stays open until the end of
// the test.
func fileOfChild(t *testing.T, s *Store, name, token string) *os.File {
	t.Helper()
	file, err := s.File(name, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// unlockFile unlocks a file, as a child does with flock -u.
func unlockFile(t *testing.T, file *os.File) {
	t.Helper()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
}

// unlockInChild gives the file of a hold to a child that unlocks it and ends.
func unlockInChild(t *testing.T, s *Store, name, token string) {
	t.Helper()
	file := fileOfChild(t, s, name, token)
	unlockFile(t, file)
	file.Close()
}

func detachedRequest(name, token string) driver.Request {
	r := request(name, token)
	r.Detached = true
	return r
}

// A reader whose child unlocked the file has lost its hold if a writer has had the lock since, even
// if the writer has released the lock.
func TestReaderNoticesPastWriter(t *testing.T) {
	t.Parallel()
	for _, visible := range []bool{true, false} {
		dir := t.TempDir()
		ours, others := open(t, dir), open(t, dir)
		take(t, ours, shared("job", "reader"))
		unlockInChild(t, ours, "job", "reader")
		ours.files["job"].holds[0].visible = visible // false as on a system that does not show locks
		take(t, others, request("job", "writer"))
		release(t, others, "job", "writer", driver.OutcomeReleased)
		lost(t, ours, "job", "reader")
	}
}

// If a child has unlocked the file, the hold is lost, although nobody has taken the lock since. An
// Extend does not take the lock back, because the child would then keep the name taken.
func TestExtendTakesNothingBack(t *testing.T) {
	t.Parallel()
	for _, r := range []driver.Request{request("job", "us"), shared("job", "us")} {
		s := open(t, t.TempDir())
		take(t, s, r)
		file := fileOfChild(t, s, "job", "us") // the child lives on
		held(t, s, "job", "us")
		unlockFile(t, file)
		lost(t, s, "job", "us")
		take(t, open(t, s.Dir()), request("job", "next"))
	}
}

// If a child has unlocked the file, a Release does not change the record of the next holder.
func TestReleaseAfterChildUnlocked(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"exclusive", "shared"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			ours, others := open(t, dir), open(t, dir)
			first := request("job", "first")
			first.Shared = mode == "shared"
			take(t, ours, first)
			unlockInChild(t, ours, "job", "first")
			take(t, others, detachedRequest("job", "lease"))
			if got, err := ours.Release(patience(t), "job", "first", 100*time.Millisecond); err != nil || got != driver.OutcomeGone {
				t.Errorf("Release: %v, %v, want Gone", got, err)
			}
			held(t, others, "job", "lease")
			if until := refused(t, ours, request("job", "third")).Until; time.Until(until) < 30*time.Second {
				t.Errorf("the lease ends at %v, but it lasts for a minute", until)
			}
		})
	}
}

// A reservation on a file that was removed does not become a lease, because another process may
// have the name.
func TestClaimLeaseOnRemovedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours, others := open(t, dir), open(t, dir)
	g, err := ours.Wait(patience(t), detachedRequest("job", "lease"), true)
	if err != nil || g.TTL == 0 {
		t.Fatalf("Wait: %+v, %v", g, err)
	}
	if err := os.Remove(pathOf(ours, "job")); err != nil {
		t.Fatal(err)
	}
	take(t, others, request("job", "other"))
	refused(t, ours, detachedRequest("job", "lease"))
	release(t, others, "job", "other", driver.OutcomeReleased)
	take(t, ours, detachedRequest("job", "lease"))
	held(t, ours, "job", "lease")
}

// A request for a lease with the token of a hold that was lost does not report that hold.
func TestLeaseWithTokenOfLostHold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours, others := open(t, dir), open(t, dir)
	take(t, ours, request("job", "token"))
	if err := os.Remove(pathOf(ours, "job")); err != nil {
		t.Fatal(err)
	}
	take(t, others, request("job", "other"))
	refused(t, ours, detachedRequest("job", "token"))
}

// A lock file that only its owner may use becomes usable by all allowed users when its owner opens
// it again. Such a file is left if a process is killed while it makes the file, or if the directory
// was private before.
func TestNarrowFileIsOpened(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		option Option
		perm   os.FileMode
	}{{AllowGroup(), 0o660}, {AllowWorld(), 0o666}} {
		s := open(t, t.TempDir(), c.option)
		for _, path := range []string{pathOf(s, "job"), recordLockPath(pathOf(s, "job"))} {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		take(t, s, shared("job", "reader"))
		for _, path := range []string{pathOf(s, "job"), recordLockPath(pathOf(s, "job"))} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != c.perm {
				t.Errorf("%v, %v, want %v", info.Mode().Perm(), err, c.perm)
			}
		}
	}
}

// No child has the file any more, and a program such as flock(1) waits in the kernel. So it gets
// the lock at the release, and leaves no record.
func TestReleaseGoesToForeignWaiter(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	waiter := start(t, "flock", pathOf(s, "job"), nil)
	waiter.expect("ready")
	eventually(t, "the waiter waits in the kernel", func() bool { return inKernelQueue(t, s, "job") })
	fileOfChild(t, s, "job", "us").Close()
	release(t, s, "job", "us", driver.OutcomeReleased)
	waiter.expect("locked")
	waiter.end()
}
