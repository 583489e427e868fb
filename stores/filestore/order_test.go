//go:build linux

package filestore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// waitingIs returns when n waiters are in the queue for "job".
func waitingIs(t testing.TB, s *Store, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " wait"), func() bool { return s.waitingAt(pathOf(s, "job")) == n })
}

// deaf opens a store whose waiters look at the lock only when they are woken.
func deaf(t testing.TB, dir string, opts ...Option) *Store {
	t.Helper()
	s := open(t, dir, opts...)
	s.config.firstLook, s.config.slowLook = time.Hour, time.Hour
	return s
}

// watches reports whether the store gets notices about files from the kernel.
func (s *Store) watches() bool {
	s.notify.mu.Lock()
	defer s.notify.mu.Unlock()
	return s.notify.file != nil
}

// lookCount counts the looks of all waiters of all stores.
func lookCount(stores []*Store) (n int) {
	for _, s := range stores {
		n += int(s.looks.Load())
	}
	return n
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
		waitingIs(t, s, i+1)
	}
	release(t, s, "job", "us", driver.OutcomeReleased)
	last := uint64(0)
	for i, c := range children {
		fence := fenceOf(t, c.expect("fence"))
		if fence <= last || s.waitingAt(pathOf(s, "job")) != n-1-i {
			t.Errorf("SAFETY: waiter %d has fence %d after %d, and %d wait", i, fence, last, s.waitingAt(pathOf(s, "job")))
		}
		last = fence
		c.end()
	}
	if entries, err := os.ReadDir(filepath.Join(s.Dir(), waitersDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// A release wakes one waiter, and only the first of all watches the file.
func TestReleaseWakesOne(t *testing.T) {
	t.Parallel()
	const n = 20
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	var stores []*Store
	var waits []*waiting
	for i := range n {
		stores = append(stores, deaf(t, s.Dir()))
		waits = append(waits, wait(t, stores[i], request("job", "them")))
		waitingIs(t, s, i+1)
	}
	// A waiter is in the queue before it looks at the lock, and the first one watches the file
	// after its look.
	eventually(t, "all have looked, and the first watches the file", func() bool {
		return stores[0].watches() && !slices.ContainsFunc(stores, func(s *Store) bool { return s.looks.Load() == 0 })
	})
	watching := 0
	for _, other := range stores {
		if other.watches() {
			watching++
		}
	}
	if watching != 1 {
		t.Errorf("%d of %d watch the file", watching, n)
	}
	looks := lookCount(stores)
	release(t, s, "job", "us", driver.OutcomeReleased)
	last := uint64(0)
	for i, w := range waits {
		if g := w.get(t); g.Fence <= last {
			t.Errorf("waiter %d got %d after %d", i, g.Fence, last)
		} else {
			last = g.Fence
		}
		release(t, stores[i], "job", "them", driver.OutcomeReleased)
	}
	if more := lookCount(stores) - looks; more > n+2 { // the first waiter may be woken twice, because it also watches the file
		t.Errorf("%d hand-overs took %d looks", n, more)
	}
}

// A waiter that dies in the queue is skipped at once. Its ticket and its pipe are removed.
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
	other := deaf(t, s.Dir())
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
	if entries, err := os.ReadDir(filepath.Join(s.Dir(), waitersDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// A holder that is killed wakes nobody. The first waiter notices by itself that the lock is free.
// If the first waiter is killed, too, the second one notices it.
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

// A child that got the file closes it after the parent's release, and wakes nobody. So the parent's
// release tells the first waiter to watch the file.
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
		second := deaf(t, s.Dir())
		w := wait(t, second, request("job", "them"))
		waitingIs(t, s, 2)
		first.kill()
		looks := second.looks.Load()
		release(t, s, "job", "us", driver.OutcomeInherited)
		eventually(t, "the second looks", func() bool { return second.looks.Load() > looks })
		second.waits(t, "job") // and watches the file
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
	other.config.headPatience = headPatience
	w := wait(t, other, request("job", "them"))
	waitingIs(t, s, 2)
	before := time.Now()
	release(t, s, "job", "us", driver.OutcomeReleased)
	g := w.get(t)
	if d := time.Since(before); d < headPatience {
		t.Errorf("the first of the queue was passed over after %v", d)
	}
	take(t, other, request("job", "them")) // claims it
	c.signal(syscall.SIGCONT)
	waitingIs(t, s, 1)
	release(t, other, "job", "them", driver.OutcomeReleased)
	if fence := fenceOf(t, c.expect("fence")); fence <= g.Fence {
		t.Errorf("SAFETY: fences went from %d to %d", g.Fence, fence)
	}
	c.end()
}

// A newcomer is refused while a waiter is about to get the lock. After headPatience, a waiter that
// did not take the lock no longer counts.
func TestNewcomerRespectsTheQueue(t *testing.T) {
	t.Parallel()
	for _, readers := range []bool{false, true} {
		s := open(t, t.TempDir())
		take(t, s, request("job", "us"))
		c := stopped(t, s)
		r := request("job", "newcomer")
		r.Shared = readers
		release(t, s, "job", "us", driver.OutcomeReleased)
		if h := refused(t, s, r); h.Waiters != 1 || len(h.Holds) != 0 {
			t.Errorf("readers %v: %+v", readers, h)
		}
		s.config.headPatience = 0
		take(t, s, r)
		release(t, s, "job", "newcomer", driver.OutcomeReleased)
		c.kill()
	}
}

// A newcomer gets the lock only after a waiter that is already in the queue.
func TestNewcomerAfterAWait(t *testing.T) {
	t.Parallel()
	s, other := open(t, t.TempDir()), (*Store)(nil)
	other = open(t, s.Dir())
	take(t, s, request("job", "us"))
	w := wait(t, other, request("job", "them"))
	waitingIs(t, s, 1)
	release(t, s, "job", "us", driver.OutcomeReleased)
	refused(t, s, request("job", "newcomer")) // "them" still waits, or has a reservation
	w.get(t)
	release(t, other, "job", "them", driver.OutcomeReleased)
	take(t, s, request("job", "newcomer"))
}

// A reader that gets the lock wakes the next reader in the queue, up to the first writer.
func TestReadersComeTogether(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	var stores []*Store
	var waits []*waiting
	for i, r := range []driver.Request{
		shared("job", "r1"), shared("job", "r2"), shared("job", "r3"), request("job", "w"), shared("job", "r4"), shared("job", "r5"),
	} {
		stores = append(stores, deaf(t, s.Dir()))
		waits = append(waits, wait(t, stores[i], r))
		waitingIs(t, s, i+1)
	}
	claim := func(from, to int, tokens ...string) {
		t.Helper()
		for i := from; i < to; i++ {
			waits[i].get(t)
			r := request("job", tokens[i-from])
			r.Shared = tokens[i-from] != "w"
			take(t, stores[i], r)
		}
		waitingIs(t, s, len(waits)-to)
	}
	release(t, s, "job", "us", driver.OutcomeReleased)
	claim(0, 3, "r1", "r2", "r3")
	h := refused(t, s, shared("job", "newcomer"))
	labels := map[string]int{}
	for _, held := range h.Holds {
		labels[held.Label]++
	}
	if want := map[string]int{"r1": 1, "r2": 1, "r3": 1}; h.Waiters != 3 || !maps.Equal(labels, want) {
		t.Errorf("a newcomer while there are readers and a waiting writer: %+v", h)
	}
	for i, token := range []string{"r1", "r2", "r3"} {
		release(t, stores[i], "job", token, driver.OutcomeReleased)
	}
	claim(3, 4, "w")
	release(t, stores[3], "job", "w", driver.OutcomeReleased)
	claim(4, 6, "r4", "r5")
}

// A wait that is cancelled leaves no ticket and no pipe. If it was the first in the queue, the next
// waiter is woken, because the lock may be free already.
func TestCancelledWaitLeavesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	file := foreign(t, s, "job", syscall.LOCK_EX)
	first, second := open(t, s.Dir()), deaf(t, s.Dir())
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
	eventually(t, "the second watches", second.watches) // it was woken and is now the first in the queue
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

// Another program cuts the file short while a process waits. The waiter soon has a place in the
// queue again.
func TestQueueIsCutOff(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	other := open(t, s.Dir())
	w := wait(t, other, request("job", "them"))
	waitingIs(t, s, 1)
	if err := os.Truncate(pathOf(s, "job"), 0); err != nil {
		t.Fatal(err)
	}
	waitingIs(t, s, 1)
	release(t, s, "job", "us", driver.OutcomeReleased)
	w.get(t)
}

// In a directory with the sticky bit, the pipe of another user's dead process cannot be removed.
// Its waiter is skipped.
func TestDeadWaiterOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("to be two users takes root")
	}
	dir := worldReadable(t)
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, AllowWorld())
	take(t, s, request("job", "us"))
	dead := start(t, "wait in a world", dir, nil)
	dead.expect("waits")
	waitingIs(t, s, 1)
	living := start(t, "wait in a world", dir, asNobody)
	living.expect("waits")
	waitingIs(t, s, 2)
	dead.kill()
	waitingIs(t, s, 1)
	release(t, s, "job", "us", driver.OutcomeReleased)
	living.expect("fence")
	living.end()
}

// A waiter with the previous padlock sets the file's size to show that it waits, and watches the
// file. A holder with the previous padlock touches the file when it releases the lock.
func TestPreviousPadlockIsWoken(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	other := open(t, s.Dir()) // the store of a waiter with a ticket
	w := wait(t, other, request("job", "them"))
	waitingIs(t, s, 1)
	c, err := openConn(pathOf(s, "job"), private)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	var n notifier
	t.Cleanup(n.close)
	f := &file{}
	old := newWaiter(true)
	f.queue.join(old)
	if !n.watch(f, c) || !markWaited(c) {
		t.Fatal("it cannot watch")
	}
	release(t, s, "job", "us", driver.OutcomeReleased)
	w.get(t)
	eventually(t, "the old one is woken", func() bool { return n.notices.Load() > 0 && len(old.wake) > 0 })

	take(t, other, request("job", "them"))
	late := deaf(t, s.Dir())
	w = wait(t, late, request("job", "late"))
	late.waits(t, "job")
	f2, err := other.enter("job")
	if err != nil {
		t.Fatal(err)
	}
	f2.holds[0].conn.unlock() // like a padlock that does not know the queue
	wakeOthers(f2.holds[0].conn)
	f2.mu.Unlock()
	w.get(t)
}

// Open decides whether waiters get the lock in order. That depends on the system and on the file
// system.
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
	s.waits(t, "job")
	if _, err := os.Stat(filepath.Join(s.Dir(), waitersDir)); err == nil {
		t.Error("it has tickets all the same")
	}
	release(t, s, "job", "us", driver.OutcomeReleased)
	w.get(t)
}

// A waiter that only wants to know when to try (reserve is false) does not spin while another
// waiter is first in the queue.
func TestAsideBesideAQueue(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	c := stopped(t, s)
	release(t, s, "job", "us", driver.OutcomeReleased)
	ctx, cancel := context.WithTimeout(patience(t), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Wait(ctx, request("job", "aside"), false); err == nil {
		t.Error("told to try while another is about to get it")
	}
	w := waitOn(patience(t), s, request("job", "again"), false)
	c.kill()
	w.get(t)
}
