package pgadvisory_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// The environment of a child process that takes part in a test.
const (
	childURL  = "PADLOCK_TEST_URL"
	childMode = "PADLOCK_TEST_MODE" // hold or wait
)

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		child()
	}
	os.Exit(server.Main(m))
}

// child takes the name "job" or waits for it, prints a line about that, and then does nothing.
func child() {
	ctx := context.Background()
	s, err := open(ctx, os.Getenv(childURL))
	if err == nil && os.Getenv(childMode) == "hold" {
		_, err = s.Acquire(ctx, request("job"))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	if os.Getenv(childMode) == "wait" {
		s.(driver.Waiter).Wait(ctx, request("job"), true)
	}
	select {}
}

// startChild returns when the child is ready.
func startChild(t *testing.T, mode, url string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"="+mode, childURL+"="+url)
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
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	return cmd
}
