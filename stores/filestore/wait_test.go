//go:build linux

package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

// waiting is a Wait that is under way.
type waiting struct {
	grant chan driver.Grant
	err   chan error
}

// wait begins to wait, with a reservation.
func wait(t testing.TB, s *Store, r driver.Request) *waiting {
	t.Helper()
	return waitOn(patience(t), s, r, true)
}

func waitOn(ctx context.Context, s *Store, r driver.Request, reserve bool) *waiting {
	w := &waiting{make(chan driver.Grant, 1), make(chan error, 1)}
	go func() {
		g, err := s.Wait(ctx, r, reserve)
		w.grant <- g
		w.err <- err
	}()
	return w
}

func (w *waiting) get(t testing.TB) driver.Grant {
	t.Helper()
	g, err := <-w.grant, <-w.err
	if err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return g
}

// waits returns when a waiter for the name stands in the kernel's queue.
func (s *Store) waits(t testing.TB, name string) {
	t.Helper()
	eventually(t, "somebody waits for "+name, func() bool { return inKernelQueue(t, s, name) })
}

// A release in another process wakes the waiter.
func TestReleaseWakesOtherProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := open(t, dir)
	for _, give := range []func(*Store){
		func(s *Store) { release(t, s, "job", "us", driver.OutcomeReleased) },
		func(s *Store) { s.Close() },
	} {
		s := open(t, dir)
		take(t, s, request("job", "us"))
		w := wait(t, other, request("job", "them"))
		other.waits(t, "job")
		give(s)
		g := w.get(t)
		if g.Fence == 0 || g.TTL <= 0 || g.TTL > driver.MaxReservation {
			t.Fatalf("handed over: %+v", g)
		}
		if again := take(t, other, request("job", "them")); again.Fence != g.Fence || again.TTL != 0 {
			t.Errorf("the claim of %+v gives %+v", g, again)
		}
		release(t, other, "job", "them", driver.OutcomeReleased)
	}
}

// A foreign program that unlocks or closes the file wakes the waiter. If it removes the file, the
// waiter notices that after pathLook.
func TestForeignReleaseIsFound(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	for what, give := range map[string]func(*os.File) error{
		"closed":   (*os.File).Close,
		"unlocked": func(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) },
		"removed": func(f *os.File) error {
			return errors.Join(os.Remove(f.Name()), syscall.Flock(int(f.Fd()), syscall.LOCK_UN))
		},
	} {
		file := foreign(t, s, "job", syscall.LOCK_EX)
		w := wait(t, s, request("job", "us"))
		s.waits(t, "job")
		if err := give(file); err != nil {
			t.Fatal(err)
		}
		if g := w.get(t); g.Fence == 0 {
			t.Errorf("%s: nothing was handed over", what)
		}
		release(t, s, "job", "us", driver.OutcomeReleased)
	}
}

// foreign takes a lock as other programs do.
func foreign(t testing.TB, s *Store, name string, how int) *os.File {
	t.Helper()
	file, err := os.OpenFile(pathOf(s, name), os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	return file
}

// The test is not parallel, because it counts the threads of this process.
func TestThousandWaitersOfOneName(t *testing.T) {
	const n = 1000
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	threads := threadCount(t)
	var all sync.WaitGroup
	ctx := patience(t)
	var inside int // guarded by the lock itself
	for i := range n {
		token := fmt.Sprint("waiter ", i)
		all.Go(func() {
			g, err := s.Wait(ctx, request("job", token), true)
			if err != nil || g.Fence == 0 {
				t.Errorf("%+v, %v", g, err)
				return
			}
			inside++
			if inside != 1 {
				t.Errorf("%d are inside", inside)
			}
			inside--
			if _, err := s.Release(ctx, "job", token, 0); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "all wait", func() bool { return s.waiters("job") == n })
	if more := threadCount(t) - threads; more > n/5 { // maxBlocked; and a busy machine interrupts system calls, and each of those keeps a thread
		t.Errorf("%d waiters need %d threads more", n, more)
	}
	release(t, s, "job", "us", driver.OutcomeReleased)
	all.Wait()
}

// waiters returns how many waiters for the name this store has.
func (s *Store) waiters(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[name]
	if f == nil {
		return 0
	}
	return f.pins
}

func threadCount(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// A thousand waiters wait for a thousand names. The store keeps fewer spare descriptors than that.
func TestThousandWaitersOfAThousandNames(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	const n = 1000
	s := open(t, t.TempDir())
	other := open(t, s.Dir())
	for i := range n {
		take(t, other, request(fmt.Sprint(i), "them"))
	}
	var all sync.WaitGroup
	ctx := patience(t)
	for i := range n {
		all.Go(func() {
			g, err := s.Wait(ctx, request(fmt.Sprint(i), "us"), true)
			if err != nil || g.Fence == 0 {
				t.Errorf("%d: %+v, %v", i, g, err)
			}
		})
	}
	for i := range n {
		eventually(t, "it waits", func() bool { return s.waiters(fmt.Sprint(i)) == 1 })
	}
	for i := range n {
		release(t, other, fmt.Sprint(i), "them", driver.OutcomeReleased)
	}
	all.Wait()
}

// If reserve is false, Wait takes nothing.
func TestWaitAside(t *testing.T) {
	t.Parallel()
	for _, narrow := range []bool{false, true} { // the waiter looks into the list of locks, or tries the lock
		s := open(t, t.TempDir())
		s.seen.narrow = narrow
		other := open(t, s.Dir())
		take(t, other, request("job", "them"))
		var all []*waiting
		for i := range 5 {
			r := request("job", fmt.Sprint(i))
			r.Shared = i%2 == 1
			all = append(all, waitOn(patience(t), s, r, false))
		}
		eventually(t, "all wait", func() bool { return s.waiters("job") == len(all) })
		release(t, other, "job", "them", driver.OutcomeReleased)
		for _, w := range all {
			if g := w.get(t); g != (driver.Grant{}) {
				t.Errorf("handed over: %+v", g)
			}
		}
		take(t, other, request("job", "next")) // nobody has the lock
	}
}

// A reader that wants to be promoted waits until the other readers are gone.
func TestWaitForPromotion(t *testing.T) {
	t.Parallel()
	for _, narrow := range []bool{false, true} {
		s := open(t, t.TempDir())
		s.seen.narrow = narrow
		other := open(t, s.Dir())
		take(t, s, shared("job", "us"))
		take(t, other, shared("job", "reader"))
		if _, err := promote(s, "job", "us"); !errors.Is(err, driver.ErrHeld) {
			t.Fatal(err)
		}
		w := waitOn(patience(t), s, request("job", "us"), false)
		eventually(t, "it waits", func() bool { return narrow || s.waiters("job") == 1 })
		if !narrow && len(w.err) > 0 {
			t.Error("woken while another reads")
		}
		release(t, other, "job", "reader", driver.OutcomeReleased)
		w.get(t)
		ctx := patience(t)
		_, err := promote(s, "job", "us")
		for errors.Is(err, driver.ErrHeld) { // the kernel's list may show a lock twice while other tests lock
			waitOn(ctx, s, request("job", "us"), false).get(t)
			_, err = promote(s, "job", "us")
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func TestCoolDownEndsAWait(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	before := time.Now()
	if _, err := s.Release(patience(t), "job", "us", 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	wait(t, s, request("job", "next")).get(t)
	if d := time.Since(before); d < 300*time.Millisecond {
		t.Errorf("a cool-down of 300 ms ended after %v", d)
	}
}

// The waiters poll, as on other systems.
func TestWaitByPolling(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	s.guarantees.FIFO = false
	other := open(t, s.Dir())
	take(t, other, request("job", "them"))
	w := wait(t, s, request("job", "us"))
	eventually(t, "it waits", func() bool { return s.waiters("job") == 1 })
	release(t, other, "job", "them", driver.OutcomeReleased)
	if g := w.get(t); g.Fence == 0 {
		t.Error("nothing was handed over")
	}
}

// lapsing is a clock whose timers of reservations fire when a test calls their functions.
type lapsing struct {
	driver.Clock
	lapse chan func()
}

func (c lapsing) AfterFunc(d time.Duration, f func()) func() bool {
	if d != driver.MaxReservation {
		return c.Clock.AfterFunc(d, f)
	}
	c.lapse <- f
	return func() bool { return true }
}

func TestUnclaimedReservationLapses(t *testing.T) {
	t.Parallel()
	clock := lapsing{driver.SystemClock(), make(chan func(), 1)}
	s := open(t, t.TempDir(), WithClock(clock))
	r := request("job", "us")
	g, err := s.Wait(patience(t), r, true)
	if err != nil || g.Fence == 0 {
		t.Fatal(g, err)
	}
	lost(t, s, "job", "us")
	refused(t, s, request("job", "next"))
	(<-clock.lapse)()
	safety.Rises(t, wait(t, s, request("job", "next")).get(t).Fence, g.Fence)
	release(t, s, "job", "us", driver.OutcomeGone)
}

func TestCloseEndsWaits(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	other := open(t, s.Dir())
	take(t, other, request("job", "them"))
	a := wait(t, s, request("job", "one"))
	b := wait(t, s, request("job", "two"))
	waitingIs(t, s, 2)
	s.Close()
	for _, w := range []*waiting{a, b} {
		if <-w.grant; !errors.Is(<-w.err, driver.ErrClosed) {
			t.Error("the wait ended otherwise")
		}
	}
}
