//go:build !mips && !mipsle && !mips64 && !mips64le

package filestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/padlock-go/padlock/driver"
)

func init() { scripts["use signal 63"] = useLeaveSignal }

// useLeaveSignal waits for "job" and then does what a program may do with signals. After that the
// wait must end when it is cancelled, even if the signal is ignored.
func useLeaveSignal(dir string) error {
	s, err := Open(dir, calm)
	if err != nil {
		return err
	}
	got := make(chan os.Signal, 1)
	for i, use := range []func(){
		func() { signal.Notify(got, syscall.Signal(leaveSignal)) },
		func() { signal.Reset() },
		func() { signal.Ignore(syscall.Signal(leaveSignal)) },
	} {
		ctx, cancel := context.WithCancel(background)
		w := waitOn(ctx, s, request("job", "child"), true)
		fmt.Println("waits")
		bufio.NewReader(os.Stdin).ReadLine()
		use()
		cancel()
		if <-w.grant; !errors.Is(<-w.err, context.Canceled) {
			return errors.New("the wait ended otherwise")
		}
		if i == 0 {
			<-got // signal.Notify shows it
		}
		fmt.Println("cancelled")
	}
	w := waitOn(background, s, request("job", "child"), true)
	fmt.Println("polls")
	if <-w.grant; <-w.err != nil {
		return errors.New("no grant")
	}
	fmt.Println("granted")
	pause()
	return s.Close()
}

// A wait can be cancelled whatever the program does with the signal. While the program ignores the
// signal, waiters poll.
func TestProgramUsesLeaveSignal(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	c := start(t, "use signal 63", s.Dir(), nil)
	for range 3 {
		c.expect("waits")
		waitingIs(t, s, 1)
		s.waits(t, "job")
		fmt.Fprintln(c.in)
		c.expect("cancelled")
	}
	c.expect("polls")
	release(t, s, "job", "us", driver.OutcomeReleased)
	c.expect("granted")
	c.end()
}

// The signal ends a wait even if the program was started with that signal blocked.
func TestSignalIsBlockedInTheThread(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	foreign(t, s, "job", syscall.LOCK_EX)
	c, err := s.openPath(pathOf(s, "job"))
	if err != nil {
		t.Fatal(err)
	}
	b := &blocked{over: make(chan error, 1)}
	blockedThreads.Add(1)
	go func() {
		runtime.LockOSThread() // for ever, so the thread ends with this goroutine
		set := uint64(1) << (leaveSignal - 1)
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 0, uintptr(unsafe.Pointer(&set)), 0, setSize, 0, 0)
		b.lock(c, false)
	}()
	s.waits(t, "job")
	b.leave(c)
}

// A waiter that finds no thread gets one in turn, and the waiter that left its thread gets one again.
func TestThreadsInTurn(t *testing.T) {
	blockedThreads.Add(maxBlocked - 1)
	defer blockedThreads.Add(1 - maxBlocked)
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	take(t, other, request("stuck", "them"))
	take(t, other, request("hot", "them"))
	first := wait(t, s, request("stuck", "us"))
	s.waits(t, "stuck")
	second := wait(t, s, request("hot", "us"))
	s.waits(t, "hot")
	s.waits(t, "stuck")
	release(t, other, "hot", "them", driver.OutcomeReleased)
	second.get(t)
	release(t, other, "stuck", "them", driver.OutcomeReleased)
	first.get(t)
}
