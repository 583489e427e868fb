//go:build linux

package filestore

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/padlock-go/padlock/driver"
)

// filesOpen counts the descriptors that this process has below dir.
func filesOpen(t testing.TB, dir string) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(to, dir+"/") {
			n++
		}
	}
	return n
}

// keepOpen sets how many descriptors of free lock files stay open.
func keepOpen(n int) Option { return func(c *config) { c.maxOpen = n } }

func TestDescriptorsKeptAreBounded(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 1, 5, maxOpen} {
		s := open(t, t.TempDir(), keepOpen(limit))
		const names = 300
		for i := range names {
			for _, r := range []driver.Request{request(fmt.Sprint(i), "us"), shared(fmt.Sprint(i), "us")} {
				take(t, s, r)
				release(t, s, r.Name, "us", driver.OutcomeReleased)
			}
		}
		if n := filesOpen(t, s.Dir()); n != limit {
			t.Errorf("%d files stay open, the limit is %d", n, limit)
		}
		if len(s.files) != limit || len(s.idle) != limit {
			t.Errorf("%d names are remembered, %d listed, the limit is %d", len(s.files), len(s.idle), limit)
		}
		take(t, s, request("0", "us"))
		release(t, s, "0", "us", driver.OutcomeReleased)
		s.Close()
		if n := filesOpen(t, s.Dir()); n != 0 {
			t.Errorf("%d files stay open after Close", n)
		}
	}
}

// Each of many holds, exclusive or shared, needs a descriptor. Release closes the descriptor or
// keeps it as a spare one.
func TestDescriptorsOfHolds(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), keepOpen(2))
	const n = 20
	for i := range n {
		take(t, s, request(fmt.Sprint(i), "us"))
		take(t, s, shared("read", fmt.Sprint(i)))
	}
	if open := filesOpen(t, s.Dir()); open != 2*n {
		t.Errorf("%d files are open for %d holds", open, 2*n)
	}
	for i := range n {
		release(t, s, fmt.Sprint(i), "us", driver.OutcomeReleased)
		release(t, s, "read", fmt.Sprint(i), driver.OutcomeReleased)
	}
	if open := filesOpen(t, s.Dir()); open > 2 {
		t.Errorf("%d files stay open", open)
	}
}

// Close ends all goroutines of the store. If one remained, synctest.Test would fail.
func TestCloseLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.Wait(t.Context(), request("job", "us"), true)
		if err != nil || g.Fence == 0 {
			t.Error(g, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if n := filesOpen(t, dir); n != 0 {
		t.Errorf("%d files stay open", n)
	}
	take(t, open(t, dir), request("job", "next"))
}

// Few descriptors are allowed in this script, and the limit belongs to the whole process.
func init() {
	scripts["descriptors"] = func(dir string) error {
		few := syscall.Rlimit{Cur: 200, Max: 200}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
			return err
		}
		s, err := Open(dir)
		if err != nil {
			return err
		}
		var names []string
		for ; err == nil && len(names) < 1000; names = append(names, fmt.Sprint(len(names))) {
			_, err = s.Acquire(background, request(fmt.Sprint(len(names)), "us"))
		}
		if !errors.Is(err, syscall.EMFILE) {
			return fmt.Errorf("with 200 descriptors: %d names, %v", len(names), err)
		}
		for _, name := range names[:len(names)-1] { // the last one was refused
			if _, err := s.Release(background, name, "us", 0); err != nil {
				return err
			}
		}
		for range 120 {
			f, err := os.Open(dir)
			if err != nil {
				return err
			}
			defer f.Close()
		}
		_, err = s.List(background, "")
		return err
	}
}

// After a process has used up its descriptors and released its locks, the files that the store
// keeps open leave most descriptors to the program.
func TestDescriptorsOfAProcessWithFew(t *testing.T) {
	t.Parallel()
	start(t, "descriptors", t.TempDir(), nil).end()
}
