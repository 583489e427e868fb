package filestore

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/padlock-go/padlock/internal/server"
)

// A line that two reads show is one exclusive lock. Two equal lines of readers are two locks.
func TestLinesThatAreReadTwice(t *testing.T) {
	text := []byte("1: FLOCK  ADVISORY  WRITE 77 fe:00:12 0 EOF\n2: FLOCK  ADVISORY  WRITE 77 fe:00:12 0 EOF\n" +
		"3: FLOCK  ADVISORY  READ 77 fe:00:13 0 EOF\n4: FLOCK  ADVISORY  READ 77 fe:00:13 0 EOF\n")
	locks := parseLocks(text, "fe:00", 0)
	if len(locks[12]) != 1 || len(locks[13]) != 2 {
		t.Errorf("the locks are %v", locks)
	}
}

// TestManyWaitersInTheList: in the kernel's list, a lock for which many wait is one long piece, and
// the part before it is short. A lock behind it is shown all the same.
func TestManyWaitersInTheList(t *testing.T) {
	s := open(t, t.TempDir())
	onOneProcessor(t) // each processor has a list of its own, in which the last lock is the first
	lock := func(name string) *os.File {
		f, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		return f
	}
	take(t, s, request("job", "us"))
	long := lock("long")
	defer lock("first").Close()
	const waiters = 2 * page / 50 // a line has more than 50 bytes
	var wg sync.WaitGroup
	defer wg.Wait()
	defer long.Close()
	for range waiters {
		f, err := os.Open(long.Name())
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer f.Close()
			_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		})
	}
	server.Eventually(t, func() error {
		text, err := os.ReadFile("/proc/locks")
		if n := bytes.Count(text, []byte("->")); n < waiters {
			return fmt.Errorf("%d wait", n)
		}
		return err
	})
	if holds := inspect(t, s, "job").Holds; len(holds) != 1 {
		t.Errorf("held by %+v", holds)
	}
	if states, err := s.List(t.Context(), ""); err != nil || len(states) != 1 {
		t.Errorf("List: %+v, %v", states, err)
	}
}

// onOneProcessor keeps the calling goroutine on one processor until the test ends.
func onOneProcessor(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	set := func(number uintptr, mask *[128]byte) {
		if _, _, err := syscall.RawSyscall(number, 0, unsafe.Sizeof(*mask), uintptr(unsafe.Pointer(mask))); err != 0 {
			t.Fatal(err)
		}
	}
	var all, one [128]byte
	set(syscall.SYS_SCHED_GETAFFINITY, &all)
	first := slices.IndexFunc(all[:], func(b byte) bool { return b != 0 })
	one[first] = all[first] & -all[first]
	set(syscall.SYS_SCHED_SETAFFINITY, &one)
	t.Cleanup(func() {
		set(syscall.SYS_SCHED_SETAFFINITY, &all)
		runtime.UnlockOSThread()
	})
}

// The file that is locked for a trial has no name, so a process that is killed leaves nothing behind.
func TestNoFileIsLeftBehind(t *testing.T) {
	dir := t.TempDir()
	f, err := makeUnnamed(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("the directory has %v, %v", files, err)
	}
}

// The kernel's list is longer than a page, and locks of other files come and go. A reader may be
// missing from one text of the list, or appear twice in it. Inspect and List show each reader once.
func TestLongList(t *testing.T) {
	server.Thorough(t)
	s := open(t, t.TempDir())
	const readers = 100
	for i := range readers {
		take(t, s, shared("job", fmt.Sprint("r", i)))
	}
	for i := range 70 {
		take(t, s, request(fmt.Sprint("other", i), "us"))
	}
	locksComeAndGo(t)
	inOneRound(t, func() error { return looksAtLongList(t, s, readers) })
}

// inOneRound calls round five times and for 20 seconds at most. It fails if round always returns an
// error.
func inOneRound(t *testing.T, round func() error) {
	t.Helper()
	var err error
	begun := time.Now()
	for i := 0; i < 5 || i < 20 && time.Since(begun) < 20*time.Second; i++ {
		if err = round(); err == nil {
			return
		}
		t.Log(err)
	}
	t.Error("all rounds failed, the last one: ", err)
}

func looksAtLongList(t *testing.T, s *Store, readers int) error {
	wrong, once := 0, 0 // wrong looks, and wrong texts if only one is read
	for range 60 {
		text, _, err := readLocks(0)
		if err != nil {
			t.Fatal(err)
		}
		if !showsFileWith(parseLocks(text, s.seen.device, 0), readers) {
			once++
		}
		if n := len(inspect(t, s, "job").Holds); n != readers {
			t.Logf("Inspect shows %d readers", n)
			wrong++
		}
		states, err := s.List(patience(t), "job")
		if err != nil || len(states) != 1 {
			t.Fatalf("List: %+v, %v", states, err)
		}
		if n := len(states[0].Holds); n != readers {
			t.Logf("List shows %d readers", n)
			wrong++
		}
	}
	// Other programs on the machine may add locks that come and go. So the looks are compared with
	// single texts.
	if wrong > once+2 {
		return fmt.Errorf("%d of 120 looks were wrong, and %d of 60 texts", wrong, once)
	}
	return nil
}

// showsFileWith reports whether a file has exactly n locks.
func showsFileWith(files map[uint64][]kernelLock, n int) bool {
	for _, locks := range files {
		if len(locks) == n {
			return true
		}
	}
	return false
}

// The time of all texts that list reads counts, because locksOf allows itself a tenth of the time.
func TestCostOfLongList(t *testing.T) {
	s := open(t, t.TempDir())
	for i := range 90 {
		take(t, s, request(fmt.Sprint("other", i), "us"))
	}
	const nobody = 1 << 60 // no file has this number, so list reads as many texts as it may
	wrong := 0             // calls whose time is not counted, or which a busy machine interrupted outside of the count
	for range 20 {
		begun := time.Now()
		if locks, _, err := s.seen.list(s.dir, nobody); len(locks) > 0 || err != nil {
			t.Fatalf("the locks are %v, %v", locks, err)
		}
		if total := time.Since(begun); s.seen.cost < total/2 {
			t.Logf("of %v, %v are counted", total, s.seen.cost)
			wrong++
		}
	}
	if wrong > 10 {
		t.Errorf("in %d of 20 calls, less than half of the time is counted", wrong)
	}
}

// locksComeAndGo locks and unlocks many files of another directory until the end of the test. It
// pauses after each round. If locks come and go without a pause, most texts are wrong, and no way
// of reading helps.
func locksComeAndGo(t *testing.T) {
	dir, end := t.TempDir(), make(chan struct{})
	var all sync.WaitGroup
	for i := range 2 {
		files := make([]*os.File, 30)
		for j := range files {
			file, err := os.Create(fmt.Sprint(dir, "/", i, "-", j))
			if err != nil {
				t.Fatal(err)
			}
			files[j] = file
		}
		all.Go(func() {
			for over := false; !over; {
				for _, how := range []int{syscall.LOCK_EX, syscall.LOCK_UN} {
					for _, file := range files {
						_ = syscall.Flock(int(file.Fd()), how)
					}
				}
				select {
				case <-end:
					over = true
				case <-time.After(2 * time.Millisecond):
				}
			}
			for _, file := range files {
				_ = file.Close()
			}
		})
	}
	t.Cleanup(func() {
		close(end)
		all.Wait()
	})
}
