package server

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// helper is the environment variable that makes TestHelper start a server, print its pid and wait
// to be killed.
const helper = "PADLOCK_SERVER_HELPER"

func TestHelper(t *testing.T) {
	var s *Server
	switch os.Getenv(helper) {
	case "redis":
		s = Redis(t, RedisOptions{})
	case "postgres":
		s = Postgres(t, PostgresOptions{})
	default:
		return // only TestServerDiesWithItsTest sets this variable
	}
	os.Stdout.WriteString("pid " + strconv.Itoa(s.Pid()) + "\n")
	select {}
}

func TestServerDiesWithItsTest(t *testing.T) {
	for _, kind := range []string{"redis", "postgres"} {
		t.Run(kind, func(t *testing.T) { diesWithItsTest(t, kind) })
	}
}

func diesWithItsTest(t *testing.T, kind string) {
	tmp := t.TempDir()
	if err := os.Chmod(tmp, 0o755); err != nil { // PostgreSQL runs as another user
		t.Fatal(err)
	}
	if err := os.Chmod(tmp+"/..", 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelper$", "-test.v")
	cmd.Env = append(os.Environ(), helper+"="+kind, "TMPDIR="+tmp)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	pid := readPid(t, bufio.NewScanner(out))
	family := tree(pid)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the error says that the process was killed, as intended
	for _, p := range family {
		awaitEnd(t, p)
	}
}

func readPid(t *testing.T, lines *bufio.Scanner) int {
	t.Helper()
	said := ""
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "pid "); ok {
			pid, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
		said += lines.Text() + "\n"
	}
	if strings.Contains(said, "--- SKIP") {
		t.Skip("the server is not installed:\n" + said)
	}
	t.Fatalf("the helper has not said a pid:\n%s", said)
	return 0
}

// awaitEnd waits until a process is dead.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !dead(pid) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("process %d has outlived its test by a minute", pid)
		}
	}
}

// When a goroutine that is locked to a thread ends, the thread ends too. The kernel then kills the
// processes that this thread started, if they have a parent-death signal.
func TestServerOutlivesTheThreadOfItsStart(t *testing.T) {
	var s *Server
	awaitEnd(t, <-onDyingThread(func() { s = Redis(t, RedisOptions{}) }))
	if s == nil {
		return // it was skipped or failed on the other thread
	}
	want(t, say(t, s, "PING"), "+PONG")
	if s.proc.hasEnded() {
		t.Error("the server has ended with the thread")
	}
}

// onDyingThread runs f on a thread that ends after f, and returns the id of the thread. The first
// thread of a process never ends. So if onDyingThread gets the first thread, it keeps that thread
// busy and uses another one.
func onDyingThread(f func()) <-chan int {
	thread := make(chan int, 1)
	go func() {
		runtime.LockOSThread()
		if syscall.Gettid() == os.Getpid() {
			thread <- <-onDyingThread(f)
			return
		}
		defer func() { thread <- syscall.Gettid() }() // even if f ends the test
		f()
	}()
	return thread
}
