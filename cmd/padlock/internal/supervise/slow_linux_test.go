package supervise_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/cmd/padlock/internal/job"
	"github.com/padlock-go/padlock/cmd/padlock/internal/supervise"
	"github.com/padlock-go/padlock/internal/server"
)

// slowSpec is a job whose program makes the file "ran", and stays if STAY is set. Its execution does
// not get on until the test lets it.
func slowSpec(t *testing.T) (*server.SlowProgram, supervise.Spec) {
	t.Helper()
	t.Chdir(t.TempDir())
	slow, err := server.NewSlowProgram("slow", []byte("#!/bin/sh\n: >ran\n[ -z \"$STAY\" ] || exec sleep 60\n"))
	if err != nil {
		t.Fatal(err)
	}
	return slow, supervise.Spec{Title: "slow", Path: "./slow", Args: []string{"slow"}, Env: os.Environ(), Signal: syscall.SIGTERM, Grace: patience, Lease: lasts(time.Hour)}
}

// startSlow returns when the program of a job is being executed.
func startSlow(t *testing.T, change func(*supervise.Spec)) (*server.SlowProgram, *supervise.Process) {
	t.Helper()
	slow, spec := slowSpec(t)
	if change != nil {
		change(&spec)
	}
	p, err := supervise.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "it is being executed", slow.Begun)
	return slow, p
}

// neverRan lets the execution go on, and checks that it was over before.
func neverRan(t *testing.T, slow *server.SlowProgram) {
	t.Helper()
	if err := slow.Go(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("ran"); err == nil {
		t.Error("the program ran")
	}
}

// What ends a job also ends one whose program is still being executed.
func TestEndedDuringTheExec(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*supervise.Process)
		want syscall.Signal
	}{
		"the lease ends":    {func(p *supervise.Process) { p.Lease(time.Millisecond) }, syscall.SIGTERM},
		"the lease is over": {func(p *supervise.Process) { p.Lease(-time.Hour) }, syscall.SIGTERM},
		"killed":            {(*supervise.Process).Kill, syscall.SIGKILL},
		"asked to end":      {func(p *supervise.Process) { p.End(patience) }, syscall.SIGTERM},
		"a signal":          {func(p *supervise.Process) { p.Signal(syscall.SIGINT) }, syscall.SIGINT},
		"a signal for it":   {func(p *supervise.Process) { p.SignalCommand(syscall.SIGUSR1) }, syscall.SIGUSR1},
	} {
		for _, leave := range []bool{false, true} {
			t.Run(fmt.Sprint(name, leave), func(t *testing.T) {
				slow, p := startSlow(t, func(s *supervise.Spec) { s.Leave = leave })
				c.end(p)
				await(t, p.Gone(), "it has ended")
				if got := p.Exit().Signal; got != c.want && got != syscall.SIGKILL {
					t.Errorf("ended by %v, want %v", got, c.want)
				}
				neverRan(t, slow)
			})
		}
	}
}

// The process that shall become the command was stopped.
func TestStoppedBeforeTheExec(t *testing.T) {
	slow, p := startSlow(t, nil)
	rest := p.Rest()
	if len(rest) != 1 {
		t.Fatalf("%v are being started", rest)
	}
	child := rest[0]
	if err := syscall.Kill(child, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped(t, child)
	p.Lease(time.Millisecond)
	await(t, p.Gone(), "it has ended")
	neverRan(t, slow)
}

// A stop waits until the command runs, because only then it is reported.
func TestStopDuringTheExec(t *testing.T) {
	t.Setenv("STAY", "yes")
	slow, p := startSlow(t, nil)
	p.Signal(syscall.SIGTSTP)
	p.Continue()
	until(t, "the supervisor has read both", func() bool { return supervise.Woken(p) })
	if err := errors.Join(slow.Go(), <-p.Started()); err != nil {
		t.Fatal(err)
	}
	select {
	case sig := <-p.Stopped():
		if sig != syscall.SIGTSTP {
			t.Errorf("stopped by %v", sig)
		}
	case <-time.After(patience):
		t.Fatal("nobody said that it stopped")
	}
	p.Kill()
	await(t, p.Gone(), "it has ended")
}

// A slow exec may last, if the lease is renewed. The supervisor reads so many messages meanwhile that
// its runtime would collect garbage, and wait for the thread that executes the program.
func TestRenewedDuringTheExec(t *testing.T) {
	slow, p := startSlow(t, func(s *supervise.Spec) { s.Grace = time.Second })
	for range 100_000 {
		p.Lease(time.Hour)
	}
	p.Lease(time.Millisecond)
	await(t, p.Low(), "it read all messages")
	await(t, p.Gone(), "it has ended")
	neverRan(t, slow)

	slow, p = startSlow(t, nil)
	p.Lease(time.Hour)
	if err := errors.Join(slow.Go(), <-p.Started()); err != nil {
		t.Fatal(err)
	}
	await(t, p.Gone(), "it has ended")
	if _, err := os.Stat("ran"); err != nil || p.Exit().Status() != 0 {
		t.Errorf("status %d, %v", p.Exit().Status(), err)
	}
}

// The lease ended while the supervisor was being started.
func TestLeaseOverBeforeTheStart(t *testing.T) {
	slow, spec := slowSpec(t)
	defer slow.Go()
	spec.Lease = lasts(0)
	p, err := supervise.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-p.Started(); !errors.Is(err, job.ErrKilled) || open(p.Low()) {
		t.Errorf("%v, low %v", err, !open(p.Low()))
	}
	await(t, p.Gone(), "nothing is left")
	if slow.Begun() {
		t.Error("the program was executed")
	}
}

// The lease of a job counts from when the supervisor is there, and not from before.
func TestLeaseIsThatOfTheStart(t *testing.T) {
	supervisors := 0
	err := refused(t, supervise.Spec{Title: "mine", Path: "/", Args: []string{"/"}, Lease: func() time.Duration {
		children, _ := exec.Command("ps", "-o", "args=", "--ppid", strconv.Itoa(os.Getpid())).Output()
		supervisors = strings.Count(string(children), " supervise mine")
		return supervise.Forever
	}})
	if supervisors != 1 {
		t.Errorf("%d supervisors ran when the lease was asked for (%v)", supervisors, err)
	}
}

// The front is killed while its job is being executed. The file that carries its lock is closed when
// the job is over.
func TestFrontKilledDuringTheExec(t *testing.T) {
	slow, _ := slowSpec(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	front := exec.Command(self)
	front.Env, front.ExtraFiles = append(os.Environ(), "FRONT_OF=./slow"), []*os.File{w}
	if err := errors.Join(front.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = front.Wait() }()
	until(t, "it is being executed", slow.Begun)
	if err := front.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.ReadAll(r)
	}()
	await(t, closed, "the job is over")
	neverRan(t, slow)
}
