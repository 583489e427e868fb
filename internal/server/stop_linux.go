package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// StopProcess stops a process with SIGSTOP, and returns when all of its threads have stopped. On a
// busy machine a thread may run on for some time after the signal was sent.
func StopProcess(t testing.TB, pid int) {
	t.Helper()
	err := signal(pid, syscall.SIGSTOP)
	if err == nil {
		err = awaitNone("stop", func() (int, error) { return runningThreads(pid) })
	}
	if err != nil {
		t.Fatalf("stopping process %d: %v", pid, err)
	}
}

// runningThreads returns how many threads of a process are not stopped.
func runningThreads(pid int) (running int, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if st, ok := parseStat(data); err == nil && ok && strings.IndexByte("TtZX", st.state) < 0 {
			running++
		}
	}
	return running, err
}
