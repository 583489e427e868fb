package limits

import (
	"os"
	"runtime"
	"testing"
)

func TestKeepThreads(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	if err := KeepThreads(20); err != nil {
		t.Fatal(err)
	}
	if n := threads(t); n < 20 {
		t.Errorf("there are %d threads", n)
	}
	if got := runtime.GOMAXPROCS(0); got > processors {
		t.Errorf("GOMAXPROCS is %d", got)
	}
}

// Near the limit each thread is tried first.
func TestStartNearTheLimit(t *testing.T) {
	if err := start(3, true, func() {}); err != nil {
		t.Error(err)
	}
	if err := ProbeThreads(3); err != nil {
		t.Error(err)
	}
	if err := Descriptors(3); err != nil {
		t.Error(err)
	}
}

func threads(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("threads are counted on Linux")
	}
	all, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
