package etcdstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// childAt is the environment variable with the address of the server, for a process that takes part
// in a test. If the variable childWaits is set, the process waits for the name.
const (
	childAt    = "PADLOCK_TEST_ETCD"
	childWaits = "PADLOCK_TEST_ETCD_WAITS"
)

func TestMain(m *testing.M) {
	if at := os.Getenv(childAt); at != "" {
		child(at)
		return
	}
	os.Exit(m.Run())
}

// child takes the name "job" for 8 s, which is long enough for a busy machine, and extends the hold
// until it is lost. If childWaits is set, it waits for the name instead, and prints whether it got
// the name.
func child(at string) {
	ctx := context.Background()
	s, err := open(ctx, at)
	if err == nil && os.Getenv(childWaits) != "" {
		g, err := s.(driver.Waiter).Wait(ctx, request("job", "child"), true)
		fmt.Println("waited", g.TTL > 0, err)
		return
	}
	r := request("job", "child")
	r.TTL = 8 * time.Second
	if err == nil {
		_, err = s.Acquire(ctx, r)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held")
	tick := time.NewTicker(300 * time.Millisecond)
	for range tick.C {
		_, err := s.Extend(ctx, r.Name, r.Token.Text(), r.TTL)
		if errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrExpired) {
			o, err := s.Release(ctx, r.Name, r.Token.Text(), 0)
			fmt.Println("lost", o, err)
			return
		}
	}
}

// startChild starts a process that runs child, and returns its output.
func startChild(t *testing.T, env ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}

// TestStoppedClient is T-E1: a process is stopped for longer than its lease. The name goes to the
// next holder, with a greater fence. The stopped process notices that, and does not touch the next
// hold.
func TestStoppedClient(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	cmd, lines := startChild(t, childAt+"="+srv.Addr())
	if !lines.Scan() || lines.Text() != "held" {
		t.Fatalf("the child says %q", lines.Text())
	}
	s := mustOpen(t, []string{srv.Addr()})
	_, err := s.Acquire(t.Context(), request("job", "early"))
	if !errors.Is(err, driver.ErrHeld) {
		t.Fatalf("Acquire while the child holds the name: %v", err)
	}
	server.StopProcess(t, cmd.Process.Pid)
	next := waitSoon(t, s, "job")
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != "lost taken <nil>" {
		t.Errorf("the child says %q", lines.Text())
	}
	if _, err := s.Extend(t.Context(), "job", next, 0); err != nil {
		t.Errorf("the next hold after the stopped process continued: %v", err)
	}
}
