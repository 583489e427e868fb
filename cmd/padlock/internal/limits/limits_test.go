package limits

import (
	"errors"
	"os"
	"runtime"
	"testing"
)

func TestKeepThreads(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	if err := errors.Join(Prepare(3), KeepThreads(20)); err != nil {
		t.Fatal(err)
	}
	if n := threads(t); n < 20 {
		t.Errorf("there are %d threads", n)
	}
	if got := runtime.GOMAXPROCS(0); got > processors {
		t.Errorf("GOMAXPROCS is %d", got)
	}
}

func TestRoom(t *testing.T) {
	if err := errors.Join(Room(1), Descriptors(3)); err != nil {
		t.Error(err)
	}
	if err := Room(1 << 40); runtime.GOOS == "linux" && os.Getuid() != 0 && !errors.Is(err, ErrThreads) {
		t.Errorf("any number of threads: %v", err)
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
