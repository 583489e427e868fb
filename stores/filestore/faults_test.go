//go:build linux

package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

func init() {
	scripts["full disk"] = fullDisk
	scripts["few descriptors"] = fewDescriptors
	scripts["no rights"] = noRights
}

// If a record is lost, its cool-down is lost, too. But the lock is still held, and fences still
// grow.
func TestLostRecord(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(path string) error{
		"empty":  func(path string) error { return os.Truncate(path, 0) },
		"cut":    func(path string) error { return os.Truncate(path, 40) },
		"zeroes": func(path string) error { return overwrite(path, make([]byte, 20_000)) },
	} {
		s := open(t, t.TempDir())
		other := open(t, s.Dir())
		first := take(t, s, request("job", "us"))
		if err := spoil(pathOf(s, "job")); err != nil {
			t.Fatal(err)
		}
		refused(t, other, request("job", "them"))
		held(t, s, "job", "us") // writes the record again
		if h := refused(t, other, request("job", "them")); h.Holds[0].Label != "us" {
			t.Errorf("%s: held by %+v", what, h.Holds)
		}
		if err := spoil(pathOf(s, "job")); err != nil {
			t.Fatal(err)
		}
		release(t, s, "job", "us", driver.OutcomeReleased)
		safety.Rises(t, take(t, other, request("job", "them")).Fence, first.Fence, what)
	}
}

// A key, which no process keeps open, is lost with the record of its file: a second holder gets in.
// file.md says so.
func TestLostRecordOfAKey(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	r := request("job", "us")
	r.Detached = true
	first := take(t, s, r)
	refused(t, s, request("job", "them"))
	if err := os.Truncate(pathOf(s, "job"), 0); err != nil {
		t.Fatal(err)
	}
	safety.Rises(t, take(t, s, request("job", "them")).Fence, first.Fence)
}

// overwrite writes into the file as a shell does with 1<>.
func overwrite(path string, b []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Write(b)
	return err
}

// Somebody cuts the file to nothing again and again, as a shell does with >.
func TestTruncationUnderUse(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	stop := make(chan struct{})
	var cutting sync.WaitGroup
	cutting.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.Truncate(pathOf(s, "job"), 0)
			}
		}
	})
	last, rounds := uint64(0), 3_000
	if server.IsThorough() {
		rounds = 20_000
	}
	for range rounds {
		release(t, s, "job", "us", driver.OutcomeReleased)
		g, err := s.Acquire(background, request("job", "us"))
		if err != nil || !safety.Keeps(t, g.Fence, last) {
			t.Fatal(err)
		}
		last = g.Fence
	}
	close(stop)
	cutting.Wait()
}

// Fences grow even if the wall clock is set back, as long as the file exists.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	first := take(t, s, request("job", "us"))
	release(t, s, "job", "us", driver.OutcomeReleased)
	s.config.wall = func() time.Time { return time.Now().Add(-24 * time.Hour) }
	second := take(t, s, request("job", "us"))
	if safety.Rises(t, second.Fence, first.Fence); second.Fence != first.Fence+1 {
		t.Errorf("fences went from %d to %d", first.Fence, second.Fence)
	}
	if _, err := s.Release(patience(t), "job", "us", time.Minute); err != nil {
		t.Fatal(err)
	}
	s.config.wall = func() time.Time { return time.Now().Add(24 * time.Hour) }
	if h := refused(t, s, request("job", "us")); !h.Holds[0].Cooling {
		t.Errorf("%+v", h) // cool-downs are measured by the boot clock
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	start(t, "full disk", t.TempDir(), nil).end()
}

// fullDisk cannot write a single byte. Locks still work. Calls that need the record return an
// error.
func fullDisk(dir string) error {
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}); err != nil {
		return err
	}
	s, err := Open(dir)
	if err != nil {
		return err
	}
	other, err := Open(dir)
	if err != nil {
		return err
	}
	is := func(err, want error) error {
		if !errors.Is(err, want) {
			return fmt.Errorf("got %v, want %v", err, want)
		}
		return nil
	}
	acquire := func(s *Store, r driver.Request) error { _, err := s.Acquire(background, r); return err }
	above := request("job", "us")
	above.FenceAbove = driver.MaxFenceAbove
	return check(
		func() error { return is(acquire(s, above), driver.ErrUnavailable) },
		func() error { return acquire(s, request("job", "us")) },
		func() error { return is(acquire(other, request("job", "them")), driver.ErrHeld) },
		func() error { _, err := s.Extend(background, "job", "us", 0); return err },
		func() error {
			return is(s.RaiseFence(background, "job", "us", driver.MaxFenceAbove), driver.ErrUnavailable)
		},
		func() error {
			g, err := s.Extend(background, "job", "us", 0)
			if g.Fence >= driver.MaxFenceAbove {
				return errors.New("the fence was raised all the same")
			}
			return err
		},
		func() error {
			_, err := s.Release(background, "job", "us", time.Minute)
			return is(err, driver.ErrUnavailable)
		},
		func() error { return is(acquire(other, request("job", "them")), driver.ErrHeld) },
		func() error {
			if o, err := s.Release(background, "job", "us", 0); o != driver.OutcomeReleased {
				return fmt.Errorf("%v, %w", o, err)
			}
			return nil
		},
		func() error { return acquire(other, shared("job", "reader")) },
		func() error { return acquire(s, shared("job", "reader")) },
		s.Close, other.Close,
	)
}

func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	start(t, "few descriptors", t.TempDir(), nil).end()
}

// fewDescriptors reaches the limit of open files. The store then closes its spare descriptors, and
// returns an error only if that is not enough.
func fewDescriptors(dir string) error {
	const limit = 64
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	s, err := Open(dir)
	if err != nil {
		return err
	}
	for i := range 2 * limit { // nobody holds these locks, but the store keeps their files open
		name := fmt.Sprint("idle ", i)
		if _, err := s.Acquire(background, request(name, "us")); err != nil {
			return err
		}
		if _, err := s.Release(background, name, "us", 0); err != nil {
			return err
		}
	}
	n := 0
	for ; n < 2*limit; n++ {
		if _, err = s.Acquire(background, request(fmt.Sprint(n), "us")); err != nil {
			break
		}
	}
	if n < limit/2 || !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, syscall.EMFILE) {
		return fmt.Errorf("after %d holds: %w", n, err)
	}
	if _, err := s.Release(background, "0", "us", 0); err != nil {
		return err
	}
	_, err = s.Acquire(background, request("0", "us"))
	return err
}

func TestNoRights(t *testing.T) {
	t.Parallel()
	start(t, "no rights", worldReadable(t), asNobody).end()
}

// noRights uses a directory that cannot be written to. One file in it cannot be opened, and another
// one can.
func noRights(dir string) error {
	mine := dir + "/mine"
	s, err := Open(mine)
	if err != nil {
		return err
	}
	if _, err := s.Acquire(background, request("there", "us")); err != nil {
		return err
	}
	if _, err := s.Release(background, "there", "us", 0); err != nil {
		return err
	}
	denied := func(name, word string) error {
		_, err := s.Acquire(background, request(name, "us"))
		if !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, os.ErrPermission) || !bytes.Contains([]byte(err.Error()), []byte(word)) {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	return check(
		func() error { return os.WriteFile(s.Dir()+"/"+fileName("closed"), nil, 0) },
		func() error { return denied("closed", "own") },
		func() error { return os.Chmod(mine, 0o500) },
		func() error { return denied("new", "own") },
		func() error { _, err := s.Acquire(background, request("there", "us")); return err },
		func() error {
			list, err := s.List(background, "")
			if len(list) != 1 || !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, os.ErrPermission) {
				return fmt.Errorf("one file cannot be read, but List: %+v, %v", list, err)
			}
			return nil
		},
		s.Close,
	)
}
