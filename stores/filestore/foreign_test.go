//go:build linux

package filestore

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// foreignContents are contents of files that padlock cannot have written.
var foreignContents = map[string][]byte{
	"a note":       []byte("something of the user's\n"),
	"a pid":        []byte("4711\n"),
	"one byte":     {'x'},
	"binary":       bytes.Repeat([]byte{0xa5}, 8000),
	"a long image": make([]byte, 100_000),
}

// A file that has other contents than a lock keeps its contents and its mode, whatever is asked.
func TestFileOfAnotherProgramIsLeftAlone(t *testing.T) {
	t.Parallel()
	for what, text := range foreignContents {
		s := open(t, t.TempDir())
		path := pathOf(s, "n")
		for _, mode := range []os.FileMode{0o600, 0o644} {
			_ = os.Remove(path)
			if err := os.WriteFile(path, text, mode); err != nil {
				t.Fatal(err)
			}
			refuses(t, s, what)
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%s: was changed to %q, %v", what, got, err)
			}
			if st, err := os.Stat(path); err != nil || st.Mode() != mode {
				t.Errorf("%s: has the mode %v, %v", what, st.Mode(), err)
			}
		}
	}
}

// refuses checks that every verb refuses the file of the name n, and names it.
func refuses(t *testing.T, s *Store, what string) {
	t.Helper()
	want := func(verb string, err error) {
		t.Helper()
		if err == nil {
			t.Fatalf("%s: %s succeeds", what, verb)
		}
		wantErr(t, err, driver.ErrUnavailable, pathOf(s, "n"), "not a lock")
	}
	detached := request("n", "d")
	detached.Detached = true
	for _, r := range []driver.Request{request("n", "a"), shared("n", "a"), detached} {
		_, err := s.Acquire(patience(t), r)
		want("Acquire", err)
	}
	_, err := s.Wait(patience(t), request("n", "a"), true)
	want("Wait", err)
	_, err = s.Extend(patience(t), "n", "a", time.Minute)
	if err == nil {
		t.Errorf("%s: Extend succeeds", what)
	}
	_, err = s.Release(patience(t), "n", "a", 0)
	want("Release", err)
	_, err = s.Break(patience(t), "n", 0)
	want("Break", err)
	_, err = s.Inspect(patience(t), "n")
	want("Inspect", err)
	if list, err := s.List(patience(t), ""); err != nil || len(list) != 0 {
		t.Errorf("%s: listed: %+v, %v", what, list, err)
	}
}

// A program writes into the file of a lock that is held. The hold goes on, and what was written
// stays.
func TestFileIsOverwrittenDuringAHold(t *testing.T) {
	t.Parallel()
	for _, r := range []driver.Request{request("n", "a"), shared("n", "a")} {
		s := open(t, t.TempDir())
		take(t, s, r)
		text := bytes.Repeat([]byte("mine\n"), 5000)
		if err := overwrite(pathOf(s, "n"), text); err != nil {
			t.Fatal(err)
		}
		refused(t, open(t, s.Dir()), request("n", "b"))
		held(t, s, "n", "a")
		_, err := s.Release(patience(t), "n", "a", time.Minute)
		wantErr(t, err, driver.ErrUnavailable, "not a lock")
		wantErr(t, s.RaiseFence(patience(t), "n", "a", 1<<52), driver.ErrUnavailable, "not a lock")
		other := r
		other.Shared = !r.Shared
		_, err = s.Convert(patience(t), other)
		wantErr(t, err, driver.ErrUnavailable, "not a lock")
		release(t, s, "n", "a", driver.OutcomeReleased)
		wantBytes(t, pathOf(s, "n"), 0, text)
	}
}
