package command

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// realFlock is util-linux's flock. It is looked up here, before the scripts have padlock's flock in
// their PATH.
var realFlock, _ = exec.LookPath("flock")

// TestFlock runs the scripts of testdata/flock. There flock is padlock under that name, and $FLOCK
// is util-linux's.
func TestFlock(t *testing.T) {
	switch {
	case runtime.GOOS != "linux":
		t.Skip("there is no flock(1) to compare with")
	case realFlock == "":
		missing(t, "flock")
	}
	p := scripts("testdata/flock")
	p.Setup = func(env *testscript.Env) error {
		bin := filepath.Join(env.WorkDir, "bin")
		padlock, err := exec.LookPath("padlock") // testscript has put padlock into PATH
		if err == nil {
			err = os.Mkdir(bin, 0o700)
		}
		if err == nil {
			err = os.Symlink(padlock, filepath.Join(bin, "flock"))
		}
		env.Setenv("FLOCK", realFlock)
		env.Setenv("PATH", bin+":"+env.Getenv("PATH"))
		env.Setenv("SHELL", "/bin/sh")
		if err != nil {
			return err
		}
		return setUpScript(env)
	}
	p.Cmds["same"] = same
	testscript.Run(t, p)
}

var took = regexp.MustCompile(`took [0-9]+\.[0-9]{6} seconds`)

// same LINE… runs a line in the shell twice: with padlock as flock, and with util-linux's flock.
// Exit status, standard output and the directory afterwards must be the same. Standard error must
// have text in both cases or in neither.
func same(ts *testscript.TestScript, neg bool, words []string) {
	line := strings.Join(words, " ")
	ours := sandbox(ts, filepath.Join(ts.MkAbs("bin"), "flock"), line)
	theirs := sandbox(ts, realFlock, line)
	if ours != theirs {
		ts.Fatalf("%s\npadlock:\n%s\nflock(1):\n%s", line, ours, theirs)
	}
	ts.Logf("%s", ours)
}

// sandbox runs a line in a new directory and returns everything that it did.
func sandbox(ts *testscript.TestScript, flock, line string) string {
	dir, err := os.MkdirTemp(ts.MkAbs("."), "same")
	ts.Check(err)
	ts.Check(os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	ts.Check(os.Symlink(flock, filepath.Join(dir, "bin", "flock")))
	work := filepath.Join(dir, "work")
	ts.Check(os.Mkdir(work, 0o755))
	ts.Check(os.WriteFile(filepath.Join(work, "precious"), []byte("data\n"), 0o640))
	c := exec.Command("/bin/sh", "-c", line)
	var out, err2 bytes.Buffer
	c.Dir, c.Stdout, c.Stderr, c.WaitDelay = work, &out, &err2, patience
	c.Env = []string{"PATH=" + filepath.Join(dir, "bin") + ":" + ts.Getenv("PATH"), "SHELL=/bin/sh", "LC_ALL=C", "GORACE=" + ts.Getenv("GORACE")}
	status := 0
	var exit *exec.ExitError
	if err := c.Run(); errors.As(err, &exit) {
		status = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	return fmt.Sprintf("exit status %d, words on standard error: %v\n%s%s", status, err2.Len() > 0, took.ReplaceAllString(out.String(), "took some time"), listing(ts, work))
}

func listing(ts *testscript.TestScript, dir string) (out string) {
	files, err := os.ReadDir(dir)
	ts.Check(err)
	for _, f := range files {
		st, err := os.Lstat(filepath.Join(dir, f.Name()))
		ts.Check(err)
		out += fmt.Sprintf("%s %s %d\n", f.Name(), st.Mode(), st.Size())
	}
	return out + ts.ReadFile(filepath.Join(dir, "precious"))
}
