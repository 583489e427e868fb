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
	if doesNotRun(cmd.Process.Pid) {
		t.Error("the process does not run before the stop")
	}
	StopProcess(t, cmd.Process.Pid)
	if !doesNotRun(cmd.Process.Pid) {
		t.Error("the process runs after the stop")
	}
}
