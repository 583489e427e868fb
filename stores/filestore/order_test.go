//go:build linux

package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

func init() {
	scripts["wait"] = func(dir string) error { return waitFor(dir, nil) }
	scripts["wait on a full disk"] = func(dir string) error {
		return waitFor(dir, func() error {
			return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{})
		})
	}
}

// waitFor waits for "job", prints the fence, and releases the lock when the parent closes its
// input.
func waitFor(dir string, spoil func() error) error {
	s, err := Open(dir, calm)
	if err != nil {
		return err
	}
	if _, err := s.Acquire(background, request("job", "try")); !errors.Is(err, driver.ErrHeld) {
		return fmt.Errorf("the lock is not held: %w", err)
	}
	if spoil != nil {
		if err := spoil(); err != nil {
			return err
		}
	}
	fmt.Println("waits")
	g, err := s.Wait(background, request("job", "child"), true)
	if err != nil {
		return err
	}
	if _, err := s.Acquire(background, request("job", "child")); err != nil {
		return err
	}
	fmt.Println("fence", g.Fence)
	pause()
	if _, err := s.Release(background, "job", "child", 0); err != nil {
		return err
	}
	return s.Close()
}

// On a full disk, a waiter gets the lock as well.
func TestWaitOnAFullDisk(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	unlockFile(t, foreign(t, s, "job", syscall.LOCK_SH)) // this makes an empty file, without a record
	take(t, s, request("job", "us"))
	c := start(t, "wait on a full disk", s.Dir(), nil)
	c.expect("waits")
	release(t, s, "job", "us", driver.OutcomeReleased)
	c.expect("fence")
	c.end()
}

// waitingIs returns when n waiters are in the queue for "job".
func waitingIs(t testing.TB, s *Store, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " wait"), func() bool { return s.waitingAt(pathOf(s, "job")) == n })
}

// standsAt returns when n waiters for "job" stand in the kernel's queue. Each sets its mark a
// moment before that, and another one may overtake it then.
func standsAt(t testing.TB, s *Store, n int) {
	t.Helper()
	info, err := os.Stat(pathOf(s, "job"))
	if err != nil {
		t.Fatal(err)
	}
	file := fmt.Sprintf(":%d 0 EOF", info.Sys().(*syscall.Stat_t).Ino)
	eventually(t, fmt.Sprint(n, " stand in the queue"), func() bool {
		text, _, err := readLocks(0)
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "-> FLOCK ") && strings.HasSuffix(strings.TrimSpace(line), file) {
				count++
			}
		}
		return count == n
	})
}

// Waiters get their turn in order of arrival over all processes.
func TestOrderOverProcesses(t *testing.T) {
	t.Parallel()
	const n = 6
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	var children []*child
	for i := range n {
		c := start(t, "wait", s.Dir(), nil)
		c.expect("waits")
		children = append(children, c)
		standsAt(t, s, i+1)
	}
	release(t, s, "job", "us", driver.OutcomeReleased)
	last := uint64(0)
	for i, c := range children {
		fence := fenceOf(t, c.expect("fence"))
		safety.Rises(t, fence, last, "waiter", i)
		if waiting := s.waitingAt(pathOf(s, "job")); waiting != n-1-i {
			t.Errorf("waiter %d has the lock, and %d wait", i, waiting)
		}
		last = fence
		c.end()
	}
}

// A waiter that dies in the queue is skipped at once.
func TestDeadWaiterIsSkipped(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	var dead []*child
	for i := range 3 {
		c := start(t, "wait", s.Dir(), nil)
		c.expect("waits")
		dead = append(dead, c)
		waitingIs(t, s, i+1)
	}
	other := open(t, s.Dir())
	w := wait(t, other, request("job", "them"))
	waitingIs(t, s, 4)
	for _, c := range dead {
		c.kill()
	}
	waitingIs(t, s, 1)
	release(t, s, "job", "us", driver.OutcomeReleased)
	w.get(t)
	release(t, other, "job", "them", driver.OutcomeReleased)
	other.Close()
}

func TestHolderAndFirstWaiterAreKilled(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	holder := start(t, "hold", s.Dir(), nil)
	holder.expect("fence")
	first := start(t, "wait", s.Dir(), nil)
	first.expect("waits")
	waitingIs(t, s, 1)
	w := wait(t, s, request("job", "us"))
	waitingIs(t, s, 2)
	first.kill()
	holder.kill()
	w.get(t)
}

// A child that got the file closes it after the parent's release.
func TestWaiterOfAPassedLock(t *testing.T) {
	t.Parallel()
	for _, readers := range []bool{false, true} {
		s := open(t, t.TempDir())
		r := request("job", "us")
		r.Shared = readers
		take(t, s, r)
		file, err := s.File("job", "us")
		if err != nil {
			t.Fatal(err)
		}
		first := start(t, "wait", s.Dir(), nil)
		first.expect("waits")
		waitingIs(t, s, 1)
		second := open(t, s.Dir())
		w := wait(t, second, request("job", "them"))
		waitingIs(t, s, 2)
		first.kill()
		release(t, s, "job", "us", driver.OutcomeInherited)
		file.Close()
		w.get(t)
	}
}

func (c *child) signal(sig syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Fatal(err)
	}
}

// stopped starts a process that waits for "job", and stops it.
func stopped(t testing.TB, s *Store) *child {
	t.Helper()
	c := start(t, "wait", s.Dir(), nil)
	c.expect("waits")
	waitingIs(t, s, 1)
	c.signal(syscall.SIGSTOP)
	// A thread that is in a system call, such as flock, stops only at its end. So every thread must
	// have stopped: otherwise the process could still get the lock that is released next.
	eventually(t, "all its threads are stopped", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.cmd.Process.Pid))
		if err != nil || len(threads) == 0 {
			return false
		}
		return !slices.ContainsFunc(threads, func(file string) bool {
			stat, err := os.ReadFile(file)
			return err != nil || !strings.Contains(string(stat), ") T ")
		})
	})
	return c
}

// If the process of the first waiter is stopped, the second waiter gets the lock. The stopped
// process gets it later.
func TestStoppedWaiterIsPassedOver(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	c := stopped(t, s)
	other := open(t, s.Dir())
	w := wait(t, other, request("job", "them"))
	waitingIs(t, s, 2)
	release(t, s, "job", "us", driver.OutcomeReleased)
	g := w.get(t)
	take(t, other, request("job", "them")) // claims it
	c.signal(syscall.SIGCONT)
	waitingIs(t, s, 1)
	release(t, other, "job", "them", driver.OutcomeReleased)
	safety.Rises(t, fenceOf(t, c.expect("fence")), g.Fence)
	c.end()
}

// reopened opens the lock file of "job" once more.
func reopened(t testing.TB, s *Store) *conn {
	t.Helper()
	c, err := s.openPath(pathOf(s, "job"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// A newcomer gives a free lock back while others stand in the queue, but not for ever: they may be
// stopped. It does not let those go first that poll, because they do not come at once.
func TestNewcomerLetsWaitersGoFirst(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	writer := func(c *conn) { c.markQueued(false) }
	reader := func(c *conn) { c.markQueued(true) }
	for i, test := range []struct {
		waits  func(*conn)
		reads  bool // the newcomer is a reader
		yields int
	}{
		{writer, false, maxGaveBack}, {reader, false, maxGaveBack}, {writer, true, maxGaveBack}, {reader, true, 0},
		{(*conn).markPolling, false, 0}, {(*conn).markPolling, true, 0},
	} {
		waiter, c := reopened(t, s), reopened(t, s)
		test.waits(waiter)
		var m manners
		n := 0
		for ; n < 10; n++ {
			if err := c.tryLock(test.reads); err != nil {
				t.Fatal(err)
			}
			if no := s.yield(c, test.reads, &m); no == nil {
				break
			} else if !no.queued {
				t.Errorf("row %d: %+v", i, no)
			}
			c.unlock()
		}
		if n != test.yields {
			t.Errorf("row %d: it gave the lock back %d times", i, n)
		}
		c.unlock()
		waiter.unmark()
	}
	take(t, s, request("job", "us"))
	c := stopped(t, s)
	release(t, s, "job", "us", driver.OutcomeReleased)
	take(t, s, request("job", "newcomer"))
	c.kill()
}

// A caller that has just released the lock and asks again does not even try at once while others
// stand in the queue: the first of them wakes up now.
func TestReleaserLetsTheFirstWakeUp(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	reopened(t, s).markQueued(false)
	f, err := s.beginCall(background, "job")
	if err != nil {
		t.Fatal(err)
	}
	defer s.endCall(f)
	r := request("job", "us")
	began := time.Now()
	_, err = s.try(background, f, &r, &manners{gaveBack: maxGaveBack}) // it takes the lock at its first try
	if waited := time.Since(began); err != nil || waited < recordPause {
		t.Errorf("%v after %v", err, waited)
	}
}

// A reader does not join other readers while a writer waits.
func TestReaderBehindAWriter(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, shared("job", "us"))
	other := open(t, s.Dir())
	writer := wait(t, other, request("job", "w"))
	waitingIs(t, s, 1)
	if h := refused(t, s, shared("job", "newcomer")); h.Waiters != 1 || len(h.Holds) != 1 || h.Holds[0].Label != "us" {
		t.Errorf("%+v", h)
	}
	reader := wait(t, open(t, s.Dir()), shared("job", "r"))
	release(t, s, "job", "us", driver.OutcomeReleased)
	w := writer.get(t)
	release(t, other, "job", "w", driver.OutcomeReleased)
	safety.Rises(t, reader.get(t).Fence, w.Fence)
}

// A wait that is cancelled leaves nothing behind.
func TestCancelledWaitLeavesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	file := foreign(t, s, "job", syscall.LOCK_EX)
	first, second := open(t, s.Dir()), open(t, s.Dir())
	ctx, cancel := context.WithCancel(patience(t))
	a := waitOn(ctx, first, request("job", "first"), true)
	waitingIs(t, s, 1)
	b := wait(t, second, request("job", "second"))
	waitingIs(t, s, 2)
	cancel()
	if <-a.grant; !errors.Is(<-a.err, context.Canceled) {
		t.Error("the wait ended otherwise")
	}
	waitingIs(t, s, 1)
	file.Close()
	b.get(t)
	release(t, second, "job", "second", driver.OutcomeReleased)
	waitingIs(t, s, 0)
	first.Close()
	second.Close()
	entries, err := os.ReadDir(s.Dir())
	if err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return !strings.HasPrefix(e.Name(), namePrefix) }) {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// Open decides whether waiters stand in the kernel's queue.
func TestOrderIsDecidedAtOpen(t *testing.T) {
	t.Parallel()
	if s := open(t, t.TempDir()); !s.Guarantees().FIFO {
		t.Error("not in order on a local disk")
	}
	s := open(t, t.TempDir(), AllowNetwork())
	if s.Guarantees().FIFO || s.waitingAt(pathOf(s, "job")) != -1 {
		t.Error("in order on a network file system")
	}
	take(t, s, request("job", "us"))
	w := wait(t, s, request("job", "them"))
	eventually(t, "it waits", func() bool { return s.waiters("job") == 1 })
	release(t, s, "job", "us", driver.OutcomeReleased)
	w.get(t)
}

// Waiters that gave up do not get the lock any more, not even for an instant. So no try of another
// program is refused.
func TestCancelledWaitersRefuseNobody(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	file := foreign(t, s, "job", syscall.LOCK_EX)
	ctx, cancel := context.WithCancel(patience(t))
	var waits []*waiting
	for i := range 20 {
		waits = append(waits, waitOn(ctx, open(t, s.Dir()), request("job", "them"), true))
		waitingIs(t, s, i+1)
	}
	cancel()
	for _, w := range waits {
		if <-w.grant; !errors.Is(<-w.err, context.Canceled) {
			t.Error("the wait ended otherwise")
		}
	}
	unlockFile(t, file) // a child that is being started may have a copy of the descriptor
	for range 1000 {
		unlockFile(t, foreign(t, s, "job", syscall.LOCK_EX))
	}
}

// The kernel grants the lock just before Close. The wait ends with ErrClosed, and no file stays
// open.
func TestCloseWhenTheLockIsGranted(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	file := foreign(t, s, "job", syscall.LOCK_EX)
	w := wait(t, s, request("job", "us"))
	s.waits(t, "job")
	f, err := s.enter("job")
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	eventually(t, "the kernel grants the lock", func() bool { return !inKernelQueue(t, s, "job") })
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	<-s.done
	s.endCall(f)
	if <-w.grant; !errors.Is(<-w.err, driver.ErrClosed) || <-closed != nil {
		t.Error("the wait ended otherwise")
	}
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		if target, _ := os.Readlink(fd); target == pathOf(s, "job") {
			t.Error("the file stays open")
		}
	}
}
