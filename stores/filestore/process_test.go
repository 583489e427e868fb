//go:build linux

package filestore

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

func init() {
	scripts["hold"] = func(dir string) error { return holdOn(dir, request("job", "child")) }
	scripts["read"] = func(dir string) error { return holdOn(dir, shared("job", "child")) }
	scripts["pass on"] = passOn
	scripts["flock"] = func(path string) error {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		fmt.Println("ready")
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
			return err
		}
		fmt.Println("locked")
		pause()
		return file.Close()
	}
	scripts["nothing"] = func(string) error { fmt.Println("ready"); pause(); return nil }
}

func holdOn(dir string, r driver.Request) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	g, err := s.Acquire(background, r)
	if err != nil {
		return err
	}
	fmt.Println("fence", g.Fence)
	pause()
	return s.Close()
}

// passOn takes the lock, starts a child that gets the file of the hold, and ends.
func passOn(dir string) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	if _, err = s.Acquire(background, request("job", "child")); err != nil {
		return err
	}
	file, err := s.File("job", "child")
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", dir)
	cmd.Env = append(os.Environ(), childEnv+"=nothing")
	cmd.ExtraFiles = []*os.File{file}
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Println("child", cmd.Process.Pid)
	return nil
}

func fenceOf(t testing.TB, line string) uint64 {
	t.Helper()
	_, number, _ := strings.Cut(line, " ")
	fence, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return fence
}

func TestKillFreesAtOnce(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"hold", "read"} {
		s := open(t, t.TempDir())
		c := start(t, script, s.Dir(), nil)
		fence := fenceOf(t, c.expect("fence"))
		h := refused(t, s, request("job", "us"))
		if len(h.Holds) != 1 || h.Holds[0].Label != "child" || h.Holds[0].Foreign || h.Holds[0].Shared != (script == "read") {
			t.Errorf("%s: held by %+v", script, h.Holds)
		}
		c.kill() // returns when the process is gone
		safety.Rises(t, take(t, s, request("job", "us")).Fence, fence, script)
	}
}

func TestKillEndsAWait(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	c := start(t, "hold", s.Dir(), nil)
	c.expect("fence")
	w := wait(t, s, request("job", "us"))
	c.kill()
	if g := w.get(t); g.Fence == 0 {
		t.Error("nothing was handed over")
	}
}

func TestHoldPassedToAChildOutlivesItsTaker(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	c := start(t, "pass on", s.Dir(), nil)
	got := []string{c.expect(""), c.expect(""), c.expect("")} // from two processes, in any order
	if slices.Sort(got); !strings.HasPrefix(got[0], "child ") || got[1] != "done" || got[2] != "ready" {
		t.Fatal(got)
	}
	pid := int(fenceOf(t, got[0]))
	if h := refused(t, s, request("job", "us")); h.Holds[0].Label != "child" || h.Holds[0].Foreign {
		t.Errorf("held by %+v", h.Holds)
	}
	if state := inspect(t, s, "job"); len(state.Holds) != 1 || state.Holds[0].Label != "child" {
		t.Errorf("%+v", state)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if g := wait(t, s, request("job", "us")).get(t); g.Fence == 0 {
		t.Error("nothing was handed over")
	}
}

// A child that got the file keeps the lock after its parent's Release.
func TestReleaseOfAPassedHold(t *testing.T) {
	t.Parallel()
	for _, r := range []driver.Request{request("job", "us"), shared("job", "us")} {
		s := open(t, t.TempDir())
		take(t, s, r)
		if r.Shared {
			take(t, s, shared("job", "another reader"))
		}
		c := start(t, "nothing", s.Dir(), func(cmd *exec.Cmd) {
			file, err := s.File("job", "us")
			if err != nil {
				t.Fatal(err)
			}
			cmd.ExtraFiles = []*os.File{file}
			t.Cleanup(func() { file.Close() })
		})
		c.expect("ready")
		closeFiles(t, c.cmd)
		release(t, s, "job", "us", driver.OutcomeInherited)
		release(t, s, "job", "us", driver.OutcomeGone)
		lost(t, s, "job", "us")
		refused(t, s, request("job", "next"))
		c.end()
		if r.Shared {
			release(t, s, "job", "another reader", driver.OutcomeReleased)
		}
		take(t, s, request("job", "next"))
	}
}

func closeFiles(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	for _, f := range cmd.ExtraFiles {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// If the copy of the descriptor was closed before, Release frees the lock.
func TestReleaseAfterTheCopyWasClosed(t *testing.T) {
	t.Parallel()
	for _, r := range []driver.Request{request("job", "us"), shared("job", "us")} {
		s := open(t, t.TempDir())
		take(t, s, r)
		file, err := s.File("job", "us")
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
		release(t, s, "job", "us", driver.OutcomeReleased)
		take(t, open(t, s.Dir()), request("job", "next"))
	}
}

// If a child unlocks the file that it got, the hold is lost.
func TestChildUnlocks(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	unlockFile(t, fileOfChild(t, s, "job", "us"))
	other := open(t, s.Dir())
	take(t, other, request("job", "next"))
	lost(t, s, "job", "us")
	held(t, other, "job", "next")
}

// If a child unlocks the file, the hold is lost even if no other padlock takes the lock after that.
// A foreign program may take it, or nobody.
func TestChildUnlocksForAForeigner(t *testing.T) {
	t.Parallel()
	for _, r := range []driver.Request{request("job", "us"), shared("job", "us")} {
		s := open(t, t.TempDir())
		take(t, s, r)
		unlockFile(t, fileOfChild(t, s, "job", "us"))
		foreigner := foreign(t, s, "job", syscall.LOCK_EX)
		lost(t, s, "job", "us")
		unlockFile(t, foreigner)           // a child of another test may have a copy of the descriptor
		take(t, s, request("job", "next")) // the lost hold keeps nobody out
	}
}

// Children that did not get the file do not keep the lock, although they were started while the
// lock was held.
func TestOtherChildrenInheritNothing(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	c := start(t, "nothing", s.Dir(), nil)
	c.expect("ready")
	links, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", c.cmd.Process.Pid, l.Name()))
		if strings.HasPrefix(to, s.Dir()) {
			t.Errorf("the child has %s", to)
		}
	}
	s.Close()
	take(t, open(t, s.Dir()), request("job", "next"))
}

func TestFileOfAnotherToken(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	if _, err := s.File("job", "them"); !errors.Is(err, driver.ErrLost) {
		t.Errorf("got %v", err)
	}
}
