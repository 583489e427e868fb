package limits

import (
	"os"
	"runtime"
	"testing"
)

func TestKeepThreads(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	runtime.GOMAXPROCS(1)
	FewThreads()
	KeepThreads(20)
	if n := threads(t); n < 20+spare {
		t.Errorf("there are %d threads", n)
	}
	if got := runtime.GOMAXPROCS(0); got != processors {
		t.Errorf("GOMAXPROCS is %d", got)
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
