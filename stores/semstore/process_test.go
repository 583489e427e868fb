//go:build linux

package semstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

func TestKillFreesAtOnce(t *testing.T) {
	s, c, name := open(t, MD5), goChild(t), unique(t, "")
	c.want("acquire", name, "<nil>")
	if held := refused(t, s, request(name, "us")); held.Holds[0].PID != c.cmd.Process.Pid || held.Foreign() {
		t.Errorf("the child is process %d; held by %+v", c.cmd.Process.Pid, held.Holds)
	}
	c.kill()
	take(t, s, request(name, "us"))
}

// A waiter in the kernel gets the lock when the holder is killed. The holder took the lock at once
// in one case, and after a wait in the other.
func TestKillWakesAWaiter(t *testing.T) {
	for _, command := range []string{"acquire", "wait"} {
		s, c, name := open(t, MD5), goChild(t), unique(t, command)
		c.want(command, name, "<nil>")
		c.want("acquire", name, "<nil>")
		got := waiting(patience(t), s, request(name, "us"))
		waits(t, s, name, 1)
		c.kill()
		if g, err := got(); err != nil || g.TTL == 0 {
			t.Errorf("%s: %+v, %v", command, g, err)
		}
	}
}

// A child of the holder does not inherit the hold. If the holder is killed, the lock becomes free,
// even if the child is alive.
func TestChildrenInheritNothing(t *testing.T) {
	s, c, name := open(t, MD5), goChild(t), unique(t, "")
	c.want("acquire", name, "<nil>")
	c.want("sleeper", name, "<nil>")
	refused(t, s, request(name, "us"))
	c.kill()
	take(t, s, request(name, "us"))
}

// The kernel reverses the operations when the whole process ends. So a hold stays when the thread
// that took it ends, and another thread can give it back.
func TestHoldOutlivesItsThread(t *testing.T) {
	s, name := open(t, MD5), unique(t, "")
	var thread int
	onAThreadThatEnds(func() {
		thread = threadID()
		if _, err := s.Acquire(patience(t), request(name, "us")); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the thread ends", func() bool {
		return syscall.Tgkill(syscall.Getpid(), thread, 0) == syscall.ESRCH
	})
	if _, err := s.Extend(patience(t), name, "us", 0); err != nil {
		t.Error(err)
	}
	refused(t, open(t, MD5), request(name, "other"))
	release(t, s, name, "us", driver.OutcomeReleased)
}

// onAThreadThatEnds calls f on a thread that ends afterwards. The first thread of a process never
// ends, so it is kept busy meanwhile.
func onAThreadThatEnds(f func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // without unlocking, so that the thread ends with the goroutine
		if threadID() == syscall.Getpid() {
			onAThreadThatEnds(f)
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-ended
}

// Every release removes the semaphore under all waiters. 20 stores, ten of them in processes of
// their own, wait for one name. They get the lock one after the other, and never two at once.
func TestStormOfRemovals(t *testing.T) {
	name := unique(t, "")
	file := filepath.Join(t.TempDir(), "held")
	var all sync.WaitGroup
	for range 10 {
		s, c := open(t, MD5), goChild(t)
		c.send("storm", name+"\n"+file)
		all.Go(func() { c.expect("<nil>") })
		all.Go(func() {
			if err := storm(s, name, file); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestCancelledWaitLeavesNothing(t *testing.T) {
	s, other, name := open(t, MD5), open(t, MD5), unique(t, "")
	take(t, s, request(name, "us"))
	ctx, cancel := context.WithCancel(patience(t))
	got := waiting(ctx, other, request(name, "them"))
	waits(t, s, name, 1)
	cancel()
	if _, err := got(); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	waits(t, s, name, 0)
	set, err := find(MD5.key(name), false)
	if err != nil {
		t.Fatal(err)
	}
	if users, err := value(set, semUsers); users != 1+padlockMark {
		t.Errorf("the semaphore has %d users (%v), want the holder only", users, err)
	}
}

// Waiters give up at any moment, even just after a release removed the semaphore and they made a
// new one. When all waiters have given up, no semaphore remains.
func TestCancelledWaitsLeaveNoSemaphore(t *testing.T) {
	name := unique(t, "")
	rounds := 200
	if server.IsThorough() {
		rounds = 1000
	}
	var all sync.WaitGroup
	for i := range 8 {
		s := open(t, MD5)
		all.Go(func() {
			for j := range rounds {
				r := request(name, fmt.Sprint(i, " ", j))
				ctx, cancel := context.WithTimeout(context.Background(), rand.N(300*time.Microsecond))
				if _, err := s.Wait(ctx, r, true); err == nil {
					s.Release(context.Background(), name, r.Token.Text(), 0)
				}
				cancel()
			}
		})
	}
	all.Wait()
	eventually(t, "no semaphore is left", func() bool { // a reservation that lapsed is just being given back
		_, err := find(MD5.key(name), false)
		return err == errRemoved
	})
}

// Processes that open, await, take and give back locks are killed at any moment. The semaphores
// that they leave are free at once, and the next release removes them.
func TestKilledAtAnyMoment(t *testing.T) {
	server.Thorough(t)
	names := []string{unique(t, "a"), unique(t, "b")}
	var all sync.WaitGroup
	for range 40 {
		c := goChild(t)
		all.Go(func() {
			c.send("mill", strings.Join(names, "\n"))
			c.expect("milling")
			<-time.After(rand.N(30 * time.Millisecond))
			c.kill()
		})
	}
	all.Wait()
	s := open(t, MD5)
	for _, name := range names {
		if set, err := find(MD5.key(name), false); err == nil {
			held, err1 := isHeld(set)
			guard, err2 := value(set, semGuard)
			users, err3 := value(set, semUsers)
			if held || guard != 0 || users != 0 || errors.Join(err1, err2, err3) != nil {
				t.Errorf("left by killed processes: held %v, guard %d, users %d", held, guard, users)
			}
		}
		take(t, s, request(name, "us"))
		release(t, s, name, "us", driver.OutcomeReleased)
		if set, err := find(MD5.key(name), false); err != errRemoved {
			t.Errorf("semaphore %d is left after a release (%v)", set, err)
		}
	}
}

func TestCloseEndsWaits(t *testing.T) {
	s, other, name := open(t, MD5), open(t, MD5), unique(t, "")
	take(t, s, request(name, "us"))
	got := waiting(patience(t), other, request(name, "them"))
	waits(t, s, name, 1)
	other.Close()
	if _, err := got(); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("Wait: %v", err)
	}
}

// An administrator removes the semaphore (ipcrm). The holder learns that its hold is lost, and its
// release does not touch the semaphore that another process made after that.
func TestRemovedByForce(t *testing.T) {
	s, other, name := open(t, MD5), open(t, MD5), unique(t, "")
	take(t, s, request(name, "us"))
	set, err := find(MD5.key(name), false)
	if err == nil {
		err = remove(set)
	}
	if err != nil {
		t.Fatal(err)
	}
	take(t, other, request(name, "next"))
	if _, err := s.Extend(patience(t), name, "us", 0); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Extend: %v", err)
	}
	release(t, s, name, "us", driver.OutcomeGone)
	refused(t, s, request(name, "third"))
}

// Somebody frees the lock without removing the semaphore, and another process takes it. When the
// first holder ends, the kernel must not free the lock again.
func TestFreedByForce(t *testing.T) {
	s, name := open(t, MD5), unique(t, "")
	c, next := goChild(t), goChild(t)
	c.want("acquire", name, "<nil>")
	set, err := find(MD5.key(name), false)
	if err == nil {
		err = operate(set, 0, operation{semLock, 1, 0})
	}
	if err != nil {
		t.Fatal(err)
	}
	next.want("acquire", name, "<nil>")
	c.want("release", name, "<nil>") // the store notices that the hold is lost
	c.kill()
	refused(t, s, request(name, "us"))
}

// A process stops while it opens the semaphore. A try returns an error that says so. A waiter goes
// on waiting.
func TestStuckGuard(t *testing.T) {
	s, name := open(t, MD5), unique(t, "")
	set, err := find(MD5.key(name), true)
	if err != nil {
		t.Fatal(err)
	}
	defer remove(set)
	if err := operate(set, 0, operation{semGuard, 1, flagNoWait}, operation{semUsers, 1, flagNoWait}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(patience(t))
	got := waiting(ctx, s, request(name, "waiter"))
	if _, err := s.Acquire(patience(t), request(name, "us")); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "process") {
		t.Errorf("Acquire: %v", err)
	}
	if err := errors.Join(setValue(set, semLock, 1), setValue(set, semGuard, 0)); err != nil {
		t.Fatal(err)
	}
	if g, err := got(); err != nil || g.TTL == 0 {
		t.Errorf("Wait: %+v, %v", g, err)
	}
	cancel()
}

// Two names have one key: they exclude each other, and the error says why.
func TestCollidingNames(t *testing.T) {
	s, name := open(t, MD5), unique(t, "")
	s.config.key = func(string) int32 { return MD5.key(name) }
	take(t, s, request("a", "us"))
	if _, err := s.Acquire(patience(t), request("b", "us")); !errors.Is(err, driver.ErrHeld) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("Acquire: %v", err)
	}
	s.config.key = func(string) int32 { return 0 }
	if _, err := s.Acquire(patience(t), request("c", "us")); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Acquire of a name whose key is 0: %v", err)
	}
}

// As in PHP, a lock that was given back leaves no semaphore.
func TestReleaseRemovesTheSemaphore(t *testing.T) {
	s, name := open(t, MD5), unique(t, "")
	take(t, s, request(name, "us"))
	release(t, s, name, "us", driver.OutcomeReleased)
	if set, err := find(MD5.key(name), false); err != errRemoved {
		t.Errorf("there still is semaphore %d (%v)", set, err)
	}
}

// A semaphore that another user made cannot be removed. Then only its lock is given back.
func TestSemaphoreOfAnotherUser(t *testing.T) {
	s, name := open(t, MD5), unique(t, "")
	set, err := s.join(MD5.key(name), 0, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(takeLock(set), putBack(set)); err != nil {
		t.Fatal(err)
	}
	if users, err := value(set, semUsers); users != 0 || err != nil {
		t.Errorf("%d users are left (%v)", users, err)
	}
	take(t, s, request(name, "us"))
}

// A reservation that nobody claims is given back.
func TestReservationEnds(t *testing.T) {
	s, name := open(t, MD5), unique(t, "")
	for late := true; late; {
		g, err := s.Wait(patience(t), request(name, "us"), true)
		if err != nil || g.TTL == 0 || g.TTL > driver.MaxReservation {
			t.Fatalf("Wait: %+v, %v", g, err)
		}
		_, err = s.Acquire(patience(t), request(name, "early"))
		if late = err == nil && lapsed(g); late {
			release(t, s, name, "early", driver.OutcomeReleased)
		} else if !errors.Is(err, driver.ErrHeld) {
			t.Fatalf("Acquire of a name that is reserved: %v", err)
		}
	}
	eventually(t, "the reservation ends", func() bool {
		_, err := s.Acquire(patience(t), request(name, "other"))
		return err == nil
	})
	if _, err := s.Acquire(patience(t), request(name, "us")); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("Acquire with the token of the reservation: %v", err)
	}
}

func TestInspectKnowsOwnHoldsAndWaiters(t *testing.T) {
	s, name := open(t, MD5), unique(t, "")
	r := request(name, "us")
	r.Holder.Plan = time.Hour
	take(t, s, r)
	got := waiting(patience(t), s, request(name, "waiter"))
	waits(t, s, name, 1)
	state, err := s.Inspect(patience(t), name)
	if err != nil || len(state.Holds) != 1 || state.Holds[0].Label != "us" || state.Holds[0].PlannedEnd.IsZero() || state.Waiters != 1 {
		t.Errorf("Inspect: %+v, %v", state, err)
	}
	release(t, s, name, "us", driver.OutcomeReleased)
	got()
}
