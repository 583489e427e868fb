package advisory_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// The environment of a child process that takes part in a test.
const (
	childURL    = "PADLOCK_TEST_URL"
	childSystem = "PADLOCK_TEST_SYSTEM"
	childName   = "PADLOCK_TEST_NAME"
	childMode   = "PADLOCK_TEST_MODE" // hold or wait
)

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		child()
	}
	os.Exit(server.Main(m))
}

// child takes or awaits a name and says so. If it loses the lock, it says that too.
func child() {
	ctx, sys, r := context.Background(), mariadb, request(os.Getenv(childName))
	if os.Getenv(childSystem) == postgres.name {
		sys = postgres
	}
	s, err := sys.open(ctx, os.Getenv(childURL), sys.short)
	var g driver.Grant
	if err == nil && os.Getenv(childMode) == "hold" {
		g, err = s.Acquire(ctx, r)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	if os.Getenv(childMode) == "wait" {
		s.Wait(ctx, r, true)
	} else {
		<-g.Bound.Done()
		fmt.Println("lost")
	}
	select {}
}

// A helper is a child process.
type helper struct {
	t       *testing.T
	out     *bufio.Reader
	process *os.Process
}

// startChild returns when the child is ready.
func startChild(t *testing.T, sys *system, mode, url, name string) *helper {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"="+mode, childURL+"="+url, childSystem+"="+sys.name, childName+"="+name)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	h := &helper{t, bufio.NewReader(out), cmd.Process}
	h.says("ready")
	return h
}

// says waits for a line of the child.
func (h *helper) says(want string) {
	h.t.Helper()
	if line, err := h.out.ReadString('\n'); strings.TrimSpace(line) != want {
		h.t.Fatalf("the child says %q, %v; want %q", line, err, want)
	}
}
