//go:build linux

package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
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

// waits returns when the store has looked at the name and waits for a wake-up.
func (s *Store) waits(t testing.TB, name string) {
	t.Helper()
	eventually(t, "somebody waits for "+name, func() bool {
		st, err := os.Stat(pathOf(s, name))
		return err == nil && st.Size() == sizeWaited
	})
}

// A release in another process wakes the waiter long before it would have looked without a wake-up.
func TestReleaseWakesOtherProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := open(t, dir)
	other.config.firstLook, other.config.slowLook = time.Hour, time.Hour // this store does not look without a wake-up
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

// countLooks returns a function. That function returns how many wake-ups the kernel has given to
// the store since the call of countLooks.
func countLooks(s *Store) func() int64 {
	before := s.notify.notices.Load()
	return func() int64 { return s.notify.notices.Load() - before }
}

// A foreign program that closes the file wakes the waiter. If it only unlocks the file, the waiter
// notices that at its next look.
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

// Closing the file wakes the waiters, so that they need not poll for other programs.
func TestForeignCloseIsHeard(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	foreign(t, s, "job", syscall.LOCK_EX)
	ctx, cancel := context.WithCancel(patience(t))
	w := waitOn(ctx, s, request("job", "us"), true)
	s.waits(t, "job")
	for _, flags := range []int{os.O_RDONLY, os.O_WRONLY} {
		looks := countLooks(s)
		file, err := os.OpenFile(pathOf(s, "job"), flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
		eventually(t, "the store gets a notice", func() bool { return looks() > 0 })
	}
	cancel()
	if <-w.grant; !errors.Is(<-w.err, context.Canceled) {
		t.Error("the wait ended otherwise")
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
	if more := threadCount(t) - threads; more > n/10 { // a busy machine interrupts system calls, and each of those keeps a thread
		t.Errorf("%d waiters need %d threads more", n, more)
	}
	looks := countLooks(s)
	release(t, s, "job", "us", driver.OutcomeReleased)
	all.Wait()
	if l := looks(); l > 4*n {
		t.Errorf("%d hand-overs took %d wake-ups by the kernel", n, l)
	}
}

// waiters returns how many waiters for the name this store has.
func (s *Store) waiters(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[name]
	if f == nil {
		return 0
	}
	f.queue.mu.Lock()
	defer f.queue.mu.Unlock()
	return len(f.queue.line) + len(f.queue.aside)
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
// One goroutine receives the kernel's notices.
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
		s.waits(t, fmt.Sprint(i))
	}
	for i := range n {
		release(t, other, fmt.Sprint(i), "them", driver.OutcomeReleased)
	}
	all.Wait()
}

// A look at the lock wakes no waiter. So the waiters do not keep each other awake.
func TestWaitersRest(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]Option{nil, {MaxOpen(0)}} {
		s := open(t, t.TempDir(), opts...)
		other := open(t, s.Dir(), opts...)
		r := request("cooling", "them")
		take(t, other, r)
		if _, err := other.Release(patience(t), "cooling", "them", time.Minute); err != nil {
			t.Fatal(err)
		}
		take(t, other, request("held", "them"))
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		looks := countLooks(s)
		a := waitOn(ctx, s, request("cooling", "us"), true)
		b := waitOn(ctx, s, request("held", "us"), true)
		for _, w := range []*waiting{a, b} {
			if <-w.grant; !errors.Is(<-w.err, context.DeadlineExceeded) {
				t.Error("the wait ended otherwise")
			}
		}
		if l := looks(); l > 10 {
			t.Errorf("%d wake-ups for nothing", l)
		}
	}
}

// A waiter that becomes the first in line looks at the lock from then on.
func TestNextInLine(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	file := foreign(t, s, "job", syscall.LOCK_EX)
	ctx, cancel := context.WithCancel(patience(t))
	first := waitOn(ctx, s, request("job", "first"), true)
	s.waits(t, "job")
	second := wait(t, s, request("job", "second"))
	eventually(t, "both wait", func() bool { return s.waiters("job") == 2 })
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_UN); err != nil { // which wakes nobody
		t.Fatal(err)
	}
	cancel()
	<-first.err
	if g := <-first.grant; g.Fence != 0 {
		release(t, s, "job", "first", driver.OutcomeReleased) // it got the lock before the cancel
	}
	if g := second.get(t); g.Fence == 0 {
		t.Error("nothing was handed over")
	}
}

func TestQueue(t *testing.T) {
	var q queue
	a, p, b := newWaiter(false), newWaiter(true), newWaiter(false)
	told := func(want ...*waiter) {
		t.Helper()
		for name, w := range map[string]*waiter{"a": a, "p": p, "b": b} {
			is := len(w.wake) > 0
			if is {
				<-w.wake
			}
			if is != slices.Contains(want, w) {
				t.Errorf("%s was woken: %v", name, is)
			}
		}
	}
	for _, w := range []*waiter{p, a, b} {
		q.join(w)
	}
	q.wake()
	q.wake()
	told(a, p)
	if !q.mayLook(a) || !q.mayLook(p) || q.mayLook(b) {
		t.Error("it is a's turn, and p's as always, not b's")
	}
	q.leaveQueue(p)
	told()
	q.leaveQueue(a)
	told(b)
	if !q.mayLook(b) {
		t.Error("it is b's turn")
	}
	q.leaveQueue(b)
	told()
	if q.len() != 0 {
		t.Error("somebody is left")
	}
}

// If reserve is false, Wait takes nothing, and all waiters of this kind are woken.
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
		s.waits(t, "job")
		if !narrow && len(w.err) > 0 {
			t.Error("woken while another reads")
		}
		release(t, other, "job", "reader", driver.OutcomeReleased)
		w.get(t)
		if _, err := promote(s, "job", "us"); err != nil {
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

// The waiters poll because there is no inotify, as on other systems or when the limit of
// descriptors is reached.
func TestWaitByPolling(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	s.notify.closed = true
	other := open(t, s.Dir())
	take(t, other, request("job", "them"))
	w := wait(t, s, request("job", "us"))
	eventually(t, "it waits", func() bool { return s.waiters("job") == 1 })
	release(t, other, "job", "them", driver.OutcomeReleased)
	if g := w.get(t); g.Fence == 0 {
		t.Error("nothing was handed over")
	}
}

func TestPaceOfPolling(t *testing.T) {
	for _, told := range []bool{true, false} {
		p := pacer{first: firstLook, slow: slowLook}
		for range 20 {
			d := p.nextPause(lookResult{refusal: &refusal{}, subscribed: told})
			if d < time.Millisecond || d > slowLook*3/2+1 || !told && d > pollLook*3/2+1 {
				t.Errorf("told %v: a look after %v", told, d)
			}
		}
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
	if n := wait(t, s, request("job", "next")).get(t); n.Fence <= g.Fence {
		t.Errorf("SAFETY: fences went from %d to %d", g.Fence, n.Fence)
	}
	release(t, s, "job", "us", driver.OutcomeGone)
}

func TestCloseEndsWaits(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	other := open(t, s.Dir())
	take(t, other, request("job", "them"))
	a := wait(t, s, request("job", "one"))
	b := wait(t, s, request("job", "two"))
	s.waits(t, "job")
	s.Close()
	for _, w := range []*waiting{a, b} {
		if <-w.grant; !errors.Is(<-w.err, driver.ErrClosed) {
			t.Error("the wait ended otherwise")
		}
	}
}
