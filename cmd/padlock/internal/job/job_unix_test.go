//go:build unix

package job_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/cmd/padlock/internal/job"
)

const patience = 20 * time.Second

func start(t *testing.T, leave bool, args ...string) *job.Job {
	t.Helper()
	path, err := exec.LookPath(args[0])
	if err != nil {
		t.Fatal(err)
	}
	j := job.Start(job.Spec{Path: path, Args: args, Env: os.Environ(), Leave: leave})
	await(t, j.Started(), "it runs")
	if err := j.Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Kill)
	return j
}

func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("after %v still not: %s", patience, what)
	}
}

func TestExit(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 42": 42, "kill -TERM $$": 143, "kill -KILL $$": 137} {
		j := start(t, false, "sh", "-c", script)
		await(t, j.Done(), script)
		if got := j.Exit().Status(); got != want {
			t.Errorf("%s: status %d, want %d", script, got, want)
		}
		j.EndRest(syscall.SIGTERM, nil)
		await(t, j.Gone(), "nothing is left of "+script)
	}
}

func TestStoppedAndContinued(t *testing.T) {
	j := start(t, true, "sh", "-c", "kill -STOP $$; exit 3")
	select {
	case sig := <-j.Stopped():
		if sig != syscall.SIGSTOP {
			t.Errorf("stopped by %v", sig)
		}
	case <-time.After(patience):
		t.Fatal("nobody said that it stopped")
	}
	j.Continue()
	await(t, j.Done(), "it goes on")
	if got := j.Exit().Status(); got != 3 {
		t.Errorf("status %d, want 3", got)
	}
}

// The name of a process may look like the fields that follow it in /proc.
func TestRestSeesOddNames(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(t.TempDir(), "a) Z 1 (b")
	if err := os.Symlink(sleep, odd); err != nil {
		t.Fatal(err)
	}
	j := start(t, false, odd, "60")
	if rest := j.Rest(); !slices.Contains(rest, j.Group()) && !slices.Contains(rest, -j.Group()) {
		t.Errorf("%v does not have the command, %d", rest, j.Group())
	}
	j.Kill()
	await(t, j.Done(), "the command is killed")
	j.EndRest(syscall.SIGTERM, nil)
	await(t, j.Gone(), "nothing is left")
	if rest := j.Rest(); len(rest) > 0 {
		t.Errorf("%v are left", rest)
	}
}

// After Kill, leftover processes are killed too, without a polite signal first.
func TestKillGoesOn(t *testing.T) {
	j := start(t, false, "sh", "-c", `trap "" TERM; (while :; do sleep 60; done) & (while :; do sleep 60; done) & wait`)
	j.Kill()
	await(t, j.Done(), "the command is killed")
	j.EndRest(syscall.SIGTERM, nil)
	await(t, j.Gone(), "nothing is left")
}

// After a command was reaped, another process may get its number. So padlock sends no more signals
// to that number or to its group.
func TestNoSignalAfterTheEnd(t *testing.T) {
	j := start(t, false, "sh", "-c", "setsid sleep 60 & exit 0")
	await(t, j.Done(), "the command has ended")
	job.Listen(j, func(pid int) {
		if pid == j.Group() || pid == -j.Group() && runtime.GOOS == "linux" {
			t.Errorf("a signal was sent to %d", pid)
		}
	})
	j.Signal(syscall.SIGTERM)
	j.SignalCommand(syscall.SIGUSR1)
	j.Continue()
	j.Kill()
	j.EndRest(syscall.SIGTERM, nil)
	await(t, j.Gone(), "nothing is left")
}
