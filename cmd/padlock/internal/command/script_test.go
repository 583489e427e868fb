package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/padlock-go/padlock/open/all"
)

// TestMain lets scripts run padlock-all, which is this test binary. buildPrograms makes the others.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){allName: commandOfAll})
}

// buildPrograms builds the small programs that scripts run, next to padlock-all. In padlock,
// scripts_test.go and the supervisor's export_test.go are no tests but parts of their packages.
var buildPrograms = sync.OnceValue(func() error {
	all, err := exec.LookPath(allName)
	if err != nil {
		return err
	}
	dir := filepath.Dir(all)
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-overlay=testdata/programs/overlay.json",
		"-o", dir, "./testdata/programs/padlock", "./testdata/programs/sleeper")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the programs of scripts: %w\n%s", err, out)
	}
	return errors.Join(
		os.Link(filepath.Join(dir, smallName), filepath.Join(dir, "padlock-lease")),
		os.Link(filepath.Join(dir, "sleeper"), filepath.Join(dir, "catcher")),
		os.Link(filepath.Join(dir, "sleeper"), filepath.Join(dir, "refuse")),
	)
})

// whole is padlock-all, for the tests of this process.
func whole() *program {
	p := small("").withAll(all.Schemes())
	p.slotPatience = patientLook
	return p
}

// commandOfAll is padlock-all, in the same way as command is padlock.
func commandOfAll() {
	if os.Getenv("WRONG_NAME") != "" { // padlock under the name padlock-all
		command()
	}
	isolated(small("").withAll(all.Schemes())).main()
}

// TestScript runs the scripts of testdata/script. They show what the command does, and each may be
// read as documentation.
func TestScript(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scripts use a Unix shell")
	}
	testscript.Run(t, scripts("testdata/script"))
}

func setUpScript(env *testscript.Env) error {
	if err := buildPrograms(); err != nil {
		return err
	}
	repo, err := filepath.Abs("../../../..")
	if err != nil {
		return err
	}
	env.Setenv("PADLOCK_STORE", "file://"+env.WorkDir+"/locks")
	env.Setenv("STATE", filepath.Join(env.WorkDir, "state"))
	env.Setenv("GORACE", "atexit_sleep_ms=0") // under -race every program would end a second late
	env.Setenv("REDIS_ACL", filepath.Join(repo, "stores", "redisstore", "testdata"))
	env.Setenv("EXAMPLES", filepath.Join(repo, "examples"))
	env.Setenv("UNITS", filepath.Join(repo, "internal", "release", "files"))
	env.Setenv("FAULTS", filepath.Join(env.WorkDir, "faults"))
	return os.Mkdir(filepath.Join(env.WorkDir, "faults"), 0o700)
}

// patience is how long a script waits for an event that must come.
const patience = time.Minute

// until calls ok again until it is true, and fails the script if it never is.
func until(ts *testscript.TestScript, what string, ok func() bool) {
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			ts.Fatalf("after %v still not: %s", patience, what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// exits N COMMAND… runs a command that must exit with status N.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N command…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// waitfor FILE… waits until all files exist and are not empty.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	for _, file := range args {
		until(ts, file+" is there", func() bool {
			st, err := os.Stat(ts.MkAbs(file))
			return err == nil && st.Size() > 0
		})
	}
}

// eventually COMMAND… runs a command again and again until it succeeds.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	until(ts, strings.Join(args, " "), func() bool { return (ts.Exec(args[0], args[1:]...) != nil) == neg })
}

// signal NAME pid|ppid FILE sends a signal to the process that wrote FILE, or to its parent.
// sleeper and catcher write such files.
func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: signal NAME pid|ppid FILE")
	}
	var s signalFlag
	ts.Check(s.Set(args[0]))
	pid, parent := pidsOf(ts, args[2])
	if args[1] == "ppid" {
		pid = parent
	}
	p, err := os.FindProcess(pid)
	ts.Check(err)
	ts.Check(p.Signal(s.sig))
}

// dead FILE… checks that the processes that wrote the files are gone.
func dead(ts *testscript.TestScript, neg bool, args []string) {
	for _, file := range args {
		pid, _ := pidsOf(ts, file)
		if alive(pid) != neg {
			ts.Fatalf("process %d of %s: alive is %v", pid, file, !neg)
		}
	}
}

func pidsOf(ts *testscript.TestScript, file string) (pid, parent int) {
	if _, err := fmt.Sscan(ts.ReadFile(file), &pid, &parent); err != nil {
		ts.Fatalf("%s: %v", file, err)
	}
	return pid, parent
}

// fronts FILE… writes FILE.front with the front's process: the parent of the supervisor, which is
// the parent of the process that wrote FILE.
func fronts(ts *testscript.TestScript, neg bool, args []string) {
	for _, file := range args {
		_, supervisor := pidsOf(ts, file)
		front := parentOf(supervisor)
		if front <= 1 {
			ts.Fatalf("process %d of %s has no parent", supervisor, file)
		}
		ts.Check(os.WriteFile(ts.MkAbs(file+".front"), fmt.Appendln(nil, front, 0), 0o600))
	}
}
