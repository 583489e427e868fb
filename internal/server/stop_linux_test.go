package server

import (
	"os/exec"
	"testing"
)

// StopProcess returns when no thread of the process runs any more.
func TestStopProcess(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if n, err := runningThreads(cmd.Process.Pid); n == 0 || err != nil {
		t.Errorf("%d threads run before the stop: %v", n, err)
	}
	StopProcess(t, cmd.Process.Pid)
	if n, err := runningThreads(cmd.Process.Pid); n != 0 || err != nil {
		t.Errorf("%d threads run after the stop: %v", n, err)
	}
}
